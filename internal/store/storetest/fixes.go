package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// fixes lists what can be done about findings, as texts. The risk is a multiple of that of a negligible finding.
func (f *fixture) fixes(t *testing.T, in store.Namespaces, query store.FixQuery) []string {
	t.Helper()
	page, err := f.ListFixes(t.Context(), in, query)
	must(t, err)
	texts := []string{}
	for i := range page.Fixes {
		fix := &page.Fixes[i]
		var text strings.Builder
		text.WriteString(string(fix.Kind))
		for j := range fix.Packages {
			p := &fix.Packages[j]
			fmt.Fprintf(&text, " %s>%s%v", p.Package.Name, p.Versions, p.Vulnerabilities)
		}
		fmt.Fprintf(&text, " in %s: %d findings, %d kev, risk %g, run by", short(fix.Image), fix.Counts.Total(), fix.Counts.KEV, fix.Risk/10.125)
		for _, w := range fix.Workloads {
			text.WriteString(" " + w.Namespace + "/" + w.Name)
		}
		texts = append(texts, text.String())
	}
	if page.Total != len(page.Fixes) {
		t.Errorf("%d fixes of %d", len(page.Fixes), page.Total)
	}
	return texts
}

// fixable lets image a of owner red run in namespace one, and image bb of owner blue in namespace two. Both hold q, which is from no distribution.
func (f *fixture) fixable(t *testing.T) model.ImageKey {
	t.Helper()
	a, b := image("a", amd64), image("bb", amd64)
	f.at(0)
	f.current(t)
	found := answers{
		"p": {finding("CVE-1", model.SeverityCritical, "2"), finding("CVE-2", model.SeverityLow)},
		"q": {finding("CVE-3", model.SeverityHigh, "3", "4"), exploited("CVE-4", model.SeverityCritical, "4")},
		"r": {finding("CVE-5", model.SeverityHigh)},
	}
	for key, names := range map[model.ImageKey][]string{a: {"p", "q"}, b: {"q", "r"}} {
		catalog := catalogOf(names...)
		for i := range catalog.Packages {
			if p := &catalog.Packages[i].Package; p.Name == "q" {
				p.Type = "npm"
			}
		}
		f.catalog(t, key, "of "+short(key), catalog)
		f.match(t, key, "of "+short(key), found)
	}
	f.at(1)
	must(t, f.RecordUses(t.Context(), "one", []store.Use{ownedUse(a, "one", "web", "red"), ownedUse(a, "one", "db", "red")}))
	must(t, f.RecordUses(t.Context(), "two", []store.Use{ownedUse(b, "two", "web", "blue")}))
	return a
}

var fixTests = map[string]func(*testing.T, *fixture){
	"Fixes that remove the most risk come first": func(t *testing.T, f *fixture) {
		a := f.fixable(t)
		all := store.AllNamespaces()
		const (
			updateA  = "update q>[[3 4] [4]][CVE-4 CVE-3] in a/amd64: 2 findings, 1 kev, risk 9, run by one/db one/web"
			updateB  = "update q>[[3 4] [4]][CVE-4 CVE-3] in bb/amd64: 2 findings, 1 kev, risk 9, run by two/web"
			rebuildA = "rebuild p>[[2]][] in a/amd64: 1 findings, 0 kev, risk 5, run by one/db one/web"
			waitA    = "wait p>[][] in a/amd64: 1 findings, 0 kev, risk 2, run by one/db one/web"
			waitB    = "wait r>[][] in bb/amd64: 1 findings, 0 kev, risk 4, run by two/web"
		)
		expectTexts(t, "all", f.fixes(t, all, store.FixQuery{}), updateA, updateB, rebuildA, waitB, waitA)
		expectTexts(t, "of an owner", f.fixes(t, all, store.FixQuery{Where: store.Where{Ownership: owned("red")}}), updateA, rebuildA, waitA)
		expectTexts(t, "of a namespace", f.fixes(t, store.OnlyNamespaces("two"), store.FixQuery{}), updateB, waitB)
		expectTexts(t, "in KEV", f.fixes(t, all, store.FixQuery{KEV: true}), updateA, updateB)
		expectTexts(t, "rebuilds", f.fixes(t, all, store.FixQuery{Kind: store.FixRebuild}), rebuildA)
		expectTexts(t, "of an image", f.fixes(t, all, store.FixQuery{ImageID: a.ImageID}), updateA, rebuildA, waitA)
		expectTexts(t, "of an image that is not visible", f.fixes(t, store.OnlyNamespaces("two"), store.FixQuery{ImageID: a.ImageID}))
		expectTexts(t, "of no namespace", f.fixes(t, store.Namespaces{}, store.FixQuery{}))
		if _, err := f.ListFixes(t.Context(), all, store.FixQuery{Kind: "patch"}); err == nil {
			t.Error("fixes of an unknown kind")
		}
	},
	"Fixes are those of images that run": func(t *testing.T, f *fixture) {
		a := f.fixable(t)
		must(t, f.RecordUses(t.Context(), "one", nil))
		for _, in := range []store.Namespaces{store.AllNamespaces(), store.OnlyNamespaces("one", "two")} {
			for _, text := range f.fixes(t, in, store.FixQuery{}) {
				if !strings.Contains(text, "bb/amd64") {
					t.Errorf("seen by %v: %s", in.Names(), text)
				}
			}
			expectTexts(t, "that of an image which does not run", f.fixes(t, in, store.FixQuery{ImageID: a.ImageID, Kind: store.FixRebuild}),
				"rebuild p>[[2]][] in a/amd64: 1 findings, 0 kev, risk 5, run by")
		}
	},
	"Fixes close nothing that decisions suppress": func(t *testing.T, f *fixture) {
		f.fixable(t)
		f.decide(t, placed(exception("d", model.DecisionAcceptedRisk, []string{"CVE-4"}, nil), "one", []string{"one"}), exception("e", model.DecisionAcceptedRisk, []string{"CVE-2"}, nil))
		all := []string{
			"update q>[[3 4] [4]][CVE-4 CVE-3] in bb/amd64: 2 findings, 1 kev, risk 9, run by two/web",
			"rebuild p>[[2]][] in a/amd64: 1 findings, 0 kev, risk 5, run by one/db one/web",
			"update q>[[3 4]][CVE-3] in a/amd64: 1 findings, 0 kev, risk 4, run by one/db one/web",
			"wait r>[][] in bb/amd64: 1 findings, 0 kev, risk 4, run by two/web",
		}
		expectTexts(t, "all", f.fixes(t, store.AllNamespaces(), store.FixQuery{}), all...)
		expectTexts(t, "of a namespace", f.fixes(t, store.OnlyNamespaces("one"), store.FixQuery{}), all[1:3]...)
		expectTexts(t, "of another namespace", f.fixes(t, store.OnlyNamespaces("two"), store.FixQuery{}), all[0], all[3])
	},
	"Fixes of some workloads close what counts in one of them": func(t *testing.T, f *fixture) {
		a := f.fixable(t)
		must(t, f.RecordUses(t.Context(), "three", []store.Use{ownedUse(a, "three", "web", "blue"), ownedUse(a, "three", "api", "red")}))
		days := 0
		if problems := f.due(t, store.Policy{Name: "all", From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &days}}); len(problems) > 0 {
			t.Fatal(problems)
		}
		in := func(namespaces []string, workloads ...store.Workload) store.Decision {
			return placed(exception("d", model.DecisionAcceptedRisk, []string{"CVE-4"}, nil), "s", namespaces, workloads...)
		}
		red := []store.Workload{deployment("one", "web"), deployment("one", "db"), deployment("three", "api")}
		const open, closed = "2 findings, 1 kev, risk 9, 1 overdue, [CVE-4 CVE-3] to [[3 4] [4]]", "1 findings, 0 kev, risk 4, 0 overdue, [CVE-3] to [[3 4]]"
		chosen := []struct {
			name  string
			in    store.Namespaces
			where store.Where
		}{
			{"everybody", store.AllNamespaces(), store.Where{}},
			{"red", store.AllNamespaces(), store.Where{Ownership: owned("red")}},
			{"red in three", store.AllNamespaces(), store.Where{Namespace: "three", Ownership: owned("red")}},
			{"blue", store.AllNamespaces(), store.Where{Ownership: owned("blue")}},
			{"three", store.AllNamespaces(), store.Where{Namespace: "three"}},
			{"a workload", store.AllNamespaces(), store.Where{Namespace: "one", Workload: "db", WorkloadKind: "Deployment"}},
			{"who sees one", store.OnlyNamespaces("one"), store.Where{}},
			{"red, who sees one", store.OnlyNamespaces("one"), store.Where{Ownership: owned("red")}},
			{"red, who sees one and three", store.OnlyNamespaces("one", "three"), store.Where{Ownership: owned("red")}},
		}
		for _, c := range []struct {
			step      string
			decisions []store.Decision
			closed    []string // For whom the exploited finding does not count.
		}{
			{"nothing", nil, nil},
			{"all workloads of the owner", []store.Decision{in(nil, red...)}, []string{"red", "red in three", "a workload", "who sees one", "red, who sees one", "red, who sees one and three"}},
			{"some workloads of the owner", []store.Decision{in(nil, red[1:]...)}, []string{"red in three", "a workload"}},
			{"a namespace", []store.Decision{in([]string{"one"})}, []string{"a workload", "who sees one", "red, who sees one"}},
			{"the other namespace", []store.Decision{in([]string{"three"})}, []string{"red in three", "blue", "three"}},
			{"a namespace, and a workload of another decision", []store.Decision{
				in([]string{"one"}), placed(exception("e", model.DecisionNotAffected, []string{"CVE-4"}, nil), "other", nil, red[2]),
			}, []string{"red", "red in three", "a workload", "who sees one", "red, who sees one", "red, who sees one and three"}},
			{"nothing again", nil, nil},
		} {
			f.decide(t, c.decisions...)
			for _, one := range chosen {
				want := open
				if slices.Contains(c.closed, one.name) {
					want = closed
				}
				for _, query := range []store.FixQuery{
					{Where: one.where, Kind: store.FixUpdate}, {Where: one.where, Kind: store.FixUpdate, ImageID: a.ImageID},
					{Where: one.where, Kind: store.FixUpdate, KEV: true}, {Where: one.where, Kind: store.FixUpdate, Overdue: true},
				} {
					page, err := f.ListFixes(t.Context(), one.in, query)
					must(t, err)
					got := ""
					for i := range page.Fixes {
						if fix := &page.Fixes[i]; fix.Image == a {
							got = fmt.Sprintf("%d findings, %d kev, risk %g, %d overdue, %v to %v", fix.Counts.Total(), fix.Counts.KEV, fix.Risk/10.125, fix.Overdue,
								fix.Packages[0].Vulnerabilities, fix.Packages[0].Versions)
						}
					}
					if left := (query.KEV || query.Overdue) && want == closed; left && got != "" || !left && got != want {
						t.Errorf("suppressed in %s, for %s, %+v: got %q, want %q", c.step, one.name, query, got, want)
					}
				}
			}
		}
	},
}
