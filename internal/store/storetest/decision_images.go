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

// only makes a decision one about some images.
func only(d store.Decision, images ...string) store.Decision {
	d.Images = images
	return d
}

// figures are what lists count in the image of modelImageID(0), that of modelImageID(1), and everywhere.
func (f *fixture) figures(t *testing.T) []string {
	t.Helper()
	ctx, in := t.Context(), store.AllNamespaces()
	var all []string
	for n := range 2 {
		key := model.ImageKey{ImageID: modelImageID(n), Platform: amd64}
		all = append(all, fmt.Sprint("image ", n, " ", f.image(t, key).Counts.SeverityCounts.Total(), " ", f.found(t, key)))
		packages, err := f.ListPackages(ctx, in, store.PackageQuery{ImageID: key.ImageID, Vulnerable: true})
		must(t, err)
		for _, p := range packages.Packages {
			all = append(all, fmt.Sprint("package of ", n, " ", p.Package.Name, " ", p.Counts.SeverityCounts.Total()))
		}
	}
	packages, err := f.ListPackages(ctx, in, store.PackageQuery{})
	must(t, err)
	for _, p := range packages.Packages {
		all = append(all, fmt.Sprint("package ", p.Package.Name, " ", p.Counts.SeverityCounts.Total()))
	}
	vulnerabilities, err := f.ListVulnerabilities(ctx, in, store.VulnerabilityQuery{Sort: store.SortVulnerabilityID})
	must(t, err)
	for _, v := range vulnerabilities.Vulnerabilities {
		affected, err := f.Affected(ctx, in, store.AffectedQuery{ID: v.ID})
		must(t, err)
		all = append(all, fmt.Sprint(v.ID, " in ", v.Packages, " packages of ", v.Images, " images, ", affected.Total, " affected"))
	}
	overview, err := f.Overview(ctx, in)
	must(t, err)
	return append(all, fmt.Sprint("overview ", overview.Counts.SeverityCounts.Total()))
}

var decisionImageTests = map[string]func(*testing.T, *fixture){
	"Decisions about some images suppress findings there": func(t *testing.T, f *fixture) {
		for n := range 2 {
			key := model.ImageKey{ImageID: modelImageID(n), Platform: amd64}
			f.catalog(t, key, "1", catalogOf("a", "b"))
			f.match(t, key, "1", decided)
		}
		before := f.figures(t)
		d := only(exception("d", model.DecisionAcceptedRisk, []string{"CVE-1"}, nil), modelImageID(0))
		if problems := f.decide(t, d); len(problems) > 0 {
			t.Fatal(problems)
		}
		want := []string{
			"image 0 1 [CVE-2 a]", "package of 0 a 1", "image 1 3 [CVE-1 a CVE-1 b CVE-2 a]", "package of 1 a 2", "package of 1 b 1", "package a 2", "package b 1",
			"CVE-1 in 2 packages of 1 images, 2 affected", "CVE-2 in 1 packages of 2 images, 2 affected", "overview 4",
		}
		if diff := cmp.Diff(want, f.figures(t)); diff != "" {
			t.Error(diff)
		}
		for n, want := range [][]string{{"-CVE-1 a[d]", "-CVE-1 b[d]", "CVE-2 a[]"}, {"CVE-1 a[]", "CVE-1 b[]", "CVE-2 a[]"}} {
			if diff := cmp.Diff(want, f.decisionsOfImage(t, model.ImageKey{ImageID: modelImageID(n), Platform: amd64})); diff != "" {
				t.Errorf("image %d: %s", n, diff)
			}
		}
		counts, err := f.DecisionCounts(t.Context(), store.AllNamespaces(), store.DecisionSourceKubernetes)
		must(t, err)
		if got := counts[d.Object]; got.Matched != 2 || got.Suppressed != 2 {
			t.Errorf("counts %+v", got)
		}
		// What both images suppress together is suppressed everywhere.
		f.decide(t, d, only(exception("other", model.DecisionFixed, []string{"CVE-1"}, nil), "registry.example/team-1/*"))
		want = []string{
			"image 0 1 [CVE-2 a]", "package of 0 a 1", "image 1 1 [CVE-2 a]", "package of 1 a 1", "package a 1", "package b 0",
			"CVE-2 in 1 packages of 2 images, 2 affected", "overview 2",
		}
		if diff := cmp.Diff(want, f.figures(t)); diff != "" {
			t.Error(diff)
		}
		// An image that holds the packages later is not among them.
		late := model.ImageKey{ImageID: modelImageID(2), Platform: amd64}
		f.catalog(t, late, "1", catalogOf("a"))
		f.match(t, late, "1", nil)
		f.decide(t, d, only(exception("other", model.DecisionFixed, []string{"CVE-1"}, nil), "registry.example/team-1/*"))
		if got := f.figures(t); !slices.Contains(got, "package a 2") || !slices.Contains(got, "CVE-1 in 1 packages of 1 images, 1 affected") {
			t.Error(got)
		}
		must(t, f.DeleteImage(t.Context(), store.AllNamespaces(), store.AllNamespaces(), late.ImageID))
		if diff := cmp.Diff(want, f.figures(t)); diff != "" {
			t.Error(diff)
		}
		f.decide(t)
		if diff := cmp.Diff(before, f.figures(t)); diff != "" {
			t.Errorf("without decisions: %s", diff)
		}
	},
	"Decisions about images that become known later": func(t *testing.T, f *fixture) {
		f.decide(t, only(exception("d", model.DecisionAcceptedRisk, []string{"CVE-1"}, nil), "registry.example/team-0/*", "*@sha256:"+fmt.Sprintf("%064x", 1)))
		for n := range 4 {
			key := model.ImageKey{ImageID: modelImageID(n), Platform: amd64}
			f.catalog(t, key, "1", catalogOf("a"))
			f.match(t, key, "1", decided)
		}
		for n, want := range []int{1, 1, 1, 2} {
			if got := f.image(t, model.ImageKey{ImageID: modelImageID(n), Platform: amd64}).Counts.SeverityCounts.Total(); got != want {
				t.Errorf("image %d has %d findings, want %d", n, got, want)
			}
		}
	},
	"Decisions with images that cannot be read": func(t *testing.T, f *fixture) {
		tooMany := make([]string, store.MaxDecisionImages+1)
		for i := range tooMany {
			tooMany[i] = modelImageID(i)
		}
		for _, images := range [][]string{{"nginx"}, {"docker.io/library/nginx:1"}, {"*", ""}, tooMany} {
			d := only(exception("d", model.DecisionFixed, []string{"CVE-1"}, nil), images...)
			if problem := f.decide(t, d)[d.Object]; problem.Reason != store.DecisionInvalid || problem.Message == "" {
				t.Errorf("%.80v: %+v", images, problem)
			}
		}
		alone := only(exception("d", model.DecisionFixed, nil, nil), "*")
		if problem := f.decide(t, alone)[alone.Object]; problem.Reason != store.DecisionInvalid {
			t.Errorf("images alone: %+v", problem)
		}
	},
	"A database changes other things where decisions suppress findings": func(t *testing.T, f *fixture) {
		for n := range 3 {
			key := model.ImageKey{ImageID: modelImageID(n), Platform: amd64}
			f.catalog(t, key, "1", catalogOf("a"))
			f.match(t, key, "1", answers{"a": {finding("CVE-1", model.SeverityHigh)}})
		}
		// It ends for the findings that have a fix.
		d := only(exception("d", model.DecisionAcceptedRisk, []string{"CVE-1"}, nil), "registry.example/team-0/*")
		d.Unfixed = true
		f.decide(t, d)
		next := f.prepare(t, newBuild, answers{"a": {finding("CVE-1", model.SeverityHigh, "2")}})
		switched := f.switchTo(t, next.Number)
		if want := (store.ChangeCounts{Opened: 1, Changed: 1, Images: 3}); switched.Changes != want {
			t.Errorf("got %+v, want %+v", switched.Changes, want)
		}
		var got []string
		for _, imageID := range []string{"", modelImageID(0), modelImageID(1)} {
			for _, c := range f.changes(t, store.ChangeQuery{ResultSet: next.Number, ImageID: imageID}).Changes {
				got = append(got, fmt.Sprint(c.Kind, c.Images, c.ImageIDs))
			}
		}
		of := func(numbers ...int) (ids []string) {
			for _, n := range numbers {
				ids = append(ids, modelImageID(n))
			}
			return ids
		}
		want := []string{
			fmt.Sprint(store.ChangeOpened, 2, of(0, 2)), fmt.Sprint(store.ChangeChanged, 1, of(1)), fmt.Sprint(store.ChangeOpened, 2, of(0, 2)), fmt.Sprint(store.ChangeChanged, 1, of(1)),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	},
	"A decision about images ends": func(t *testing.T, f *fixture) {
		f.clock.set(oldBuild.Built)
		for n := range 2 {
			key := model.ImageKey{ImageID: modelImageID(n), Platform: amd64}
			f.catalog(t, key, "1", catalogOf("a", "b"))
			f.match(t, key, "1", decided)
		}
		before := f.figures(t)
		d := only(exception("d", model.DecisionAcceptedRisk, nil, []string{"pkg:deb/*"}), "*@sha256:"+fmt.Sprintf("%064x", 1))
		d.ExpiresAt = oldBuild.Built.Add(time.Hour)
		f.decide(t, d)
		if f.image(t, model.ImageKey{ImageID: modelImageID(1), Platform: amd64}).Counts != (store.Counts{}) {
			t.Error("it does not apply")
		}
		f.clock.set(d.ExpiresAt)
		_, err := f.ExpireDecisions(t.Context())
		must(t, err)
		if diff := cmp.Diff(before, f.figures(t)); diff != "" {
			t.Error(diff)
		}
	},
}
