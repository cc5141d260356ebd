package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// preview previews a decision for who sees some namespaces.
func (f *fixture) preview(t *testing.T, in store.Namespaces, decision store.Decision) store.DecisionPreview {
	t.Helper()
	preview, err := f.PreviewDecision(t.Context(), in, store.DecisionSourceKubernetes, decision)
	must(t, err)
	return preview
}

// runIn records that namespaces run images, each in a Deployment of its own with two containers.
func (f *fixture) runIn(t *testing.T, namespaces map[string][]model.ImageKey) {
	t.Helper()
	for namespace, images := range namespaces {
		var uses []store.Use
		for n, key := range images {
			w := store.Workload{Namespace: namespace, Kind: "Deployment", Name: fmt.Sprint("web-", n), Owner: "team-" + namespace}
			uses = append(uses, store.Use{Image: key, Workload: w, Container: "app"}, store.Use{Image: key, Workload: w, Container: "side"})
		}
		must(t, f.RecordUses(t.Context(), namespace+"/scanner", uses))
	}
}

var previewTests = map[string]func(*testing.T, *fixture){
	"Previews count what a decision would do": func(t *testing.T, f *fixture) {
		both, one := image("both", amd64), image("one", amd64)
		f.catalog(t, both, "1", catalogOf("a", "b"))
		f.match(t, both, "1", decided)
		f.catalog(t, one, "2", catalogOf("a"))
		f.match(t, one, "2", decided)
		f.runIn(t, map[string][]model.ImageKey{"shop": {both, one}, "bank": {both}})
		shop, bank := store.Workload{Namespace: "shop", Kind: "Deployment", Name: "web-0", Owner: "team-shop"}, store.Workload{Namespace: "bank", Kind: "Deployment", Name: "web-0", Owner: "team-bank"}
		second := shop
		second.Name = "web-1"
		workload := func(w store.Workload, findings int) store.PreviewedWorkload {
			return store.PreviewedWorkload{Workload: w, Images: 1, Findings: findings}
		}
		want := store.DecisionPreview{
			Suppresses: true, Findings: 3, Closed: 3, Images: 2, WorkloadCount: 3, NamespaceCount: 2,
			Workloads:  []store.PreviewedWorkload{workload(bank, 2), workload(shop, 2), workload(second, 1)},
			Namespaces: []store.PreviewedNamespace{{Namespace: "shop", Workloads: 2, Findings: 3}, {Namespace: "bank", Workloads: 1, Findings: 2}},
		}
		fresh := exception("", model.DecisionAcceptedRisk, []string{"CVE-1"}, nil)
		if diff := cmp.Diff(want, f.preview(t, store.AllNamespaces(), fresh)); diff != "" {
			t.Error(diff)
		}
		want = store.DecisionPreview{
			Suppresses: true, Findings: 2, Closed: 2, Images: 1, WorkloadCount: 1, NamespaceCount: 1,
			Workloads: []store.PreviewedWorkload{workload(bank, 2)}, Namespaces: []store.PreviewedNamespace{{Namespace: "bank", Workloads: 1, Findings: 2}},
		}
		if diff := cmp.Diff(want, f.preview(t, store.OnlyNamespaces("bank", "empty"), fresh)); diff != "" {
			t.Error(diff)
		}
		if none := f.preview(t, store.OnlyNamespaces(), fresh); !cmp.Equal(none, store.DecisionPreview{Suppresses: true}) {
			t.Errorf("who sees nothing: %+v", none)
		}
		limited := fresh
		limited.Images = []string{"registry.example/both"}
		if p := f.preview(t, store.AllNamespaces(), limited); p.Findings != 2 || p.Closed != 2 || p.Images != 1 || p.WorkloadCount != 2 {
			t.Errorf("in one image: %+v", p)
		}
		if images := f.list(t, store.ImageQuery{}); images.Images[0].Counts.Critical == 0 {
			t.Error("a preview suppresses findings")
		}
	},
	"Previews leave out what the decision replaces": func(t *testing.T, f *fixture) {
		key := image("i", amd64)
		f.catalog(t, key, "1", catalogOf("a", "b"))
		f.match(t, key, "1", decided)
		mine, other := exception("mine", model.DecisionAcceptedRisk, []string{"CVE-1"}, nil), exception("other", model.DecisionFixed, nil, []string{"pkg:deb/debian/b"})
		f.decide(t, mine, other)
		investigated, dry := exception("mine", model.DecisionUnderInvestigation, []string{"CVE-1"}, nil), mine
		dry.DryRun = true
		over := mine
		over.ExpiresAt = time.Unix(1, 0)
		for name, c := range map[string]struct {
			decision store.Decision
			want     string // Findings, suppressed, closed, reopened.
		}{
			"another name":    {exception("new", model.DecisionAcceptedRisk, []string{"CVE-1"}, nil), "0 2 0 0"},
			"the same":        {mine, "1 1 0 0"},
			"another CVE":     {exception("mine", model.DecisionAcceptedRisk, []string{"CVE-2"}, nil), "1 0 1 1"},
			"more":            {exception("mine", model.DecisionAcceptedRisk, nil, []string{"pkg:deb/*"}), "2 1 1 0"},
			"not suppressed":  {investigated, "1 1 0 1"},
			"a dry run":       {dry, "1 1 0 1"},
			"over":            {over, "0 0 0 1"},
			"nothing instead": {exception("other", model.DecisionFixed, nil, []string{"pkg:npm/*"}), "0 0 0 0"},
		} {
			p := f.preview(t, store.AllNamespaces(), c.decision)
			if got := fmt.Sprint(p.Findings, p.Suppressed, p.Closed, p.Reopened); got != c.want {
				t.Errorf("%s: %s, want %s", name, got, c.want)
			}
		}
	},
	"Previews state problems": func(t *testing.T, f *fixture) {
		over := exception("", model.DecisionFixed, []string{"CVE-1"}, nil)
		over.ExpiresAt = time.Unix(1, 0)
		for reason, d := range map[store.DecisionReason]store.Decision{
			store.DecisionInvalid: exception("", model.DecisionFixed, nil, []string{"pkg:a b"}), store.DecisionExpired: over, "": exception("", model.DecisionFixed, []string{"CVE-1"}, nil),
		} {
			p := f.preview(t, store.AllNamespaces(), d)
			if reason == "" != (p.Problem == nil) || p.Problem != nil && (p.Problem.Reason != reason || p.Problem.Message == "") {
				t.Errorf("%s: %+v", reason, p.Problem)
			}
		}
	},
	"Previews list the workloads with the most findings": func(t *testing.T, f *fixture) {
		key := image("i", amd64)
		f.catalog(t, key, "1", catalogOf("a"))
		f.match(t, key, "1", decided)
		namespaces := map[string][]model.ImageKey{}
		for n := range store.MaxPreviewed + 1 {
			namespaces[fmt.Sprintf("n%03d", n)] = []model.ImageKey{key}
		}
		f.runIn(t, namespaces)
		p := f.preview(t, store.AllNamespaces(), exception("", model.DecisionFixed, []string{"CVE-1"}, nil))
		if len(p.Workloads) != store.MaxPreviewed || len(p.Namespaces) != store.MaxPreviewed || p.WorkloadCount != store.MaxPreviewed+1 || p.NamespaceCount != store.MaxPreviewed+1 {
			t.Errorf("%d of %d workloads in %d of %d namespaces", len(p.Workloads), p.WorkloadCount, len(p.Namespaces), p.NamespaceCount)
		}
		if p.Workloads[0].Workload.Namespace != "n000" || p.Images != 1 {
			t.Errorf("the first is %+v, in %d images", p.Workloads[0], p.Images)
		}
	},
}
