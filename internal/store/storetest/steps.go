package storetest

import (
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// must fails the test when a step that must succeed does not.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// queueAll queues every answered package for a result set and lets the matching begin.
func (f *fixture) queueAll(t *testing.T, resultSet int64) {
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
		must(t, f.QueuePackages(t.Context(), resultSet, ids))
		after = ids[len(ids)-1]
	}
	must(t, f.StartMatching(t.Context(), resultSet))
}

// answerQueue answers for all that is queued.
func (f *fixture) answerQueue(t *testing.T, resultSet int64, a answers) {
	t.Helper()
	for {
		packages, err := f.QueuedPackages(t.Context(), resultSet, 5)
		must(t, err)
		if len(packages) == 0 {
			return
		}
		saved := map[int64]model.PackageAnswer{}
		for _, p := range packages {
			saved[p.ID] = answerOf(a[p.Name]...)
		}
		must(t, f.SaveAnswers(t.Context(), resultSet, saved))
	}
}

// prepare does all of a re-match but the switch.
func (f *fixture) prepare(t *testing.T, build model.DatabaseBuild, a answers) store.ResultSet {
	t.Helper()
	next := f.start(t, build)
	f.queueAll(t, next.Number)
	f.answerQueue(t, next.Number, a)
	return next
}

func (f *fixture) switchTo(t *testing.T, resultSet int64) store.ResultSet {
	t.Helper()
	switched, err := f.Switch(t.Context(), resultSet)
	if err != nil {
		t.Fatalf("Switch: %v", err)
	}
	return switched
}

func (f *fixture) rematch(t *testing.T, build model.DatabaseBuild, a answers) store.ResultSet {
	t.Helper()
	return f.switchTo(t, f.prepare(t, build, a).Number)
}

func (f *fixture) waiting(t *testing.T) []model.ImageKey {
	t.Helper()
	keys, err := f.WaitingImages(t.Context(), model.ImageKey{}, store.MaxKeys)
	must(t, err)
	return keys
}

// ids are the numbers of the packages of an image that have no answer, by name.
func (f *fixture) ids(t *testing.T, key model.ImageKey) map[string]int64 {
	t.Helper()
	_, packages, err := f.UnansweredPackages(t.Context(), key)
	must(t, err)
	ids := map[string]int64{}
	for _, p := range packages {
		ids[p.Name] = p.ID
	}
	return ids
}

// readOnce checks that what one call returns is of one result set.
func (f *fixture) readOnce(t *testing.T, key model.ImageKey) {
	t.Helper()
	page, err := f.Findings(t.Context(), store.AllNamespaces(), store.FindingQuery{Image: key, Page: store.Page{Size: store.MaxPageSize}})
	if err != nil {
		t.Error(err)
		return
	}
	resultSets := map[string]int{}
	for i := range page.Findings {
		id := page.Findings[i].Vulnerability.ID
		resultSets[id[:strings.LastIndex(id, "-")]]++
	}
	if len(resultSets) != 1 || page.Total != len(page.Findings) || page.Total%30 != 0 {
		t.Errorf("a page of %d holds findings of %v", page.Total, resultSets)
	}
	list, err := f.ListImages(t.Context(), store.AllNamespaces(), store.ImageQuery{})
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
