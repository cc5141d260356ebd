package scanner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// jobsOf returns the recorded Jobs of a name each, in one namespace each, all open.
func jobsOf(t *testing.T, names ...string) (recorded, []client.Object) {
	t.Helper()
	kept, objects := recorded{}, []client.Object{}
	for _, name := range names {
		job := scanJobOf()
		job.Namespace, job.UID, job.CreationTimestamp = name, types.UID(name), metav1.NewTime(now)
		record := records(t, job)[job.Name]
		job.Name, record.Name, record.Key = "scan-"+name, "scan-"+name, imageKey(name)
		kept[job.Name] = record
		objects = append(objects, job)
	}
	return kept, objects
}

// TestOneJobDoesNotStopAllScans: what fails about the Job of one namespace, whose users may have caused it, concerns no other Job.
func TestOneJobDoesNotStopAllScans(t *testing.T) {
	kept, objects := jobsOf(t, "fine", "kept", "broken", "forbidden")
	kept.close("scan-kept")
	job := schema.GroupResource{Group: "batch", Resource: "jobs"}
	unread, deletes := map[string]error{
		"scan-broken": apierrors.NewInternalError(errors.New("etcd")), "scan-forbidden": apierrors.NewForbidden(job, "scan-forbidden", errors.New("no Role")),
	}, 0
	// The cache shows the Jobs that can be read alone.
	c := interceptor.NewClient(clientWith(t, objects...), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if jobs, ok := list.(*batchv1.JobList); ok {
				jobs.Items = slices.DeleteFunc(jobs.Items, func(job batchv1.Job) bool { return unread[job.Name] != nil })
			}
			return err
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if err := unread[key.Name]; err != nil {
				return err
			}
			return c.Get(ctx, key, obj, opts...)
		},
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			deletes++
			return apierrors.NewForbidden(job, "scan-kept", errors.New("denied by a policy"))
		},
	})
	clk := testclock.NewFakeClock(now)
	jobs := jobsOn(c, c, kept, clk)
	read := func() map[string]Attempt {
		t.Helper()
		attempts, err := jobs.Attempts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		jobs.DeleteEnded(t.Context())
		return attempts
	}
	attempts := read()
	if got := attempts["scan-fine"]; got.Done || got.Blocked || got.Retry {
		t.Errorf("the Job of another namespace: %+v, want it under way", got)
	}
	if got := attempts["scan-kept"]; !got.Done {
		t.Errorf("a Job that is over and cannot be deleted: %+v, want it done", got)
	}
	if got := attempts["scan-broken"]; got.Done || !got.late(now) || !got.Retry || got.Namespace != "broken" {
		t.Errorf("a Job that cannot be read: %+v, want it to hold a slot of its namespace only, and to be read again", got)
	}
	if got := attempts["scan-forbidden"]; !got.Done || got.Outcome.Reason != model.ReasonUnschedulable || !strings.Contains(got.Outcome.Message, "no Role") {
		t.Errorf("a Job that must not be read: %+v, want it failed", got)
	}
	kept.close("scan-forbidden")
	read()
	if _, known := kept["scan-forbidden"]; known || deletes != 1 {
		t.Errorf("the record of a Job that must not be read stays: %t; %d deletions within a moment, want 1", known, deletes)
	}
	clk.Step(deleteAgain)
	if read(); deletes != 2 {
		t.Errorf("%d deletions after %s, want 2", deletes, deleteAgain)
	}
	unread = nil
	if got := read()["scan-broken"]; got.Retry || got.Created.IsZero() {
		t.Errorf("a Job that can be read again: %+v, want it as it is", got)
	}
	clk.Step(forgetAfter)
	if read(); len(kept) != 2 {
		t.Errorf("%d records after %s, want those of the two Jobs that somebody waits for: %v", len(kept), forgetAfter, kept)
	}
}

// TestANamespaceThatFailsStallsNoOther: an admission webhook that fails for the first image in the order does not keep the others from being scanned.
func TestANamespaceThatFailsStallsNoOther(t *testing.T) {
	failing, same, fine := imageKey("failing"), imageKey("same"), imageKey("fine")
	pod := func(name, namespace string, key model.ImageKey, age time.Duration) *corev1.Pod {
		pod := podOf(name, key.ImageID, age)
		pod.Namespace = namespace
		return pod
	}
	known, cataloger := memory{}, &starter{attempts: map[string]Attempt{}, failing: map[string]error{"bad": apierrors.NewTooManyRequestsError("webhook")}}
	scanner := scannerWith(func(s *scannerv1.Scanner) {
		s.Spec.NamespaceSelector, s.Spec.Concurrency = &metav1.LabelSelector{}, new(int32(5))
	})
	r, _ := newReconciler(t, known, cataloger, scanner, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bad"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "good"}},
		pod("a", "bad", failing, 3*time.Hour), pod("b", "bad", same, 2*time.Hour), pod("c", "good", fine, time.Hour))
	r.Namespace = "ns"
	clk, ok := r.Clock.(*testclock.FakeClock)
	if !ok {
		t.Fatal("no clock")
	}

	result, shown := reconcileOnce(t, r)
	if diff := cmp.Diff([]model.ImageKey{fine}, cataloger.started); diff != "" {
		t.Errorf("started (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"bad"}, cataloger.tried); diff != "" {
		t.Errorf("namespaces of starts that failed (-want +got):\n%s", diff)
	}
	if result.RequeueAfter != firstStall || shown.Status.Containers == nil || shown.Status.Containers.Pending != 3 {
		t.Errorf("next after %s, want %s; containers: %+v, want 3 that are pending", result.RequeueAfter, firstStall, shown.Status.Containers)
	}
	// Nothing is tried there until the stall is over, which takes longer each time.
	reconcileOnce(t, r)
	for wait := firstStall; wait <= 4*firstStall; wait *= 2 {
		clk.Step(wait - 1)
		before := len(cataloger.tried)
		if reconcileOnce(t, r); len(cataloger.tried) != before {
			t.Fatalf("tried again before %s", wait)
		}
		clk.Step(1)
		if reconcileOnce(t, r); len(cataloger.tried) != before+1 {
			t.Fatalf("not tried again after %s", wait)
		}
	}
	cataloger.failing = nil
	clk.Step(maxStall)
	reconcileOnce(t, r)
	if len(cataloger.started) != 3 {
		t.Errorf("started %v, want all", cataloger.started)
	}
	if len(r.stalls.namespaces) != 0 {
		t.Errorf("the failures are still known: %v", r.stalls.namespaces)
	}
}

// TestASlowAPIServerIsAskedOnce: each request that times out could take 20 seconds of the only worker.
func TestASlowAPIServerIsAskedOnce(t *testing.T) {
	refused := imageKey("refused")
	for name, slow := range map[string]*starter{
		"a failure": {attempts: map[string]Attempt{}, failing: map[string]error{"ns": apierrors.NewTimeoutError("the quota was not evaluated", 0)}},
		// As of a webhook that does not respond.
		"a refusal": {attempts: map[string]Attempt{}, refuse: "r.example"},
	} {
		t.Run(name, func(t *testing.T) {
			known := memory{}
			r, _ := newReconciler(t, known, slow, scannerWith(nil), podOf("a", refused.ImageID, time.Hour), podOf("b", imageKey("b").ImageID, time.Minute))
			clk, ok := r.Clock.(*testclock.FakeClock)
			if !ok {
				t.Fatal("no clock")
			}
			asked := 0
			slow.took = func(scanjob.Request) { asked++; clk.Step(slowStart + 1) }
			reconcileOnce(t, r)
			if asked != 1 || len(slow.started) != 0 {
				t.Errorf("%d requests, %d of them answered; want one", asked, len(slow.started))
			}
		})
	}
}

// TestStalledPlaces: another namespace that runs the image is used instead.
func TestStalledPlaces(t *testing.T) {
	w := newWorld().runs("a", store.ImageState{State: store.StatePending}).also("a", "second")
	w.stalls = map[string]stall{"ns-a": {failures: 1, until: now.Add(time.Minute), message: "it fails"}}
	p := makePlan(scannerWith(nil), w.observed, DefaultLimits(), Recatalog{}, now)
	if len(p.start) != 1 || p.start[0].Namespace != "second" {
		t.Errorf("starts %+v, want one in the other namespace", p.start)
	}
	w.stalls["second"] = stall{failures: 1, until: now.Add(30 * time.Second), message: "it fails, too"}
	p = makePlan(scannerWith(nil), w.observed, DefaultLimits(), Recatalog{}, now)
	if got := p.waits[imageKey("a")]; len(p.start) != 0 || got.why == "" || p.next != time.Minute && p.next != 30*time.Second {
		t.Errorf("starts %+v, waits %+v, next after %s; want none while all namespaces fail", p.start, got, p.next)
	}
}

// TestScansDoNotWaitForLookups of newer tags, which hold no slot that a scan could have.
func TestScansDoNotWaitForLookups(t *testing.T) {
	w := newWorld().tagged("a", "1.0", model.SeverityCounts{High: 1}).looking("me").looking("other").runs("new", store.ImageState{State: store.StatePending})
	scanner := scannerWith(func(s *scannerv1.Scanner) { withNewerTags(s); s.Spec.Concurrency = new(int32(1)) })
	if p := makePlan(scanner, w.observed, Limits{Scans: 1, PerRegistry: 1}, Recatalog{}, now); len(p.start) != 1 {
		t.Errorf("starts %+v, want the new image", p.start)
	}
}

// TestStalledNamespacesHoldNoSlots: images that wait for a namespace that is stalled keep no slots from others.
func TestStalledNamespacesHoldNoSlots(t *testing.T) {
	w := newWorld()
	for i := range 10 {
		w = w.runs(fmt.Sprint("a", i), store.ImageState{State: store.StatePending}).in("stalled").runs(fmt.Sprint("b", i), store.ImageState{State: store.StatePending}).in("fine")
	}
	w.stalls = map[string]stall{"stalled": {failures: 1, until: now.Add(time.Minute), message: "it fails"}}
	scanner := scannerWith(func(s *scannerv1.Scanner) { s.Spec.Concurrency = new(int32(10)) })
	if p := makePlan(scanner, w.observed, Limits{Scans: 10, PerRegistry: 10}, Recatalog{}, now); len(p.start) != 10 {
		t.Errorf("%d scans start, want all 10 of the other namespace", len(p.start))
	}
}

// TestALookupWaitsForASecondSlowStart: one request that is not answered is an accident, and delays a lookup by seconds.
func TestALookupWaitsForASecondSlowStart(t *testing.T) {
	unanswered := &starter{attempts: map[string]Attempt{}, failing: map[string]error{"ns": apierrors.NewTimeoutError("request did not complete", 0)}}
	known := newTagMemory()
	scanner := scannerWith(withNewerTags)
	r, _ := newReconciler(t, known, unanswered)
	r.Recatalog.Cataloger = "syft"
	for _, object := range []client.Object{scanner, taggedPod()} {
		if err := r.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	clk, ok := r.Clock.(*testclock.FakeClock)
	if !ok {
		t.Fatal("no clock")
	}
	var asked []time.Duration
	began := clk.Now()
	unanswered.took = func(scanjob.Request) { asked = append(asked, clk.Since(began)); clk.Step(20 * time.Second) }
	for clk.Since(began) < stallMemory {
		reconcileOnce(t, r)
		clk.Step(time.Second)
	}
	if len(asked) != 2 || asked[1] > 25*time.Second {
		t.Errorf("asked after %s, want at once and within 25 seconds, and not again for %s", asked, stallMemory)
	}
}
