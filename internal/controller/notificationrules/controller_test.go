package notificationrules

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
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
	"github.com/scanner-operator/scanner-operator/internal/notify"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const patience, tick = controllertest.Patience, controllertest.Tick

func TestMain(m *testing.M) { os.Exit(controllertest.Main(m)) }

// engine is what an engine was given. The tests of notify have a real one; here each answer is given.
type engine struct {
	mu     sync.Mutex
	set    bool
	rules  []*notify.Rule
	known  []store.NotificationRule
	states map[string]notify.State
}

func (e *engine) SetRules(_ context.Context, rules []*notify.Rule, known []store.NotificationRule) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.set, e.rules, e.known = true, rules, known
	return nil
}

func (e *engine) States() map[string]notify.State {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.states
}

// names are the rules in effect, and the number of known ones; nil before there was a list.
func (e *engine) names() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.set {
		return nil
	}
	names := []string{fmt.Sprint("known: ", len(e.known))}
	for _, rule := range e.rules {
		names = append(names, rule.String())
	}
	slices.Sort(names)
	return names
}

// begun is a time in the past, to which those of statuses are compared.
var begun = time.Now().Truncate(time.Second).Add(-time.Hour)

// at is a time as the time since begun, "" for none.
func at(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	return " at " + t.Sub(begun).String()
}

// said is a status in one line.
func said(generation int64, status *scannerv1alpha1.NotificationRuleStatus) string {
	var texts []string
	for _, kind := range []string{scannerv1alpha1.ConditionValid, scannerv1alpha1.ConditionDelivering} {
		if c := meta.FindStatusCondition(status.Conditions, kind); c != nil {
			texts = append(texts, fmt.Sprintf("%s=%s/%s", kind, c.Status, c.Reason))
		}
	}
	for _, sink := range status.Sinks {
		texts = append(texts, fmt.Sprintf("%s: %d pending, %d delivered%s, %d dropped %s", sink.Name, sink.Pending, sink.Delivered, at(sink.LastDeliveryTime), sink.Dropped, sink.Error))
	}
	if status.Pending > 0 || status.OldestPendingTime != nil || status.LastDeliveryTime != nil {
		texts = append(texts, fmt.Sprintf("%d pending since%s, delivered%s", status.Pending, at(status.OldestPendingTime), at(status.LastDeliveryTime)))
	}
	if status.ObservedGeneration == generation {
		texts = append(texts, "observed")
	}
	return strings.Join(texts, "; ")
}

// spec sends to a credential.
func spec(when, credential string) scannerv1alpha1.NotificationRuleSpec {
	return scannerv1alpha1.NotificationRuleSpec{
		When: when, Sinks: []scannerv1alpha1.NotificationSink{{Name: "chat", Slack: &scannerv1alpha1.NotificationChannel{Credential: credential}}},
	}
}

// TestRulesAreApplied runs the controller with its own rights on a real API server.
func TestRulesAreApplied(t *testing.T) {
	admin, g := controllertest.Config(t), gomega.NewWithT(t)
	scheme := controllertest.Scheme(t, scannerv1alpha1.AddToScheme, corev1.AddToScheme)
	c, err := client.New(admin, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	create := func(o client.Object) {
		t.Helper()
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.IgnoreNotFound(c.Delete(context.Background(), o)) })
	}
	create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	config, err := notify.ParseConfig(`{credentials: [{name: chat, namespaces: [shop]}, {name: private}]}`)
	if err != nil {
		t.Fatal(err)
	}
	e, changed := &engine{}, make(chan event.GenericEvent, 1)
	restricted, writes := controllertest.Restricted(t), &controllertest.Writes{}
	restricted.Wrap(writes.Wrap)
	controllertest.Start(t, restricted, scheme, nil, func(mgr ctrl.Manager) error {
		return NewReconciler(mgr.GetClient(), e, config, clock.RealClock{}).SetupWithManager(mgr, changed)
	})
	// Also when there is no rule: one may have been deleted while no controller ran.
	g.Eventually(e.names, patience, tick).Should(gomega.Equal([]string{"known: 0"}))

	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "shop", Name: name} }
	good := &scannerv1alpha1.NotificationRule{ObjectMeta: named("good"), Spec: spec(`finding.kev`, "chat")}
	for _, name := range []string{"ops", "later"} {
		good.Spec.Sinks = append(good.Spec.Sinks, scannerv1alpha1.NotificationSink{Name: name, Slack: &scannerv1alpha1.NotificationChannel{Credential: "chat"}})
	}
	create(good)
	create(&scannerv1alpha1.NotificationRule{ObjectMeta: named("other"), Spec: spec("", "private")})
	create(&scannerv1alpha1.ClusterNotificationRule{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: spec("", "private")})
	create(&scannerv1alpha1.ClusterNotificationRule{ObjectMeta: metav1.ObjectMeta{Name: "bad"}, Spec: spec("finding.x", "private")})
	g.Eventually(e.names, patience, tick).Should(gomega.Equal([]string{"all", "known: 4", "shop/good"}))
	status := func(name string) func() string {
		return func() string {
			var now scannerv1alpha1.NotificationRule
			if err := c.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: name}, &now); err != nil {
				return err.Error()
			}
			return said(now.Generation, &now.Status)
		}
	}
	const idle = "chat: 0 pending, 0 delivered, 0 dropped ; observed"
	g.Eventually(status("good"), patience, tick).Should(gomega.Equal("Valid=True/Active; Delivering=True/Delivering; chat: 0 pending, 0 delivered, 0 dropped ; ops: 0 pending, 0 delivered, 0 dropped ; later: 0 pending, 0 delivered, 0 dropped ; observed"))
	g.Eventually(status("other"), patience, tick).Should(gomega.Equal("Valid=False/Invalid; Delivering=False/NotActive; " + idle))
	g.Eventually(func() string {
		var now scannerv1alpha1.ClusterNotificationRule
		if err := c.Get(t.Context(), types.NamespacedName{Name: "bad"}, &now); err != nil {
			return err.Error()
		}
		return said(now.Generation, &now.Status)
	}, patience, tick).Should(gomega.Equal("Valid=False/Invalid; Delivering=False/NotActive; " + idle))

	// Each time is that of another sink, and the message that is to be sent later does not wait yet.
	queues := map[string]store.NotificationQueue{
		"chat":  {Pending: 2, NextReady: begun.Add(2*time.Minute + time.Millisecond), DeliveredAt: begun.Add(time.Minute + time.Millisecond), Delivered: 7, Dropped: 1},
		"ops":   {Pending: 1, NextReady: begun.Add(3 * time.Minute), DeliveredAt: begun.Add(90 * time.Second), Delivered: 3},
		"later": {Pending: 4, NextReady: begun.Add(24 * time.Hour)},
	}
	for _, step := range []struct {
		queues   map[string]store.NotificationQueue
		problems map[string]string
		want     string
	}{
		{
			queues, map[string]string{"chat": "the receiver answers with status 503"},
			"Valid=True/Active; Delivering=False/DeliveryFailed; chat: 2 pending, 7 delivered at 1m0s, 1 dropped the receiver answers with status 503; " +
				"ops: 1 pending, 3 delivered at 1m30s, 0 dropped ; later: 4 pending, 0 delivered, 0 dropped ; 7 pending since at 2m0s, delivered at 1m30s; observed",
		},
		{
			map[string]store.NotificationQueue{"chat": {DeliveredAt: begun.Add(time.Minute), Delivered: 7, Dropped: 3}, "ops": queues["ops"], "later": queues["later"]}, nil,
			"Valid=True/Active; Delivering=True/Delivering; chat: 0 pending, 7 delivered at 1m0s, 3 dropped ; " +
				"ops: 1 pending, 3 delivered at 1m30s, 0 dropped ; later: 4 pending, 0 delivered, 0 dropped ; 5 pending since at 3m0s, delivered at 1m30s; observed",
		},
		{
			map[string]store.NotificationQueue{"chat": {DeliveredAt: begun.Add(4 * time.Minute), Delivered: 8, Dropped: 3}, "later": queues["later"]}, nil,
			"Valid=True/Active; Delivering=True/Delivering; chat: 0 pending, 8 delivered at 4m0s, 3 dropped ; " +
				"ops: 0 pending, 0 delivered, 0 dropped ; later: 4 pending, 0 delivered, 0 dropped ; 4 pending since, delivered at 4m0s; observed",
		},
	} {
		e.mu.Lock()
		e.states = map[string]notify.State{string(good.UID): {Queues: step.queues, Problems: step.problems}}
		e.mu.Unlock()
		changed <- event.GenericEvent{Object: good}
		g.Eventually(status("good"), patience, tick).Should(gomega.Equal(step.want))
	}
	if err := c.Delete(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	g.Eventually(e.names, patience, tick).Should(gomega.Equal([]string{"all", "known: 3"}))
	for _, write := range writes.Seen() {
		if !strings.HasPrefix(write, "PATCH /apis/scanner.zoltankerezsi.xyz/v1alpha1/") || !strings.HasSuffix(write, "/status") {
			t.Errorf("the controller wrote %s", write)
		}
	}
}

// Rules of one namespace take no room from those of others.
func TestRulesFit(t *testing.T) {
	var objects []object
	add := func(namespace string, n int) {
		for i := range n {
			name := fmt.Sprintf("%s-%d", namespace, i)
			o := &scannerv1alpha1.NotificationRule{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}}
			objects = append(objects, object{o, &o.Spec, &o.Status})
		}
	}
	add("greedy", notify.MaxRulesPerNamespace+5)
	add("", notify.MaxClusterRules+1)
	within, beyond := fit(objects)
	if len(within) != notify.MaxRulesPerNamespace+notify.MaxClusterRules || len(beyond) != 6 || !beyond["greedy-10"] || !beyond["-50"] {
		t.Errorf("%d rules fit, %v do not", len(within), beyond)
	}
	for i := range notify.MaxRules {
		add(fmt.Sprint("team", i), 2)
	}
	within, _ = fit(objects)
	first := 0
	for _, o := range within {
		if strings.HasPrefix(o.GetName(), "team") && strings.HasSuffix(o.GetName(), "-0") {
			first++
		}
		if strings.HasPrefix(o.GetName(), "team") && strings.HasSuffix(o.GetName(), "-1") || o.GetName() == "greedy-1" {
			t.Errorf("%s fits", o.GetName())
		}
	}
	if len(within) != notify.MaxRules || first != notify.MaxRules-notify.MaxClusterRules-1 {
		t.Errorf("%d rules fit, %d of them are the first of their namespace", len(within), first)
	}
}

func TestTheLastStatusWins(t *testing.T) {
	config, err := notify.ParseConfig(`{credentials: [{name: chat}]}`)
	if err != nil {
		t.Fatal(err)
	}
	object, e := &scannerv1alpha1.ClusterNotificationRule{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: spec("finding.kev", "chat")}, &engine{}
	lagging := controllertest.NewLagging(t, scannerv1alpha1.AddToScheme, object)
	r := NewReconciler(lagging, e, config, clocktesting.NewFakePassiveClock(begun))
	lagging.LastStatusWins(t, r, object, scannerv1alpha1.ConditionValid, "True/Active", "True/EvaluationFailed", func(changed bool) {
		e.states = nil
		if changed {
			e.states = map[string]notify.State{string(object.UID): {Failure: "x"}}
		}
	}, func() string { return said(object.Generation, &object.Status) })
}
