package policies

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const patience, tick = controllertest.Patience, controllertest.Tick

func TestMain(m *testing.M) { os.Exit(controllertest.Main(m)) }

// applied is what the store was told. The tests of storetest have a real one; here each answer is given.
type applied struct {
	mu       sync.Mutex
	policies []store.Policy
	synced   bool
	problems map[string]store.PolicyProblem
	next     time.Time
	took     func()
	// syncs, told and counted are how often the store was asked.
	syncs, told, counted int
}

func (a *applied) SyncPolicies(_ context.Context, policies []store.Policy) (map[string]store.PolicyProblem, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.policies, a.synced = policies, true
	a.syncs++
	return a.problems, nil
}

func (a *applied) RecordOverdue(context.Context) (time.Time, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told++
	if a.took != nil {
		a.took()
	}
	return a.next, nil
}

func (a *applied) ListPolicies(context.Context, store.Namespaces) ([]store.PolicySummary, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counted++
	var list []store.PolicySummary
	for _, p := range a.policies {
		if problem := a.problems[p.Name]; applies(problem) {
			list = append(list, store.PolicySummary{Policy: p, Due: model.SeverityCounts{Critical: 3, Low: 2}, Overdue: model.SeverityCounts{Low: 1}})
		}
	}
	return list, nil
}

// names are those of the last list, nil before there was one.
func (a *applied) names() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.synced {
		return nil
	}
	names := []string{}
	for _, p := range a.policies {
		names = append(names, p.Name)
	}
	return names
}

func (a *applied) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

func policy(name string) *scannerv1alpha1.VulnerabilityPolicy {
	return &scannerv1alpha1.VulnerabilityPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       scannerv1alpha1.VulnerabilityPolicySpec{DueIn: scannerv1alpha1.DueIn{Critical: new(int32(7)), KEV: new(int32(0))}},
	}
}

// summary is a status in one line.
func summary(p *scannerv1alpha1.VulnerabilityPolicy) string {
	said := []string{}
	if c := meta.FindStatusCondition(p.Status.Conditions, scannerv1alpha1.ConditionValid); c != nil {
		said = append(said, fmt.Sprintf("Valid=%s/%s", c.Status, c.Reason))
	}
	if p.Status.DueFindings != nil && p.Status.OverdueFindings != nil {
		said = append(said, fmt.Sprintf("due=%d overdue=%d", *p.Status.DueFindings, *p.Status.OverdueFindings))
	}
	if p.Status.ObservedGeneration == p.Generation {
		said = append(said, "observed")
	}
	return strings.Join(said, " ")
}

// TestPoliciesAreApplied runs the controller with its own rights on a real API server.
func TestPoliciesAreApplied(t *testing.T) {
	admin, g := controllertest.Config(t), gomega.NewWithT(t)
	scheme := controllertest.Scheme(t, scannerv1alpha1.AddToScheme)
	c, err := client.New(admin, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	create := func(p *scannerv1alpha1.VulnerabilityPolicy) {
		t.Helper()
		if err := c.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.IgnoreNotFound(c.Delete(context.Background(), p)) })
	}
	get := func(name string) *scannerv1alpha1.VulnerabilityPolicy {
		t.Helper()
		var now scannerv1alpha1.VulnerabilityPolicy
		if err := c.Get(t.Context(), types.NamespacedName{Name: name}, &now); err != nil {
			t.Fatal(err)
		}
		return &now
	}
	said := func(name string) func() string { return func() string { return summary(get(name)) } }

	policies := &applied{problems: map[string]store.PolicyProblem{
		"bad": {Reason: store.PolicyInvalid, Message: "select: line 1, column 8: undefined field 'x'"}, "failing": {Reason: store.PolicyEvaluationFailed, Message: "failed 2 times"},
	}}
	restricted, writes, recount := controllertest.Restricted(t), &controllertest.Writes{}, make(chan event.GenericEvent)
	restricted.Wrap(writes.Wrap)
	controllertest.Start(t, restricted, scheme, nil, func(mgr ctrl.Manager) error {
		return NewReconciler(mgr.GetClient(), policies, clock.RealClock{}).SetupWithManager(mgr, recount)
	})
	// Also when there is no policy: one may have been deleted while no controller ran.
	g.Eventually(policies.names, patience, tick).Should(gomega.Equal([]string{}))

	full := policy("a")
	full.Spec.Select = "finding.fixable"
	full.Spec.From = scannerv1alpha1.DueFromFixAvailable
	create(full)
	g.Eventually(said("a"), patience, tick).Should(gomega.Equal("Valid=True/Applied due=5 overdue=1 observed"))
	seven, zero := 7, 0
	want := store.Policy{Name: "a", Select: "finding.fixable", From: model.DueFromFixAvailable, DueIn: model.DueIn{Critical: &seven, KEV: &zero}}
	policies.set(func() {
		if diff := cmp.Diff([]store.Policy{want}, policies.policies); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	create(policy("bad"))
	g.Eventually(said("bad"), patience, tick).Should(gomega.Equal("Valid=False/Invalid observed"))
	create(policy("failing"))
	g.Eventually(said("failing"), patience, tick).Should(gomega.Equal("Valid=True/EvaluationFailed due=5 overdue=1 observed"))
	if from := get("bad").Spec.From; from != scannerv1alpha1.DueFromFirstSeen {
		t.Errorf("from defaults to %q", from)
	}
	if err := c.Delete(t.Context(), get("a")); err != nil {
		t.Fatal(err)
	}
	g.Eventually(policies.names, patience, tick).Should(gomega.ConsistOf("bad", "failing"))
	for _, write := range writes.Seen() {
		if !strings.HasPrefix(write, "PATCH /apis/scanner.zoltankerezsi.xyz/v1alpha1/vulnerabilitypolicies/") || !strings.HasSuffix(write, "/status") {
			t.Errorf("the controller wrote %s", write)
		}
	}
}

// listed is a client that has policies and namespaces, and nothing else.
type listed struct {
	client.Client
	policies   []scannerv1alpha1.VulnerabilityPolicy
	namespaces []metav1.PartialObjectMetadata
}

func (l *listed) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch into := list.(type) {
	case *scannerv1alpha1.VulnerabilityPolicyList:
		copied := scannerv1alpha1.VulnerabilityPolicyList{Items: l.policies}
		copied.DeepCopyInto(into)
	case *metav1.PartialObjectMetadataList:
		into.Items = slices.Clone(l.namespaces)
	}
	return nil
}

// Status takes statuses, and keeps none.
func (l *listed) Status() client.SubResourceWriter { return forgetful{} }

type forgetful struct{ client.SubResourceWriter }

func (forgetful) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return nil
}

// TestRests reconciles by a clock of its own.
func TestRests(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	policies := &applied{}
	r := NewReconciler(&listed{}, policies, clk)
	reconcile := func() time.Duration {
		t.Helper()
		result, err := r.Reconcile(t.Context(), ctrl.Request{})
		if err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter
	}
	if left := reconcile(); left != resync || policies.counted != 1 {
		t.Errorf("next in %s, %d counts; want %s and 1", left, policies.counted, resync)
	}
	if left := reconcile(); left != countEvery || policies.counted != 1 {
		t.Errorf("next in %s, %d counts; want %s and 1", left, policies.counted, countEvery)
	}
	clk.Step(countEvery)
	policies.next = clk.Now().Add(7 * time.Second)
	if left := reconcile(); left != 7*time.Second {
		t.Errorf("next in %s, want it when the next date passes", left)
	}
	// Where telling takes long, dates are told together.
	policies.took = func() { clk.Step(time.Second) }
	if left := reconcile(); left != restFactor*time.Second {
		t.Errorf("next in %s, want a rest of %s", left, restFactor*time.Second)
	}
}

func TestTheLastStatusWins(t *testing.T) {
	object, policies := policy("p"), &applied{}
	lagging := controllertest.NewLagging(t, scannerv1alpha1.AddToScheme, object)
	r := NewReconciler(lagging, policies, clocktesting.NewFakePassiveClock(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)))
	lagging.LastStatusWins(t, r, object, scannerv1alpha1.ConditionValid, "True/Applied", "False/Invalid", func(changed bool) {
		policies.problems = nil
		if changed {
			policies.problems = map[string]store.PolicyProblem{"p": {Reason: store.PolicyInvalid, Message: "x"}}
		}
	}, func() string { return summary(object) })
}
