package storetest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Bounds of the random histories: few of everything, so that all meets.
const (
	modelImages   = 5
	modelPackages = 6
	modelCVEs     = 4
)

// Sizes of the random tests.
const (
	modelHistories   = 8
	modelSteps       = 100
	searchSeeds      = 4
	searchSteps      = 8
	rolloutHistories = 3
	restoreSeeds     = 2
	rolloutSteps     = 120
	visibleSteps     = 40
)

// world is what a made-up database says. It stands for a result set.
type world struct {
	says   map[string][]model.PackageFinding
	epss   map[string]float64
	kev    map[string]bool
	broken map[string]bool
}

// modelImage is what a store should know of an image.
type modelImage struct {
	held map[string]bool // The value says whether it is excluded.
	// digest is the number of its SBOM; scanned says that it was matched since then, shown that its findings are visible.
	digest         string
	scanned, shown bool
	firstSeen      time.Time
}

// storeModel is a store in plain maps.
type storeModel struct {
	*fixture
	t       *testing.T
	random  *rand.Rand
	queries *rand.Rand // What is asked for beside what happens.
	worlds  map[int64]*world
	images  map[model.ImageKey]*modelImage
	// answers and failures are visible; nextAnswers and nextFailures were given to the next result set.
	answers, nextAnswers   map[string][]model.PackageFinding
	failures, nextFailures map[string]bool
	// opened is since when a vulnerability is found in a package, by package and ID.
	opened        map[string]map[string]time.Time
	current, next int64
	// names are the packages by their number in the store.
	names     map[int64]string
	uploads   int
	decisions *modelDecisions
}

func randomHistory(t *testing.T, f *fixture, seed uint64) {
	t.Helper()
	m := &storeModel{
		fixture: f, t: t, random: rand.New(rand.NewPCG(seed, 1)), queries: rand.New(rand.NewPCG(seed, 20)), worlds: map[int64]*world{}, images: map[model.ImageKey]*modelImage{},
		answers: map[string][]model.PackageFinding{}, failures: map[string]bool{}, names: map[int64]string{},
		opened: map[string]map[string]time.Time{},
	}
	m.decisions = newModelDecisions(m.random, []string{"CVE-0", "cve-1", "GHSA-CVE-1", "ghsa-cve-2", "CVE-3", "CVE-9"}, []string{
		"pkg:deb/debian/p0", "pkg:deb/debian/p1@1.0-p1", "pkg:deb/debian/p2@1.0-p1", "pkg:deb/debian/*", "pkg:deb/debian/p*", "pkg:deb/*", "pkg:npm/*",
	})
	f.clock.set(oldBuild.Built)
	m.run()
}

func (m *storeModel) run() {
	m.current = m.fixture.start(m.t, oldBuild).Number
	m.worlds[m.current] = m.newWorld(nil)
	for step := range modelSteps {
		m.clock.set(m.clock.Now().Add(time.Minute))
		var name string
		switch n := m.random.IntN(25); {
		case n < 4:
			name = m.upload()
		case n < 5:
			name = m.remove()
		case n < 10:
			name = m.matchWaiting()
		case n < 12:
			name = m.startNext()
		case n < 15:
			name = m.answerSome(3)
		case n < 18:
			name = m.switchOver()
		case n < 19:
			name = m.replaceCatalog()
		case n < 23:
			m.decisions.expire(m.t, m.fixture)
			name = m.decisions.change(m.clock.Now())
			compare := m.decisions.preview(m.t, m.fixture)
			m.decisions.sync(m.t, m.fixture)
			compare()
		case n < 24:
			name = m.expire()
		default:
			name = m.prune()
		}
		if m.check(step == modelSteps-1); m.t.Failed() {
			m.t.Fatalf("after step %d: %s", step, name)
		}
	}
}

// newWorld differs from the one before in some packages, and in every score.
func (m *storeModel) newWorld(before *world) *world {
	w := &world{says: map[string][]model.PackageFinding{}, epss: map[string]float64{}, kev: map[string]bool{}, broken: map[string]bool{}}
	for i := range modelCVEs {
		id := fmt.Sprintf("CVE-%d", i)
		w.epss[id], w.kev[id] = []float64{0, 0.05, 0.1, 0.7}[m.random.IntN(4)], m.random.IntN(3) == 0
	}
	for i := range modelPackages {
		name := fmt.Sprintf("p%d", i)
		if before != nil && m.random.IntN(2) == 0 {
			w.says[name] = before.says[name]
			continue
		}
		w.broken[name] = m.random.IntN(8) == 0
		for range m.random.IntN(4) {
			one := finding(fmt.Sprintf("CVE-%d", m.random.IntN(modelCVEs)), model.Severities()[m.random.IntN(3)*2])
			if m.random.IntN(2) == 0 {
				one.Fix = model.Fix{State: model.FixStateFixed, Versions: []string{fmt.Sprint(m.random.IntN(2))}}
			}
			if m.random.IntN(3) == 0 {
				one.Vulnerability.Description = "another text"
			}
			w.says[name] = append(w.says[name], one)
		}
	}
	return w
}

// scored is a finding with the scores that the world gives it.
func (w *world) scored(one model.PackageFinding) model.PackageFinding {
	return scored(one, w.epss[one.Vulnerability.ID], w.kev[one.Vulnerability.ID])
}

func (w *world) answer(name string) model.PackageAnswer {
	if w.broken[name] {
		return failed
	}
	var findings []model.PackageFinding
	for _, one := range w.says[name] {
		findings = append(findings, w.scored(one))
	}
	return answerOf(findings...)
}

func (m *storeModel) anyKey() model.ImageKey {
	return model.ImageKey{ImageID: modelImageID(m.random.IntN(modelImages)), Platform: amd64}
}

func (m *storeModel) randomCatalog() (model.Catalog, map[string]bool) {
	held := map[string]bool{}
	for i := range modelPackages {
		if m.random.IntN(2) == 0 {
			held[fmt.Sprintf("p%d", i)] = m.random.IntN(4) == 0
		}
	}
	catalog := catalogOf(slices.Sorted(maps.Keys(held))...)
	for i := range catalog.Packages {
		catalog.Packages[i].Excluded = held[catalog.Packages[i].Package.Name]
	}
	return catalog, held
}

func (m *storeModel) upload() string {
	key := m.anyKey()
	catalog, held := m.randomCatalog()
	image := m.images[key]
	if image != nil && m.random.IntN(3) == 0 { // The same packages again.
		held, catalog = image.held, catalogOf(slices.Sorted(maps.Keys(image.held))...)
		for i := range catalog.Packages {
			catalog.Packages[i].Excluded = held[catalog.Packages[i].Package.Name]
		}
	}
	m.uploads++
	digest := fmt.Sprint(m.uploads)
	m.catalog(m.t, key, digest, catalog)
	next := &modelImage{held: held, digest: digest, firstSeen: m.clock.Now()}
	if image != nil {
		next.shown, next.firstSeen = image.shown && maps.Equal(image.held, held), image.firstSeen
	}
	m.images[key] = next
	return "upload " + key.ImageID
}

func (m *storeModel) remove() string {
	key := m.anyKey()
	err := m.Store.DeleteImage(m.t.Context(), store.AllNamespaces(), store.AllNamespaces(), key.ImageID)
	if m.images[key] == nil != errors.Is(err, store.ErrNotFound) {
		m.t.Errorf("DeleteImage: %v", err)
	}
	delete(m.images, key)
	return "remove " + key.ImageID
}

// matchWaiting answers for what waiting images lack, as matching does.
func (m *storeModel) matchWaiting() string {
	for _, key := range m.waiting(m.t) {
		digest, packages, err := m.UnansweredPackages(m.t.Context(), key)
		must(m.t, err)
		saved := map[int64]model.PackageAnswer{}
		for _, p := range packages {
			answer := m.worlds[m.current].answer(p.Name)
			saved[p.ID], m.names[p.ID] = answer, p.Name
			m.show(p.Name, answer.Findings)
			m.failures[p.Name] = answer.Failure != ""
		}
		must(m.t, m.SaveAnswers(m.t.Context(), m.current, saved))
		must(m.t, m.FinishImage(m.t.Context(), key, digest))
		image := m.images[key]
		if image.scanned = !m.failing(image); image.scanned {
			image.shown = true
		}
	}
	return "match what waits"
}

// show makes findings of a package visible. Those that were visible before stay open since then.
func (m *storeModel) show(name string, findings []model.PackageFinding) {
	opened := map[string]time.Time{}
	for i := range findings {
		id := findings[i].Vulnerability.ID
		if since, was := m.opened[name][id]; was {
			opened[id] = since
		} else {
			opened[id] = m.clock.Now()
		}
	}
	m.answers[name], m.opened[name] = findings, opened
}

func (m *storeModel) failing(image *modelImage) bool {
	for name, excluded := range image.held {
		if !excluded && m.failures[name] {
			return true
		}
	}
	return false
}

func (m *storeModel) startNext() string {
	full := m.random.IntN(2) == 0
	build := model.DatabaseBuild{ID: fmt.Sprint("build-", m.random.IntN(3))}
	started, err := m.StartResultSet(m.t.Context(), build, "engine", full)
	must(m.t, err)
	m.next = started.Number
	w := m.newWorld(m.worlds[m.current])
	m.worlds[m.next] = w
	m.nextAnswers, m.nextFailures = map[string][]model.PackageFinding{}, map[string]bool{}
	before := m.worlds[m.current]
	for _, p := range m.fixture.answered(m.t) {
		name := m.names[p.ID]
		same := cmp.Equal(before.says[name], w.says[name]) && before.broken[name] == w.broken[name]
		if full || p.Failed || !same || m.random.IntN(4) == 0 {
			must(m.t, m.QueuePackages(m.t.Context(), m.next, []int64{p.ID}))
		}
	}
	must(m.t, m.StartMatching(m.t.Context(), m.next))
	return "start a result set"
}

// answerSome answers for some packages of the queue.
func (m *storeModel) answerSome(limit int) string {
	if m.next == 0 {
		return "nothing to answer"
	}
	queued, err := m.QueuedPackages(m.t.Context(), m.next, limit)
	must(m.t, err)
	saved := map[int64]model.PackageAnswer{}
	for _, p := range queued {
		answer := m.worlds[m.next].answer(p.Name)
		if m.random.IntN(8) == 0 { // An answer that is not the last one.
			m.save(m.t, m.next, p.ID, m.worlds[m.current].answer(p.Name))
		}
		saved[p.ID] = answer
		if m.nextFailures[p.Name] = answer.Failure != ""; answer.Failure == "" {
			m.nextAnswers[p.Name] = answer.Findings
		} else {
			delete(m.nextAnswers, p.Name)
		}
	}
	must(m.t, m.SaveAnswers(m.t.Context(), m.next, saved))
	return fmt.Sprintf("answer for %d packages", len(saved))
}

// switchOver answers for the rest, keeps the scores of the next world and makes it current.
func (m *storeModel) switchOver() string {
	if m.next == 0 {
		return "nothing to switch to"
	}
	m.answerSome(store.MaxPageSize)
	all, err := m.Vulnerabilities(m.t.Context(), 0, store.MaxKeys)
	must(m.t, err)
	after := m.worlds[m.next]
	for i := range all {
		one := after.scored(model.PackageFinding{Vulnerability: all[i].Vulnerability})
		all[i].Vulnerability = one.Vulnerability
	}
	must(m.t, m.StageScores(m.t.Context(), m.next, all))
	want := m.nextChanges()
	for name, failed := range m.nextFailures {
		if m.failures[name] = failed; !failed {
			m.show(name, m.nextAnswers[name])
		}
	}
	switched := m.switchTo(m.t, m.next)
	m.current, m.next = m.next, 0
	if diff := cmp.Diff(want, switched.Changes); diff != "" {
		m.t.Errorf("changes of result set %d: %s", m.current, diff)
	}
	if total := m.changes(m.t, store.ChangeQuery{ResultSet: m.current}).Total; total != want.Opened+want.Closed+want.Changed {
		m.t.Errorf("got %d changes, want %+v", total, want)
	}
	return "switch"
}

// replaceCatalog reads the SBOM of an image anew.
func (m *storeModel) replaceCatalog() string {
	key := m.anyKey()
	image := m.images[key]
	catalog, held := m.randomCatalog()
	if image == nil {
		return "nothing to read anew"
	}
	stored, err := m.StorePackages(m.t.Context(), catalog.Packages)
	must(m.t, err)
	saved := map[int64]model.PackageAnswer{}
	for _, p := range stored {
		answer := m.worlds[m.current].answer(p.Name)
		saved[p.ID], m.names[p.ID] = answer, p.Name
		m.show(p.Name, answer.Findings)
		m.failures[p.Name] = answer.Failure != ""
	}
	must(m.t, m.SaveAnswers(m.t.Context(), m.current, saved))
	must(m.t, m.ReplaceCatalog(m.t.Context(), key, image.digest, catalog))
	image.held = held
	return "read " + key.ImageID + " anew"
}

// prune forgets the packages that the store forgot, which no image may hold.
func (m *storeModel) prune() string {
	must(m.t, m.Store.Prune(m.t.Context(), m.clock.Now().Add(time.Duration(m.random.IntN(3)-1)*time.Hour)))
	left := map[string]bool{}
	for _, p := range m.fixture.answered(m.t) {
		left[m.names[p.ID]] = true
	}
	for name := range m.answers {
		if left[name] {
			continue
		}
		for key, image := range m.images {
			if excluded, held := image.held[name]; held && !excluded {
				m.t.Errorf("the answer for %s is gone, but %s holds it", name, key)
			}
		}
		delete(m.answers, name)
		delete(m.opened, name)
		delete(m.failures, name)
		delete(m.nextAnswers, name)
		delete(m.nextFailures, name)
	}
	return "prune"
}

// expire ends decisions, not before their time.
func (m *storeModel) expire() string {
	m.decisions.expire(m.t, m.fixture)
	next := m.decisions.next()
	if next.IsZero() {
		return "no decision ends"
	}
	m.clock.set(next.Add(-time.Microsecond))
	m.decisions.expire(m.t, m.fixture)
	m.check(true)
	m.clock.set(next)
	m.decisions.expire(m.t, m.fixture)
	return "a decision ends"
}

// check compares what the store shows with the model: of each image, or of those that are chosen.
func (m *storeModel) check(all bool) {
	m.t.Helper()
	current, _, err := m.CurrentResultSet(m.t.Context())
	must(m.t, err)
	if current.Number != m.current {
		m.t.Errorf("result set %d is current, want %d", current.Number, m.current)
	}
	keys := slices.SortedFunc(maps.Keys(m.images), func(a, b model.ImageKey) int { return strings.Compare(a.ImageID, b.ImageID) })
	for _, key := range chosen(m.fixture, m.queries, all, keys...) {
		image := m.images[key]
		got := m.image(m.t, key)
		for _, suppressed := range []bool{false, true} {
			want, counts := []string{}, store.Counts{}
			if image.shown {
				want, counts = m.expect(key.ImageID, image, suppressed)
			}
			var found []string
			for _, one := range m.findings(m.t, store.FindingQuery{Image: key, Suppressed: suppressed, Page: store.Page{Size: store.MaxPageSize}}).Findings {
				found = append(found, describe(one.Package.Name, &one.PackageFinding, one.FirstSeen)+fmt.Sprint(one.Suppressed, decisionNames(one.Decisions)))
			}
			slices.Sort(found)
			if !slices.Equal(found, want) || got.Counts != counts {
				m.t.Errorf("%s: %s, counts %+v, want %+v", key, cmp.Diff(want, found), got.Counts, counts)
			}
		}
		if (got.State == store.StateScanned) != image.scanned || (got.Database != nil) != image.shown || image.shown && got.Database.ID != current.Build.ID {
			m.t.Errorf("%s: got %+v, want %+v", key, got, image)
		}
	}
}

// expect is what an image should show and count. With all, it shows what is suppressed, too.
func (m *storeModel) expect(imageID string, image *modelImage, all bool) ([]string, store.Counts) {
	texts := map[string]bool{}
	var counts store.Counts
	for name, excluded := range image.held {
		if excluded {
			continue
		}
		for _, one := range m.answers[name] {
			one = m.worlds[m.current].scored(one)
			since := m.opened[name][one.Vulnerability.ID]
			if since.Before(image.firstSeen) {
				since = image.firstSeen
			}
			p := pkg(name)
			names, suppressed := m.decisions.names(imageID, &p, &one)
			text := describe(name, &one, since) + fmt.Sprint(suppressed, names)
			if texts[text] || suppressed && !all {
				continue
			}
			if texts[text] = true; suppressed {
				continue
			}
			counts.Add(one.Vulnerability.Severity)
			if len(one.Vulnerability.KEV) > 0 {
				counts.KEV++
			}
			if one.Fix.State == model.FixStateFixed {
				counts.Fixable++
			}
		}
	}
	return append([]string{}, slices.Sorted(maps.Keys(texts))...), counts
}

func describe(name string, f *model.PackageFinding, since time.Time) string {
	return fmt.Sprintf("%s %s %s %q %v %v %d since %s", name, f.Vulnerability.ID, f.Vulnerability.Severity, f.Vulnerability.Description, f.Fix,
		f.Vulnerability.EPSS.Score, len(f.Vulnerability.KEV), since.UTC().Format(time.TimeOnly))
}
