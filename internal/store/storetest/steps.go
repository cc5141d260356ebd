package storetest

import (
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// must fails the test when a step that must succeed does not.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// queueAll queues every answered package for a generation and lets the matching begin.
func (f *fixture) queueAll(t *testing.T, generation int64) {
	t.Helper()
	for after := int64(0); ; {
		packages, err := f.AnsweredPackages(t.Context(), after, 7)
		must(t, err)
		if len(packages) == 0 {
			break
		}
		ids := make([]int64, len(packages))
		for i, p := range packages {
			ids[i] = p.ID
		}
		must(t, f.QueuePackages(t.Context(), generation, ids))
		after = ids[len(ids)-1]
	}
	must(t, f.StartMatching(t.Context(), generation))
}

// answerQueue answers for all that is queued.
func (f *fixture) answerQueue(t *testing.T, generation int64, a answers) {
	t.Helper()
	for {
		packages, err := f.QueuedPackages(t.Context(), generation, 5)
		must(t, err)
		if len(packages) == 0 {
			return
		}
		saved := map[int64]vuln.PackageAnswer{}
		for _, p := range packages {
			saved[p.ID] = answerOf(a[p.Name]...)
		}
		must(t, f.SaveAnswers(t.Context(), generation, saved))
	}
}

// prepare does all of a re-match but the switch.
func (f *fixture) prepare(t *testing.T, build vuln.DatabaseBuild, a answers) store.Generation {
	t.Helper()
	next := f.start(t, build)
	f.queueAll(t, next.Number)
	f.answerQueue(t, next.Number, a)
	return next
}

func (f *fixture) switchTo(t *testing.T, generation int64) store.Generation {
	t.Helper()
	switched, err := f.Switch(t.Context(), generation)
	if err != nil {
		t.Fatalf("Switch: %v", err)
	}
	return switched
}

func (f *fixture) rematch(t *testing.T, build vuln.DatabaseBuild, a answers) store.Generation {
	t.Helper()
	return f.switchTo(t, f.prepare(t, build, a).Number)
}

func (f *fixture) waiting(t *testing.T) []vuln.ImageKey {
	t.Helper()
	keys, err := f.WaitingImages(t.Context(), vuln.ImageKey{}, store.MaxKeys)
	must(t, err)
	return keys
}

// ids are the numbers of the packages of an image that have no answer, by name.
func (f *fixture) ids(t *testing.T, key vuln.ImageKey) map[string]int64 {
	t.Helper()
	_, packages, err := f.UnansweredPackages(t.Context(), key)
	must(t, err)
	ids := map[string]int64{}
	for _, p := range packages {
		ids[p.Name] = p.ID
	}
	return ids
}

// readOnce checks that what one call returns is of one generation.
func (f *fixture) readOnce(t *testing.T, key vuln.ImageKey) {
	t.Helper()
	page, err := f.Findings(t.Context(), store.FindingQuery{Image: key, Page: store.Page{Size: store.MaxPageSize}})
	if err != nil {
		t.Error(err)
		return
	}
	generations := map[string]int{}
	for i := range page.Findings {
		id := page.Findings[i].Vulnerability.ID
		generations[id[:strings.LastIndex(id, "-")]]++
	}
	if len(generations) != 1 || page.Total != len(page.Findings) || page.Total%30 != 0 {
		t.Errorf("a page of %d holds findings of %v", page.Total, generations)
	}
	list, err := f.ListImages(t.Context(), store.ImageQuery{})
	if err != nil {
		t.Error(err)
		return
	}
	for _, i := range list.Images {
		if i.Counts != list.Images[0].Counts || i.Database.ID != list.Images[0].Database.ID {
			t.Errorf("%s has %+v of %s, %s has %+v of %s", i.Key, i.Counts, i.Database.ID, list.Images[0].Key, list.Images[0].Counts, list.Images[0].Database.ID)
		}
	}
}
