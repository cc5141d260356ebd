package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// walk reads all pages of a list of images.
func (f *fixture) walk(t *testing.T, query store.ImageQuery) []store.Image {
	t.Helper()
	var all []store.Image
	for {
		page := f.list(t, query)
		all = append(all, page.Images...)
		if len(page.Images) > query.Limit() {
			t.Fatalf("a page has %d images, more than %d", len(page.Images), query.Limit())
		}
		if page.NextToken == "" {
			if page.Total != len(all) {
				t.Errorf("the total is %d, but there are %d images", page.Total, len(all))
			}
			return all
		}
		if len(page.Images) == 0 {
			t.Fatal("an empty page has a next one")
		}
		query.Token = page.NextToken
	}
}

func imageKeys(images []store.Image) []string {
	keys := make([]string, len(images))
	for i, image := range images {
		keys[i] = image.Key.ImageID + " " + image.Key.Platform.String()
	}
	return keys
}

var listTests = func() map[string]func(*testing.T, *fixture) {
	all := maps.Clone(imageListTests)
	maps.Copy(all, searchTests)
	return all
}()

var imageListTests = map[string]func(*testing.T, *fixture){
	"ListImages pages": func(t *testing.T, f *fixture) {
		if page := f.list(t, store.ImageQuery{}); len(page.Images) != 0 || page.Total != 0 || page.NextToken != "" {
			t.Errorf("empty: got %+v", page)
		}
		// Many ties: three severities for 24 images, each on two platforms.
		var all []string
		for n := range 12 {
			for _, platform := range []model.Platform{amd64, arm64} {
				key := image(strings.Repeat("x", n%4)+string(rune('A'+n)), platform)
				all = append(all, key.ImageID+" "+platform.String())
				f.catalog(t, key, "1", catalogOf("p"))
				f.match(t, key, "1", answers{"p": {finding("CVE-1", model.SeverityHigh)}})
			}
		}
		f.want(t, image("zz", amd64), image("zz", s390x))
		all = append(all, image("zz", amd64).ImageID+" linux/amd64", image("zz", s390x).ImageID+" linux/s390x")
		slices.Sort(all)
		for _, size := range []int{1, 2, 3, 7, 25, 26, 27, 1000} {
			if got := imageKeys(f.walk(t, store.ImageQuery{Page: store.Page{Size: size}})); !slices.Equal(got, all) {
				t.Errorf("by ID, size %d: got %v, want %v", size, got, all)
			}
			got := imageKeys(f.walk(t, store.ImageQuery{Sort: store.SortSeverity, Page: store.Page{Size: size}}))
			if !slices.Equal(got[24:], all[24:]) || !slices.Equal(got[:24], all[:24]) {
				t.Errorf("by severity, size %d: got %v, want %v", size, got, all)
			}
		}
	},
	"ListImages sorts by severity": func(t *testing.T, f *fixture) {
		counts := map[string]model.SeverityCounts{
			"a": {Critical: 1}, "b": {Critical: 1, High: 1}, "c": {High: 10, Medium: 1}, "d": {High: 10}, "e": {Low: 1}, "f": {Negligible: 9}, "g": {},
		}
		for name, c := range counts {
			if err := f.SaveReport(t.Context(), store.AllNamespaces(), name, store.Report{Content: []byte("{}"), Counts: store.Counts{SeverityCounts: c}}); err != nil {
				t.Fatal(err)
			}
		}
		for size := 1; size <= 8; size++ {
			var got []string
			for _, image := range f.walk(t, store.ImageQuery{Sort: store.SortSeverity, Page: store.Page{Size: size}}) {
				got = append(got, image.Key.ImageID)
			}
			if want := []string{"b", "a", "c", "d", "e", "f", "g"}; !slices.Equal(got, want) {
				t.Errorf("size %d: got %v, want %v", size, got, want)
			}
		}
		for severity, want := range map[model.Severity]int{
			model.SeverityUnknown: 7, model.SeverityNegligible: 6, model.SeverityLow: 5, model.SeverityMedium: 4, model.SeverityHigh: 4, model.SeverityCritical: 2,
		} {
			if got := f.list(t, store.ImageQuery{MinSeverity: severity}).Total; got != want {
				t.Errorf("%s or worse: got %d, want %d", severity, got, want)
			}
		}
	},
	"ListImages filters": func(t *testing.T, f *fixture) {
		ids := []string{"repo/a%b@sha256:1", "repo/a_b@sha256:2", `repo/a\b@sha256:3`, "repo/A!B@sha256:4", "repo/axb@sha256:5", "repo/a'b@sha256:6"}
		for _, id := range ids {
			f.want(t, model.ImageKey{ImageID: id, Platform: amd64})
		}
		for text, want := range map[string]int{
			"": 6, "repo": 6, "REPO": 6, "a%b": 1, "a_b": 1, `a\b`: 1, "a!b": 1, "%": 1, "_": 1, "'": 1, "axb@": 1, "nothing": 0,
			strings.Repeat("x", 5000): 0, "\xff": 0, "\x00": 0, "é": 0, "' OR 1=1 --": 0,
		} {
			if page := f.list(t, store.ImageQuery{Text: text}); page.Total != want || len(page.Images) != want {
				t.Errorf("text %.20q: got %d images and a total of %d, want %d", text, len(page.Images), page.Total, want)
			}
		}
		key := model.ImageKey{ImageID: ids[0], Platform: amd64}
		f.catalog(t, key, "1", catalogOf("p"))
		for want, states := range map[int][]store.State{
			0: {store.StateScanned}, 1: {store.StateCataloged}, 5: {store.StatePending}, 6: {store.StatePending, store.StateCataloged, store.StateFailed},
		} {
			if got := f.list(t, store.ImageQuery{States: states}).Total; got != want {
				t.Errorf("%v: got %d, want %d", states, got, want)
			}
		}
		if got := f.walk(t, store.ImageQuery{Text: "B@", States: []store.State{store.StatePending}, Page: store.Page{Size: 2}}); len(got) != 5 {
			t.Errorf("filtered pages: got %d images, want 5", len(got))
		}
		if _, err := f.ListImages(t.Context(), store.AllNamespaces(), store.ImageQuery{Sort: "size"}); err == nil {
			t.Error("an unknown order is no error")
		}
	},
	"Page tokens": func(t *testing.T, f *fixture) {
		f.want(t, image("a", amd64), image("b", amd64), image("c", amd64))
		key := image("d", amd64)
		f.catalog(t, key, "1", catalogOf("p"))
		f.match(t, key, "1", answers{
			"p": {finding("CVE-1", model.SeverityHigh), finding("CVE-2", model.SeverityHigh)},
		})
		one := store.Page{Size: 1}
		images := f.list(t, store.ImageQuery{Page: one}).NextToken
		bySeverity := f.list(t, store.ImageQuery{Sort: store.SortSeverity, Page: one}).NextToken
		findings := f.findings(t, store.FindingQuery{Image: key, Page: one}).NextToken
		forged, err := store.EncodeToken(struct{}{}, "x")
		if err != nil || images == "" || bySeverity == "" || findings == "" {
			t.Fatalf("no tokens: %v", err)
		}
		bad := []string{"x", "%", forged, findings + "A", findings[:len(findings)-2], strings.Repeat("A", store.MaxTokenLength+1), "\x00", "' OR 1=1 --"}
		for _, token := range append(bad, bySeverity, findings) {
			if _, err := f.ListImages(t.Context(), store.AllNamespaces(), store.ImageQuery{Page: store.Page{Token: token}}); !errors.Is(err, store.ErrInvalidToken) {
				t.Errorf("ListImages of %.30q: got %v", token, err)
			}
		}
		if _, err := f.ListImages(t.Context(), store.AllNamespaces(), store.ImageQuery{Text: "a", Page: store.Page{Token: images}}); !errors.Is(err, store.ErrInvalidToken) {
			t.Errorf("another text: got %v", err)
		}
		for _, token := range append(bad, images, bySeverity) {
			query := store.FindingQuery{Image: key, Page: store.Page{Token: token}}
			if _, err := f.Findings(t.Context(), store.AllNamespaces(), query); !errors.Is(err, store.ErrInvalidToken) {
				t.Errorf("Findings of %.30q: got %v", token, err)
			}
			query.Image = image("a", amd64)
			if _, err := f.Findings(t.Context(), store.AllNamespaces(), query); !errors.Is(err, store.ErrInvalidToken) {
				t.Errorf("Findings of an image without any, %.30q: got %v", token, err)
			}
		}
		// The size of the page may change on the way.
		if got := f.list(t, store.ImageQuery{Page: store.Page{Token: images, Size: 10}}); len(got.Images) != 3 || got.NextToken != "" {
			t.Errorf("got %d images", len(got.Images))
		}
	},
	"Paging goes on while rows come and go": func(t *testing.T, f *fixture) {
		for n := range 10 {
			f.want(t, model.ImageKey{ImageID: fmt.Sprintf("i%02d", 2*n), Platform: amd64})
		}
		page := f.list(t, store.ImageQuery{Page: store.Page{Size: 5}})
		f.want(t, model.ImageKey{ImageID: "i03", Platform: amd64}, model.ImageKey{ImageID: "i13", Platform: amd64})
		for _, gone := range []string{"i08", "i12"} {
			if err := f.DeleteImage(t.Context(), store.AllNamespaces(), store.AllNamespaces(), gone); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for _, image := range f.list(t, store.ImageQuery{Page: store.Page{Token: page.NextToken, Size: 10}}).Images {
			got = append(got, image.Key.ImageID)
		}
		if want := []string{"i10", "i13", "i14", "i16", "i18"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	},
	"Overview": func(t *testing.T, f *fixture) {
		empty, err := f.Overview(t.Context(), store.AllNamespaces())
		if err != nil || len(empty.Images) != 0 || empty.Packages != 0 {
			t.Errorf("empty: got %+v, %v", empty, err)
		}
		f.want(t, image("pending", amd64))
		for _, name := range []string{"a", "bb"} {
			f.catalog(t, image(name, amd64), "1", catalogOf("p", "q"))
			f.match(t, image(name, amd64), "1", answers{
				"p": {finding("CVE-1", model.SeverityCritical, "2.0")}, "q": {finding("CVE-1", model.SeverityCritical), finding("CVE-2", model.SeverityUnknown)},
			})
		}
		report := store.Counts{SeverityCounts: model.SeverityCounts{Medium: 7, Negligible: 2}, KEV: 3, Fixable: 4}
		if err := f.SaveReport(t.Context(), store.AllNamespaces(), "reported", store.Report{Content: []byte("{}"), Counts: report}); err != nil {
			t.Fatal(err)
		}
		web := store.Workload{Namespace: "a", Kind: "Deployment", Name: "web"}
		for _, scope := range []string{"one", "two"} {
			uses := []store.Use{{Image: image("a", amd64), Workload: web, Container: "c"}, {Image: image("pending", amd64), Workload: web, Container: "d"}}
			if err := f.RecordUses(t.Context(), scope, uses); err != nil {
				t.Fatal(err)
			}
		}
		got, err := f.Overview(t.Context(), store.AllNamespaces())
		want := store.Counts{SeverityCounts: model.SeverityCounts{Critical: 4, Unknown: 2, Medium: 7, Negligible: 2}, KEV: 3, Fixable: 6}
		running := store.Counts{SeverityCounts: model.SeverityCounts{Critical: 2, Unknown: 1}, Fixable: 1}
		if err != nil || got.Counts != want || got.RunningCounts != running || got.Packages != 2 || got.Running != 2 || len(got.Images) != 3 || got.Images[store.StateScanned] != 2 ||
			got.Images[store.StatePending] != 1 || got.Images[store.StateReported] != 1 {
			t.Errorf("got %+v, %v", got, err)
		}
		if elsewhere, err := f.Overview(t.Context(), store.OnlyNamespaces("b")); err != nil || elsewhere.RunningCounts != (store.Counts{}) {
			t.Errorf("of another namespace: %+v, %v", elsewhere, err)
		}
		f.selects(t, store.ImageQuery{Running: true}, image("a", amd64), image("pending", amd64))
		f.selects(t, store.ImageQuery{Platform: amd64.String(), States: []store.State{store.StateScanned}}, image("a", amd64), image("bb", amd64))
		f.selects(t, store.ImageQuery{Platform: arm64.String()})
	},
}
