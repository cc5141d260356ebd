package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// exposed lists "namespace/workload since-until end" of each exposure, and what is suppressed.
func (f *fixture) exposed(t *testing.T, in store.Namespaces, query store.ExposureQuery) []string {
	t.Helper()
	page, err := f.Exposures(t.Context(), in, query)
	must(t, err)
	texts := []string{}
	for _, w := range page.Workloads {
		var text []string
		for _, e := range w.Exposures {
			text = append(text, strings.TrimSpace(fmt.Sprintf("%s-%s %s", minutes(e.Since), minutes(e.Until), e.End)))
		}
		if w.Suppressed {
			text = append(text, "suppressed")
		}
		texts = append(texts, w.Workload.Namespace+"/"+w.Workload.Name+" "+strings.Join(text, ", "))
	}
	return texts
}

func (f *fixture) expectExposed(t *testing.T, step string, in store.Namespaces, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), f.exposed(t, in, store.ExposureQuery{ID: "cve-1"})); diff != "" {
		t.Errorf("%s (-want +got):\n%s", step, diff)
	}
}

var exposureTests = map[string]func(*testing.T, *fixture){
	"Exposures of workloads begin and end": func(t *testing.T, f *fixture) {
		had, also, fixed, all := image("had", amd64), image("also", amd64), image("fixed-1", amd64), store.AllNamespaces()
		f.clock.set(day)
		for key, name := range map[model.ImageKey]string{had: "p", also: "q", fixed: "r"} {
			catalog := catalogOf(name)
			if key == fixed { // What is excluded is not vulnerable.
				catalog.Packages = append(catalog.Packages, model.HeldPackage{Package: pkg("p"), Excluded: true})
			}
			f.catalog(t, key, key.ImageID, catalog)
			f.match(t, key, key.ImageID, answers{"p": {finding("CVE-1", model.SeverityHigh)}, "q": {finding("CVE-1", model.SeverityLow), finding("CVE-2", model.SeverityLow)}})
		}
		f.expectExposed(t, "nothing ran", all)
		f.runAt(t, 10, "s", runs("web", fixed)...)
		f.expectExposed(t, "an image without it", all)
		f.runAt(t, 20, "s", runs("web", fixed, had)...)
		f.expectExposed(t, "an image with it", all, "n/web 20-")
		f.runAt(t, 30, "s", runs("web", also)...)
		f.expectExposed(t, "another image with it", all, "n/web 20-")
		f.runAt(t, 40, "s", runs("web", fixed)...)
		f.expectExposed(t, "no image with it", all, "n/web 20-40 Image")
		f.runAt(t, 60, "s", runs("web", had)...)
		f.runAt(t, 80, "s")
		f.expectExposed(t, "gone", all, "n/web 20-40 Image, 60-80 Workload")
		f.runAt(t, 89, "s", runs("web", fixed)...)
		f.expectExposed(t, "back soon with another image", all, "n/web 20-40 Image, 60-80 Image")
		f.runAt(t, 100, "s", append(runs("web", had), ownedUse(had, "other", "api", "team"))...)
		f.expectExposed(t, "two workloads", all, "n/web 20-40 Image, 60-80 Image, 100-", "other/api 100-")
		f.expectExposed(t, "one namespace", store.OnlyNamespaces("other"), "other/api 100-")
		f.expectExposed(t, "no namespace", store.OnlyNamespaces())
		page, err := f.Exposures(t.Context(), all, store.ExposureQuery{ID: "CVE-1", Where: store.Where{Namespace: "n"}})
		must(t, err)
		if w := page.Workloads[0]; page.Total != 1 || minutes(w.Since) != "20" || fmt.Sprint(w.ImageCount, w.Images, w.PackageCount, w.Packages) != fmt.Sprint(2, []model.ImageKey{also, had}, 2, []string{"p", "q"}) {
			t.Errorf("in a namespace: %+v", page)
		}
		if got := f.exposed(t, all, store.ExposureQuery{ID: "CVE-1", Where: store.Where{Ownership: store.Ownership{Owner: "team"}}}); !cmp.Equal(got, []string{"other/api 100-"}) {
			t.Errorf("of an owner: %v", got)
		}
		if got := f.exposed(t, all, store.ExposureQuery{ID: "CVE-2"}); !cmp.Equal(got, []string{"n/web 30-40 Image"}) {
			t.Errorf("of a vulnerability of one image: %v", got)
		}
		if _, err := f.Exposures(t.Context(), all, store.ExposureQuery{}); err == nil {
			t.Error("no ID is no error")
		}
		if _, err := f.Exposures(t.Context(), all, store.ExposureQuery{ID: "CVE-1", Page: store.Page{Token: "x"}}); !errors.Is(err, store.ErrInvalidToken) {
			t.Errorf("no token: %v", err)
		}
		first, err := f.Exposures(t.Context(), all, store.ExposureQuery{ID: "CVE-1", Page: store.Page{Size: 1}})
		if err != nil || first.NextToken == "" {
			t.Fatalf("the first page: %+v, %v", first, err)
		}
		if _, err := f.Exposures(t.Context(), all, store.ExposureQuery{ID: "CVE-2", Page: store.Page{Token: first.NextToken}}); !errors.Is(err, store.ErrInvalidToken) {
			t.Errorf("the token of another list: %v", err)
		}
	},
	"Exposures continue when pods are replaced": func(t *testing.T, f *fixture) {
		had, next, fixed, proxy, all := image("had", amd64), image("next", amd64), image("fixed", amd64), image("proxy", amd64), store.AllNamespaces()
		f.clock.set(day)
		for key, name := range map[model.ImageKey]string{had: "p", next: "q", fixed: "r", proxy: "r"} {
			f.catalog(t, key, key.ImageID, catalogOf(name))
			f.match(t, key, key.ImageID, answers{"p": {finding("CVE-1", model.SeverityHigh)}, "q": {finding("CVE-1", model.SeverityLow)}})
		}
		sidecar := store.Use{Image: proxy, Workload: runs("web", proxy)[0].Workload, Container: "proxy"}
		f.runAt(t, 10, "s", append(runs("web", had), sidecar)...)
		f.runAt(t, 20, "s", sidecar)
		f.expectExposed(t, "stopped, but for another container", all, "n/web 10-20 Image")
		f.runAt(t, 22, "s", append(runs("web", next), sidecar)...)
		f.expectExposed(t, "the next image has it", all, "n/web 10-")
		f.runAt(t, 40, "s")
		f.expectExposed(t, "gone", all, "n/web 10-40 Workload")
		f.runAt(t, 50, "s", runs("web", had)...)
		f.expectExposed(t, "after the longest gap", all, "n/web 10-")
		f.runAt(t, 60, "s")
		f.runAt(t, 71, "s", runs("web", had)...)
		f.expectExposed(t, "after more", all, "n/web 10-60 Workload, 71-")
		f.runAt(t, 80, "s")
		f.runAt(t, 81, "s", runs("web", fixed)...)
		f.runAt(t, 83, "s")
		f.runAt(t, 85, "s", runs("web", next)...)
		f.expectExposed(t, "an image without it in between", all, "n/web 10-60 Workload, 71-80 Image, 85-")
	},
	"Of many exposures the last ones are listed": func(t *testing.T, f *fixture) {
		had := image("had", amd64)
		f.clock.set(day)
		f.catalog(t, had, "1", catalogOf("p"))
		f.match(t, had, "1", answers{"p": {finding("CVE-1", model.SeverityHigh)}})
		var want []string
		for i := range store.MaxExposures + 2 {
			f.runAt(t, 100*i+10, "s", runs("web", had)...)
			f.runAt(t, 100*i+60, "s")
			want = append(want, fmt.Sprintf("%d-%d Workload", 100*i+10, 100*i+60))
		}
		f.expectExposed(t, "the last ones", store.AllNamespaces(), "n/web "+strings.Join(want[2:], ", "))
		page, err := f.Exposures(t.Context(), store.AllNamespaces(), store.ExposureQuery{ID: "CVE-1"})
		must(t, err)
		if w := page.Workloads[0]; w.ExposureCount != len(want) || minutes(w.Since) != "10" {
			t.Errorf("%d exposures since %s", w.ExposureCount, minutes(w.Since))
		}
	},
	"Exposures are suppressed in the places of decisions": func(t *testing.T, f *fixture) {
		key := model.ImageKey{ImageID: modelImageID(0), Platform: amd64}
		f.clock.set(day)
		f.catalog(t, key, "1", catalogOf("a", "b"))
		f.match(t, key, "1", decided)
		uses := func(workloads ...store.Workload) (uses []store.Use) {
			for _, w := range workloads {
				uses = append(uses, store.Use{Image: key, Workload: w, Container: "c"})
			}
			return uses
		}
		all := store.AllNamespaces()
		f.runAt(t, 10, "s", uses(deployment("a", "db"), deployment("a", "web"), deployment("b", "web"))...)
		f.expectExposed(t, "without decisions", all, "a/db 10-", "a/web 10-", "b/web 10-")
		d := exception("d", model.DecisionAcceptedRisk, []string{"CVE-1"}, nil)
		f.decide(t, placed(d, "a", []string{"a"}))
		f.expectExposed(t, "in a namespace", all, "a/db 10-, suppressed", "a/web 10-, suppressed", "b/web 10-")
		f.expectExposed(t, "who sees this namespace", store.OnlyNamespaces("a"), "a/db 10-, suppressed", "a/web 10-, suppressed")
		f.decide(t, placed(d, "web", nil, deployment("a", "web")))
		f.expectExposed(t, "in a workload", all, "a/db 10-", "a/web 10-, suppressed", "b/web 10-")
		f.decide(t, d)
		f.expectExposed(t, "everywhere", all, "a/db 10-, suppressed", "a/web 10-, suppressed", "b/web 10-, suppressed")
		f.runAt(t, 30, "s", uses(deployment("a", "web"))...)
		f.expectExposed(t, "ended", all, "a/db 10-30 Workload", "a/web 10-, suppressed", "b/web 10-30 Workload")
	},
}
