package storetest

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	tagFixSeeds = 3
	tagFixSteps = 30
)

func randomNewerTags(t *testing.T, f *fixture, seed uint64) {
	t.Helper()
	m := newTagFixModel(t, f, seed)
	for step := range tagFixSteps {
		what := m.step()
		if m.queries.IntN(2) == 0 {
			m.compareLater()
		}
		last := step == tagFixSteps-1
		some := []store.Namespaces{store.OnlyNamespaces("a"), store.OnlyNamespaces("a", "b"), store.OnlyNamespaces("none")}[m.queries.IntN(3)]
		for _, in := range chosen(f, m.queries, last, store.AllNamespaces(), some) {
			m.check(in)
		}
		for _, key := range chosen(f, m.queries, last, m.keys...) {
			m.checkWorkloads(key)
		}
		if t.Failed() {
			t.Fatalf("after step %d: %s", step, what)
		}
	}
	if len(m.listed) < 2 {
		t.Errorf("answers with newer tags, of images and of their bases: %v", m.listed)
	}
}

// tagFixModel computes what newer tags do from the findings of images that lists show, and from what was found in the images of the tags.
type tagFixModel struct {
	*fixture
	t       *testing.T
	random  *rand.Rand
	queries *rand.Rand // What is asked for beside what happens.
	now     time.Time
	keys    []model.ImageKey
	uses    []store.Use
	answers answers
	current int64
	// builds, scans and jobs count what happened, so that each is told apart.
	builds, scans, jobs int
	lookups             map[string]*modelLookup   // By ID.
	tags                map[string]*modelTagImage // By the digest of the SBOM.
	decisions           *modelDecisions
	// listed counts the answers that had newer tags, by what these are for.
	listed map[store.FixKind]int
	// layers are those of each image.
	layers map[model.ImageKey][]string
	// read is what was read since the last change.
	read tagFixReads
}

type modelLookup struct {
	store.TagLookup
	scope  string
	wanted bool
	since  time.Time // When it was not wanted any more.
	// tags are the newer tags in order, with the digest of the SBOM of each, "" of one with a problem.
	tags []string
	of   map[string]string
	// shown says that a tag is recommended. That begins when all tags are matched.
	shown bool
}

// modelTagImage is what is known of the image of a newer tag.
type modelTagImage struct {
	resultSet int64
	found     []store.TagFinding
	problem   string
}

func newTagFixModel(t *testing.T, f *fixture, seed uint64) *tagFixModel {
	t.Helper()
	m := &tagFixModel{
		fixture: f, t: t, random: rand.New(rand.NewPCG(seed, 31)), queries: rand.New(rand.NewPCG(seed, 32)), now: day,
		lookups: map[string]*modelLookup{}, tags: map[string]*modelTagImage{}, layers: map[model.ImageKey][]string{}, listed: map[store.FixKind]int{},
	}
	m.decisions = newModelDecisions(m.random, []string{"CVE-0", "cve-1", "CVE-2", "CVE-3"}, []string{"pkg:deb/debian/a", "pkg:deb/debian/b*", "pkg:deb/*"})
	m.decisions.namespaces = []string{"a", "b", "c"}
	m.clock.set(m.now)
	m.answers = m.randomAnswers()
	m.current = f.start(t, oldBuild).Number
	for n := range 4 {
		m.keys = append(m.keys, model.ImageKey{ImageID: modelImageID(n / 2), Platform: []model.Platform{amd64, arm64}[n%2]})
		m.scan(n)
	}
	m.run()
	m.want("one")
	for range 2 * len(m.lookups) {
		m.lookUp()
	}
	one, two := 1, 2
	if problems := m.due(t, store.Policy{Name: "all", From: model.DueFromFirstSeen, DueIn: model.DueIn{Critical: &one, High: &two, Medium: &one, KEV: &one}}); len(problems) > 0 {
		t.Fatal(problems)
	}
	return m
}

// randomAnswers are what a database says of the packages of all images.
func (m *tagFixModel) randomAnswers() answers {
	a := answers{}
	for _, name := range []string{"a", "b", "c", "d"} {
		for i := range 5 {
			if m.random.IntN(3) == 0 {
				continue
			}
			one := finding(fmt.Sprint("CVE-", i), model.Severities()[m.random.IntN(len(model.Severities()))])
			if m.random.IntN(2) == 0 {
				one.Fix = model.Fix{State: model.FixStateFixed, Versions: []string{"2"}}
			}
			a[name] = append(a[name], scored(one, 0, i == 3))
		}
	}
	return a
}

func (m *tagFixModel) step() string {
	m.now = m.now.Add(time.Duration(m.random.IntN(10*60)) * time.Minute)
	m.clock.set(m.now)
	m.decisions.expire(m.t, m.fixture)
	switch n := m.random.IntN(20); {
	case n < 2:
		m.run()
		return "run"
	case n < 4:
		return m.want([]string{"one", "two"}[m.random.IntN(2)])
	case n < 9:
		return m.lookUp()
	case n < 14:
		return m.matchTags()
	case n == 14:
		m.answers = m.randomAnswers()
		m.builds++
		build := newBuild
		build.ID = fmt.Sprint("xxh64:", 100+m.builds)
		m.current = m.rematch(m.t, build, m.answers).Number
		for _, l := range m.lookups {
			l.shown = false
		}
		m.compareTags()
		for range m.random.IntN(3) {
			m.matchTags()
		}
		return "switch"
	case n == 15:
		i := m.random.IntN(len(m.keys))
		m.scan(i)
		return fmt.Sprint("scan ", m.keys[i])
	case n == 16 && m.random.IntN(2) == 0:
		return m.remove()
	default:
		what := m.decisions.change(m.now)
		m.decisions.sync(m.t, m.fixture)
		return what
	}
}

// scan catalogs an image, and matches it most of the time. A name can be that of two packages, and one image can have the layers of others and more.
func (m *tagFixModel) scan(n int) {
	m.scans++
	var names []string
	for _, name := range []string{"a", "b", "c", "d"} {
		if m.random.IntN(3) > 0 {
			names = append(names, name)
		}
	}
	catalog := catalogOf(names...)
	if m.random.IntN(2) == 0 {
		other := catalogOf("a").Packages[0]
		other.Package.Version, other.Package.Fingerprint = "0.9-a", fmt.Sprintf("%064x", "other a")
		catalog.Packages = append(catalog.Packages, other)
	}
	for i := range catalog.Packages {
		held := &catalog.Packages[i]
		if held.Package.Name == "b" {
			held.Package.Type = "npm"
		}
		held.Excluded = m.random.IntN(8) == 0
	}
	catalog.Layers = layers([]int{1, 2, 3, 4}[:n+1]...)
	if m.random.IntN(3) == 0 {
		catalog.Layers = slices.Concat(layers([]int{1, 2, 3}[:m.random.IntN(4)]...), layers(4 + n)[:m.random.IntN(2)])
	}
	m.layers[m.keys[n]] = catalog.Layers
	digest := fmt.Sprint("scan ", m.scans)
	m.catalog(m.t, m.keys[n], digest, catalog)
	m.compareTags()
	if m.random.IntN(6) > 0 {
		m.match(m.t, m.keys[n], digest, m.answers)
		m.compareTags()
	}
}

func (m *tagFixModel) run() {
	m.uses = nil
	for _, namespace := range []string{"a", "b", "c"} {
		for _, name := range []string{"web", "db"} {
			owner := []string{"", "red"}[m.random.IntN(2)]
			for _, key := range m.keys {
				if m.random.IntN(3) == 0 {
					m.uses = append(m.uses, ownedUse(key, namespace, name, owner))
				}
			}
		}
	}
	must(m.t, m.RecordUses(m.t.Context(), "uses", m.uses))
}

// remove deletes an image on all platforms. It is wanted and cataloged again, since it runs.
func (m *tagFixModel) remove() string {
	id := m.keys[m.random.IntN(len(m.keys))].ImageID
	must(m.t, m.DeleteImage(m.t.Context(), store.AllNamespaces(), store.AllNamespaces(), id))
	m.compareTags()
	for n, key := range m.keys {
		if key.ImageID == id {
			m.scan(n)
		}
	}
	must(m.t, m.RecordUses(m.t.Context(), "uses", m.uses))
	return "remove " + id
}

// want makes random lookups those that a scope wants.
func (m *tagFixModel) want(scope string) string {
	var wanted []store.WantedTags
	for _, key := range m.keys {
		for _, tag := range []string{"1.0", "1"} {
			if m.random.IntN(3) == 0 {
				continue
			}
			one := wantedTags(key, tag)
			for _, namespace := range []string{"a", "b", "c"} {
				if m.random.IntN(2) == 0 {
					one.Namespaces = append(one.Namespaces, namespace)
				}
			}
			wanted = append(wanted, one)
		}
	}
	isWanted := map[string]bool{}
	for _, lookup := range m.wantLookups(m.t, scope, wanted...) {
		isWanted[lookup.ID] = true
		if known := m.lookups[lookup.ID]; known != nil {
			known.TagLookup, known.wanted = lookup, true
			continue
		}
		m.lookups[lookup.ID] = &modelLookup{TagLookup: lookup, scope: scope, wanted: true}
	}
	for id, known := range m.lookups {
		switch {
		case known.scope != scope || isWanted[id]:
		case known.wanted:
			known.wanted, known.since = false, m.now
		case known.since.Before(m.now.Add(-store.TagLookupGrace)):
			delete(m.lookups, id)
		}
	}
	return fmt.Sprintf("%d lookups of %s", len(wanted), scope)
}

// any is a random key of a map.
func anyOf[V any](random *rand.Rand, all map[string]V) string {
	return slices.Sorted(maps.Keys(all))[random.IntN(len(all))]
}

// lookUp delivers the result of a lookup. Tags of different lookups of a scope have the same image if they have the same digest.
func (m *tagFixModel) lookUp() string {
	if len(m.lookups) == 0 {
		return "nothing to look up"
	}
	l := m.lookups[anyOf(m.random, m.lookups)]
	if !l.wanted {
		return "not wanted"
	}
	m.jobs++
	uid := fmt.Sprint("uid-", m.jobs)
	m.lookupJob(m.t, &l.TagLookup, uid)
	known, err := m.KnownTagDigests(m.t.Context(), l.scope, "team", tagRepository, l.Key.Platform, "syft-1", 100)
	must(m.t, err)
	result := store.TagResult{SHA256: uid, Listed: 9}
	l.tags, l.of = nil, map[string]string{}
	for _, n := range m.random.Perm(4)[:m.random.IntN(4)] {
		tag := store.TagOfResult{Tag: fmt.Sprint("2.", n), Kind: "patch", Digest: fmt.Sprint("sha256:2.", n), Cataloger: "syft-1"}
		sbom := sbomOf(fmt.Sprint("sbom ", l.scope, l.Key.Platform, tag.Tag))
		switch {
		case m.random.IntN(8) == 0:
			tag.Problem, sbom.SHA256 = "too large", ""
		case slices.Contains(known, tag.Digest) && m.random.IntN(2) == 0:
		default:
			tag.SBOM = &sbom
			m.tags[sbom.SHA256] = &modelTagImage{}
		}
		l.tags = append(l.tags, tag.Tag)
		l.of[tag.Tag] = sbom.SHA256
		result.Tags = append(result.Tags, tag)
	}
	must(m.t, m.SaveTagLookup(m.t.Context(), uid, result))
	l.Attempts++
	m.compareTags()
	return fmt.Sprintf("look up %s of %s in %s: %v", l.Tag, l.Key, l.scope, l.of)
}

// matchTags matches some images of newer tags.
func (m *tagFixModel) matchTags() string {
	ids, err := m.UnmatchedTagImages(m.t.Context(), m.current, 1+m.random.IntN(6))
	must(m.t, err)
	for _, id := range ids {
		sbom, err := m.TagImageSBOM(m.t.Context(), id)
		must(m.t, err)
		image := &modelTagImage{resultSet: m.current}
		switch m.random.IntN(10) {
		case 0:
			image.problem = "cannot be matched"
		case 1:
			image.resultSet--
			fallthrough
		default:
			image.found = m.randomTagFindings()
		}
		m.tags[sbom.SHA256] = image
		must(m.t, m.SaveTagFindings(m.t.Context(), id, sbom.SHA256, image.resultSet, store.TagFindings{Build: "build", Findings: image.found, Problem: image.problem}))
		m.compareTags()
	}
	return fmt.Sprintf("match %d newer tags", len(ids))
}

// compareLater compares what transactions left out. That changes no list, but how it is read which packages of a base images lack.
func (m *tagFixModel) compareLater() {
	for more := true; more; {
		var err error
		more, err = m.CompareNewerTags(m.t.Context())
		must(m.t, err)
	}
}

// compareTags follows a change of what images or newer tags have.
func (m *tagFixModel) compareTags() {
	m.read = tagFixReads{}
	for _, l := range m.lookups {
		waits := slices.ContainsFunc(l.tags, func(tag string) bool {
			image := m.tags[l.of[tag]]
			return image != nil && image.resultSet != m.current
		})
		image, visible := m.imageIn(store.AllNamespaces(), l.Key)
		if !visible {
			l.shown = false
			continue
		}
		tag, _, _ := m.recommended(l)
		l.shown = (l.shown || !waits) && !image.MatchedAt.IsZero() && tag != ""
	}
}

// randomTagFindings are some of those that an image has, and some that it has not.
func (m *tagFixModel) randomTagFindings() []store.TagFinding {
	var found []store.TagFinding
	m.read = tagFixReads{}
	for _, f := range m.findingsOf(store.AllNamespaces(), m.keys[m.random.IntN(len(m.keys))]) {
		known := func(one store.TagFinding) bool {
			return one.VulnerabilityID == f.Vulnerability.ID && one.Package == f.Package.Name
		}
		if m.random.IntN(3) == 0 && !slices.ContainsFunc(found, known) {
			v := &f.Vulnerability
			found = append(found, store.TagFinding{VulnerabilityID: v.ID, Package: f.Package.Name, Severity: v.Severity, Risk: v.Risk, KEV: len(v.KEV) > 0})
		}
	}
	for i := range m.random.IntN(3) {
		one := store.TagFinding{VulnerabilityID: fmt.Sprint("CVE-9", i), Package: "z", Severity: model.SeverityLow, Risk: float64(m.random.IntN(80)), Fixable: i == 0}
		if m.random.IntN(8) == 0 {
			one.Severity, one.KEV = model.Severities()[m.random.IntN(len(model.Severities()))], m.random.IntN(2) == 0
		}
		found = append(found, one)
	}
	return found
}

// tagAction is a fix with what it is told apart by from others with the same risk.
type tagAction struct {
	store.Fix
	order string
}

func sortActions(all []tagAction) []store.Fix {
	waits := func(a *tagAction) bool { return a.Kind == store.FixWait }
	slices.SortFunc(all, func(a, b tagAction) int {
		if waits(&a) != waits(&b) {
			return map[bool]int{false: -1, true: 1}[waits(&a)]
		}
		return cmp.Or(cmp.Compare(b.Risk, a.Risk), cmp.Compare(a.order, b.order), cmp.Compare(a.Image.ImageID, b.Image.ImageID),
			cmp.Compare(a.Image.Platform.String(), b.Image.Platform.String()))
	})
	fixes := make([]store.Fix, len(all))
	for i := range all {
		fixes[i] = all[i].Fix
	}
	return fixes
}
