package matching

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/candidates"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

// lookUp makes the Job of a lookup of newer tags of an image, and returns its UID.
func lookUp(t *testing.T, s *sqlstore.Store, image model.ImageKey) string {
	t.Helper()
	lookups, err := s.WantTagLookups(t.Context(), "scope", []store.WantedTags{{Key: image, Repository: "r.example/app", Tag: "1.0", Namespaces: []string{"a"}}})
	if err != nil {
		t.Fatal(err)
	}
	job := store.ScanJob{Name: "scan-tags", Namespace: "a", Key: image, Lookup: lookups[0].ID, Attempt: lookups[0].Attempts, Spec: json.RawMessage("{}")}
	if _, _, err := s.ReserveScanJob(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if err := s.RecordScanJob(t.Context(), job.Name, "uid"); err != nil {
		t.Fatal(err)
	}
	return "uid"
}

// reported is a newer tag with an SBOM.
func reported(t *testing.T, digit, sbom string) candidates.ReportedTag {
	t.Helper()
	return candidates.ReportedTag{
		Candidate: candidates.Candidate{Tag: "1." + digit, Kind: candidates.KindMinor}, Digest: "sha256:" + strings.Repeat(digit, 64), SBOM: compress(t, sbom),
	}
}

func deliverTags(t *testing.T, a *Matcher, uid string, tags ...candidates.ReportedTag) error {
	t.Helper()
	content, err := json.Marshal(candidates.Report{Listed: 9, Tags: tags})
	if err != nil {
		t.Fatal(err)
	}
	return a.IngestNewerTags(t.Context(), store.Delivery{Job: uid}, bytes.NewReader(content))
}

func newerTagsOf(t *testing.T, s *sqlstore.Store, image model.ImageKey) []store.NewerTag {
	t.Helper()
	lookups, err := s.NewerTags(t.Context(), store.AllNamespaces(), image)
	if err != nil || len(lookups) != 1 {
		t.Fatalf("%d lookups, %v", len(lookups), err)
	}
	return lookups[0].Tags
}

// asTags is what the findings of an image are as those of a newer tag: one for each vulnerability and package name.
func asTags(findings []model.Finding) []store.TagFinding {
	type key struct{ id, name string }
	all := map[key]store.TagFinding{}
	for i := range findings {
		v, k := &findings[i].Vulnerability, key{findings[i].Vulnerability.ID, findings[i].Package.Name}
		one := all[k]
		all[k] = store.TagFinding{
			VulnerabilityID: k.id, Package: k.name, Severity: max(one.Severity, v.Severity), Risk: max(one.Risk, v.Risk),
			KEV: one.KEV || len(v.KEV) > 0, Fixable: one.Fixable || findings[i].Fix.State == model.FixStateFixed,
		}
	}
	var list []store.TagFinding
	for _, one := range all {
		list = append(list, one)
	}
	return sortTags(list)
}

func sortTags(list []store.TagFinding) []store.TagFinding {
	slices.SortFunc(list, func(a, b store.TagFinding) int {
		return cmp.Or(cmp.Compare(a.VulnerabilityID, b.VulnerabilityID), cmp.Compare(a.Package, b.Package))
	})
	return list
}

// TestNewerTagsAreMatchedAsImages: the findings of a newer tag are those that an image with the same SBOM has, also with the next database.
func TestNewerTagsAreMatchedAsImages(t *testing.T) {
	before, after := pair(t, 7)
	running := key("a")
	s, library := newStore(t, running), newShelf(before)
	a, _ := newMatcher(t, s, library)
	uid := lookUp(t, s, running)
	var tags []candidates.ReportedTag
	var images []model.ImageKey
	for image, sbom := range fleet(t, before, 8, 3) {
		ingest(t, a, s, image, sbom)
		images = append(images, image)
		tags = append(tags, reported(t, string(rune('0'+len(tags))), sbom))
	}
	if err := deliverTags(t, a, uid, tags...); err != nil {
		t.Fatal(err)
	}
	for _, build := range []string{before.Build.ID, after.Build.ID} {
		settle(t, a)
		found := 0
		for i, tag := range newerTagsOf(t, s, running) {
			want := asTags(findingsOf(t.Context(), t, s, images[i]))
			if diff := gocmp.Diff(want, sortTags(tag.Findings.Findings)); diff != "" || !tag.Matched || tag.Findings.Build != build || tag.Findings.Problem != "" {
				t.Errorf("build %s, tag %s: %+v (-image +tag):\n%s", build, tag.Tag, tag.Problem, diff)
			}
			found += len(want)
		}
		if found == 0 {
			t.Error("there are no findings")
		}
		library.put(after)
	}
}

// TestNewerTagsAreComparedToTheEnd expects that another pass follows while there are newer tags to compare, and none after an error or at the end.
func TestNewerTagsAreComparedToTheEnd(t *testing.T) {
	s := &comparing{Store: newStore(t)}
	a, _ := newMatcher(t, s, newShelf(dbtest.Sample(t)))
	s.more = 2
	settle(t, a)
	if s.more != -1 {
		t.Errorf("%d calls are missing", s.more+1)
	}
	s.err = errors.New("broken")
	r := &runner{Matcher: a}
	defer r.close()
	if err := r.pass(t.Context()); !errors.Is(err, s.err) {
		t.Errorf("got %v, want %v", err, s.err)
	}
}

// comparing is a store that has newer tags to compare more times.
type comparing struct {
	*sqlstore.Store
	more int
	err  error
}

func (c *comparing) CompareNewerTags(context.Context) (bool, error) {
	c.more--
	return c.more >= 0, c.err
}

func TestHostileNewerTags(t *testing.T) {
	running := key("a")
	s := newStore(t, running)
	a, _ := newMatcher(t, s, newShelf())
	uid := lookUp(t, s, running)
	for name, content := range map[string]string{"not JSON": "x", "no tags": "{}", "a tag without a digest": `{"listed":1,"tags":[{"tag":"1.1","kind":"minor"}]}`} {
		if err := a.IngestNewerTags(t.Context(), store.Delivery{Job: uid}, strings.NewReader(content)); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := a.IngestNewerTags(t.Context(), store.Delivery{Job: uid}, brokenBody{strings.NewReader("{")}); err == nil || errors.Is(err, ErrRefused) {
		t.Errorf("a body that ends: %v", err)
	}
	for _, unknown := range []string{"", "another"} {
		if err := deliverTags(t, a, unknown, reported(t, "1", document)); !errors.Is(err, store.ErrAttemptClosed) {
			t.Errorf("the Job %q: %v", unknown, err)
		}
	}
	// Very many values are refused before they are decoded.
	if err := a.IngestNewerTags(t.Context(), store.Delivery{Job: uid}, strings.NewReader(`{"tags":[`+strings.Repeat("{},", 10<<20)+"{}]}")); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "MiB of memory") {
		t.Errorf("very many tags: %v", err)
	}
	// What cannot be read is the problem of its tag.
	raw := reported(t, "3", document)
	raw.SBOM = []byte("no zstd")
	if err := deliverTags(t, a, uid, reported(t, "1", document), reported(t, "2", `{"artifacts":7}`), raw); err != nil {
		t.Fatal(err)
	}
	if tags := newerTagsOf(t, s, running); len(tags) != 3 || tags[0].Problem != "" || tags[1].Problem == "" || tags[2].Problem == "" {
		t.Errorf("%+v", tags)
	}
}
