package storetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// modelPolicy is a policy with what its expression says in Go.
type modelPolicy struct {
	store.Policy
	selects func(f *model.Finding, namespace, owner string) bool
	placed  bool
}

func modelPolicies() []modelPolicy {
	one, two, nine := 1, 2, 9
	all := func(*model.Finding, string, string) bool { return true }
	return []modelPolicy{
		{Policy: store.Policy{Name: "all", From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &two, High: &nine, KEV: &one}}, selects: all},
		{Policy: store.Policy{Name: "also", From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &two, High: &two, Medium: &nine}}, selects: all},
		{Policy: store.Policy{Name: "fixable", From: model.DueFromFixAvailable, DueIn: model.DueIn{Critical: &one, High: &one, Medium: &one, KEV: &two}}, selects: all},
		{
			Policy:  store.Policy{Name: "prod", Select: `workload.namespace == "prod" && finding.severity != "High"`, From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &one, Medium: &one}},
			selects: func(_ *model.Finding, namespace, _ string) bool { return namespace == "prod" }, placed: true,
		},
		{
			Policy:  store.Policy{Name: "red", Select: `workload.owner == "red" && finding.package.name == "a"`, From: model.DueFromFixAvailable, DueIn: model.DueIn{Critical: &one, High: &one, Medium: &one, KEV: &one}},
			selects: func(f *model.Finding, _, owner string) bool { return owner == "red" && f.Package.Name == "a" }, placed: true,
		},
		{
			Policy:  store.Policy{Name: "exploited", Select: `finding.kev`, From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &one, High: &one, Medium: &one, Low: &one}},
			selects: func(f *model.Finding, _, _ string) bool { return len(f.Vulnerability.KEV) > 0 },
		},
		{
			Policy:  store.Policy{Name: "team", From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &one, High: &one, Medium: &two}, Places: &store.DecisionPlaces{Selector: "team"}},
			selects: all,
		},
		{
			Policy: store.Policy{
				Name: "team-red", Select: `workload.owner == "red"`, From: model.DueFromFirstSeen, DueIn: model.DueIn{High: &one, Medium: &one}, Places: &store.DecisionPlaces{Selector: "team"},
			},
			selects: func(_ *model.Finding, _, owner string) bool { return owner == "red" },
		},
	}
}

// selectedPlaces are places that selectors may select in the model.
func (m *policyModel) selectedPlaces() *store.DecisionPlaces {
	places := &store.DecisionPlaces{Selector: "team"}
	for _, namespace := range []string{"dev", "prod"} {
		switch m.random.IntN(3) {
		case 0:
			places.Namespaces = append(places.Namespaces, namespace)
		case 1:
			i := m.random.IntN(len(m.images))
			places.Workloads = append(places.Workloads, deployment(namespace, fmt.Sprint("web", i)), deployment(namespace, "none"))
		}
	}
	return places
}

// selected reports whether the selectors of a policy select a workload.
func (p *modelPolicy) selected(w store.Workload) bool {
	return p.Places == nil || slices.Contains(p.Places.Namespaces, w.Namespace) || slices.Contains(p.Places.Workloads, deployment(w.Namespace, w.Name))
}

// policyModel computes deadlines from what lists show of findings, what runs where, and since when fixes are known.
type policyModel struct {
	*fixture
	t       *testing.T
	random  *rand.Rand
	queries *rand.Rand // What is asked for beside what happens.
	now     time.Time
	images  []model.ImageKey
	uses    map[int][]store.Use // By image.
	answers answers
	fixes   map[string]time.Time // By vulnerability and package.
	applied map[string]modelPolicy
	begun   map[string]time.Time
	told    map[string]bool // By image, vulnerability and package.
	builds  int
}

const (
	policySeeds = 4
	policySteps = 40
)

func randomDeadlines(t *testing.T, f *fixture, seed uint64) {
	t.Helper()
	m := &policyModel{
		fixture: f, t: t, random: rand.New(rand.NewPCG(seed, 16)), queries: rand.New(rand.NewPCG(seed, 18)), now: day, uses: map[int][]store.Use{}, fixes: map[string]time.Time{},
		applied: map[string]modelPolicy{}, begun: map[string]time.Time{}, told: map[string]bool{},
	}
	m.begin()
	for step := range policySteps {
		what := m.step()
		readers := []store.Namespaces{store.AllNamespaces(), store.OnlyNamespaces("dev"), store.OnlyNamespaces("dev", "prod"), store.OnlyNamespaces("none")}
		for _, in := range chosen(f, m.queries, step == policySteps-1, readers...) {
			m.check(in)
		}
		if t.Failed() {
			t.Fatalf("after step %d: %s", step, what)
		}
	}
}

func (m *policyModel) begin() {
	m.clock.set(m.now)
	m.answers = m.randomAnswers()
	m.noteFixes(answers{})
	for i, packages := range [][]string{{"a"}, {"a", "b"}, {"b", "c"}} {
		key := image(fmt.Sprint("image", i), amd64)
		m.images = append(m.images, key)
		catalog := catalogOf(packages...)
		for j := range catalog.Packages {
			if p := &catalog.Packages[j].Package; p.Name == "b" {
				p.Type = "npm" // It is updated, and the others come from a distribution.
			}
		}
		m.catalog(m.t, key, fmt.Sprint(i), catalog)
		m.match(m.t, key, fmt.Sprint(i), m.answers)
	}
}

func (m *policyModel) randomAnswers() answers {
	a := answers{}
	for _, name := range []string{"a", "b", "c"} {
		for i, severity := range []model.Severity{model.SeverityCritical, model.SeverityHigh, model.SeverityMedium} {
			if m.random.IntN(4) == 0 {
				continue
			}
			var fix []string
			if m.random.IntN(2) == 0 {
				fix = []string{fmt.Sprint(m.random.IntN(2))}
			}
			one := finding(fmt.Sprint("CVE-", i), severity, fix...)
			if i == 1 {
				one.Vulnerability.KEV = []model.KnownExploited{{CVE: "CVE-1", DateAdded: day.AddDate(0, 0, 3).Format(time.DateOnly)}}
			}
			a[name] = append(a[name], one)
		}
	}
	return a
}

// noteFixes notes since when fixes are known, before being what was found until now.
func (m *policyModel) noteFixes(before answers) {
	known := map[string]time.Time{}
	for name, findings := range m.answers {
		for i := range findings {
			f := &findings[i]
			key := f.Vulnerability.ID + name
			if f.Fix.State != model.FixStateFixed {
				continue
			}
			known[key] = m.now
			for j := range before[name] {
				if b := &before[name][j]; b.Vulnerability.ID == f.Vulnerability.ID && b.Fix.State == model.FixStateFixed {
					known[key] = m.fixes[key]
				}
			}
		}
	}
	m.fixes = known
}

func (m *policyModel) step() string {
	switch m.random.IntN(7) {
	case 0, 1:
		m.now = m.now.Add(time.Duration(m.random.IntN(4*24)) * time.Hour)
		m.clock.set(m.now)
		return "time"
	case 2:
		i := m.random.IntN(len(m.images))
		m.uses[i] = nil
		for _, namespace := range []string{"dev", "prod"} {
			if m.random.IntN(3) > 0 {
				m.uses[i] = append(m.uses[i], ownedUse(m.images[i], namespace, fmt.Sprint("web", i), []string{"", "red", "blue"}[m.random.IntN(3)]))
			}
		}
		must(m.t, m.RecordUses(m.t.Context(), fmt.Sprint("scope", i), m.uses[i]))
		return fmt.Sprintf("uses of %d: %+v", i, m.uses[i])
	case 3:
		before := m.answers
		m.answers = m.randomAnswers()
		m.builds++
		build := newBuild
		build.ID = fmt.Sprint("xxh64:", 100+m.builds)
		m.rematch(m.t, build, m.answers)
		m.noteFixes(before)
		return "switch"
	case 4:
		var wanted []store.Policy
		for _, p := range modelPolicies() {
			_, applied := m.applied[p.Name]
			if keep := m.random.IntN(3) > 0; keep && !applied {
				m.applied[p.Name], m.begun[p.Name] = p, m.now
			} else if !keep {
				delete(m.applied, p.Name)
			}
		}
		places := m.selectedPlaces()
		for name, p := range m.applied {
			if p.Places != nil {
				p.Places = places
				m.applied[name] = p
			}
			wanted = append(wanted, p.Policy)
		}
		if problems := m.due(m.t, wanted...); len(problems) > 0 {
			m.t.Errorf("problems: %v", problems)
		}
		return fmt.Sprintf("%d policies in %+v", len(wanted), places)
	case 5:
		if m.random.IntN(2) == 0 {
			m.decide(m.t)
			return "no decision"
		}
		// In all images, or in one.
		one := exception("d", model.DecisionAcceptedRisk, []string{fmt.Sprint("CVE-", m.random.IntN(3))}, nil)
		if i := m.random.IntN(len(m.images) + 1); i < len(m.images) {
			one.Images = []string{strings.SplitN(m.images[i].ImageID, "@", 2)[0]}
		}
		m.decide(m.t, one)
		return fmt.Sprintf("decide %+v", one)
	default:
		m.checkEvents()
		return "events"
	}
}

// deadline is when a finding of an image is due in places.
func (m *policyModel) deadline(f *model.Finding, uses []store.Use) *model.Deadline {
	var best *model.Deadline
	if f.Suppressed || len(uses) == 0 {
		return nil
	}
	for name, p := range m.applied {
		if name == "prod" && f.Vulnerability.Severity == model.SeverityHigh {
			continue
		}
		if !slices.ContainsFunc(uses, func(u store.Use) bool {
			return p.selected(u.Workload) && p.selects(f, u.Workload.Namespace, u.Workload.Owner)
		}) {
			continue
		}
		from := f.FirstSeen
		if p.From == model.DueFromFixAvailable {
			fix, known := m.fixes[f.Vulnerability.ID+f.Package.Name]
			if !known {
				continue
			}
			from = later(from, fix)
		}
		add := func(days *int, from time.Time) {
			if days == nil {
				return
			}
			at := from.AddDate(0, 0, *days)
			if best == nil || cmp.Or(at.Compare(best.At), strings.Compare(name, best.Policy)) < 0 {
				best = &model.Deadline{At: at, Policy: name, Overdue: !at.After(m.now)}
			}
		}
		add(p.DueIn.Days(f.Vulnerability.Severity), from)
		if len(f.Vulnerability.KEV) > 0 {
			add(p.DueIn.KEV, later(from, day.AddDate(0, 0, 3).Truncate(24*time.Hour)))
		}
	}
	return best
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (m *policyModel) visibleUses(i int, in store.Namespaces) []store.Use {
	return slices.DeleteFunc(slices.Clone(m.uses[i]), func(u store.Use) bool { return !in.All() && !in.Contains(u.Workload.Namespace) })
}

// check compares all that is read with the model.
func (m *policyModel) check(in store.Namespaces) {
	m.t.Helper()
	sums := map[string]*store.PolicySummary{}
	for name, p := range m.applied {
		if p.Places != nil {
			p.Places = &store.DecisionPlaces{Selector: p.Places.Selector}
		}
		if !in.All() {
			p.Select, p.Places = "", nil
		}
		sums[name] = &store.PolicySummary{Policy: p.Policy}
	}
	var overdueImages []string
	dates, vulnerabilities := map[[3]string]*model.Deadline{}, map[string]bool{}
	found := map[int][]model.Finding{}
	for i, key := range m.images {
		shown, err := m.Image(m.t.Context(), in, key)
		if err != nil {
			continue // It is not visible.
		}
		page, err := m.Findings(m.t.Context(), in, store.FindingQuery{Image: key, Sort: store.SortFindingDue, Page: store.Page{Size: store.MaxPageSize}})
		must(m.t, err)
		found[i] = page.Findings
		uses, overdue := m.visibleUses(i, in), 0
		var last time.Time
		for j := range page.Findings {
			f := &page.Findings[j]
			want := m.deadline(f, uses)
			if diff := gocmp.Diff(want, f.Deadline); diff != "" {
				m.t.Errorf("%s %s in %s, seen by %v (-want +got):\n%s", f.Vulnerability.ID, f.Package.Name, key.ImageID, in, diff)
			}
			dates[[3]string{key.ImageID, f.Vulnerability.ID, f.Package.Name}] = want
			vulnerabilities[f.Vulnerability.ID] = true
			at := time.Unix(1<<40, 0)
			if want != nil {
				at = want.At
				s := sums[want.Policy]
				s.Due.Add(f.Vulnerability.Severity)
				if want.Overdue {
					overdue++
					s.Overdue.Add(f.Vulnerability.Severity)
				} else if s.Next.IsZero() || at.Before(s.Next) {
					s.Next = at
				}
			}
			if at.Before(last) {
				m.t.Errorf("%s: finding %d is due at %s, after one that is due at %s", key.ImageID, j, at, last)
			}
			last = at
		}
		if overdue > 0 {
			overdueImages = append(overdueImages, key.ImageID)
		}
		only, err := m.Findings(m.t.Context(), in, store.FindingQuery{Image: key, Overdue: true})
		must(m.t, err)
		soon, err := m.Findings(m.t.Context(), in, store.FindingQuery{Image: key, DueBefore: m.now.Add(time.Microsecond)})
		must(m.t, err)
		if shown.Overdue != overdue || only.Total != overdue || soon.Total != overdue {
			m.t.Errorf("%s: %d overdue findings, %d listed, %d due before now; want %d", key.ImageID, shown.Overdue, only.Total, soon.Total, overdue)
		}
		m.checkWorkloads(in, i, uses, page.Findings)
	}
	for id := range vulnerabilities {
		page, err := m.Affected(m.t.Context(), in, store.AffectedQuery{ID: id, Page: store.Page{Size: store.MaxPageSize}})
		must(m.t, err)
		for _, a := range page.Affected {
			at := [3]string{a.Image.ImageID, a.VulnerabilityID, a.Package.Name}
			if diff := gocmp.Diff(dates[at], a.Deadline); diff != "" {
				m.t.Errorf("affected: %v, seen by %v (-want +got):\n%s", at, in, diff)
			}
			delete(dates, at)
		}
	}
	if len(dates) > 0 {
		m.t.Errorf("not among the affected packages, seen by %v: %v", in, dates)
	}
	listed, err := m.ListImages(m.t.Context(), in, store.ImageQuery{Overdue: true})
	must(m.t, err)
	var got []string
	for i := range listed.Images {
		got = append(got, listed.Images[i].Key.ImageID)
	}
	expectTexts(m.t, fmt.Sprintf("images with overdue findings, seen by %v", in), got, overdueImages...)
	m.checkFixes(in, found)
	m.checkGroups(in, found)
	m.checkDueLists(in, found)
	m.checkSummary(in, found)
	policies, err := m.ListPolicies(m.t.Context(), in)
	must(m.t, err)
	var want []store.PolicySummary
	for _, s := range sums {
		want = append(want, *s)
	}
	slices.SortFunc(want, func(a, b store.PolicySummary) int { return strings.Compare(a.Name, b.Name) })
	if diff := gocmp.Diff(want, policies); diff != "" && len(want)+len(policies) > 0 {
		m.t.Errorf("policies, seen by %v (-want +got):\n%s", in, diff)
	}
}

// overdueFix names what to do about a finding.
func overdueFix(key model.ImageKey, f *model.Finding) string {
	switch {
	case f.Fix.State != model.FixStateFixed:
		return key.ImageID + " wait"
	case f.Package.Type == "deb":
		return key.ImageID + " rebuild"
	default:
		return key.ImageID + " update " + f.Package.Name
	}
}

// checkWorkloads compares the numbers of the workloads of an image; each runs one image.
func (m *policyModel) checkWorkloads(in store.Namespaces, i int, uses []store.Use, findings []model.Finding) {
	for _, use := range uses {
		want := 0
		for j := range findings {
			if d := m.deadline(&findings[j], []store.Use{use}); d != nil && d.Overdue {
				want++
			}
		}
		where := store.Where{Namespace: use.Workload.Namespace, Workload: use.Workload.Name}
		page, err := m.ListWorkloads(m.t.Context(), in, store.WorkloadQuery{Where: where})
		must(m.t, err)
		only, err := m.ListWorkloads(m.t.Context(), in, store.WorkloadQuery{Where: where, Overdue: true})
		must(m.t, err)
		if len(page.Workloads) != 1 || page.Workloads[0].Overdue != want || (only.Total > 0) != (want > 0) {
			m.t.Errorf("workload %+v of image %d: %+v, %d listed; want %d overdue findings", use.Workload, i, page.Workloads, only.Total, want)
		}
	}
}
