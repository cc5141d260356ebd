package storetest

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Bounds of the random histories: few of everything, so that all meets.
const (
	visibleImages   = 6
	visiblePackages = 6
	// visibleReads is how many reads are compared after each step.
	visibleReads = 12
)

// RunVisible builds two stores from the same random histories, one with all namespaces and one that only ever held some, and expects that every
// read which may see these returns the same from both. In every other history decisions have places; what a database changes is not compared there,
// since it is recorded for who sees all namespaces. open is that of Run.
func RunVisible(t *testing.T, histories int, open func(t *testing.T, clk clock.PassiveClock) store.Store) {
	t.Helper()
	for seed := range uint64(histories) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			clk := &stoppableClock{}
			h := &history{
				t: t, clock: clk, random: rand.New(rand.NewPCG(seed/2, 3)), says: map[string][]model.PackageFinding{}, epss: map[string]float64{}, kev: map[string]bool{}, images: map[model.ImageKey]*scannedImage{},
				whole: &fixture{Store: open(t, clk), clock: clk}, part: &fixture{Store: open(t, clk), clock: clk}, ran: map[string][]store.Use{}, owners: map[string]string{}, tags: map[visibleLookup]store.TagResult{}, told: map[string]string{},
			}
			h.decisions = newModelDecisions(h.random, []string{"CVE-0", "cve-1", "GHSA-CVE-2"}, []string{"pkg:deb/debian/p0", "pkg:deb/debian/p1*", "pkg:deb/*"})
			names := []string{"a", "b", "c", "d"}
			if seed%2 == 1 {
				h.decisions.namespaces = []string{"a", "b", "c", "d"}
			}
			h.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			h.in = store.OnlyNamespaces(names[:1+h.random.IntN(2)]...)
			clk.set(oldBuild.Built)
			h.begin()
			for step := range visibleSteps {
				h.pass()
				name := h.step()
				if h.chance(5) {
					name += ", " + h.due()
				}
				if h.chance(3) {
					name += ", " + h.lookUp()
				}
				h.matchTags()
				h.saveLifecycles()
				h.evaluate(time.Time{})
				reads := visibleReads
				if step == visibleSteps-1 {
					reads = math.MaxInt
				}
				if h.compare(reads); t.Failed() {
					t.Fatalf("namespaces %v, after step %d: %s", h.in.Names(), step, name)
				}
			}
		})
	}
}

// history is what happens to both stores. What is known of an image is the same for all namespaces: part learns it when one of its namespaces runs it.
type history struct {
	t           *testing.T
	clock       *stoppableClock
	random      *rand.Rand
	in          store.Namespaces
	whole, part *fixture
	builds      int
	says        map[string][]model.PackageFinding
	epss        map[string]float64
	kev         map[string]bool
	images      map[model.ImageKey]*scannedImage
	// ran has the uses of each scope.
	ran map[string][]store.Use
	// owners are those of the workloads, by namespace and name.
	owners map[string]string
	// caughtUp are the sequence numbers, from and to, of what part was told at once.
	caughtUp [][2]int64
	jobs     int
	// decisions apply to both stores.
	decisions *modelDecisions
	// tags are the results of lookups in whole, and told are those that part has, by the ID of the lookup.
	tags    map[visibleLookup]store.TagResult
	told    map[string]string
	results int
}

// scannedImage is what is known of an image of whole.
type scannedImage struct {
	sbom     *store.SBOM
	catalog  model.Catalog
	matched  bool
	report   *store.Report
	failures []failedAttempt
}

type failedAttempt struct {
	outcome model.Outcome
	next    time.Time
	made    string
}

// placed says that decisions have places.
func (h *history) placed() bool { return len(h.decisions.namespaces) > 0 }

func (h *history) chance(n int) bool { return h.random.IntN(n) == 0 }

func (h *history) pass() {
	h.clock.set(h.clock.Now().Add(time.Duration(31+h.random.IntN(600)) * time.Minute))
}

// both calls a step with each store that it happens to: with part if seen says so.
func (h *history) both(seen bool, step func(f *fixture)) {
	step(h.whole)
	if seen {
		step(h.part)
	}
}

// saveLifecycles saves for both what the database says of the distributions whose dates are not known yet.
func (h *history) saveLifecycles() {
	build := fmt.Sprint("database ", h.builds)
	h.both(true, func(f *fixture) {
		names, err := f.OutdatedLifecycles(h.t.Context(), build, store.MaxKeys)
		must(h.t, err)
		lifecycles := map[string]model.Lifecycle{}
		for _, name := range names {
			lifecycles[name] = model.Lifecycle{EndOfLife: oldBuild.Built.AddDate(0, 0, (h.builds*len(name))%40)}
		}
		must(h.t, f.SaveLifecycles(h.t.Context(), build, lifecycles))
	})
}

func (h *history) begin() {
	h.say()
	h.both(true, func(f *fixture) { f.start(h.t, oldBuild) })
}

// say makes up what a database says of all packages.
func (h *history) say() {
	for j := range 3 {
		id := fmt.Sprintf("CVE-%d", j)
		h.epss[id], h.kev[id] = float64(h.random.IntN(3))*0.2, h.chance(4)
	}
	for i := range visiblePackages {
		name := fmt.Sprintf("p%d", i)
		h.says[name] = nil
		for j := range 3 {
			if h.chance(2) {
				continue
			}
			id := fmt.Sprintf("CVE-%d", j)
			one := scored(finding(id, model.Severities()[h.random.IntN(3)*2]), h.epss[id], h.kev[id])
			if h.chance(2) {
				one.Fix = model.Fix{State: model.FixStateFixed, Versions: []string{"2"}}
			}
			if one.Vulnerability.Description = ""; h.chance(3) {
				one.Vulnerability.Description = "another text"
			}
			h.says[name] = append(h.says[name], one)
		}
	}
}

func visibleKey(n int) model.ImageKey {
	if n == 0 { // The first two are one image on two platforms.
		return model.ImageKey{ImageID: modelImageID(1), Platform: arm64}
	}
	return model.ImageKey{ImageID: modelImageID(n), Platform: amd64}
}

// known says whether part holds an image.
func (h *history) known(key model.ImageKey) bool {
	_, err := h.part.Image(h.t.Context(), store.AllNamespaces(), key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		h.t.Fatal(err)
	}
	return err == nil
}

// anyImage is an image of whole, false when there is none.
func (h *history) anyImage(choose func(*scannedImage) bool) (model.ImageKey, *scannedImage, bool) {
	for _, n := range h.random.Perm(visibleImages) {
		if image := h.images[visibleKey(n)]; image != nil && choose(image) {
			return visibleKey(n), image, true
		}
	}
	return model.ImageKey{}, nil, false
}

func (h *history) step() string {
	deciding := 3
	if h.placed() {
		deciding = 7
	}
	switch n := h.random.IntN(24 + deciding); {
	case n < 7:
		return h.run()
	case n < 11:
		return h.scan()
	case n < 14:
		return h.match()
	case n < 16:
		return h.rematch()
	case n < 18:
		return h.expire()
	case n < 19:
		return h.remove()
	case n < 20:
		return h.report()
	case n < 22:
		return h.cover()
	case n < 23:
		return h.object()
	case n < 23+deciding:
		h.both(true, func(f *fixture) { h.decisions.expire(h.t, f) })
		name := h.decisions.change(h.clock.Now())
		h.both(true, func(f *fixture) { h.decisions.sync(h.t, f) })
		return name
	default:
		h.both(true, func(f *fixture) { must(h.t, f.RecordDay(h.t.Context())) })
		return "record the day"
	}
}

// workload is a workload with its owner, who changes sometimes.
func (h *history) workload(namespace, name string) store.Workload {
	key := namespace + "/" + name
	if h.chance(9) {
		h.owners[key] = []string{"", "red", "blue"}[h.random.IntN(3)]
	}
	return store.Workload{Namespace: namespace, Kind: "Deployment", Name: name, Owner: h.owners[key]}
}

// run changes what runs in a scope.
func (h *history) run() string {
	scope := fmt.Sprint("scope-", h.random.IntN(2))
	var uses []store.Use
	for n := range visibleImages {
		for _, namespace := range []string{"a", "b", "c", "d"} {
			for _, name := range []string{"web", "db"} {
				if h.chance(9) {
					uses = append(uses, store.Use{Image: visibleKey(n), Workload: h.workload(namespace, name), Container: "c"})
				}
			}
		}
	}
	h.ran[scope] = uses
	h.random.Shuffle(len(uses), func(i, j int) { uses[i], uses[j] = uses[j], uses[i] })
	h.record(h.whole, scope, uses)
	for _, use := range uses {
		if h.images[use.Image] == nil {
			h.images[use.Image] = &scannedImage{}
		}
	}
	seen := slices.DeleteFunc(slices.Clone(uses), func(use store.Use) bool { return !h.in.Contains(use.Workload.Namespace) })
	news := map[model.ImageKey]bool{}
	for _, use := range seen {
		news[use.Image] = !h.known(use.Image)
	}
	h.record(h.part, scope, seen)
	from := h.part.last(h.t)
	for n := range visibleImages {
		if news[visibleKey(n)] {
			h.catchUp(visibleKey(n))
		}
	}
	h.caughtUp = append(h.caughtUp, [2]int64{from + 1, h.part.last(h.t)})
	return "run in " + scope
}

func (h *history) record(f *fixture, scope string, uses []store.Use) {
	keys := make([]model.ImageKey, len(uses))
	for i, use := range uses {
		keys[i] = use.Image
	}
	f.want(h.t, keys...)
	must(h.t, f.RecordUses(h.t.Context(), scope, uses))
}

// catchUp tells part what is known of an image.
func (h *history) catchUp(key model.ImageKey) {
	image := h.images[key]
	for attempt, failed := range image.failures {
		h.fail(h.part, key, attempt, failed)
	}
	if image.sbom != nil {
		must(h.t, h.part.SaveSBOM(h.t.Context(), key, *image.sbom, image.catalog))
	}
	if image.report != nil {
		must(h.t, h.part.SaveReport(h.t.Context(), store.AllNamespaces(), key.ImageID, *image.report))
	}
	if image.matched {
		h.part.match(h.t, key, image.sbom.SHA256, h.says)
	}
}

// fail records a failed attempt for a namespace.
func (h *history) fail(f *fixture, key model.ImageKey, attempt int, failed failedAttempt) {
	h.jobs++
	job := scanJob(fmt.Sprint("scan-", h.jobs), key, attempt)
	job.For = failed.made
	if _, _, err := f.ReserveScanJob(h.t.Context(), job); err != nil {
		h.t.Fatal(err)
	}
	recorded, err := f.RecordFailure(h.t.Context(), key, attempt, failed.outcome, failed.next)
	if err != nil || !recorded {
		h.t.Fatalf("attempt %d at %s: %t, %v", attempt, key, recorded, err)
	}
}

// scan catalogs an image, or fails to.
func (h *history) scan() string {
	key, image, found := h.anyImage(func(i *scannedImage) bool { return i.sbom == nil })
	if !found {
		return "nothing to scan"
	}
	seen := h.known(key)
	attempt := len(image.failures)
	h.both(seen, func(f *fixture) {
		if _, err := f.RecordQueued(h.t.Context(), key, attempt); err != nil {
			h.t.Fatal(err)
		}
	})
	namespace := []string{"a", "b", "c", "d"}[h.random.IntN(4)]
	if h.chance(3) {
		failed := failedAttempt{
			model.Outcome{Reason: model.ReasonImageNotFound, Message: "what " + namespace + " may know"}, h.clock.Now().Add(time.Hour), namespace,
		}
		image.failures = append(image.failures, failed)
		h.both(seen, func(f *fixture) { h.fail(f, key, attempt, failed) })
		return "fail " + key.String()
	}
	var names []string
	for i := range visiblePackages {
		if h.chance(2) {
			names = append(names, fmt.Sprintf("p%d", i))
		}
	}
	sbom := sbomOf(fmt.Sprint("sbom of ", key))
	sbom.ScannedIn = namespace
	image.sbom, image.catalog, image.failures = &sbom, catalogOf(names...), nil
	image.catalog.Distro = []string{"debian:12", "alpine:3.20.1", ""}[h.random.IntN(3)]
	image.catalog.Layers = [][]string{nil, layers(1), layers(1, 2), layers(1, 2, 3), layers(1, 2, 4), layers(5, 6)}[h.random.IntN(6)]
	image.catalog.Base = []model.StatedBase{{}, {Name: "debian:12"}}[h.random.IntN(2)]
	image.catalog.Created = []time.Time{{}, oldBuild.Built.AddDate(0, 0, -h.random.IntN(20))}[h.random.IntN(2)]
	for i := range image.catalog.Packages {
		held := &image.catalog.Packages[i]
		held.Excluded = h.chance(6)
		if int(held.Package.Name[1]-'0')%2 == 1 { // It is updated, and the others come from a distribution.
			held.Package.Type = "npm"
		}
		held.Package.PURL += "?image=" + key.ImageID // Not a part of the package: each image may say something else.
	}
	h.both(seen, func(f *fixture) { must(h.t, f.SaveSBOM(h.t.Context(), key, sbom, image.catalog)) })
	return "catalog " + key.String()
}

// match finishes an image.
func (h *history) match() string {
	key, image, found := h.anyImage(func(i *scannedImage) bool { return i.sbom != nil && !i.matched })
	if !found {
		return "nothing to match"
	}
	image.matched = true
	h.both(h.known(key), func(f *fixture) { f.match(h.t, key, image.sbom.SHA256, h.says) })
	return "match " + key.String()
}

// rematch goes to another database.
func (h *history) rematch() string {
	h.say()
	h.builds++
	build := model.DatabaseBuild{ID: fmt.Sprint("build-", h.builds%3), Built: h.clock.Now()}
	h.both(true, func(f *fixture) {
		next := f.prepare(h.t, build, h.says)
		all, err := f.Vulnerabilities(h.t.Context(), 0, store.MaxKeys)
		must(h.t, err)
		for i := range all {
			id := all[i].Vulnerability.ID
			all[i].Vulnerability = scored(model.PackageFinding{Vulnerability: all[i].Vulnerability}, h.epss[id], h.kev[id]).Vulnerability
		}
		must(h.t, f.StageScores(h.t.Context(), next.Number, all))
		f.switchTo(h.t, next.Number)
	})
	return "re-match"
}

// evaluate evaluates rollouts, and times out those from before a time.
func (h *history) evaluate(before time.Time) {
	h.both(true, func(f *fixture) {
		for {
			if n, err := f.EvaluateRollouts(h.t.Context(), before, store.MaxEvaluated); err != nil || n == 0 {
				must(h.t, err)
				break
			}
		}
		for {
			if n, err := f.ReportIntroductions(h.t.Context(), before, store.MaxIntroduced); err != nil || n == 0 {
				must(h.t, err)
				return
			}
		}
	})
}

// expire ends the retention of what does not run, and deletes it.
func (h *history) expire() string {
	h.evaluate(h.clock.Now()) // Those whose images are about to be deleted.
	before := h.clock.Now().Add(-time.Duration(h.random.IntN(3)) * 24 * time.Hour)
	h.both(true, func(f *fixture) {
		for scope := range 2 {
			must(h.t, f.ExpireUses(h.t.Context(), fmt.Sprint("scope-", scope), before))
		}
		gone, err := f.ForgetImages(h.t.Context(), h.clock.Now(), store.MaxForget)
		must(h.t, err)
		for _, key := range gone {
			if f == h.whole {
				delete(h.images, key)
			}
		}
	})
	return "expire"
}

// remove deletes an image that is visible nowhere else, or that all may delete.
func (h *history) remove() string {
	key, _, found := h.anyImage(func(*scannedImage) bool { return true })
	if !found {
		return "nothing to delete"
	}
	h.evaluate(h.clock.Now())
	// What no namespace of part ran lately is not found, whether whole has it or not.
	_, hidden := h.part.Image(h.t.Context(), h.in, model.ImageKey{ImageID: key.ImageID})
	if err := h.whole.DeleteImage(h.t.Context(), h.in, store.OnlyNamespaces(), key.ImageID); hidden != nil && !errors.Is(err, store.ErrNotFound) ||
		hidden == nil && !errors.Is(err, store.ErrOtherNamespaces) {
		h.t.Errorf("delete %s without a right: %v, visible: %v", key.ImageID, err, hidden)
	}
	seen := h.known(key) || h.known(model.ImageKey{ImageID: key.ImageID, Platform: amd64}) || h.known(model.ImageKey{ImageID: key.ImageID, Platform: arm64})
	h.both(seen, func(f *fixture) {
		must(h.t, f.DeleteImage(h.t.Context(), store.AllNamespaces(), store.AllNamespaces(), key.ImageID))
	})
	// What runs is wanted again.
	for n := range visibleImages {
		if visibleKey(n).ImageID == key.ImageID {
			delete(h.images, visibleKey(n))
		}
	}
	for scope, uses := range h.ran {
		h.ran[scope] = slices.DeleteFunc(uses, func(use store.Use) bool { return use.Image.ImageID == key.ImageID })
	}
	return "delete " + key.ImageID
}

// Numbers of rows follow from what else there is, so they differ. Callers get them sealed.
var withoutNumbers = cmp.Options{
	cmpopts.IgnoreFields(store.ImageState{}, "Nonce"), cmpopts.IgnoreFields(store.Rollout{}, "ID"), cmpopts.IgnoreFields(store.Change{}, "ID"),
	cmpopts.IgnoreFields(store.Event{}, "Sequence", "LogID"), withoutAttempts, cmpopts.EquateEmpty(),
}

// compare expects that some reads, or all there are, return the same.
func (h *history) compare(count int) {
	h.t.Helper()
	h.whole.checkBases(h.t, "in all namespaces", store.AllNamespaces())
	h.part.checkBases(h.t, "in some namespaces", store.AllNamespaces())
	reads := h.reads()
	names := slices.Sorted(maps.Keys(reads))
	h.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names[:min(count, len(names))] {
		read := reads[name]
		if h.placed() && (strings.HasPrefix(name, "Changes ") || name == "ShownResultSet" || name == "ListResultSets") {
			continue
		}
		want, wantErr := read(h.part)
		got, err := read(h.whole)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) {
			h.t.Errorf("%s: got the error %v, want %v", name, err, wantErr)
			continue
		}
		if diff := cmp.Diff(want, got, withoutNumbers...); diff != "" {
			h.t.Errorf("%s differs with other namespaces (-without +with):\n%s", name, diff)
		}
	}
}
