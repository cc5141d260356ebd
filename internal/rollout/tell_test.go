package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
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

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// judged is a rollout of a Deployment that opened findings of these severities, the worst first, and closed so many low ones.
func judged(closed int, opened ...vuln.Severity) *store.RolloutDetail {
	r := &store.RolloutDetail{Rollout: store.Rollout{
		ID: 7, At: noon, Workload: store.Workload{Namespace: "ns", Kind: "Deployment", Name: "web"}, Container: "app",
		Verdict: store.RolloutVerdict{State: store.RolloutJudged, At: noon, Closed: vuln.SeverityCounts{Low: closed}},
	}}
	for n, severity := range opened {
		r.Verdict.Opened.Add(severity)
		r.WorstOpened = append(r.WorstOpened, store.RolloutFinding{VulnerabilityID: fmt.Sprint("CVE-", n+1), Package: "p", Severity: severity})
	}
	return r
}

func TestEvents(t *testing.T) {
	const critical, high, medium, low = vuln.SeverityCritical, vuln.SeverityHigh, vuln.SeverityMedium, vuln.SeverityLow
	twice := judged(0, critical, critical)
	twice.WorstOpened[1].VulnerabilityID = "CVE-1"
	for _, test := range []struct {
		rollout    *store.RolloutDetail
		kind, note string
	}{
		{judged(12, critical), "Warning", "rollout closed 12 findings, opened 1 critical: CVE-1 (container app)"},
		{judged(1, high, medium, medium), "Warning", "rollout closed 1 finding, opened 1 high, 2 medium: CVE-1, CVE-2, CVE-3 (container app)"},
		{judged(0, low, vuln.SeverityNegligible, vuln.SeverityUnknown), "Normal", "rollout opened 1 low, 1 negligible, 1 unknown: CVE-1, CVE-2, CVE-3 (container app)"},
		{judged(3), "Normal", "rollout closed 3 findings (container app)"},
		{judged(0), "Normal", "rollout opened and closed no findings (container app)"},
		{judged(0, slices.Repeat([]vuln.Severity{medium}, 9)...), "Normal", "rollout opened 9 medium: CVE-1, CVE-2, CVE-3, CVE-4, CVE-5, … (container app)"},
		{twice, "Warning", "rollout opened 2 critical: CVE-1 (container app)"},
	} {
		j := &Judge{Clock: clocktesting.NewFakeClock(noon)}
		event := j.event(corev1.ObjectReference{Kind: "Deployment", Name: "web"}, test.rollout)
		if event.Type != test.kind || event.Note != test.note {
			t.Errorf("%s %q, want %s %q", event.Type, event.Note, test.kind, test.note)
		}
	}
}

func TestEventsAreBounded(t *testing.T) {
	r := judged(1, slices.Repeat([]vuln.Severity{vuln.SeverityCritical}, 9)...)
	for n := range r.WorstOpened {
		r.WorstOpened[n].VulnerabilityID = fmt.Sprint(n, strings.Repeat("x", 254))
	}
	r.Container = strings.Repeat("c", 63)
	object := corev1.ObjectReference{Kind: "BellerophonSimple", Name: strings.Repeat("n", 200) + "." + strings.Repeat("n", 52)}
	event := (&Judge{Clock: clocktesting.NewFakeClock(noon)}).event(object, r)
	if faults := validation.IsDNS1123Subdomain(event.Name); len(faults) > 0 || len(event.Note) > 1024 || !strings.HasSuffix(event.Note, "… (container "+r.Container+")") {
		t.Errorf("%d bytes of name, %v; %d bytes of note: %s", len(event.Name), faults, len(event.Note), event.Note)
	}
	other := *r
	other.ID++
	if eventName(object, r) == eventName(object, &other) || eventName(object, r) != event.Name {
		t.Error("names of Events do not follow from the rollout")
	}
}

// verdicts is a store with rollouts that are to be told.
type verdicts struct {
	untold []store.RolloutDetail
	giveUp time.Time
	left   int
	err    error
}

func (v *verdicts) JudgeRollouts(_ context.Context, giveUp time.Time, limit int) (int, error) {
	v.giveUp = giveUp
	taken := min(v.left, limit)
	v.left -= taken
	return taken, v.err
}

func (v *verdicts) UntoldRollouts(_ context.Context, after int64, limit int) ([]store.RolloutDetail, error) {
	var untold []store.RolloutDetail
	for _, r := range v.untold {
		if r.ID > after && len(untold) < limit {
			untold = append(untold, r)
		}
	}
	return untold, v.err
}

func (v *verdicts) RolloutTold(_ context.Context, id int64) error {
	v.untold = slices.DeleteFunc(v.untold, func(r store.RolloutDetail) bool { return r.ID == id })
	return v.err
}

// telling is a judge with a cluster that has some objects, and whose API server fails with an error if there is one.
func telling(v *verdicts, fault *error, objects ...client.Object) (*Judge, *clocktesting.FakeClock) {
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
	return &Judge{Store: v, Live: c, Client: c, Instance: "i", Clock: clk, Log: logr.Discard()}, clk
}

func (j *Judge) told(t *testing.T) []string {
	t.Helper()
	var events eventsv1.EventList
	if err := j.Client.List(t.Context(), &events); err != nil {
		t.Fatal(err)
	}
	var told []string
	for i := range events.Items {
		on := events.Items[i].Regarding
		told = append(told, fmt.Sprintf("%s %s/%s %s", on.Kind, on.Namespace, on.Name, on.UID))
	}
	slices.Sort(told)
	return told
}

func of(id int64, kind, name string) store.RolloutDetail {
	r := judged(1)
	r.ID, r.Workload.Kind, r.Workload.Name = id, kind, name
	return *r
}

func TestWhoIsTold(t *testing.T) {
	v := &verdicts{left: 250, untold: []store.RolloutDetail{
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
	j, _ := telling(v, &fault,
		&appsv1.Deployment{ObjectMeta: meta("web", "")},
		&appsv1.StatefulSet{ObjectMeta: meta("pegasus", "stable.simple-bellerophon.io")},
		&appsv1.StatefulSet{ObjectMeta: meta("db", "example.com")})
	want := []string{
		"BellerophonSimple ns/owner o", "Deployment ns/web u", "Deployment ns/web u", "StatefulSet ns/db u", "StatefulSet ns/pegasus u",
	}
	for range 2 {
		j.look(t.Context())
		if diff := cmp.Diff(want, j.told(t)); diff != "" || len(v.untold) != 0 {
			t.Errorf("%d are still to be told, told (-want +got):\n%s", len(v.untold), diff)
		}
	}
	if v.left != 0 || !v.giveUp.Equal(noon.Add(-72*time.Hour)) {
		t.Errorf("%d rollouts were not judged; given up from before %s", v.left, v.giveUp)
	}
}

// TestRefusalsHoldUpNobody has a namespace refuse so many Events that they fill all that is taken at once, and more.
func TestRefusalsHoldUpNobody(t *testing.T) {
	v := &verdicts{}
	for id := range int64(250) {
		v.untold = append(v.untold, of(id+1, "Deployment", "refused"))
	}
	v.untold = append(v.untold, of(251, "Deployment", "web"))
	var none error
	j, _ := telling(v, &none, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u"}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "refused"}})
	refusing, tried := true, 0
	j.Client = interceptor.NewClient(j.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if event := obj.(*eventsv1.Event); refusing && event.Regarding.Name == "refused" {
				tried++
				return apierrors.NewForbidden(schema.GroupResource{Group: "events.k8s.io", Resource: "events"}, event.Name, errors.New("the quota is used up"))
			}
			return c.Create(ctx, obj, opts...)
		},
	})
	for look := range 3 {
		j.look(t.Context())
		if tried > (look+1)*store.MaxJudged {
			t.Errorf("%d Events were refused in %d looks", tried, look+1)
		}
	}
	if diff := cmp.Diff([]string{"Deployment ns/web u"}, j.told(t)); diff != "" || tried != 250 {
		t.Errorf("%d Events were refused, told (-want +got):\n%s", tried, diff)
	}
	refusing = false
	j.look(t.Context())
	if len(v.untold) != 0 {
		t.Errorf("%d are still to be told when nothing is refused any more", len(v.untold))
	}
}

func TestTellingIsTriedAgain(t *testing.T) {
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
		"told before":                    {apierrors.NewAlreadyExists(events, "e"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			v := &verdicts{untold: []store.RolloutDetail{of(1, "Deployment", "web")}}
			fault := test.fault
			j, clk := telling(v, &fault, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}})
			j.look(t.Context())
			if len(v.untold) != test.left {
				t.Fatalf("%d are still to be told, want %d", len(v.untold), test.left)
			}
			if test.left == 0 {
				return
			}
			clk.Step(time.Hour + time.Second)
			j.look(t.Context())
			if len(v.untold) != 0 {
				t.Error("it is tried for ever")
			}
		})
	}
}
