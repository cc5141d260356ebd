package exceptions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const patience, tick = controllertest.Patience, controllertest.Tick

func TestMain(m *testing.M) { os.Exit(controllertest.Main(m)) }

// decided is what the store was told. The tests of setup have a real one; here each answer is given.
type decided struct {
	mu      sync.Mutex
	synced  [][]store.Decision
	counted int
	refused map[string]store.DecisionProblem
	counts  map[string]store.DecisionCount
	next    time.Time
}

func (d *decided) SyncDecisions(_ context.Context, source string, decisions []store.Decision) (map[store.DecisionObject]store.DecisionProblem, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if source == store.DecisionSourceKubernetes {
		d.synced = append(d.synced, decisions)
	}
	problems := map[store.DecisionObject]store.DecisionProblem{}
	for _, decision := range decisions {
		if problem, refused := d.refused[decision.Object.Name]; refused {
			problems[decision.Object] = problem
		}
	}
	return problems, nil
}

func (d *decided) ExpireDecisions(context.Context) (time.Time, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.next, nil
}

func (d *decided) DecisionCounts(context.Context, store.Namespaces, string) (map[store.DecisionObject]store.DecisionCount, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counted++
	counts := map[store.DecisionObject]store.DecisionCount{}
	for _, decision := range d.last() {
		if _, refused := d.refused[decision.Object.Name]; !refused {
			counts[decision.Object] = d.counts[decision.Object.Name]
		}
	}
	return counts, nil
}

// last is the last list, without what is refused; the caller holds the lock.
func (d *decided) last() []store.Decision {
	if len(d.synced) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(d.synced[len(d.synced)-1]), func(one store.Decision) bool { return one.Refused })
}

// names are those of the last list, nil before there was one.
func (d *decided) names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.synced) == 0 {
		return nil
	}
	names := []string{}
	for _, decision := range d.last() {
		names = append(names, decision.Object.Name)
	}
	return names
}

func (d *decided) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

// timestamp is a time as users write it.
func timestamp(at time.Time) scannerv1alpha1.Timestamp {
	return scannerv1alpha1.Timestamp(at.Format(time.RFC3339))
}

// clusterException returns an exception of one vulnerability.
func clusterException(name string) *scannerv1alpha1.ClusterVulnerabilityException {
	return &scannerv1alpha1.ClusterVulnerabilityException{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: scannerv1alpha1.ExceptionSpec{
			Match:  scannerv1alpha1.ExceptionMatch{Vulnerabilities: []string{"CVE-2024-3094"}},
			Status: scannerv1alpha1.FalsePositive, Mode: scannerv1alpha1.ModeApply,
		},
	}
}

// summary is a status in one line.
func summary(e exception) string {
	status := e.status
	said := []string{}
	for _, name := range []string{scannerv1alpha1.ConditionApplied, scannerv1alpha1.ConditionUsed} {
		if c := meta.FindStatusCondition(status.Conditions, name); c != nil {
			said = append(said, name+"="+string(c.Status)+"/"+c.Reason)
		}
	}
	for name, number := range map[string]*int64{"matched": status.MatchedFindings, "suppressed": status.SuppressedFindings} {
		if number != nil {
			said = append(said, fmt.Sprint(name, "=", *number))
		}
	}
	for name, is := range map[string]bool{"unused": status.Unused, "expired": status.Expired, "observed": status.ObservedGeneration == e.GetGeneration()} {
		if is {
			said = append(said, name)
		}
	}
	slices.Sort(said)
	return strings.Join(said, " ")
}

// TestExceptionsAreApplied runs the controller with its own rights on a real API server.
func TestExceptionsAreApplied(t *testing.T) {
	admin, g := controllertest.Config(t), gomega.NewWithT(t)
	scheme := controllertest.Scheme(t, scannerv1alpha1.AddToScheme)
	c, err := client.New(admin, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	create := func(e *scannerv1alpha1.ClusterVulnerabilityException) {
		t.Helper()
		if err := c.Create(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.IgnoreNotFound(c.Delete(context.Background(), e)) })
	}
	get := func(name string) *scannerv1alpha1.ClusterVulnerabilityException {
		t.Helper()
		var now scannerv1alpha1.ClusterVulnerabilityException
		if err := c.Get(t.Context(), types.NamespacedName{Name: name}, &now); err != nil {
			t.Fatal(err)
		}
		return &now
	}
	said := func(name string) func() string { return func() string { return summary(ofCluster(get(name))) } }

	decisions := &decided{counts: map[string]store.DecisionCount{"a": {Matched: 3, Suppressed: 3, Since: time.Now()}, "idle": {Since: time.Now().Add(-25 * time.Hour)}}}
	restricted, writes, recount := controllertest.Restricted(t), &controllertest.Writes{}, make(chan event.GenericEvent)
	restricted.Wrap(writes.Wrap)
	controllertest.Start(t, restricted, scheme, nil, func(mgr ctrl.Manager) error {
		return NewReconciler(mgr.GetClient(), decisions, clock.RealClock{}).SetupWithManager(mgr, recount)
	})
	// Also when there is no exception: one may have been deleted while no controller ran.
	g.Eventually(decisions.names, patience, tick).Should(gomega.Equal([]string{}))

	full := clusterException("a")
	end := time.Now().Add(time.Hour).Truncate(time.Second)
	full.Spec = scannerv1alpha1.ExceptionSpec{
		Match:  scannerv1alpha1.ExceptionMatch{Vulnerabilities: []string{"CVE-2024-3094"}, Packages: []string{"pkg:deb/debian/xz-utils"}, Images: []string{"docker.io/library/*"}},
		Status: scannerv1alpha1.NotAffected, Justification: "component_not_present", Comment: "not installed", ExpiresAt: timestamp(end), ExpireWhenFixed: true,
		Mode: scannerv1alpha1.ModeDryRun,
	}
	create(full)
	g.Eventually(decisions.names, patience, tick).Should(gomega.Equal([]string{"a"}))
	want := store.Decision{
		Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: "a"}, UID: string(full.GetUID()),
		Vulnerabilities: []string{"CVE-2024-3094"}, Packages: []string{"pkg:deb/debian/xz-utils"}, Images: []string{"docker.io/library/*"}, Status: model.DecisionNotAffected,
		Justification: "component_not_present", Comment: "not installed", ExpiresAt: end, Unfixed: true, DryRun: true,
	}
	decisions.set(func() {
		if diff := cmp.Diff(want, decisions.last()[0]); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	g.Eventually(said("a"), patience, tick).Should(gomega.Equal("Applied=False/DryRun Used=True/FindingsMatched matched=3 observed suppressed=3"))

	full = get("a")
	full.Spec.Mode = scannerv1alpha1.ModeApply
	if err := c.Update(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	g.Eventually(said("a"), patience, tick).Should(gomega.Equal("Applied=True/Applied Used=True/FindingsMatched matched=3 observed suppressed=3"))

	create(clusterException("idle"))
	g.Eventually(said("idle"), patience, tick).Should(gomega.Equal("Applied=True/Applied Used=False/NoFindings matched=0 observed suppressed=0 unused"))
	decisions.set(func() {
		decisions.refused = map[string]store.DecisionProblem{"late": {Reason: store.DecisionExpired, Message: "It expired."}}
	})
	create(clusterException("late"))
	g.Eventually(said("late"), patience, tick).Should(gomega.Equal("Applied=False/Expired Used=False/NotInEffect expired observed"))
	// One that is being deleted does not apply any more, whoever holds it up.
	held := clusterException("held")
	held.Finalizers = []string{"example.com/held"}
	create(held)
	g.Eventually(decisions.names, patience, tick).Should(gomega.ContainElement("held"))
	if err := c.Delete(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	g.Eventually(decisions.names, patience, tick).ShouldNot(gomega.ContainElement("held"))
	held = get("held")
	held.Finalizers = nil
	if err := c.Update(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), get("a")); err != nil {
		t.Fatal(err)
	}
	g.Eventually(decisions.names, patience, tick).Should(gomega.ConsistOf("idle", "late"))
	for _, write := range writes.Seen() {
		if !strings.HasPrefix(write, "PATCH /apis/scanner.zoltankerezsi.xyz/v1alpha1/clustervulnerabilityexceptions/") || !strings.HasSuffix(write, "/status") {
			t.Errorf("the controller wrote %s", write)
		}
	}
}

// world is a reconciler without an API server behind it.
type world struct {
	*decided
	*Reconciler
	clock   *clocktesting.FakePassiveClock
	objects *statuses
}

// TestCountsAndPatchesAreBounded reconciles 50 exceptions by a clock of its own.
func TestCountsAndPatchesAreBounded(t *testing.T) {
	w := newWorld(t, 50)
	if left := w.reconcile(t); left != time.Second || w.objects.patched != patchesPerSecond || w.counted != 1 {
		t.Fatalf("next in %s, %d patches, %d counts", left, w.objects.patched, w.counted)
	}
	for range 2 {
		w.clock.SetTime(w.clock.Now().Add(time.Second))
		w.reconcile(t)
	}
	if w.objects.patched != 50 || w.counted != 1 {
		t.Fatalf("%d patches, %d counts, want 50 and 1", w.objects.patched, w.counted)
	}
	// What they match has changed, and nothing else: that is counted when the minute is over.
	maps.DeleteFunc(w.decided.counts, func(string, store.DecisionCount) bool { return true })
	if left := w.reconcile(t); left != 58*time.Second || w.objects.patched != 50 || w.counted != 1 {
		t.Fatalf("next in %s, %d patches, %d counts", left, w.objects.patched, w.counted)
	}
	// A changed exception is counted at once, and no other with it.
	w.clock.SetTime(w.clock.Now().Add(time.Second))
	w.objects.exceptions[7].Generation++
	w.reconcile(t)
	if w.objects.patched != 51 || w.counted != 2 {
		t.Fatalf("%d patches, %d counts, want 51 and 2", w.objects.patched, w.counted)
	}
	w.clock.SetTime(w.clock.Now().Add(57 * time.Second))
	if left := w.reconcile(t); left != time.Second || w.objects.patched != 51+patchesPerSecond || w.counted != 3 {
		t.Fatalf("next in %s, %d patches, %d counts", left, w.objects.patched, w.counted)
	}
	for range 2 {
		w.clock.SetTime(w.clock.Now().Add(time.Second))
		w.reconcile(t)
	}
	patched := w.objects.patched
	if left := w.reconcile(t); left > countEvery || w.objects.patched != patched {
		t.Fatalf("next in %s, %d patches of statuses that have not changed", left, w.objects.patched-patched)
	}
	w.clock.SetTime(w.clock.Now().Add(countEvery))
	if left := w.reconcile(t); left != resync {
		t.Fatalf("next in %s, want %s when nothing changes", left, resync)
	}
	// The end of an exception, and of a decision of another source, is not slept through.
	w.objects.exceptions[3].Spec.ExpiresAt = timestamp(w.clock.Now().Add(9 * time.Second))
	if left := w.reconcile(t); left != 9*time.Second {
		t.Fatalf("next in %s, want it when the exception expires", left)
	}
	w.next = w.clock.Now().Add(4 * time.Second)
	if left := w.reconcile(t); left != 4*time.Second {
		t.Fatalf("next in %s, want it when the decision expires", left)
	}
	w.next = w.clock.Now().Add(-time.Hour)
	if left := w.reconcile(t); left != soonest {
		t.Fatalf("next in %s, want %s", left, soonest)
	}
}

// TestStatusesAreWrittenInTurn: when more numbers change than can be written, each gets its turn, and what users wait for comes first.
func TestStatusesAreWrittenInTurn(t *testing.T) {
	const size = 3 * patchesPerSecond
	w := newWorld(t, size)
	round := func(matched int) {
		t.Helper()
		w.clock.SetTime(w.clock.Now().Add(time.Second))
		for i := range w.objects.exceptions {
			w.decided.counts[w.objects.exceptions[i].Name] = store.DecisionCount{Matched: matched, Suppressed: matched, Since: w.clock.Now()}
		}
		w.countedAt = time.Time{}
		w.reconcile(t)
	}
	for range 3 {
		round(7)
	}
	for n := range 3 {
		round(100 + n)
	}
	for i := range w.objects.exceptions {
		if matched := w.objects.exceptions[i].Status.MatchedFindings; matched == nil || *matched < 100 {
			t.Errorf("the numbers of %s were not written: %v", w.objects.exceptions[i].Name, matched)
		}
	}
	last := &w.objects.exceptions[size/2]
	last.Generation++
	round(200)
	if last.Status.ObservedGeneration != last.Generation {
		t.Error("a changed exception waits for the numbers of others")
	}
	// One that cannot be written does not hold up those behind it.
	w.objects.broken = w.objects.exceptions[0].Name
	w.objects.exceptions[0].Generation++
	for n := range 5 * size / patchesPerSecond {
		w.clock.SetTime(w.clock.Now().Add(time.Second))
		for i := range w.objects.exceptions {
			w.decided.counts[w.objects.exceptions[i].Name] = store.DecisionCount{Matched: 300 + n, Suppressed: 300 + n, Since: w.clock.Now()}
		}
		w.countedAt = time.Time{}
		_, _ = w.Reconcile(t.Context(), kube.Everything)
	}
	for i := range w.objects.exceptions {
		if e := &w.objects.exceptions[i]; e.Name != w.objects.broken && *e.Status.MatchedFindings < 300 {
			t.Errorf("the numbers of %s were not written: %d", e.Name, *e.Status.MatchedFindings)
		}
	}
}

// statuses is a client that has lists of exceptions and namespaces, and takes the statuses of the exceptions.
type statuses struct {
	client.Client
	exceptions []scannerv1alpha1.ClusterVulnerabilityException
	namespaces []metav1.PartialObjectMetadata
	patched    int
	// broken is the exception whose status cannot be written.
	broken string
}

func (s *statuses) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch into := list.(type) {
	case *scannerv1alpha1.ClusterVulnerabilityExceptionList:
		copied := scannerv1alpha1.ClusterVulnerabilityExceptionList{Items: s.exceptions}
		copied.DeepCopyInto(into)
	case *metav1.PartialObjectMetadataList:
		into.Items = s.namespaces
	}
	return nil
}

func (s *statuses) Status() client.SubResourceWriter { return statusWriter{s} }

// statusWriter takes patches of statuses.
type statusWriter struct{ *statuses }

func (s statusWriter) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return errors.ErrUnsupported
}

func (s statusWriter) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	return errors.ErrUnsupported
}

func (s statusWriter) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errors.ErrUnsupported
}

func (s statusWriter) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	if s.broken != "" && object.GetName() == s.broken {
		return errors.New("refused")
	}
	s.patched++
	for i := range s.exceptions {
		if s.exceptions[i].Name == object.GetName() {
			object.(*scannerv1alpha1.ClusterVulnerabilityException).DeepCopyInto(&s.exceptions[i])
		}
	}
	return nil
}

func newWorld(t *testing.T, size int) *world {
	t.Helper()
	now := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC))
	objects, decisions := &statuses{}, &decided{counts: map[string]store.DecisionCount{}}
	for i := range size {
		e := clusterException("e" + strconv.Itoa(i))
		e.UID, e.Generation = types.UID(e.Name), 1
		objects.exceptions = append(objects.exceptions, *e)
		decisions.counts[e.Name] = store.DecisionCount{Matched: 7, Suppressed: 7, Since: now.Now()}
	}
	return &world{decisions, NewReconciler(objects, decisions, now), now, objects}
}

// reconcile returns when to reconcile again.
func (w *world) reconcile(t *testing.T) time.Duration {
	t.Helper()
	result, err := w.Reconcile(t.Context(), kube.Everything)
	if err != nil {
		t.Fatal(err)
	}
	return result.RequeueAfter
}

// TestZeroTimeIsAnEnd: an exception that ends in the year 1 has ended, and does not apply for ever.
func TestZeroTimeIsAnEnd(t *testing.T) {
	var e scannerv1alpha1.ClusterVulnerabilityException
	if err := json.Unmarshal([]byte(`{"spec":{"expiresAt":"0001-01-01T00:00:00Z"}}`), &e); err != nil {
		t.Fatal(err)
	}
	if got, err := (&Reconciler{}).decision(ofCluster(&e)); err != nil || got.ExpiresAt.IsZero() || got.ExpiresAt.After(time.Now()) {
		t.Errorf("the exception ends at %s, %v", got.ExpiresAt, err)
	}
}

func TestTheLastStatusWins(t *testing.T) {
	object, decisions := clusterException("e"), &decided{}
	lagging := controllertest.NewLagging(t, scannerv1alpha1.AddToScheme, object)
	r := NewReconciler(lagging, decisions, clocktesting.NewFakePassiveClock(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)))
	lagging.LastStatusWins(t, r, object, scannerv1alpha1.ConditionApplied, "True/Applied", "False/Invalid", func(changed bool) {
		decisions.refused = nil
		if changed {
			decisions.refused = map[string]store.DecisionProblem{"e": {Reason: store.DecisionInvalid, Message: "x"}}
		}
	}, func() string { return summary(ofCluster(object)) })
}
