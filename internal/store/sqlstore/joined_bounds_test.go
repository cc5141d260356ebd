package sqlstore

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// joining is a store with one image that runs in some namespaces, two workloads in each.
type joining struct {
	*Store
	key model.ImageKey
}

func openJoining(t *testing.T, config Config, namespaces ...string) *joining {
	t.Helper()
	s := &joining{openWith(t, config), model.ImageKey{ImageID: "image", Platform: model.Platform{OS: "linux", Architecture: "amd64"}}}
	hold(t, s.Store, 1, 4)
	var uses []store.Use
	for _, namespace := range namespaces {
		for _, name := range []string{"web", "db"} {
			uses = append(uses, store.Use{Image: s.key, Workload: store.Workload{Namespace: namespace, Kind: "Deployment", Name: name}, Container: "c"})
		}
	}
	if err := s.RecordUses(t.Context(), "scope", uses); err != nil {
		t.Fatal(err)
	}
	return s
}

// inPlace is an exception of a namespace about all of it, or about one workload.
func inPlace(namespace, name, workload string, vulnerabilities ...int) store.Decision {
	d := store.Decision{
		Object: store.DecisionObject{Kind: "VulnerabilityException", Namespace: namespace, Name: name}, Status: model.DecisionFixed,
		Places: &store.DecisionPlaces{Selector: namespace, Namespaces: []string{namespace}},
	}
	if workload != "" {
		d.Places = &store.DecisionPlaces{Selector: namespace + " " + workload, Workloads: []store.Workload{{Namespace: namespace, Kind: "Deployment", Name: workload}}}
	}
	for _, n := range vulnerabilities {
		d.Vulnerabilities = append(d.Vulnerabilities, fmt.Sprint("CVE-", n))
	}
	return d
}

// decide applies decisions, and returns those that are refused with the messages.
func (j *joining) decide(t *testing.T, decisions ...store.Decision) map[string]string {
	t.Helper()
	problems, err := j.SyncDecisions(t.Context(), "test", decisions)
	if err != nil {
		t.Fatal(err)
	}
	refused := map[string]string{}
	for object, problem := range problems {
		if problem.Reason != store.DecisionTooBroad {
			t.Errorf("%s: %+v", object.Name, problem)
		}
		refused[object.Name] = problem.Message
	}
	checkHeld(t, j.Store)
	return refused
}

// expect compares what counts in each namespace and workload.
func (j *joining) expect(t *testing.T, what string, want map[string]int) {
	t.Helper()
	got := map[string]int{}
	for at := range want {
		namespace, name, _ := strings.Cut(at, "/")
		in := store.OnlyNamespaces(namespace)
		if name == "" {
			image, err := j.Image(t.Context(), in, j.key)
			if err != nil {
				t.Fatal(err)
			}
			got[at] = image.Counts.Total()
			continue
		}
		list, err := j.ListWorkloads(t.Context(), in, store.WorkloadQuery{})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range list.Workloads {
			if w.Workload.Name == name {
				got[at] = w.Counts.Total()
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestNoRoomToJoin: at the bound of joined reaches only the new exception is refused, nothing changes in other namespaces, it applies when there is room, and
// neither what ends nor what is found later needs room.
func TestNoRoomToJoin(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, config Config) {
		s := openJoining(t, config, "a", "b", "c")
		s.matchBounds.joined, s.matchBounds.namespacedJoined, s.matchBounds.alwaysNamespace = 1, 1, 0
		a, b, c := inPlace("a", "a", "", 0, 1), inPlace("b", "b", "", 0, 1), inPlace("c", "c", "", 0)
		if refused := s.decide(t, a, b); len(refused) > 0 {
			t.Fatal(refused)
		}
		closed := map[string]int{"a": 2, "b": 2, "c": 4}
		s.expect(t, "a and b", closed)
		refused := s.decide(t, a, b, c)
		if message := refused["c"]; len(refused) != 1 || !strings.Contains(message, "would have too many different combinations of such exceptions; the maximum for all is 1 (0 more") ||
			!strings.Contains(message, "use the same") || !strings.Contains(message, "namespace c match at most 0 findings") {
			t.Errorf("refused: %q", refused)
		}
		s.expect(t, "without room for c", closed)
		if preview, err := s.PreviewDecision(t.Context(), store.AllNamespaces(), "test", c); err != nil || preview.Problem == nil || preview.Problem.Message != refused["c"] {
			t.Errorf("the preview has the problem %+v, %v", preview.Problem, err)
		}
		// An edit at the bound, and another exception about the same findings in the same places.
		a.Comment = "edited"
		if refused = s.decide(t, a, b, inPlace("b", "again", "", 0)); len(refused) > 0 {
			t.Error(refused)
		}
		s.expect(t, "edited", closed)
		// With room, c applies.
		b = inPlace("b", "b", "", 0)
		if refused = s.decide(t, a, b, c); len(refused) > 0 {
			t.Error(refused)
		}
		s.expect(t, "with room", map[string]int{"a": 2, "b": 3, "c": 3})

		// The end of an exception needs room.
		one, other, c := inPlace("a", "one", "", 0), inPlace("a", "other", "", 1), inPlace("c", "c", "", 0, 1)
		b = inPlace("b", "b", "", 0, 1)
		if refused = s.decide(t, one, other, b, c); len(refused) > 0 {
			t.Error(refused)
		}
		s.expect(t, "three exceptions about two findings", map[string]int{"a": 2, "b": 2, "c": 2})
		if refused = s.decide(t, one, b, c); len(refused) > 0 {
			t.Error(refused)
		}
		s.expect(t, "one ended", map[string]int{"a": 3, "b": 2, "c": 2})
		// There are more than the bounds now, and an edit makes no more.
		b.Comment, s.matchBounds.namespaceJoined = "edited", 0
		if refused = s.decide(t, one, b, c); len(refused) > 0 {
			t.Error(refused)
		}
		s.matchBounds.namespaceJoined = store.MaxNamespaceJoinedReaches

		// So does a finding that is new.
		a, b = inPlace("a", "a", "", 0, 4), inPlace("b", "b", "", 4)
		if refused = s.decide(t, a, b, inPlace("c", "c", "", 0)); len(refused) > 0 {
			t.Error(refused)
		}
		if err := switchTo(t.Context(), s.Store, decidedFindings(5)); err != nil {
			t.Fatal(err)
		}
		checkHeld(t, s.Store)
		s.expect(t, "another finding", map[string]int{"a": 3, "b": 4, "c": 4})
	})
}

// TestNamespacesShareJoined: a namespace cannot use the room of others.
func TestNamespacesShareJoined(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, config Config) {
		s := openJoining(t, config, "a", "b")
		s.matchBounds.joined, s.matchBounds.namespacedJoined, s.matchBounds.namespaceJoined, s.matchBounds.alwaysNamespace = 10, 10, 2, 0
		whole, web, db := inPlace("a", "whole", "", 0, 1, 2, 3), inPlace("a", "web", "web", 0, 1), inPlace("a", "db", "db", 0, 2)
		refused := s.decide(t, whole, web, db)
		if message := refused["db"]; len(refused) != 1 || !strings.Contains(message, "namespace a alone would have too many different") || !strings.Contains(message, "the maximum is 2") {
			t.Errorf("refused: %q", refused)
		}
		// Exceptions of the cluster have no share.
		cluster := inPlace("a", "cluster", "db", 0, 2)
		cluster.Object = store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: "cluster"}
		cluster.Places.Selector = "cluster"
		if refused = s.decide(t, whole, web, cluster); len(refused) > 0 {
			t.Error(refused)
		}
		// What others join does not count for a namespace.
		if refused = s.decide(t, whole, web, cluster, inPlace("b", "b", "", 0, 1, 2, 3)); len(refused) > 0 {
			t.Error(refused)
		}
		s.expect(t, "in a and b", map[string]int{"a": 0, "a/web": 0, "b": 0})
	})
}

// TestOthersTakeNoRoom: however many sets the exceptions of other namespaces make, exceptions that match few findings apply in each namespace and of the cluster, nothing
// that applied changes, and the number of joined reaches stays within its bound.
func TestOthersTakeNoRoom(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, config Config) {
		const hostile, findings, always = 6, 32, 3
		namespaces := []string{"honest", "other"}
		for n := range hostile {
			namespaces = append(namespaces, fmt.Sprint("hostile-", n))
		}
		s := openJoining(t, config, namespaces...)
		if err := switchTo(t.Context(), s.Store, decidedFindings(findings)); err != nil {
			t.Fatal(err)
		}
		s.matchBounds.joined, s.matchBounds.namespacedJoined, s.matchBounds.namespaceJoined = 8, 6, 4
		s.matchBounds.alwaysNamespace, s.matchBounds.alwaysCluster = always, always
		joined := func() int {
			return len(texts(t, s.Store, "SELECT q.reach FROM placed_reaches q WHERE q.members <> ''"))
		}
		// Each hostile namespace tries all sizes, in two workloads: halves of the findings, which would make 32 sets together, and single ones.
		var all []store.Decision
		refused := map[string]string{}
		for n := range hostile {
			var half []int
			for finding := range findings {
				if finding>>n&1 == 1 || n == 5 && finding%3 == 0 {
					half = append(half, finding)
				}
			}
			namespace := fmt.Sprint("hostile-", n)
			all = append(all, inPlace(namespace, namespace+"-half", "", half...))
			for finding := range 8 {
				all = append(all, inPlace(namespace, fmt.Sprint(namespace, "-", finding), []string{"web", "db"}[finding%2], (finding*5+n)%findings))
			}
			refused = s.decide(t, all...)
		}
		if len(refused) == 0 {
			t.Fatal("no hostile exception was refused")
		}
		for name, message := range refused {
			if !strings.Contains(message, "the maximum") || !strings.Contains(message, "there is always room while the exceptions of the namespace "+name[:len("hostile-0")]) {
				t.Errorf("%s is refused with: %s", name, message)
			}
		}
		suppressed := map[string]int{}
		for _, namespace := range namespaces {
			suppressed[namespace] = findings
			if image, err := s.Image(t.Context(), store.OnlyNamespaces(namespace), s.key); err != nil {
				t.Error(err)
			} else {
				suppressed[namespace] = image.Counts.Total()
			}
		}
		s.expect(t, "honest namespaces before", map[string]int{"honest": findings, "other": findings})
		cluster := inPlace("honest", "cluster", "", 7, 21, 30)
		cluster.Object = store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: "cluster"}
		cluster.Places.Selector = "cluster"
		all = append(all, cluster, inPlace("honest", "honest-web", "web", 3, 11), inPlace("honest", "honest-db", "db", 3), inPlace("other", "other", "", 1, 11, 31))
		again := s.decide(t, all...)
		for _, d := range all[len(all)-4:] {
			if message, is := again[d.Object.Name]; is {
				t.Errorf("%s is refused with: %s", d.Object.Name, message)
			}
		}
		for name := range again {
			if refused[name] == "" {
				t.Errorf("%s is refused afterwards", name)
			}
		}
		suppressed["honest"], suppressed["other"] = findings-4, findings-3
		s.expect(t, "with honest exceptions", suppressed)
		s.expect(t, "workloads", map[string]int{"honest/web": findings - 5, "honest/db": findings - 4})
		if now, most := joined(), 8+always+(hostile+2)*always; now > most {
			t.Errorf("there are %d joined reaches, want at most %d", now, most)
		}
		// A namespace whose exceptions match more needs room like all others.
		message := s.decide(t, append(slices.Clone(all), inPlace("other", "more", "web", 0, 5, 10, 15, 20, 25, 30))...)["more"]
		if !strings.Contains(message, "the maximum for all is 6 (2 more are reserved for ClusterVulnerabilityExceptions)") {
			t.Errorf("more has the problem %q", message)
		}
		s.expect(t, "without what is refused", suppressed)
	})
}

// TestFewMatchesTakeNoRoom: what namespaces join whose exceptions match few findings takes no room from those that match more, nor do found findings of a namespace beyond
// its share.
func TestFewMatchesTakeNoRoom(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, config Config) {
		s := openJoining(t, config, "a", "b", "c", "d")
		s.matchBounds.joined, s.matchBounds.namespacedJoined, s.matchBounds.namespaceJoined, s.matchBounds.alwaysNamespace = 1, 1, 1, 1
		few := []store.Decision{inPlace("a", "a", "", 0), inPlace("b", "b", "", 0)}
		if refused := s.decide(t, append(few, inPlace("c", "c", "", 1, 2), inPlace("d", "d", "", 1, 2))...); len(refused) > 0 {
			t.Error(refused)
		}
		// All in a: three sets of its own, two of them with findings that come later.
		own := []store.Decision{inPlace("a", "whole", "", 0, 4, 5, 6), inPlace("a", "web", "web", 0, 4, 6), inPlace("a", "db", "db", 5, 6)}
		if refused := s.decide(t, own...); len(refused) > 0 {
			t.Error(refused)
		}
		if err := switchTo(t.Context(), s.Store, decidedFindings(7)); err != nil {
			t.Fatal(err)
		}
		if refused := s.decide(t, append(own, inPlace("c", "c", "", 1, 2), inPlace("d", "d", "", 1, 2))...); len(refused) > 0 {
			t.Error(refused)
		}
		s.expect(t, "with findings that came later", map[string]int{"a/web": 3, "a/db": 3, "b": 7, "c": 5, "d": 5})
	})
}

// TestRandomJoins applies and ends random exceptions with little room: whatever is refused, what applies suppresses where it says.
func TestRandomJoins(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, config Config) {
		s := openJoining(t, config, "a", "b", "c")
		s.matchBounds.joined, s.matchBounds.namespacedJoined, s.matchBounds.namespaceJoined, s.matchBounds.alwaysNamespace = 4, 3, 2, 2
		random := rand.New(rand.NewPCG(1, 1))
		all, refusals := []store.Decision{}, 0
		for i := range 40 {
			if len(all) > 2 && random.IntN(3) == 0 {
				n := random.IntN(len(all))
				all = slices.Delete(all, n, n+1)
			}
			namespace, workload := []string{"a", "b", "c"}[random.IntN(3)], []string{"", "web", "db"}[random.IntN(3)]
			all = append(all, inPlace(namespace, fmt.Sprint("e", i), workload, random.Perm(4)[:1+random.IntN(3)]...))
			refusals += len(s.decide(t, all...))
		}
		if refusals == 0 {
			t.Error("nothing was refused")
		}
		if s.decide(t); len(texts(t, s.Store, "SELECT id FROM reaches")) > 0 {
			t.Error("reaches are left without decisions")
		}
	})
}

// joined counts the joined reaches that there would be with the decisions of some namespaces only, before anything changes or with what is planned.
func (p *placeSets) joined(keep func(namespace string) bool, count func(*placeSet) int) int {
	joined := map[string]bool{}
	for _, set := range p.sets {
		if !set.joined() || count(set) <= 0 {
			continue
		}
		kept := slices.DeleteFunc(slices.Clone(set.members), func(reach int64) bool { return !keep(p.namespaces[reach]) })
		if len(kept) > 1 {
			_, list := setOf(kept)
			joined[string(list)] = true
		}
	}
	return len(joined)
}

// TestSharesAreCountedInOnePass: what the namespaces share is the same as if the sets were read for each namespace, and each set is read once, also after sets were added
// and decisions were refused.
func TestSharesAreCountedInOnePass(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 10))
	const reaches, findings = 40, 60
	p := &placeSets{sets: map[string]*placeSet{}, of: map[int64]*placeSet{}, namespaces: map[int64]string{}, matches: map[string]int{}}
	for reach := range int64(reaches) {
		p.namespaces[reach+1] = []string{"", "a", "b", "c", "d"}[random.IntN(5)]
	}
	for finding := range int64(findings) {
		var members []int64
		for reach := range int64(reaches) {
			if random.IntN(8) == 0 {
				members = append(members, reach+1)
			}
		}
		s := p.get(members)
		s.before, s.now = s.before+1, s.now+1
		p.of[finding] = s
	}
	compare := func(what string) {
		t.Helper()
		calls, want, now := 0, map[string]int{}, map[string]int{}
		for _, namespace := range []string{"a", "b", "c", "d"} {
			p.matches[namespace] = 1
			only := func(other string) bool { return other == namespace }
			want[namespace], now[namespace] = p.joined(only, countBefore), p.joined(only, countNow)
			counted := p.joinedIn(only)
			if counted.before != want[namespace] || counted.now() != now[namespace] {
				t.Errorf("%s: the namespace %s has %d joined reaches before and %d now, want %d and %d", what, namespace, counted.before, counted.now(), want[namespace], now[namespace])
			}
			if got := p.shareNow(namespace); got != now[namespace] {
				t.Errorf("%s: the namespace %s shares %d joined reaches, want %d", what, namespace, got, now[namespace])
			}
		}
		got := p.shares(func(s *placeSet) int { calls++; return s.before })
		if diff := cmp.Diff(want, got); diff != "" || calls > len(p.sets) {
			t.Errorf("%s: %d sets were read %d times (-want +got):\n%s", what, len(p.sets), calls, diff)
		}
		listed := 0
		for _, list := range p.shared {
			listed = max(listed, len(list))
		}
		if listed > len(p.sets) {
			t.Errorf("%s: a namespace lists %d of %d sets", what, listed, len(p.sets))
		}
	}
	compare("at first")
	counted := maps.Clone(p.counted)
	for n := range 50 {
		var some []int64
		for finding := range int64(findings) {
			if random.IntN(6) == 0 {
				some = append(some, finding)
			}
		}
		previous := make([]*placeSet, len(some))
		for i, finding := range some {
			previous[i] = p.of[finding]
		}
		sets := len(p.sets)
		p.fresh = nil
		p.add(some, int64(1+random.IntN(reaches)))
		if n%2 == 0 {
			for i, finding := range some {
				p.move(finding, previous[i])
			}
			if p.forgetFresh(); len(p.sets) != sets {
				t.Errorf("%d sets after a decision was refused, want %d", len(p.sets), sets)
			}
		}
		compare(fmt.Sprint("after decision ", n))
	}
	// All sets are read once for each of them.
	if !maps.Equal(counted, p.counted) || len(counted) != 4 {
		t.Errorf("%d counts at first, and %d others afterwards", len(counted), len(p.counted))
	}
}
