package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// day is when the clocks of the tests about time begin.
var day = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// at sets the clock to so many hours after day.
func (f *fixture) at(hours int) { f.clock.set(day.Add(time.Duration(hours) * time.Hour)) }

// hours lists "vulnerability package first seen-fixed" of the findings of an image that are open or closed, in hours after day, sorted.
func (f *fixture) hours(t *testing.T, key model.ImageKey, closed bool) []string {
	t.Helper()
	after := func(at time.Time) string {
		if at.IsZero() {
			return ""
		}
		return fmt.Sprint(int(at.Sub(day).Hours()))
	}
	texts := []string{}
	for _, one := range f.findings(t, store.FindingQuery{Image: key, Closed: closed}).Findings {
		texts = append(texts, fmt.Sprintf("%s %s %s-%s", one.Vulnerability.ID, one.Package.Name, after(one.FirstSeen), after(one.FixedAt)))
	}
	slices.Sort(texts)
	return texts
}

func (f *fixture) expectHours(t *testing.T, key model.ImageKey, step string, open, closed []string) {
	t.Helper()
	for _, side := range []struct {
		closed bool
		want   []string
	}{{false, open}, {true, closed}} {
		if diff := cmp.Diff(side.want, f.hours(t, key, side.closed)); diff != "" {
			t.Errorf("%s, closed %t (-want +got):\n%s", step, side.closed, diff)
		}
	}
}

// rematchAt does a re-match whose answers are kept an hour before the switch.
func (f *fixture) rematchAt(t *testing.T, hours int, a answers) {
	t.Helper()
	f.at(hours - 1)
	next := f.prepare(t, model.DatabaseBuild{ID: fmt.Sprint("build ", hours)}, a)
	f.at(hours)
	f.switchTo(t, next.Number)
}

var openingTests = map[string]func(*testing.T, *fixture){
	"First seen and fixed at": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		low, other := finding("CVE-1", model.SeverityLow), finding("CVE-2", model.SeverityHigh)
		f.at(0)
		f.current(t)
		f.at(1)
		f.catalog(t, key, "1", catalogOf("p"))
		f.at(2)
		f.match(t, key, "1", answers{"p": {low}})
		f.expectHours(t, key, "new", []string{"CVE-1 p 2-"}, []string{})
		f.rematchAt(t, 10, answers{"p": {low, other}})
		f.expectHours(t, key, "another one", []string{"CVE-1 p 2-", "CVE-2 p 10-"}, []string{})
		f.rematchAt(t, 20, answers{"p": {finding("CVE-1", model.SeverityCritical, "2"), other}})
		f.expectHours(t, key, "another content", []string{"CVE-1 p 2-", "CVE-2 p 10-"}, []string{})
		f.rematchAt(t, 30, answers{"p": {finding("CVE-1", model.SeverityCritical, "2"), finding("CVE-1", model.SeverityCritical, "3")}})
		f.expectHours(t, key, "two of the same", []string{"CVE-1 p 2-", "CVE-1 p 2-"}, []string{"CVE-2 p 10-30"})
		f.rematchAt(t, 40, nil)
		f.expectHours(t, key, "fixed", []string{}, []string{"CVE-1 p 2-40", "CVE-1 p 2-40", "CVE-2 p 10-30"})
		f.rematchAt(t, 50, answers{"p": {low}})
		f.expectHours(t, key, "found again", []string{"CVE-1 p 50-"}, []string{"CVE-2 p 10-30"})
	},
	"A later image has what its packages had": func(t *testing.T, f *fixture) {
		early, late := image("a", amd64), image("bb", amd64)
		f.at(0)
		f.catalog(t, early, "1", catalogOf("p"))
		f.match(t, early, "1", answers{"p": {finding("CVE-1", model.SeverityLow), finding("CVE-2", model.SeverityLow)}})
		f.rematchAt(t, 10, answers{"p": {finding("CVE-1", model.SeverityLow)}})
		f.at(20)
		f.catalog(t, late, "1", catalogOf("p"))
		f.match(t, late, "1", nil)
		f.expectHours(t, early, "the early one", []string{"CVE-1 p 0-"}, []string{"CVE-2 p 0-10"})
		f.expectHours(t, late, "the late one", []string{"CVE-1 p 20-"}, []string{})
		f.rematchAt(t, 30, nil)
		f.expectHours(t, late, "the late one, closed", []string{}, []string{"CVE-1 p 20-30"})
		for id, want := range map[string][]model.ImageKey{"CVE-1": {early, late}, "CVE-2": {early}} {
			page, err := f.Affected(t.Context(), store.AllNamespaces(), store.AffectedQuery{ID: id, Closed: true})
			must(t, err)
			var got []model.ImageKey
			for i := range page.Affected {
				got = append(got, page.Affected[i].Image)
			}
			if diff := cmp.Diff(want, got); diff != "" || page.Total != len(want) || page.Images != len(want) {
				t.Errorf("%s: %d of %d images, %s", id, page.Images, page.Total, diff)
			}
		}
	},
	"First seen survives failures": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.at(0)
		f.catalog(t, key, "1", catalogOf("p"))
		f.match(t, key, "1", answers{"p": {finding("CVE-1", model.SeverityLow)}})
		answered, err := f.AnsweredPackages(t.Context(), 0, 1)
		must(t, err)
		f.at(10)
		next := f.start(t, newBuild).Number
		f.queueAll(t, next)
		f.save(t, next, answered[0].ID, failed)
		f.at(11)
		f.switchTo(t, next)
		f.expectHours(t, key, "failed", []string{"CVE-1 p 0-"}, []string{})
		f.rematchAt(t, 20, answers{"p": {finding("CVE-1", model.SeverityHigh)}})
		f.expectHours(t, key, "matched again", []string{"CVE-1 p 0-"}, []string{})
	},
	"Discarded result sets leave no time": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.at(0)
		f.catalog(t, key, "1", catalogOf("p"))
		f.match(t, key, "1", answers{"p": {finding("CVE-1", model.SeverityLow)}})
		f.at(5)
		f.prepare(t, newBuild, answers{"p": {finding("CVE-2", model.SeverityLow)}})
		f.expectHours(t, key, "prepared", []string{"CVE-1 p 0-"}, []string{})
		f.rematchAt(t, 10, answers{"p": {finding("CVE-1", model.SeverityHigh), finding("CVE-2", model.SeverityLow)}})
		f.expectHours(t, key, "switched to another", []string{"CVE-1 p 0-", "CVE-2 p 10-"}, []string{})
	},
	"The current result set answers while the next one is prepared": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.at(0)
		f.catalog(t, key, "1", catalogOf("p"))
		id, current := f.ids(t, key)["p"], f.current(t).Number
		next := f.start(t, newBuild).Number
		must(t, f.StartMatching(t.Context(), next))
		then := answerOf(finding("CVE-1", model.SeverityHigh), finding("CVE-2", model.SeverityHigh))
		f.save(t, next, id, then)
		f.at(1)
		f.save(t, current, id, answerOf(finding("CVE-1", model.SeverityLow)))
		must(t, f.FinishImage(t.Context(), key, "1"))
		f.at(2)
		f.save(t, next, id, then)
		f.at(3)
		f.switchTo(t, next)
		f.expectHours(t, key, "after the switch", []string{"CVE-1 p 1-", "CVE-2 p 3-"}, []string{})
	},
	"Result sets outlive the findings that they opened": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.at(0)
		f.catalog(t, key, "1", catalogOf("p"))
		f.match(t, key, "1", answers{"p": {finding("CVE-1", model.SeverityLow)}})
		for hours := 10; hours <= 40; hours += 10 { // Each with another text of the same.
			f.rematchAt(t, hours, answers{"p": {finding("CVE-1", model.SeverityLow, fmt.Sprint(hours))}})
		}
		must(t, f.Prune(t.Context(), f.clock.Now().Add(time.Hour)))
		f.expectHours(t, key, "pruned", []string{"CVE-1 p 0-"}, []string{})
		resultSets, err := f.ListResultSets(t.Context(), store.AllNamespaces(), 9)
		if err != nil || len(resultSets) != 2 || resultSets[1].Build != oldBuild {
			t.Errorf("got %+v, %v", resultSets, err)
		}
	},
}
