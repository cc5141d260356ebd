package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// exploited is a finding of a vulnerability that is known to be exploited.
func exploited(id string, severity model.Severity, fix ...string) model.PackageFinding {
	one := finding(id, severity, fix...)
	one.Vulnerability.KEV = []model.KnownExploited{{CVE: id, DateAdded: "2026-03-01"}}
	return one
}

// summary is what a summary says since so many hours after day, as texts.
func (f *fixture) summary(t *testing.T, in store.Namespaces, owned store.Ownership, hours int) []string {
	t.Helper()
	s, err := f.Summary(t.Context(), in, store.SummaryQuery{
		Ownership: owned, Since: day.Add(time.Duration(hours) * time.Hour), DueWithin: 24 * time.Hour, EndOfLifeWithin: 24 * time.Hour, Limit: 10,
	})
	must(t, err)
	texts := []string{fmt.Sprintf("%d workloads, %d of %d images: %d critical, %d high, %d low, %d kev, %d fixable", s.Workloads, s.Scanned, s.Images,
		s.Counts.Critical, s.Counts.High, s.Counts.Low, s.Counts.KEV, s.Counts.Fixable)}
	for _, list := range []struct {
		name string
		of   store.ChangedVulnerabilities
	}{{"opened", s.Opened}, {"closed", s.Closed}, {"exploited", s.Exploited}} {
		if list.of.Counts.Total() != len(list.of.Worst) {
			t.Errorf("%s: %d, but %d are listed", list.name, list.of.Counts.Total(), len(list.of.Worst))
		}
		for _, v := range list.of.Worst {
			texts = append(texts, fmt.Sprintf("%s %s %s kev=%t fixable=%t %s %d images %d workloads", list.name, v.ID, v.Severity, v.KEV, v.Fixable,
				strings.Join(v.Packages, ","), v.Images, v.Workloads))
		}
	}
	for _, list := range []struct {
		name string
		of   store.DueFindings
	}{{"overdue", s.Overdue}, {"soon", s.DueSoon}} {
		for _, d := range list.of.First {
			texts = append(texts, fmt.Sprintf("%s %s %s %s %s>%s at %v by %s %d images, %d in all", list.name, d.VulnerabilityID, d.Severity, d.Package, d.Version,
				strings.Join(d.Fixes, ","), d.DueAt.Sub(day).Hours(), d.Policy, d.Images, list.of.Counts.Total()))
		}
	}
	for _, i := range s.EndOfLife {
		texts = append(texts, fmt.Sprintf("end %s %s %s of %d", short(i.Image), i.Distro, i.EndOfLife.Format(time.DateOnly), s.EndOfLifeTotal))
	}
	return texts
}

// owned are the workloads of an owner.
func owned(name string) store.Ownership { return store.Ownership{Owner: name} }

// summarized lets an image of owner red run in namespace one from hour 1 on, and an image of owner blue in namespace two from hour 21 on. At hour 10 there is a
// new database build.
func (f *fixture) summarized(t *testing.T) (a, b model.ImageKey) {
	t.Helper()
	a, b = image("a", amd64), image("bb", amd64)
	f.at(0)
	f.current(t)
	f.catalog(t, a, "1", catalogOf("p", "q"))
	f.match(t, a, "1", answers{
		"p": {finding("CVE-1", model.SeverityCritical, "2"), finding("CVE-2", model.SeverityLow)}, "q": {finding("CVE-3", model.SeverityHigh)},
	})
	f.at(1)
	must(t, f.RecordUses(t.Context(), "one", []store.Use{ownedUse(a, "one", "web", "red"), ownedUse(a, "one", "db", "red")}))
	f.rematchAt(t, 10, answers{"p": {finding("CVE-1", model.SeverityCritical, "2"), exploited("CVE-4", model.SeverityCritical, "3")}})
	f.at(20)
	f.catalog(t, b, "2", catalogOf("p", "r"))
	f.match(t, b, "2", answers{"r": {finding("CVE-5", model.SeverityHigh, "9")}})
	f.at(21)
	must(t, f.RecordUses(t.Context(), "two", []store.Use{ownedUse(b, "two", "web", "blue")}))
	return a, b
}

var summaryTests = map[string]func(*testing.T, *fixture){
	"A summary tells what was opened and closed": func(t *testing.T, f *fixture) {
		f.summarized(t)
		all := store.AllNamespaces()
		expectTexts(t, "all", f.summary(t, all, store.Ownership{}, 5),
			"3 workloads, 2 of 2 images: 4 critical, 1 high, 0 low, 2 kev, 5 fixable",
			"opened CVE-4 Critical kev=true fixable=true p 2 images 3 workloads", "opened CVE-5 High kev=false fixable=true r 1 images 1 workloads",
			"closed CVE-3 High kev=false fixable=false  0 images 0 workloads", "closed CVE-2 Low kev=false fixable=false  0 images 0 workloads",
			"exploited CVE-4 Critical kev=true fixable=true p 2 images 3 workloads")
		red := []string{
			"2 workloads, 1 of 1 images: 2 critical, 0 high, 0 low, 1 kev, 2 fixable", "opened CVE-4 Critical kev=true fixable=true p 1 images 2 workloads",
			"closed CVE-3 High kev=false fixable=false  0 images 0 workloads", "closed CVE-2 Low kev=false fixable=false  0 images 0 workloads",
			"exploited CVE-4 Critical kev=true fixable=true p 1 images 2 workloads",
		}
		expectTexts(t, "of an owner", f.summary(t, all, owned("red"), 5), red...)
		expectTexts(t, "of a namespace", f.summary(t, store.OnlyNamespaces("one"), store.Ownership{}, 5), red...)
		blue := []string{
			"1 workloads, 1 of 1 images: 2 critical, 1 high, 0 low, 1 kev, 3 fixable",
			"opened CVE-4 Critical kev=true fixable=true p 1 images 1 workloads", "opened CVE-1 Critical kev=false fixable=true p 1 images 1 workloads",
			"opened CVE-5 High kev=false fixable=true r 1 images 1 workloads", "exploited CVE-4 Critical kev=true fixable=true p 1 images 1 workloads",
		}
		expectTexts(t, "of another owner", f.summary(t, all, owned("blue"), 5), blue...)
		expectTexts(t, "of another namespace", f.summary(t, store.OnlyNamespaces("two"), store.Ownership{}, 5), blue...)
		expectTexts(t, "since the database build", f.summary(t, all, store.Ownership{}, 10)[1:3],
			"opened CVE-5 High kev=false fixable=true r 1 images 1 workloads", "exploited CVE-4 Critical kev=true fixable=true p 2 images 3 workloads")
		expectTexts(t, "of nobody", f.summary(t, all, owned("green"), 5), "0 workloads, 0 of 0 images: 0 critical, 0 high, 0 low, 0 kev, 0 fixable")
		expectTexts(t, "of no namespace", f.summary(t, store.Namespaces{}, store.Ownership{}, 5), "0 workloads, 0 of 0 images: 0 critical, 0 high, 0 low, 0 kev, 0 fixable")
	},
	"What another image replaces is closed": func(t *testing.T, f *fixture) {
		_, b := f.summarized(t)
		f.at(30)
		must(t, f.RecordUses(t.Context(), "one", []store.Use{ownedUse(b, "one", "web", "red")}))
		expectTexts(t, "one", f.summary(t, store.OnlyNamespaces("one"), store.Ownership{}, 29)[1:2], "opened CVE-5 High kev=false fixable=true r 1 images 1 workloads")
		must(t, f.RecordUses(t.Context(), "one", nil))
		for _, in := range []store.Namespaces{store.OnlyNamespaces("one"), store.AllNamespaces()} {
			expectTexts(t, "nothing runs", f.summary(t, in, owned("red"), 29), "0 workloads, 0 of 0 images: 0 critical, 0 high, 0 low, 0 kev, 0 fixable",
				"closed CVE-4 Critical kev=true fixable=false  0 images 0 workloads", "closed CVE-1 Critical kev=false fixable=false  0 images 0 workloads")
		}
	},
	"What decisions suppress is neither opened nor closed": func(t *testing.T, f *fixture) {
		f.summarized(t)
		f.decide(t, exception("d", model.DecisionAcceptedRisk, []string{"CVE-1"}, nil), exception("e", model.DecisionAcceptedRisk, []string{"CVE-5"}, nil))
		expectTexts(t, "suppressed", f.summary(t, store.AllNamespaces(), store.Ownership{}, 5),
			"3 workloads, 2 of 2 images: 2 critical, 0 high, 0 low, 2 kev, 2 fixable",
			"opened CVE-4 Critical kev=true fixable=true p 2 images 3 workloads",
			"closed CVE-3 High kev=false fixable=false  0 images 0 workloads", "closed CVE-2 Low kev=false fixable=false  0 images 0 workloads",
			"exploited CVE-4 Critical kev=true fixable=true p 2 images 3 workloads")
	},
	"Where a decision applies, nothing counts": func(t *testing.T, f *fixture) {
		f.summarized(t)
		f.decide(t, placed(exception("d", model.DecisionAcceptedRisk, []string{"CVE-4"}, nil), "one", []string{"one"}))
		expectTexts(t, "there", f.summary(t, store.OnlyNamespaces("one"), store.Ownership{}, 5),
			"2 workloads, 1 of 1 images: 1 critical, 0 high, 0 low, 0 kev, 1 fixable",
			"closed CVE-3 High kev=false fixable=false  0 images 0 workloads", "closed CVE-2 Low kev=false fixable=false  0 images 0 workloads")
	},
	"What counts in some images was opened while one of them runs": func(t *testing.T, f *fixture) {
		a, _ := f.summarized(t)
		f.decide(t, placed(exception("d", model.DecisionAcceptedRisk, []string{"CVE-4"}, nil), "one", []string{"one"}))
		// An image that is not matched has the same packages.
		c := image("cc", amd64)
		f.catalog(t, c, "3", catalogOf("p", "q"))
		must(t, f.RecordUses(t.Context(), "three", []store.Use{ownedUse(c, "three", "web", "green")}))
		all := store.AllNamespaces()
		expectTexts(t, "all", f.summary(t, all, store.Ownership{}, 5)[1:],
			"opened CVE-4 Critical kev=true fixable=true p 1 images 1 workloads", "opened CVE-5 High kev=false fixable=true r 1 images 1 workloads",
			"closed CVE-3 High kev=false fixable=false  0 images 0 workloads", "closed CVE-2 Low kev=false fixable=false  0 images 0 workloads",
			"exploited CVE-4 Critical kev=true fixable=true p 1 images 1 workloads")
		gone := []string{"closed CVE-3 High kev=false fixable=false  0 images 0 workloads", "closed CVE-2 Low kev=false fixable=false  0 images 0 workloads"}
		expectTexts(t, "of an owner", f.summary(t, all, owned("red"), 5)[1:], gone...)
		must(t, f.RecordUses(t.Context(), "two", nil))
		expectTexts(t, "without the image in which it counts", f.summary(t, all, store.Ownership{}, 5)[1:], gone...)
		must(t, f.RecordUses(t.Context(), "two", []store.Use{ownedUse(a, "two", "web", "red")}))
		expectTexts(t, "in another place", f.summary(t, all, store.Ownership{}, 5)[1:2], "opened CVE-4 Critical kev=true fixable=true p 1 images 3 workloads")
	},
	"A summary has what is due": func(t *testing.T, f *fixture) {
		f.summarized(t)
		f.due(t, dueAfter("p", "", 1, 2))
		lines := func(in store.Namespaces, owned store.Ownership) (due []string) {
			for _, text := range f.summary(t, in, owned, 5) {
				if strings.HasPrefix(text, "overdue") || strings.HasPrefix(text, "soon") {
					due = append(due, text)
				}
			}
			return due
		}
		f.at(26)
		all := store.AllNamespaces()
		expectTexts(t, "all", lines(all, store.Ownership{}), "overdue CVE-1 Critical p 1.0-p>2 at 24 by p 2 images, 1 in all",
			"soon CVE-4 Critical p 1.0-p>3 at 34 by p 2 images, 3 in all")
		expectTexts(t, "of an owner", lines(all, owned("red")), "overdue CVE-1 Critical p 1.0-p>2 at 24 by p 1 images, 1 in all",
			"soon CVE-4 Critical p 1.0-p>3 at 34 by p 1 images, 1 in all")
		// It sees the image since hour 1.
		expectTexts(t, "of a namespace", lines(store.OnlyNamespaces("one"), store.Ownership{}), "overdue CVE-1 Critical p 1.0-p>2 at 25 by p 1 images, 1 in all",
			"soon CVE-4 Critical p 1.0-p>3 at 34 by p 1 images, 1 in all")
		f.at(60)
		expectTexts(t, "later", lines(all, owned("blue")), "overdue CVE-1 Critical p 1.0-p>2 at 44 by p 1 images, 2 in all",
			"overdue CVE-4 Critical p 1.0-p>3 at 44 by p 1 images, 2 in all", "soon CVE-5 High r 1.0-r>9 at 68 by p 1 images, 1 in all")
	},
	"A summary has the images whose distribution ends": func(t *testing.T, f *fixture) {
		a, b := f.summarized(t)
		must(t, f.SaveLifecycles(t.Context(), "build", map[string]model.Lifecycle{"debian:12": {Release: "debian:12", EndOfLife: date(2)}}))
		f.at(40)
		for _, in := range []store.Namespaces{store.AllNamespaces(), store.OnlyNamespaces("one", "two")} {
			texts := f.summary(t, in, store.Ownership{}, 39)
			expectTexts(t, "both", texts[len(texts)-2:], fmt.Sprintf("end %s debian:12 2026-03-03 of 2", short(a)), fmt.Sprintf("end %s debian:12 2026-03-03 of 2", short(b)))
		}
		texts := f.summary(t, store.AllNamespaces(), owned("red"), 39)
		expectTexts(t, "of an owner", texts[len(texts)-1:], "end a/amd64 debian:12 2026-03-03 of 1")
		f.at(0)
		if texts := f.summary(t, store.AllNamespaces(), store.Ownership{}, 0); strings.HasPrefix(texts[len(texts)-1], "end") {
			t.Errorf("two days before: %s", texts[len(texts)-1])
		}
	},
	"Lists of summaries are cut, and totals are not": func(t *testing.T, f *fixture) {
		f.summarized(t)
		s, err := f.Summary(t.Context(), store.AllNamespaces(), store.SummaryQuery{Since: day.Add(5 * time.Hour), Limit: 1})
		must(t, err)
		got := []int{len(s.Opened.Worst), s.Opened.Counts.Total(), len(s.Closed.Worst), s.Closed.Counts.Total()}
		if diff := cmp.Diff([]int{1, 2, 1, 2}, got); diff != "" || !s.KnownSince.Equal(day.Add(time.Hour)) {
			t.Errorf("known since %s: %s", s.KnownSince, diff)
		}
		for _, in := range []store.Namespaces{store.AllNamespaces(), store.OnlyNamespaces("two"), store.OnlyNamespaces("none")} {
			s, err := f.Summary(t.Context(), in, store.SummaryQuery{Since: day.Add(5 * time.Hour), Limit: 1})
			must(t, err)
			sums, err := f.ChangesSince(t.Context(), in, day.Add(5*time.Hour))
			must(t, err)
			if diff := cmp.Diff(store.ChangeSums{Opened: s.Opened.Counts, Closed: s.Closed.Counts, KnownSince: s.KnownSince}, sums); diff != "" {
				t.Errorf("changes seen by %v (-want +got):\n%s", in, diff)
			}
		}
		for _, limit := range []int{-1, store.MaxSummaryRows + 1} {
			if _, err := f.Summary(t.Context(), store.AllNamespaces(), store.SummaryQuery{Limit: limit}); err == nil {
				t.Errorf("a summary with a limit of %d", limit)
			}
		}
	},
}
