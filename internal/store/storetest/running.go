package storetest

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	runningSeeds = 4
	runningSteps = 30
)

// runningModel counts the findings of what runs one by one.
type runningModel struct {
	*fixture
	t         *testing.T
	random    *rand.Rand
	images    []*modelRunning
	answers   answers
	uses      map[string][]store.Use // By scope.
	decisions *modelDecisions
	now       time.Time
	builds    int
}

// modelRunning is an image of a runningModel with the packages that it holds.
type modelRunning struct {
	key      model.ImageKey
	packages []string
	matched  bool
}

func randomUses(t *testing.T, f *fixture, seed uint64) {
	t.Helper()
	m := &runningModel{
		fixture: f, t: t, random: rand.New(rand.NewPCG(seed, 17)), uses: map[string][]store.Use{}, now: day,
	}
	queries := rand.New(rand.NewPCG(seed, 19)) // What is asked for beside what happens.
	m.decisions = newModelDecisions(m.random, []string{"CVE-0", "CVE-1", "CVE-2"}, []string{"pkg:deb/debian/a", "pkg:deb/debian/b@1.0", "pkg:deb/*"})
	m.decisions.namespaces = []string{"prod", "dev", "other"}
	m.begin()
	for step := range runningSteps {
		what := m.step()
		for _, limit := range chosen(f, queries, step == runningSteps-1, 0, 1, 2, 100) {
			m.check(limit)
		}
		if t.Failed() {
			t.Fatalf("after step %d: %s", step, what)
		}
	}
}

func (m *runningModel) begin() {
	m.clock.set(m.now)
	m.answers = m.randomAnswers()
	for i := range 4 {
		one := &modelRunning{key: model.ImageKey{ImageID: modelImageID(i), Platform: amd64}, matched: i < 3}
		for _, name := range []string{"a", "b", "c"} {
			if m.random.IntN(3) > 0 {
				one.packages = append(one.packages, name)
			}
		}
		m.images = append(m.images, one)
		m.catalog(m.t, one.key, fmt.Sprint(i), catalogOf(one.packages...))
		if one.matched {
			m.match(m.t, one.key, fmt.Sprint(i), m.answers)
		}
	}
}

// randomAnswers is what a vulnerability database says of the packages.
func (m *runningModel) randomAnswers() answers {
	a := answers{}
	for _, name := range []string{"a", "b", "c"} {
		for i := range 4 {
			if m.random.IntN(4) == 0 {
				continue
			}
			var fix []string
			if m.random.IntN(2) == 0 {
				fix = []string{"2"}
			}
			severity := model.SeverityCritical
			if m.random.IntN(2) == 0 {
				severity = model.Severities()[m.random.IntN(6)]
			}
			a[name] = append(a[name], scored(finding(fmt.Sprint("CVE-", i), severity, fix...), 0.5, i == 1))
		}
	}
	return a
}

func (m *runningModel) step() string {
	switch m.random.IntN(4) {
	case 0:
		m.now = m.now.Add(time.Minute)
		m.clock.set(m.now)
		m.decisions.expire(m.t, m.fixture)
		m.answers = m.randomAnswers()
		m.builds++
		build := newBuild
		build.ID = fmt.Sprint("xxh64:", 100+m.builds)
		m.rematch(m.t, build, m.answers)
		return "switch"
	case 1:
		what := m.decisions.change(m.now)
		m.decisions.sync(m.t, m.fixture)
		return what
	default:
		scope := fmt.Sprint("scope-", m.random.IntN(2))
		var uses []store.Use
		owners := map[string]string{}
		for _, namespace := range m.decisions.namespaces {
			for _, name := range []string{"web", "db"} {
				// Another scope has the same workloads, with the same owners.
				owners[namespace+name] = []string{"", "red", "blue", "green", "other"}[(m.builds+len(namespace)*3+len(name))%5]
			}
		}
		for _, one := range m.images {
			for _, namespace := range m.decisions.namespaces {
				for _, name := range []string{"web", "db"} {
					if m.random.IntN(3) == 0 {
						uses = append(uses, ownedUse(one.key, namespace, name, owners[namespace+name]))
					}
				}
			}
		}
		must(m.t, m.RecordUses(m.t.Context(), scope, uses))
		m.uses[scope] = uses
		return fmt.Sprintf("%s uses %+v", scope, uses)
	}
}

// running returns the workloads that run each image. Each has the owner that was recorded last.
func (m *runningModel) running() map[int]map[store.Workload]bool {
	owners := map[store.Workload]string{}
	page, err := m.ListWorkloads(m.t.Context(), store.AllNamespaces(), store.WorkloadQuery{})
	must(m.t, err)
	for i := range page.Workloads {
		owners[unowned(page.Workloads[i].Workload)] = page.Workloads[i].Workload.Owner
	}
	running := map[int]map[store.Workload]bool{}
	for _, uses := range m.uses {
		for _, use := range uses {
			i := slices.IndexFunc(m.images, func(one *modelRunning) bool { return one.key == use.Image })
			if running[i] == nil {
				running[i] = map[store.Workload]bool{}
			}
			w := unowned(use.Workload)
			w.Owner = owners[w]
			running[i][w] = true
		}
	}
	return running
}

// suppresses says whether a decision suppresses a finding of an image in a workload.
func (m *runningModel) suppresses(image *modelRunning, w store.Workload, name string, f *model.PackageFinding) bool {
	p := pkg(name)
	for decision, one := range m.decisions.wanted {
		if _, over := m.decisions.over[decision]; over || one.DryRun || one.Status == model.DecisionUnderInvestigation {
			continue
		}
		there := one.Places == nil || slices.Contains(one.Places.Namespaces, w.Namespace) || slices.Contains(one.Places.Workloads, unowned(w))
		if there && applies(&one, &p, f) && reaches(&one, image.key.ImageID) {
			return true
		}
	}
	return false
}

// groups counts by group, each image once, what at least one workload of the group does not suppress.
func (m *runningModel) groups(group func(store.Workload) string) map[string]store.RunningCounts {
	sums := map[string]store.RunningCounts{}
	for i, workloads := range m.running() {
		image := m.images[i]
		byGroup := map[string][]store.Workload{}
		for w := range workloads {
			byGroup[group(w)] = append(byGroup[group(w)], w)
		}
		for name, members := range byGroup {
			sum := sums[name]
			for _, holds := range image.packages {
				for j := range m.answers[holds] {
					f := &m.answers[holds][j]
					open := slices.ContainsFunc(members, func(w store.Workload) bool { return !m.suppresses(image, w, holds, f) })
					if !image.matched || !open {
						continue
					}
					add(&sum.Counts, f)
					if f.Vulnerability.Severity == model.SeverityCritical && f.Fix.State == model.FixStateFixed {
						sum.CriticalFixable++
					}
				}
			}
			sums[name] = sum
		}
	}
	return sums
}

func plus(a, b store.RunningCounts) store.RunningCounts {
	a.SeverityCounts = a.SeverityCounts.Plus(b.SeverityCounts)
	a.KEV, a.Fixable, a.CriticalFixable = a.KEV+b.KEV, a.Fixable+b.Fixable, a.CriticalFixable+b.CriticalFixable
	return a
}

// check compares the counts, of which limit are named, with the model.
func (m *runningModel) check(limit int) {
	m.t.Helper()
	byNamespace, err := m.FindingsByNamespace(m.t.Context(), limit)
	must(m.t, err)
	want := m.groups(func(w store.Workload) string { return w.Namespace })
	worst := slices.SortedFunc(maps.Keys(want), func(a, b string) int {
		x, y := want[a], want[b]
		return cmp.Or(cmp.Compare(y.KEV, x.KEV), compareWorst(x.Counts, y.Counts), cmp.Compare(y.Negligible, x.Negligible), cmp.Compare(y.Unknown, x.Unknown), cmp.Compare(a, b))
	})
	if diff := gocmp.Diff(bounded(want, worst[:min(limit, len(worst))]), byNamespace); diff != "" {
		m.t.Errorf("by namespace, %d named (-want +got):\n%s", limit, diff)
	}

	byOwner, err := m.FindingsByOwner(m.t.Context(), limit)
	must(m.t, err)
	want = m.groups(func(w store.Workload) string { return w.Owner })
	names := slices.Collect(maps.Keys(byOwner)) // Which ones is shown by another test.
	if beside := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "" || name == store.Other }); len(beside) > limit {
		m.t.Errorf("%d owners are named, at most %d may be", len(beside), limit)
	}
	if _, found := want[""]; found {
		names = append(names, "")
	}
	if diff := gocmp.Diff(bounded(want, names), byOwner); diff != "" {
		m.t.Errorf("by owner, %d named (-want +got):\n%s", limit, diff)
	}
}

// bounded adds up what is not named.
func bounded(counts map[string]store.RunningCounts, names []string) map[string]store.RunningCounts {
	sums := map[string]store.RunningCounts{}
	for name, sum := range counts {
		if !slices.Contains(names, name) {
			name = store.Other
		}
		sums[name] = plus(sums[name], sum)
	}
	return sums
}

var runningTests = map[string]func(*testing.T, *fixture){
	"The database has a size": func(t *testing.T, f *fixture) {
		size, err := f.DatabaseSize(t.Context())
		must(t, err)
		if size < 10_000 {
			t.Errorf("the tables have %d bytes", size)
		}
	},
}
