package sqlstore

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
)

// TestSuppressedByWorkload expects the decisions that suppress findings in each workload: everywhere, in images, in a namespace, in a workload, and only together.
func TestSuppressedByWorkload(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, config Config) {
		s := openWith(t, config)
		key := model.ImageKey{ImageID: "registry.example/shop@sha256:1", Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
		_, started := s.StartResultSet(t.Context(), model.DatabaseBuild{ID: "1"}, "", true)
		_, wanted := s.WantImages(t.Context(), []model.ImageKey{key})
		saved := s.SaveSBOM(t.Context(), key, store.SBOM{SHA256: "d", Size: 1}, decidedCatalog(0))
		var found []model.PackageFinding
		for _, id := range []string{"CVE-1", "CVE-2", "CVE-3", "CVE-4", "CVE-5"} {
			found = append(found, model.PackageFinding{Vulnerability: model.Vulnerability{ID: id, Severity: model.SeverityHigh}})
		}
		matched := storetest.Match(t.Context(), s, key, "d", map[string][]model.PackageFinding{"package-0": found})
		var uses []store.Use
		for _, w := range []store.Workload{{Namespace: "a", Name: "web", Owner: "team-a"}, {Namespace: "b", Name: "web"}, {Namespace: "b", Name: "db"}} {
			w.Kind = "Deployment"
			// Two containers are one workload.
			uses = append(uses, store.Use{Image: key, Workload: w, Container: "c"}, store.Use{Image: key, Workload: w, Container: "d"})
		}
		if err := errors.Join(started, wanted, saved, matched, s.RecordUses(t.Context(), "scope", uses)); err != nil {
			t.Fatal(err)
		}
		decide := func(decisions ...store.Decision) {
			t.Helper()
			problems, err := s.SyncDecisions(t.Context(), store.DecisionSourceKubernetes, decisions)
			if err != nil || len(problems) > 0 {
				t.Fatal(problems, err)
			}
		}
		decision := func(name, id string, places *store.DecisionPlaces) store.Decision {
			return store.Decision{
				Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: name}, Vulnerabilities: []string{id}, Status: model.DecisionFixed, Places: places,
			}
		}
		everywhere, inImage := decision("everywhere", "CVE-1", nil), decision("image", "CVE-2", nil)
		inImage.Images = []string{"registry.example/shop"}
		dry, elsewhere := decision("dry", "CVE-5", nil), decision("elsewhere", "CVE-1", nil)
		dry.DryRun, elsewhere.Images = true, []string{"registry.example/other"}
		whole := decision("whole", "CVE-3", &store.DecisionPlaces{Selector: "a", Namespaces: []string{"a"}})
		whole.Object.Kind, whole.Object.Namespace = "VulnerabilityException", "a"
		rest := decision("rest", "CVE-3", &store.DecisionPlaces{Selector: "b", Namespaces: []string{"b"}})
		single := decision("single", "CVE-4", &store.DecisionPlaces{Selector: "web", Workloads: []store.Workload{{Namespace: "b", Kind: "Deployment", Name: "web"}}})
		decide(everywhere, inImage, dry, elsewhere, whole, rest, single)
		expect := func(what, query string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, texts(t, s, query)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		expect("by workload", "SELECT namespace, workload, owner, vulnerability_id, decision_namespace, decision_name FROM suppressed_by_workload ORDER BY namespace, workload, vulnerability_id, decision_name",
			"a|web|team-a|CVE-1||everywhere", "a|web|team-a|CVE-2||image", "a|web|team-a|CVE-3|a|whole",
			"b|db|NULL|CVE-1||everywhere", "b|db|NULL|CVE-2||image", "b|db|NULL|CVE-3||rest",
			"b|web|NULL|CVE-1||everywhere", "b|web|NULL|CVE-2||image", "b|web|NULL|CVE-3||rest", "b|web|NULL|CVE-4||single")
		expect("by image", "SELECT vulnerability_id, decision_name FROM suppressed_findings ORDER BY vulnerability_id", "CVE-1|everywhere", "CVE-2|image")
		decide()
		expect("without decisions", "SELECT namespace FROM suppressed_by_workload")
	})
}
