package sqlstore

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
)

// TestSyncVEXEvents: events about the statements of a source are told where those that differ match, or matched until then.
func TestSyncVEXEvents(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		config.Rules = ranked{}
		s := openWith(t, config)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		_, err := s.StartResultSet(t.Context(), model.DatabaseBuild{ID: "1"}, "", true)
		must(err)
		images := map[string]model.ImageKey{}
		for _, name := range []string{"a", "b"} {
			key := model.ImageKey{ImageID: "r.example/" + name + "@sha256:" + strings.Repeat(name, 64), Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
			_, err = s.WantImages(t.Context(), []model.ImageKey{key})
			must(err)
			must(s.SaveSBOM(t.Context(), key, store.SBOM{SHA256: "d" + name, Size: 1}, decidedCatalog(2)))
			must(storetest.Match(t.Context(), s, key, "d"+name, decidedFindings(1)))
			must(s.RecordUses(t.Context(), name, []store.Use{{Image: key, Workload: store.Workload{Namespace: name, Kind: "Pod", Name: "p"}, Container: "c"}}))
			images[name] = key
		}
		in := func(image, rule string) store.Decision {
			d := statement("vendor", "x", "CVE-0", rule, model.DecisionFixed)
			if image != "" {
				d.Images = []string{images[image].Digest()}
			}
			return d
		}
		for _, step := range []struct {
			name       string
			statements []store.Decision
			a, b, all  string
		}{
			{"begin in a", []store.Decision{in("a", "1 *")}, "applied", "", "applied"},
			{"revise to what nothing has", []store.Decision{in("a", "1 absent")}, "changed", "", "changed"},
			{"revise back", []store.Decision{in("a", "2 *")}, "changed", "", "changed"},
			{"move to b", []store.Decision{in("b", "2 *")}, "changed", "changed", "changed"},
			{"everywhere, of nothing", []store.Decision{in("", "2 absent")}, "", "changed", "changed"},
			{"end", nil, "", "", "removed"},
		} {
			log, err := s.EventLog(t.Context())
			must(err)
			_, revision, err := s.VEX(t.Context())
			must(err)
			must(s.SyncVEX(t.Context(), revision, step.statements))
			for namespace, want := range map[string]string{"a": step.a, "b": step.b, "": step.all} {
				events, err := s.EventsSince(t.Context(), store.AllNamespaces().In(namespace), log.Last, store.MaxKeys)
				must(err)
				var got []string
				for _, e := range events {
					var data store.DecisionEvent
					must(json.Unmarshal(e.Data, &data))
					got = append(got, string(data.Action))
				}
				if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
					t.Errorf("%s: what who sees %q is told (-want +got):\n%s", step.name, namespace, diff)
				}
			}
		}
	})
}
