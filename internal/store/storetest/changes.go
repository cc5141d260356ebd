package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

func (f *fixture) changes(t *testing.T, query store.ChangeQuery) store.ChangePage {
	t.Helper()
	page, err := f.Changes(t.Context(), store.AllNamespaces(), query)
	if err != nil {
		t.Fatalf("Changes: %v", err)
	}
	return page
}

// changeNames lists "kind vulnerability package" of changes.
func changeNames(changes []store.Change) []string {
	names := []string{}
	for i := range changes {
		names = append(names, fmt.Sprintf("%s %s %s", changes[i].Kind, changes[i].VulnerabilityID, changes[i].Package.Name))
	}
	return names
}

// scored gives the vulnerability of a finding other scores.
func scored(f model.PackageFinding, epss float64, exploited bool) model.PackageFinding {
	f.Vulnerability.EPSS = &model.EPSS{CVE: f.Vulnerability.ID, Score: epss}
	f.Vulnerability.KEV = nil
	if exploited {
		f.Vulnerability.KEV = []model.KnownExploited{{CVE: f.Vulnerability.ID, DateAdded: "2026-01-01"}}
	}
	return f
}

// stage keeps scores for the vulnerabilities of these IDs.
func (f *fixture) stage(t *testing.T, resultSet int64, scores map[string]model.PackageFinding) {
	t.Helper()
	all, err := f.Vulnerabilities(t.Context(), 0, store.MaxKeys)
	must(t, err)
	for i := range all {
		if s, found := scores[all[i].Vulnerability.ID]; found {
			all[i].EPSS, all[i].KEV, all[i].CWEs, all[i].Risk = s.Vulnerability.EPSS, s.Vulnerability.KEV, s.Vulnerability.CWEs, s.Vulnerability.Risk
			all[i].Description = "must not be read"
		}
	}
	must(t, f.StageScores(t.Context(), resultSet, all))
}

var changeTests = map[string]func(*testing.T, *fixture){
	"Scores change with the switch": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.catalog(t, key, "1", catalogOf("p", "q"))
		one, two, three := scored(finding("CVE-1", model.SeverityLow), 0.05, false), scored(finding("CVE-2", model.SeverityHigh), 0.5, true),
			scored(finding("CVE-3", model.SeverityHigh), 0.2, false)
		f.match(t, key, "1", answers{"p": {one, two, three}, "q": {one}})
		next := f.start(t, newBuild).Number
		must(t, f.StartMatching(t.Context(), next))
		up, down, still := scored(one, 0.1, true), scored(two, 0.099999, false), scored(three, 0.9, false)
		up.Vulnerability.Risk, up.Vulnerability.CWEs = 77.5, []string{"CWE-1"}
		f.stage(t, next, map[string]model.PackageFinding{"CVE-1": scored(one, 0.7, false), "CVE-2": down})
		f.stage(t, next, map[string]model.PackageFinding{"CVE-1": up, "CVE-2": down, "CVE-3": still}) // The last word counts.
		gone := store.StoredVulnerability{ID: 99999, Vulnerability: up.Vulnerability}
		must(t, f.StageScores(t.Context(), next, []store.StoredVulnerability{gone}))
		if err := f.StageScores(t.Context(), next-1, nil); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("StageScores for the current result set: %v", err)
		}
		query := store.FindingQuery{Image: key, Sort: store.SortFindingPackage}
		if i := f.image(t, key); i.Counts.KEV != 1 || f.findings(t, query).Findings[0].Vulnerability.EPSS.Score != 0.05 {
			t.Errorf("before the switch: %+v", i.Counts)
		}
		switched := f.switchTo(t, next)
		if switched.Changes != (store.ChangeCounts{Changed: 3, Images: 1, NewKEV: 2}) {
			t.Errorf("got %+v", switched.Changes)
		}
		var got []model.PackageFinding
		for _, found := range f.findings(t, query).Findings {
			got = append(got, found.PackageFinding)
		}
		if diff := cmp.Diff([]model.PackageFinding{up, down, still, up}, got); diff != "" {
			t.Error(diff)
		}
		if i := f.image(t, key); i.Counts != (store.Counts{SeverityCounts: model.SeverityCounts{High: 2, Low: 2}, KEV: 2}) {
			t.Errorf("got %+v", i.Counts)
		}
		if got := names(f.findings(t, store.FindingQuery{Image: key, KEV: true})); !slices.Equal(got, []string{"CVE-1 p", "CVE-1 q"}) {
			t.Errorf("KEV: got %v", got)
		}
		changes := f.changes(t, store.ChangeQuery{}).Changes
		// CVE-2 is worse, but not known to be exploited any more; severity counts first.
		if got := changeNames(changes); !slices.Equal(got, []string{"changed CVE-2 p", "changed CVE-1 p", "changed CVE-1 q"}) {
			t.Fatalf("got %v", got)
		}
		want := store.Change{
			ID: changes[0].ID, ResultSet: next, Build: newBuild.ID, PreviousBuild: oldBuild.ID, At: switched.CurrentSince, Kind: store.ChangeChanged,
			Reasons: []store.ChangeReason{store.ReasonEPSS, store.ReasonKEV}, Package: pkg("p"), VulnerabilityID: "CVE-2", Namespace: "debian:distro:debian:12",
			Before: &store.ChangeSide{Severity: model.SeverityHigh, FixState: model.FixStateNotFixed, EPSS: 0.5, KEV: true},
			After:  &store.ChangeSide{Severity: model.SeverityHigh, FixState: model.FixStateNotFixed, EPSS: 0.099999},
			Images: 1, ImageIDs: []string{key.ImageID},
		}
		if diff := cmp.Diff(want, changes[0]); diff != "" {
			t.Error(diff)
		}
		// Nothing is left for the next switch.
		if again := f.rematch(t, thirdBuild, answers{"p": {one, two, three}, "q": {one}}); again.Changes != (store.ChangeCounts{}) {
			t.Errorf("got %+v", again.Changes)
		}
		if got := f.findings(t, query).Findings[0].Vulnerability.EPSS.Score; got != 0.1 {
			t.Errorf("the answer of a matcher replaced staged scores: %v", got)
		}
	},
	"A vulnerability that the next result set named first": func(t *testing.T, f *fixture) {
		key, late := image("a", amd64), image("late", amd64)
		f.catalog(t, key, "1", catalogOf("p"))
		f.match(t, key, "1", nil)
		now, then := scored(finding("CVE-1", model.SeverityLow), 0.01, false), scored(finding("CVE-1", model.SeverityLow), 0.9, true)
		next := f.prepare(t, newBuild, answers{"p": {then}}).Number
		f.catalog(t, late, "1", catalogOf("q"))
		f.match(t, late, "1", answers{"q": {now}})
		if got := f.findings(t, store.FindingQuery{Image: late}).Findings; len(got) != 1 || got[0].Vulnerability.EPSS.Score != 0.01 || f.image(t, late).Counts.KEV != 0 {
			t.Errorf("under the current result set: got %+v", got)
		}
		f.answerQueue(t, next, answers{"q": {then}})
		f.switchTo(t, next)
		for _, k := range []model.ImageKey{key, late} {
			if got := f.findings(t, store.FindingQuery{Image: k}).Findings; len(got) != 1 || got[0].Vulnerability.EPSS.Score != 0.9 || f.image(t, k).Counts.KEV != 1 {
				t.Errorf("after the switch: got %+v", got)
			}
		}
	},
	"Vulnerabilities": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.catalog(t, key, "1", catalogOf("p", "q"))
		var want []model.Vulnerability
		a := answers{}
		for i := range 5 {
			one := scored(finding(fmt.Sprintf("CVE-%d", i), model.SeverityLow), 0.1, i%2 == 0)
			one.Vulnerability.CVEs, one.Vulnerability.CWEs = []string{one.Vulnerability.ID}, []string{"CWE-1"}
			want, a["p"] = append(want, one.Vulnerability), append(a["p"], one)
		}
		a["q"] = a["p"][:1]
		f.match(t, key, "1", a)
		for _, limit := range []int{1, 2, 9} {
			var got []model.Vulnerability
			for after := int64(0); ; {
				page, err := f.Vulnerabilities(t.Context(), after, limit)
				must(t, err)
				if len(page) == 0 {
					break
				}
				for _, v := range page {
					if v.ID <= after {
						t.Errorf("%d comes behind %d", v.ID, after)
					}
					got, after = append(got, v.Vulnerability), v.ID
				}
			}
			slices.SortFunc(got, func(a, b model.Vulnerability) int { return strings.Compare(a.ID, b.ID) })
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("limit %d: %s", limit, diff)
			}
		}
	},
	"What counts as a change": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		before, after := answers{}, answers{}
		want := map[string][]store.ChangeReason{}
		text := finding("CVE-1", model.SeverityLow)
		text.Vulnerability.Description = "another text"
		details := finding("CVE-1", model.SeverityLow)
		details.Details[0].Matcher = "another matcher"
		wontFix := finding("CVE-1", model.SeverityLow)
		wontFix.Fix.State = model.FixStateWontFix
		namespace := finding("CVE-1", model.SeverityLow)
		namespace.Vulnerability.Namespace = "another"
		for name, c := range map[string]struct {
			before, after []model.PackageFinding
			reasons       []store.ChangeReason
		}{
			"description":        {[]model.PackageFinding{finding("CVE-1", model.SeverityLow)}, []model.PackageFinding{text}, nil},
			"details":            {[]model.PackageFinding{finding("CVE-1", model.SeverityLow)}, []model.PackageFinding{details}, nil},
			"order of fixes":     {[]model.PackageFinding{finding("CVE-1", model.SeverityLow, "1", "2")}, []model.PackageFinding{finding("CVE-1", model.SeverityLow, "2", "1")}, nil},
			"one of two goes":    {[]model.PackageFinding{finding("CVE-1", model.SeverityLow), text}, []model.PackageFinding{text}, nil},
			"severity":           {[]model.PackageFinding{finding("CVE-1", model.SeverityLow)}, []model.PackageFinding{finding("CVE-1", model.SeverityHigh)}, []store.ChangeReason{store.ReasonSeverity}},
			"fixed":              {[]model.PackageFinding{finding("CVE-1", model.SeverityLow)}, []model.PackageFinding{finding("CVE-1", model.SeverityLow, "2")}, []store.ChangeReason{store.ReasonFix}},
			"fixed in another":   {[]model.PackageFinding{finding("CVE-1", model.SeverityLow, "1")}, []model.PackageFinding{finding("CVE-1", model.SeverityLow, "2")}, []store.ChangeReason{store.ReasonFix}},
			"will not be fixed":  {[]model.PackageFinding{finding("CVE-1", model.SeverityLow)}, []model.PackageFinding{wontFix}, []store.ChangeReason{store.ReasonFix}},
			"severity and fixed": {[]model.PackageFinding{finding("CVE-1", model.SeverityLow)}, []model.PackageFinding{finding("CVE-1", model.SeverityHigh, "2")}, []store.ChangeReason{store.ReasonSeverity, store.ReasonFix}},
		} {
			before[name], after[name] = c.before, c.after
			if c.reasons != nil {
				want[name] = c.reasons
			}
		}
		before["namespace"], after["namespace"] = []model.PackageFinding{finding("CVE-1", model.SeverityLow)}, []model.PackageFinding{namespace}
		held := []string{"unmatched"}
		for name := range before {
			held = append(held, name)
		}
		f.catalog(t, key, "1", catalogOf(held...))
		f.match(t, key, "1", before)
		// What no image holds any more is no news.
		gone := image("gone", amd64)
		f.catalog(t, gone, "1", catalogOf("held by nobody"))
		f.match(t, gone, "1", nil)
		must(t, f.DeleteImage(t.Context(), store.AllNamespaces(), store.AllNamespaces(), gone.ImageID))
		after["held by nobody"] = []model.PackageFinding{finding("CVE-9", model.SeverityCritical)}
		switched := f.rematch(t, newBuild, after)
		if switched.Changes != (store.ChangeCounts{Opened: 1, Closed: 1, Changed: len(want), Images: 1}) {
			t.Errorf("got %+v", switched.Changes)
		}
		got := map[string][]store.ChangeReason{}
		for _, c := range f.changes(t, store.ChangeQuery{Kinds: []store.ChangeKind{store.ChangeChanged}}).Changes {
			got[c.Package.Name] = c.Reasons
			if c.Before == nil || c.After == nil {
				t.Errorf("%s lacks a side", c.Package.Name)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		opened := f.changes(t, store.ChangeQuery{Kinds: []store.ChangeKind{store.ChangeOpened}}).Changes
		closed := f.changes(t, store.ChangeQuery{Kinds: []store.ChangeKind{store.ChangeClosed}}).Changes
		if len(opened) != 1 || opened[0].Namespace != "another" || opened[0].Before != nil || opened[0].After.Severity != model.SeverityLow ||
			len(closed) != 1 || closed[0].After != nil || closed[0].Before == nil || closed[0].Package.Name != "namespace" {
			t.Errorf("got %+v, %+v", opened, closed)
		}
		// The data are replaced all the same.
		for _, found := range f.findings(t, store.FindingQuery{Image: key, Text: "description"}).Findings {
			if found.Vulnerability.Description != "another text" {
				t.Errorf("got %q", found.Vulnerability.Description)
			}
		}
		if got := f.image(t, key).Counts.Total(); got != 10 {
			t.Errorf("got %d findings", got)
		}
	},
	"Changes of images that are not visible": func(t *testing.T, f *fixture) {
		a, b := image("a", amd64), image("bb", amd64)
		for _, key := range []model.ImageKey{a, b} {
			f.catalog(t, key, "1", catalogOf("p"))
			f.match(t, key, "1", answers{"p": {finding("CVE-1", model.SeverityLow)}})
		}
		f.runIn(t, map[string][]model.ImageKey{"a": {a}, "b": {b}})
		f.rematch(t, newBuild, answers{"p": {finding("CVE-1", model.SeverityHigh)}})
		for _, c := range []struct {
			in    store.Namespaces
			query store.ChangeQuery
			want  int
		}{
			{store.OnlyNamespaces("a"), store.ChangeQuery{}, 1},
			{store.OnlyNamespaces("a"), store.ChangeQuery{ImageID: a.ImageID}, 1},
			{store.OnlyNamespaces("a"), store.ChangeQuery{ImageID: b.ImageID}, 0},
			{store.OnlyNamespaces("a"), store.ChangeQuery{Scope: "a/scanner"}, 1},
			{store.OnlyNamespaces("a"), store.ChangeQuery{Scope: "b/scanner"}, 0},
			{store.AllNamespaces(), store.ChangeQuery{ImageID: b.ImageID, Scope: "b/scanner"}, 1},
			{store.AllNamespaces(), store.ChangeQuery{ImageID: b.ImageID, Scope: "a/scanner"}, 1}, // Images in both that hold the package.
		} {
			if page, err := f.Changes(t.Context(), c.in, c.query); err != nil || page.Total != c.want || len(page.Changes) != c.want {
				t.Errorf("%+v: got %d of %d changes, %v, want %d", c.query, len(page.Changes), page.Total, err, c.want)
			}
		}
	},
	"Changes pages and filters": func(t *testing.T, f *fixture) {
		a, b := image("a", amd64), image("bb", amd64)
		excluding := catalogOf("p", "Q%")
		excluding.Packages[0].Excluded = true
		f.catalog(t, a, "1", catalogOf("p"))
		f.catalog(t, b, "1", excluding)
		first := answers{"p": {finding("CVE-1", model.SeverityLow), finding("CVE-2", model.SeverityLow)}, "Q%": {finding("CVE-1", model.SeverityHigh)}}
		f.match(t, a, "1", first)
		f.match(t, b, "1", first)
		must(t, f.RecordUses(t.Context(), "scope", []store.Use{{Image: b, Workload: store.Workload{Namespace: "n", Kind: "Deployment", Name: "d"}, Container: "c"}}))
		second := f.rematch(t, newBuild, answers{
			"p":  {finding("CVE-1", model.SeverityCritical), scored(finding("CVE-3", model.SeverityLow), 0, true)},
			"Q%": {scored(finding("CVE-1", model.SeverityHigh, "2"), 0, false), finding("CVE-4", model.SeverityHigh)},
		})
		third := f.rematch(t, thirdBuild, answers{"p": {finding("CVE-1", model.SeverityCritical), scored(finding("CVE-3", model.SeverityLow), 0, true)}})
		newest := []string{"closed CVE-1 Q%", "closed CVE-4 Q%"}
		older := []string{"changed CVE-1 p", "opened CVE-4 Q%", "changed CVE-1 Q%", "opened CVE-3 p", "closed CVE-2 p"}
		all := slices.Concat(newest, older)
		for size := 1; size <= 8; size++ {
			var got []string
			query := store.ChangeQuery{Page: store.Page{Size: size}}
			for {
				page := f.changes(t, query)
				if got = append(got, changeNames(page.Changes)...); page.Total != len(all) || len(page.Changes) > size {
					t.Errorf("size %d: %d changes, total %d", size, len(page.Changes), page.Total)
				}
				if query.Token = page.NextToken; query.Token == "" {
					break
				}
			}
			if !slices.Equal(got, all) {
				t.Errorf("size %d: got %q, want %q", size, got, all)
			}
		}
		for name, c := range map[string]struct {
			query store.ChangeQuery
			want  []string
		}{
			"build":          {store.ChangeQuery{Build: newBuild.ID}, older},
			"unknown build":  {store.ChangeQuery{Build: "x"}, []string{}},
			"result set":     {store.ChangeQuery{ResultSet: third.Number}, newest},
			"other build":    {store.ChangeQuery{ResultSet: second.Number, Build: thirdBuild.ID}, []string{}},
			"kinds":          {store.ChangeQuery{Kinds: []store.ChangeKind{store.ChangeOpened, store.ChangeClosed}, Build: newBuild.ID}, []string{older[1], older[3], older[4]}},
			"severity":       {store.ChangeQuery{MinSeverity: model.SeverityCritical}, older[:1]},
			"either side":    {store.ChangeQuery{MinSeverity: model.SeverityHigh}, all[:5]},
			"kev":            {store.ChangeQuery{KEV: true}, older[3:4]},
			"image":          {store.ChangeQuery{ImageID: a.ImageID}, []string{older[0], older[3], older[4]}},
			"excluded there": {store.ChangeQuery{ImageID: b.ImageID}, []string{newest[0], newest[1], older[1], older[2]}},
			"unknown image":  {store.ChangeQuery{ImageID: "x"}, []string{}},
			"scope":          {store.ChangeQuery{Scope: "scope", Build: newBuild.ID}, []string{older[1], older[2]}},
			"unknown scope":  {store.ChangeQuery{Scope: "x"}, []string{}},
			"ID":             {store.ChangeQuery{Text: "cve-3"}, older[3:4]},
			"package":        {store.ChangeQuery{Text: "q%"}, []string{newest[0], newest[1], older[1], older[2]}},
			"odd text":       {store.ChangeQuery{Text: "\x00"}, []string{}},
		} {
			page := f.changes(t, c.query)
			if got := changeNames(page.Changes); !slices.Equal(got, c.want) || page.Total != len(c.want) {
				t.Errorf("%s: got %q of %d, want %q", name, got, page.Total, c.want)
			}
		}
		if _, err := f.Changes(t.Context(), store.AllNamespaces(), store.ChangeQuery{Kinds: []store.ChangeKind{"gone"}}); err == nil {
			t.Error("an unknown kind is no error")
		}
		token := f.changes(t, store.ChangeQuery{Page: store.Page{Size: 1}}).NextToken
		for name, query := range map[string]store.ChangeQuery{
			"text": {Text: "x"}, "build": {Build: "x"}, "result set": {ResultSet: 1}, "kinds": {Kinds: []store.ChangeKind{store.ChangeOpened}},
			"severity": {MinSeverity: model.SeverityLow}, "kev": {KEV: true}, "image": {ImageID: "x"}, "scope": {Scope: "x"},
		} {
			query.Token = token
			if _, err := f.Changes(t.Context(), store.AllNamespaces(), query); !errors.Is(err, store.ErrInvalidToken) {
				t.Errorf("the token of a query without %s: %v", name, err)
			}
		}
		if _, err := f.Changes(t.Context(), store.AllNamespaces(), store.ChangeQuery{Page: store.Page{Token: "x"}}); !errors.Is(err, store.ErrInvalidToken) {
			t.Errorf("a bad token: %v", err)
		}
	},
	"RecordUses": func(t *testing.T, f *fixture) {
		a, b := image("a", amd64), image("bb", amd64)
		for _, key := range []model.ImageKey{a, b} {
			f.catalog(t, key, "1", catalogOf("p"))
			f.match(t, key, "1", nil)
		}
		f.rematch(t, newBuild, answers{"p": {finding("CVE-1", model.SeverityLow)}})
		use := func(key model.ImageKey, name, container string) store.Use {
			return store.Use{Image: key, Workload: store.Workload{Namespace: "n", Kind: "Deployment", Name: name}, Container: container}
		}
		runs := func(step string, want ...string) {
			t.Helper()
			change := f.changes(t, store.ChangeQuery{}).Changes[0]
			var got []string
			for _, w := range change.Workloads {
				if got = append(got, w.Name); w.Namespace != "n" || w.Kind != "Deployment" {
					t.Errorf("%s: got %+v", step, w)
				}
			}
			if !slices.Equal(got, want) || change.Images != 2 || !slices.Equal(change.ImageIDs, []string{a.ImageID, b.ImageID}) {
				t.Errorf("%s: got %v, %d images %v, want %v", step, got, change.Images, change.ImageIDs, want)
			}
		}
		record := func(scope string, uses ...store.Use) {
			t.Helper()
			last := f.last(t)
			must(t, f.RecordUses(t.Context(), scope, uses))
			expectKinds(t, f.kinds(t, last))
		}
		runs("at first")
		first := []store.Use{use(a, "one", "c"), use(a, "one", "d"), use(b, "two", "c"), use(a, "one", "c"), use(image("unknown", amd64), "x", "c"), use(image("a", arm64), "x", "c")}
		record("s1", first...)
		runs("two workloads", "one", "two")
		record("s2", use(b, "three", "c"), use(b, "two", "c"))
		runs("another scope", "one", "three", "two")
		must(t, f.AddUses(t.Context(), "s1", []store.Use{use(a, "one", "c"), use(b, "five", "c")}))
		must(t, f.AddUses(t.Context(), "s1", nil))
		runs("added", "five", "one", "three", "two")
		record("s1", use(a, "one", "d"), use(a, "four", "c"))
		runs("replaced", "four", "one", "three", "two")
		record("s2")
		runs("forgotten", "four", "one")
		for name, scope := range map[string]string{"no": "", "long": strings.Repeat("x", 300)} {
			if err := f.RecordUses(t.Context(), scope, first); err == nil {
				t.Errorf("%s scope: no error", name)
			}
		}
		if err := f.RecordUses(t.Context(), "s1", make([]store.Use, store.MaxUses+1)); err == nil {
			t.Error("too many uses are no error")
		}
		runs("refused", "four", "one")
		must(t, f.DeleteImage(t.Context(), store.AllNamespaces(), store.AllNamespaces(), a.ImageID))
		if got := f.changes(t, store.ChangeQuery{}).Changes[0]; len(got.Workloads) != 0 || got.Images != 1 {
			t.Errorf("after the image is gone: %+v", got)
		}
		var many []store.Use
		for i := range store.MaxReach + 5 {
			many = append(many, use(b, fmt.Sprintf("w%02d", i), "c"))
		}
		record("s3", many...)
		if got := f.changes(t, store.ChangeQuery{}).Changes[0].Workloads; len(got) != store.MaxReach || got[0].Name != "w00" {
			t.Errorf("got %v", got)
		}
	},
}
