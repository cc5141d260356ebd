package storetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// searchImages bounds the random stores that are searched: few images, so that all meets.
const searchImages = 5

// searchModel is a store in plain lists, with all that was ever in it.
type searchModel struct {
	*fixture
	t      *testing.T
	random *rand.Rand
	// begin is when the first images were scanned.
	begin, now time.Time
	// packages are all there are; says is what a vulnerability database says of them, by fingerprint.
	packages []model.Package
	says     map[string][]model.PackageFinding
	images   []*searchImage
	findings []*searchFinding
	uses     map[string][]store.Use // By scope.
	owners   map[store.Workload]string
	ran      []*store.Presence
	// decisions say which of the findings do not count.
	decisions *modelDecisions
}

type searchImage struct {
	key model.ImageKey
	// held says of fingerprints whether they are excluded.
	held    map[string]bool
	seen    time.Time
	matched bool
}

// searchFinding is an uninterrupted time in which a package had a vulnerability; closed is zero while it is open.
type searchFinding struct {
	fingerprint    string
	opened, closed time.Time
	// said is what was said of it, and since when.
	said []searchSaid
}

type searchSaid struct {
	since time.Time
	model.PackageFinding
}

// name is what identifies the vulnerability.
func (f *searchFinding) name() string {
	return f.last().Vulnerability.ID + " " + f.last().Vulnerability.Namespace
}

func (f *searchFinding) last() *model.PackageFinding { return &f.said[len(f.said)-1].PackageFinding }

func newSearchModel(t *testing.T, f *fixture, seed uint64) *searchModel {
	t.Helper()
	m := &searchModel{
		fixture: f, t: t, random: rand.New(rand.NewPCG(seed, 2)), now: time.Date(2026, 3, 1, 7, 0, 0, 0, time.UTC), uses: map[string][]store.Use{},
		owners: map[store.Workload]string{},
	}
	m.decisions = newModelDecisions(m.random, []string{"CVE-2021-44228", "ghsa-jfh8-c2jp-5v3q", "cve-2021-45046", "CVE-1"}, []string{
		"pkg:deb/debian/log4j-core", "pkg:deb/debian/Log4J*", "pkg:generic/Log4J_api@1.10", "pkg:generic/log4j-core", "pkg:deb/*",
	})
	for i, version := range []string{"1.10", "1.2", "1.9", "2.0", "2.0"} {
		for _, name := range []string{"log4j-core", "Log4J_api"} {
			p := pkg(name)
			p.Version, p.Type = version, []string{"java-archive", "deb"}[i%2]
			p.Fingerprint = fmt.Sprintf("%064x", fmt.Sprint(name, i))
			m.packages = append(m.packages, p)
		}
	}
	m.pass()
	m.begin = m.now
	m.say()
	for range searchImages - 2 {
		m.addImage()
	}
	resultSet := m.fixture.start(t, oldBuild)
	m.answerWaiting(resultSet.Number)
	return m
}

// pass lets some hours go by.
func (m *searchModel) pass() {
	m.now = m.now.Add(time.Duration(1+m.random.IntN(12)) * time.Hour)
	m.clock.set(m.now)
}

// say makes up what another database says of all packages.
func (m *searchModel) say() {
	m.says = map[string][]model.PackageFinding{}
	ids := []string{"CVE-2021-44228", "GHSA-jfh8-c2jp-5v3q", "CVE-2021-45046", "ALAS-1%_!", "CVE-2021-44228"}
	namespaces := []string{"debian:distro:debian:12", "github:language:java", "nvd:cpe", "amazon", "nvd:cpe"}
	for _, p := range m.packages {
		for i, id := range ids {
			if m.random.IntN(3) == 0 {
				continue
			}
			one := scored(finding(id, model.Severities()[m.random.IntN(3)*2]), float64(i)*0.25, i == 2)
			v := &one.Vulnerability
			v.Namespace, v.Aliases, v.Risk = namespaces[i], nil, float64(10*(i%3))
			if i == 1 && m.random.IntN(3) > 0 {
				v.Aliases = ids[:1]
			}
			if m.random.IntN(3) == 0 {
				one.Fix = model.Fix{State: model.FixStateFixed, Versions: []string{"3", "4"}[:1+m.random.IntN(2)]}
			}
			m.says[p.Fingerprint] = append(m.says[p.Fingerprint], one)
		}
	}
}

func (m *searchModel) addImage() {
	n := len(m.images)
	key := model.ImageKey{ImageID: modelImageID(n / 2), Platform: []model.Platform{amd64, arm64}[n%2]}
	image := &searchImage{key: key, held: map[string]bool{}, seen: m.now}
	catalog := model.Catalog{}
	for _, p := range m.packages {
		if m.random.IntN(2) == 0 {
			image.held[p.Fingerprint] = m.random.IntN(5) == 0
			catalog.Packages = append(catalog.Packages, model.HeldPackage{Package: p, Excluded: image.held[p.Fingerprint]})
		}
	}
	m.catalog(m.t, key, "1", catalog)
	m.images = append(m.images, image)
}

// answerWaiting matches the images that wait, but for the second one.
func (m *searchModel) answerWaiting(resultSet int64) {
	for _, key := range m.waiting(m.t) {
		if key == m.images[1].key {
			continue
		}
		digest, packages, err := m.UnansweredPackages(m.t.Context(), key)
		must(m.t, err)
		saved := map[int64]model.PackageAnswer{}
		for _, p := range packages {
			saved[p.ID] = answerOf(m.says[p.Fingerprint]...)
			for _, one := range m.says[p.Fingerprint] {
				m.open(p.Fingerprint, one)
			}
		}
		must(m.t, m.SaveAnswers(m.t.Context(), resultSet, saved))
		must(m.t, m.FinishImage(m.t.Context(), key, digest))
		m.images[slices.IndexFunc(m.images, func(i *searchImage) bool { return i.key == key })].matched = true
	}
}

func (m *searchModel) open(fingerprint string, one model.PackageFinding) {
	m.findings = append(m.findings, &searchFinding{fingerprint: fingerprint, opened: m.now, said: []searchSaid{{m.now, one}}})
}

// step lets time pass and something happen.
func (m *searchModel) step() {
	m.pass()
	switch n := m.random.IntN(8); {
	case n < 2:
		m.rematchAll()
	case n == 2 && len(m.images) < searchImages:
		m.addImage()
		current, _, err := m.CurrentResultSet(m.t.Context())
		must(m.t, err)
		m.answerWaiting(current.Number)
	case n > 5:
		m.decisions.expire(m.t, m.fixture)
		m.decisions.change(m.now)
		m.decisions.sync(m.t, m.fixture)
	default:
		m.run()
	}
}

// counts says whether a finding is open and not suppressed in an image, if that holds its package.
func (m *searchModel) counts(image *searchImage, f *searchFinding) bool {
	p := m.packageOf(f.fingerprint)
	return f.closed.IsZero() && image.has(f.fingerprint) && !m.decisions.suppress(image.key.ImageID, &p, f.last())
}

// rematchAll goes to another database.
func (m *searchModel) rematchAll() {
	m.say()
	next := m.fixture.start(m.t, newBuild)
	m.queueAll(m.t, next.Number)
	queued, err := m.QueuedPackages(m.t.Context(), next.Number, store.MaxPageSize)
	must(m.t, err)
	saved := map[int64]model.PackageAnswer{}
	for _, p := range queued {
		saved[p.ID] = answerOf(m.says[p.Fingerprint]...)
		open := map[string]*searchFinding{}
		for _, f := range m.findings {
			if f.fingerprint == p.Fingerprint && f.closed.IsZero() {
				open[f.name()] = f
			}
		}
		for _, one := range m.says[p.Fingerprint] {
			if f := open[one.Vulnerability.ID+" "+one.Vulnerability.Namespace]; f != nil {
				f.said = append(f.said, searchSaid{m.now, one})
				delete(open, f.name())
			} else {
				m.open(p.Fingerprint, one)
			}
		}
		for f := range maps.Values(open) {
			f.closed = m.now
		}
	}
	must(m.t, m.SaveAnswers(m.t.Context(), next.Number, saved))
	m.switchTo(m.t, next.Number)
}

// run changes what runs in one of two scopes.
func (m *searchModel) run() {
	scope := fmt.Sprint("scope-", m.random.IntN(2))
	var uses []store.Use
	for _, image := range m.images {
		for _, name := range []string{"web", "we_b"} {
			for _, namespace := range []string{"a", "b"} {
				if m.random.IntN(4) == 0 {
					uses = append(uses, store.Use{
						Image: image.key, Workload: store.Workload{Namespace: namespace, Kind: "Deployment", Name: name}, Container: fmt.Sprint("c", m.random.IntN(2)),
					})
				}
			}
		}
	}
	must(m.t, m.RecordUses(m.t.Context(), scope, m.own(uses)))
	m.uses[scope] = uses
	running := m.running()
	for _, p := range m.ran {
		use := store.Use{Image: p.Image, Workload: p.Workload, Container: p.Container}
		if !p.Until.IsZero() {
			continue
		}
		if !running[use] {
			p.Until = m.now
		}
		delete(running, use)
	}
	for use := range running {
		m.ran = append(m.ran, &store.Presence{Image: use.Image, Workload: use.Workload, Container: use.Container, Since: m.now})
	}
}

// running is what runs now in any scope.
func (m *searchModel) running() map[store.Use]bool {
	running := map[store.Use]bool{}
	for _, uses := range m.uses {
		for _, use := range uses {
			running[use] = true
		}
	}
	return running
}

func (m *searchModel) chosen(where store.Where, w store.Workload) bool {
	return (where.Owner == "" || where.Owner == m.owners[w]) && (!where.None || m.owners[w] == "") && (where.Namespace == "" || where.Namespace == w.Namespace) && (where.Workload == "" || where.Workload == w.Name) &&
		(where.WorkloadKind == "" || where.WorkloadKind == w.Kind)
}

// workloads are those that run the image now and that the query chooses.
func (m *searchModel) workloads(image *searchImage, where store.Where) map[store.Workload]bool {
	workloads := map[store.Workload]bool{}
	for use := range m.running() {
		if use.Image == image.key && m.chosen(where, use.Workload) {
			workloads[m.owned(use.Workload)] = true
		}
	}
	return workloads
}

// chooses says whether the query chooses an image.
func (m *searchModel) chooses(where store.Where, image *searchImage) bool {
	return where == store.Where{} || len(m.workloads(image, where)) > 0
}

// has says whether the image holds the package and does not exclude it.
func (i *searchImage) has(fingerprint string) bool {
	excluded, held := i.held[fingerprint]
	return held && !excluded
}

func (m *searchModel) packageOf(fingerprint string) model.Package {
	return m.packages[slices.IndexFunc(m.packages, func(p model.Package) bool { return p.Fingerprint == fingerprint })]
}

func (m *searchModel) randomWhere() store.Where {
	pick := func(values ...string) string { return values[m.random.IntN(len(values))] }
	switch m.random.IntN(4) {
	case 0:
		return store.Where{Ownership: store.Ownership{Owner: pick("", "red", "blue", "Red"), None: m.random.IntN(3) == 0}}
	case 3:
		return store.Where{Namespace: pick("a", "b", "c")}
	case 1:
		return store.Where{Namespace: pick("", "a"), Workload: pick("web", "we_b", "web"), WorkloadKind: pick("", "Deployment", "Pod")}
	default:
		return store.Where{}
	}
}

func (m *searchModel) randomSeverity() model.Severity {
	return []model.Severity{model.SeverityUnknown, model.SeverityUnknown, model.SeverityMedium, model.SeverityCritical}[m.random.IntN(4)]
}

func (m *searchModel) randomText(values ...string) string {
	if m.random.IntN(2) == 0 {
		return ""
	}
	return values[m.random.IntN(len(values))]
}

func (m *searchModel) chance() bool { return m.random.IntN(4) == 0 }
