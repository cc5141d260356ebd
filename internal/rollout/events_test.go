package rollout

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
)

// noon is the time of all rollouts.
var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// evaluated is a rollout of a Deployment that opened findings of these severities, the worst first, and closed a number of low ones.
func evaluated(closed int, opened ...model.Severity) *store.RolloutDetail {
	r := &store.RolloutDetail{Rollout: store.Rollout{
		ID: 7, At: noon, Workload: store.Workload{Namespace: "ns", Kind: "Deployment", Name: "web"}, Container: "app",
		Evaluation: store.RolloutEvaluation{State: store.RolloutEvaluated, At: noon, Closed: model.SeverityCounts{Low: closed}},
	}}
	for n, severity := range opened {
		r.Evaluation.Opened.Add(severity)
		r.WorstOpened = append(r.WorstOpened, store.RolloutFinding{VulnerabilityID: fmt.Sprint("CVE-", n+1), Package: "p", Severity: severity})
	}
	return r
}

func TestEvents(t *testing.T) {
	const critical, high, medium, low = model.SeverityCritical, model.SeverityHigh, model.SeverityMedium, model.SeverityLow
	twice := evaluated(0, critical, critical)
	twice.WorstOpened[1].VulnerabilityID = "CVE-1"
	for _, test := range []struct {
		rollout    *store.RolloutDetail
		kind, note string
	}{
		{evaluated(12, critical), "Warning", "rollout closed 12 findings, opened 1 critical: CVE-1 (container app)"},
		{evaluated(1, high, medium, medium), "Warning", "rollout closed 1 finding, opened 1 high, 2 medium: CVE-1, CVE-2, CVE-3 (container app)"},
		{evaluated(0, low, model.SeverityNegligible, model.SeverityUnknown), "Normal", "rollout opened 1 low, 1 negligible, 1 unknown: CVE-1, CVE-2, CVE-3 (container app)"},
		{evaluated(3), "Normal", "rollout closed 3 findings (container app)"},
		{evaluated(0), "Normal", "rollout opened and closed no findings (container app)"},
		{evaluated(0, slices.Repeat([]model.Severity{medium}, 9)...), "Normal", "rollout opened 9 medium: CVE-1, CVE-2, CVE-3, CVE-4, CVE-5, … (container app)"},
		{twice, "Warning", "rollout opened 2 critical: CVE-1 (container app)"},
	} {
		e := &Evaluator{Clock: clocktesting.NewFakeClock(noon)}
		event := e.event(corev1.ObjectReference{Kind: "Deployment", Name: "web"}, test.rollout)
		if event.Type != test.kind || event.Note != test.note {
			t.Errorf("%s %q, want %s %q", event.Type, event.Note, test.kind, test.note)
		}
	}
}

func TestEventsAreBounded(t *testing.T) {
	r := evaluated(1, slices.Repeat([]model.Severity{model.SeverityCritical}, 9)...)
	for n := range r.WorstOpened {
		r.WorstOpened[n].VulnerabilityID = fmt.Sprint(n, strings.Repeat("x", 254))
	}
	r.Container = strings.Repeat("c", 63)
	object := corev1.ObjectReference{Kind: "BellerophonSimple", Name: strings.Repeat("n", 200) + "." + strings.Repeat("n", 52)}
	event := (&Evaluator{Clock: clocktesting.NewFakeClock(noon)}).event(object, r)
	if faults := validation.IsDNS1123Subdomain(event.Name); len(faults) > 0 || len(event.Note) > 1024 || !strings.HasSuffix(event.Note, "… (container "+r.Container+")") {
		t.Errorf("%d bytes of name, %v; %d bytes of note: %s", len(event.Name), faults, len(event.Note), event.Note)
	}
	other := *r
	other.ID++
	if eventName(object, r) == eventName(object, &other) || eventName(object, r) != event.Name {
		t.Error("names of Events do not follow from the rollout")
	}
}

// rollouts is a store with rollouts to report.
type rollouts struct {
	pending  []store.RolloutDetail
	timedOut time.Time
	left     int
	err      error
}

func (v *rollouts) EvaluateRollouts(_ context.Context, timedOut time.Time, limit int) (int, error) {
	v.timedOut = timedOut
	taken := min(v.left, limit)
	v.left -= taken
	return taken, v.err
}

func (v *rollouts) UnreportedRollouts(_ context.Context, after int64, limit int) ([]store.RolloutDetail, error) {
	var pending []store.RolloutDetail
	for _, r := range v.pending {
		if r.ID > after && len(pending) < limit {
			pending = append(pending, r)
		}
	}
	return pending, v.err
}

func (v *rollouts) ReportIntroductions(context.Context, time.Time, int) (int, error) {
	return 0, v.err
}

func (v *rollouts) MarkRolloutReported(_ context.Context, id int64) error {
	v.pending = slices.DeleteFunc(v.pending, func(r store.RolloutDetail) bool { return r.ID == id })
	return v.err
}

// newEvaluator returns an evaluator with a cluster that has some objects, and whose API server fails with an error if there is one.
func newEvaluator(v *rollouts, fault *error, objects ...client.Object) (*Evaluator, *clocktesting.FakeClock) {
	clk := clocktesting.NewFakeClock(noon)
	funcs := interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if *fault != nil {
				return *fault
			}
			return c.Create(ctx, obj, opts...)
		},
	}
	c := fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
	return &Evaluator{Store: v, Live: c, Client: c, Instance: "i", Clock: clk, Log: logr.Discard()}, clk
}

func (e *Evaluator) reported(t *testing.T) []string {
	t.Helper()
	var events eventsv1.EventList
	if err := e.Client.List(t.Context(), &events); err != nil {
		t.Fatal(err)
	}
	var reported []string
	for i := range events.Items {
		on := events.Items[i].Regarding
		reported = append(reported, fmt.Sprintf("%s %s/%s %s", on.Kind, on.Namespace, on.Name, on.UID))
	}
	slices.Sort(reported)
	return reported
}

func of(id int64, kind, name string) store.RolloutDetail {
	r := evaluated(1)
	r.ID, r.Workload.Kind, r.Workload.Name = id, kind, name
	return *r
}

func TestWorkloadsWithEvents(t *testing.T) {
	v := &rollouts{left: 250, pending: []store.RolloutDetail{
		of(1, "Deployment", "web"), of(2, "StatefulSet", "pegasus"), of(3, "StatefulSet", "db"), of(4, "DaemonSet", "gone"), of(5, "CronJob", "nightly"),
		of(6, "Deployment", "web"),
	}}
	meta := func(name, ownerGroup string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u"}
		if ownerGroup != "" {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: ownerGroup + "/v1", Kind: "BellerophonSimple", Name: "owner", UID: "o", Controller: new(true)}}
		}
		return m
	}
	var fault error
	e, _ := newEvaluator(v, &fault,
		&appsv1.Deployment{ObjectMeta: meta("web", "")},
		&appsv1.StatefulSet{ObjectMeta: meta("pegasus", "stable.simple-bellerophon.io")},
		&appsv1.StatefulSet{ObjectMeta: meta("db", "example.com")})
	want := []string{
		"BellerophonSimple ns/owner o", "Deployment ns/web u", "Deployment ns/web u", "StatefulSet ns/db u", "StatefulSet ns/pegasus u",
	}
	for range 2 {
		e.evaluate(t.Context())
		if diff := cmp.Diff(want, e.reported(t)); diff != "" || len(v.pending) != 0 {
			t.Errorf("%d are not reported, reported (-want +got):\n%s", len(v.pending), diff)
		}
	}
	if v.left != 0 || !v.timedOut.Equal(noon.Add(-72*time.Hour)) {
		t.Errorf("%d rollouts were not evaluated; timed out before %s", v.left, v.timedOut)
	}
}

// TestRefusedEventsBlockNoOthers has a namespace refuse so many Events that they fill all that is taken at once, and more.
func TestRefusedEventsBlockNoOthers(t *testing.T) {
	v := &rollouts{}
	for id := range int64(250) {
		v.pending = append(v.pending, of(id+1, "Deployment", "refused"))
	}
	v.pending = append(v.pending, of(251, "Deployment", "web"))
	var none error
	e, _ := newEvaluator(v, &none, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u"}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "refused"}})
	refusing, tried, logged := true, 0, 0
	e.Log = funcr.New(func(string, string) { logged++ }, funcr.Options{})
	e.Client = interceptor.NewClient(e.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if event := obj.(*eventsv1.Event); refusing && event.Regarding.Name == "refused" {
				tried++
				return apierrors.NewForbidden(schema.GroupResource{Group: "events.k8s.io", Resource: "events"}, event.Name, errors.New("the quota is used up"))
			}
			return c.Create(ctx, obj, opts...)
		},
	})
	for n := range 3 {
		e.evaluate(t.Context())
		if tried > (n+1)*store.MaxEvaluated {
			t.Errorf("%d Events were refused in %d evaluations", tried, n+1)
		}
		if logged != n+1 {
			t.Errorf("%d lines in the log after %d evaluations, want one for each", logged, n+1)
		}
	}
	if diff := cmp.Diff([]string{"Deployment ns/web u"}, e.reported(t)); diff != "" || tried != 250 {
		t.Errorf("%d Events were refused, reported (-want +got):\n%s", tried, diff)
	}
	refusing = false
	e.evaluate(t.Context())
	if len(v.pending) != 0 {
		t.Errorf("%d are not reported when nothing is refused any more", len(v.pending))
	}
}

// inNamespaces returns an evaluator of rollouts of the Deployment web in some namespaces, in this order. Creations of Events take long where took says so, and
// fail there while *hangs. tried counts them by namespace.
func inNamespaces(took map[string]time.Duration, hangs *bool, namespaces ...string) (e *Evaluator, v *rollouts, clk *clocktesting.FakeClock, tried map[string]int) {
	v, tried = &rollouts{}, map[string]int{}
	var objects []client.Object
	for n, namespace := range namespaces {
		r := of(int64(n+1), "Deployment", "web")
		r.Workload.Namespace = namespace
		v.pending = append(v.pending, r)
		if !slices.Contains(namespaces[:n], namespace) {
			objects = append(objects, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", UID: "u"}})
		}
	}
	var none error
	e, clk = newEvaluator(v, &none, objects...)
	e.Client = interceptor.NewClient(e.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			tried[obj.GetNamespace()]++
			if _, limited := ctx.Deadline(); !limited {
				return errors.New("the request has no limit")
			}
			clk.Step(took[obj.GetNamespace()])
			if took[obj.GetNamespace()] > 0 && *hangs {
				return context.DeadlineExceeded
			}
			return c.Create(ctx, obj, opts...)
		},
	})
	return e, v, clk, tried
}

// TestSlowNamespacesDelayNoOthers has an admission webhook hang for Events in one namespace, which has more rollouts than are taken at once.
func TestSlowNamespacesDelayNoOthers(t *testing.T) {
	hangs := true
	namespaces := append(slices.Repeat([]string{"slow"}, 150), "ns")
	e, v, clk, tried := inNamespaces(map[string]time.Duration{"slow": 20 * time.Second}, &hangs, namespaces...)
	logged := 0
	e.Log = funcr.New(func(_, line string) {
		if strings.Contains(line, `"namespace"="slow"`) {
			logged++
		}
	}, funcr.Options{})
	if e.evaluate(t.Context()) {
		t.Error("the evaluation is complete")
	}
	if diff := cmp.Diff([]string{"Deployment ns/web u"}, e.reported(t)); diff != "" || tried["slow"] != 1 || logged != 1 {
		t.Errorf("%d Events were tried in the slow namespace, %d lines in the log; reported (-want +got):\n%s", tried["slow"], logged, diff)
	}
	if e.evaluate(t.Context()); tried["slow"] != 1 {
		t.Errorf("%d Events were tried in the slow namespace, without a rest", tried["slow"])
	}
	clk.Step(20 * time.Second)
	if e.evaluate(t.Context()); tried["slow"] != 2 {
		t.Errorf("%d Events were tried in the slow namespace, want another one after a rest as long as the first", tried["slow"])
	}
	clk.Step(restFactor*20*time.Second - time.Second)
	if e.evaluate(t.Context()); tried["slow"] != 2 {
		t.Errorf("%d Events were tried in the slow namespace, want a longer rest after the second", tried["slow"])
	}
	// What is too old is not tried, either.
	clk.Step(time.Hour)
	v.pending[0].Evaluation.At = clk.Now()
	e.rested["slow"] = clk.Now().Add(time.Minute)
	if e.evaluate(t.Context()); len(v.pending) != 1 || tried["slow"] != 2 {
		t.Errorf("%d are not reported, and %d Events were tried in the slow namespace", len(v.pending), tried["slow"])
	}
	hangs = false
	clk.Step(time.Minute)
	if !e.evaluate(t.Context()) || len(v.pending) != 0 {
		t.Errorf("%d are not reported when nothing hangs any more", len(v.pending))
	}
}

// TestReportingIsBounded has many namespaces in which Events take long, and some that just succeed.
func TestReportingIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		took  time.Duration
		hangs bool
	}{
		"all hang":           {maxReport, true},
		"all take long":      {maxReport - time.Second, false},
		"all fail after 4 s": {maxReport - time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			took := map[string]time.Duration{}
			var namespaces []string
			for n := range 20 {
				namespaces = append(namespaces, fmt.Sprint("slow-", n))
				took[namespaces[n]] = test.took
			}
			e, _, clk, tried := inNamespaces(took, &test.hangs, slices.Concat(namespaces, namespaces, []string{"ns"})...)
			evaluations := 0
			for began := clk.Now(); tried["ns"] == 0; began = clk.Now() {
				if evaluations++; evaluations > 40 {
					t.Fatal("the last rollout is never tried")
				}
				if e.evaluate(t.Context()); clk.Since(began) > maxReporting+maxReport {
					t.Fatalf("an evaluation took %s", clk.Since(began))
				}
			}
		})
	}
}

// TestSlowSuccessesRest has a webhook that lets Events through, just in time.
func TestSlowSuccessesRest(t *testing.T) {
	hangs := false
	e, v, clk, tried := inNamespaces(map[string]time.Duration{"slow": 3 * time.Second}, &hangs, append(slices.Repeat([]string{"slow"}, 9), "ns")...)
	e.evaluate(t.Context())
	if tried["slow"] != 2 || tried["ns"] != 1 || len(v.pending) != 7 {
		t.Errorf("%d Events in the slow namespace and %d in the other were tried, %d are not reported", tried["slow"], tried["ns"], len(v.pending))
	}
	for range 4 {
		clk.Step(time.Minute + time.Second)
		e.evaluate(t.Context())
	}
	if len(v.pending) != 0 {
		t.Errorf("%d are not reported", len(v.pending))
	}
}

func TestReportIsRetried(t *testing.T) {
	events := schema.GroupResource{Group: "events.k8s.io", Resource: "events"}
	terminating := apierrors.NewForbidden(events, "e", errors.New("the namespace is being deleted"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, test := range map[string]struct {
		fault error
		left  int
	}{
		"not allowed":                    {apierrors.NewForbidden(events, "e", errors.New("no right")), 1},
		"unavailable":                    {apierrors.NewServiceUnavailable("away"), 1},
		"the namespace is being deleted": {terminating, 0},
		"reported before":                {apierrors.NewAlreadyExists(events, "e"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			v := &rollouts{pending: []store.RolloutDetail{of(1, "Deployment", "web")}}
			fault := test.fault
			e, clk := newEvaluator(v, &fault, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}})
			e.evaluate(t.Context())
			if len(v.pending) != test.left {
				t.Fatalf("%d are not reported, want %d", len(v.pending), test.left)
			}
			if test.left == 0 {
				return
			}
			clk.Step(time.Hour + time.Second)
			e.evaluate(t.Context())
			if len(v.pending) != 0 {
				t.Error("it is retried for ever")
			}
		})
	}
}

// TestFailedEvaluationsAreRepeated has no event and no tick: the time between two attempts doubles to half a minute.
func TestFailedEvaluationsAreRepeated(t *testing.T) {
	attempts := make(chan struct{})
	v := &rollouts{err: errors.New("the database is away")}
	var none error
	e, clk := newEvaluator(v, &none)
	e.Store = attempted{v, attempts}
	db, err := sqlstore.Open(t.Context(), sqlstore.Config{DSN: filepath.Join(t.TempDir(), "test.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	e.Hub = feed.New(db, feed.Config{Log: logr.Discard()})
	ctx, stop := context.WithCancel(t.Context())
	subscription := e.Hub.Subscribe(ctx, feed.Filter{})
	defer subscription.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.follow(ctx, subscription, nil)
	}()
	next := func(after time.Duration) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !clk.HasWaiters(); runtime.Gosched() {
			if time.Now().After(deadline) {
				t.Fatal("nothing is repeated")
			}
		}
		clk.Step(after - time.Millisecond)
		if !clk.HasWaiters() {
			t.Errorf("repeated in less than %s", after)
		}
		clk.Step(time.Millisecond)
		<-attempts
	}
	<-attempts
	for _, after := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second} {
		next(after)
	}
	stop()
	<-done
}

// attempted is a store of rollouts that says when it is asked to evaluate them.
type attempted struct {
	*rollouts
	attempts chan<- struct{}
}

func (a attempted) EvaluateRollouts(ctx context.Context, timedOut time.Time, limit int) (int, error) {
	a.attempts <- struct{}{}
	return a.rollouts.EvaluateRollouts(ctx, timedOut, limit)
}
