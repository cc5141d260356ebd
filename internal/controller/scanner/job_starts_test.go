package scanner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// splitClient reads from a cache and writes to the API server.
type splitClient struct {
	client.Client
	live client.Client
}

// Create gives the object a UID, as the API server does.
func (c splitClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	obj.SetUID(types.UID("uid-of-" + obj.GetName()))
	return c.live.Create(ctx, obj, opts...)
}

// failingRecords loses the connection to the store in one step.
type failingRecords struct {
	recorded
	err error
}

func (f *failingRecords) RecordScanJob(ctx context.Context, name, uid string) error {
	if f.err != nil {
		return f.err
	}
	return f.recorded.RecordScanJob(ctx, name, uid)
}

// An operator that ends between any two steps of a start comes back, perhaps with another idea of where the Job belongs, and goes on.
func TestAStartGoesOnWhereItEnded(t *testing.T) {
	const uid = "uid-of-scan-a"
	req := scanjob.Request{Name: "scan-a", Namespace: "shop", Key: imageKey("a"), ScannerUID: "me"}
	elsewhere := req
	elsewhere.Namespace = "elsewhere"
	for name, tt := range map[string]struct {
		// before is what happened to the first start.
		before func(t *testing.T, kept *failingRecords, live client.Client)
		resume scanjob.Request
		// where the Job is in the end, and which UID is recorded, or why the attempt is refused.
		namespace, uid, refused string
	}{
		"reserved": {
			func(t *testing.T, _ *failingRecords, live client.Client) {
				t.Helper()
				if err := live.Delete(t.Context(), scanJobOf()); err != nil {
					t.Fatal(err)
				}
			}, req, "shop", uid, "",
		},
		"reserved elsewhere": {
			func(t *testing.T, _ *failingRecords, live client.Client) {
				t.Helper()
				if err := live.Delete(t.Context(), scanJobOf()); err != nil {
					t.Fatal(err)
				}
			}, elsewhere, "elsewhere", uid, "",
		},
		"created":           {func(*testing.T, *failingRecords, client.Client) {}, req, "shop", uid, ""},
		"created elsewhere": {func(*testing.T, *failingRecords, client.Client) {}, elsewhere, "shop", uid, ""},
		"created and replaced": {
			func(t *testing.T, _ *failingRecords, live client.Client) {
				t.Helper()
				forged := scanJobOf()
				forged.UID, forged.Spec.Template.Spec.Containers[0].Image = "forged", "evil"
				if err := errors.Join(live.Delete(t.Context(), scanJobOf()), live.Create(t.Context(), forged)); err != nil {
					t.Fatal(err)
				}
			}, req, "shop", "", "spec.template.spec.containers[0].image",
		},
		"recorded": {
			func(t *testing.T, kept *failingRecords, _ client.Client) {
				t.Helper()
				if err := kept.recorded.RecordScanJob(t.Context(), "scan-a", "earlier"); err != nil {
					t.Fatal(err)
				}
			}, elsewhere, "shop", "earlier", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			live, kept := clientWith(t), &failingRecords{recorded{}, store.ErrUnavailable}
			start := func(req scanjob.Request) error {
				jobs := NewJobs(splitClient{clientWith(t), live}, live, kept, testclock.NewFakeClock(now), scanjob.DefaultOptions())
				return jobs.Start(t.Context(), client.ObjectKey{Namespace: "ns", Name: "s"}, req)
			}
			if err := start(req); !errors.Is(err, store.ErrUnavailable) {
				t.Fatalf("the first start: %v", err)
			}
			kept.err = nil
			tt.before(t, kept, live)
			err := start(tt.resume)
			refused, isRefused := errors.AsType[*RefusedError](err)
			if isRefused != (tt.refused != "") || err != nil && !isRefused || isRefused && !strings.Contains(refused.Outcome.Message, tt.refused) {
				t.Errorf("the second start: %v, want it refused because of %q", err, tt.refused)
			}
			var list batchv1.JobList
			if err := live.List(t.Context(), &list); err != nil || len(list.Items) != 1 || list.Items[0].Namespace != tt.namespace {
				t.Errorf("%v, %+v; want one Job in %s", err, list.Items, tt.namespace)
			}
			if got := kept.recorded["scan-a"]; got.UID != tt.uid || got.Namespace != tt.namespace {
				t.Errorf("recorded %+v, want UID %q in %s", got, tt.uid, tt.namespace)
			}
		})
	}
}

// forgottenRecords forget an image while a scan of it starts.
type forgottenRecords struct {
	recorded
	reserves int
	// left is how many reservations succeed.
	left int
}

func (f *forgottenRecords) ReserveScanJob(ctx context.Context, job store.ScanJob) (store.ScanJob, bool, error) {
	if f.reserves++; f.reserves > f.left {
		return store.ScanJob{}, false, fmt.Errorf("scan Job %q: %w", job.Name, store.ErrNotFound)
	}
	return f.recorded.ReserveScanJob(ctx, job)
}

func (*forgottenRecords) RecordScanJob(_ context.Context, name, _ string) error {
	return fmt.Errorf("scan Job %q: %w", name, store.ErrNotFound)
}

// TestImagesAreDeletedDuringAStart has the retention delete an image at each step of a start: no Job is left, and other scans start.
func TestImagesAreDeletedDuringAStart(t *testing.T) {
	forbidden := apierrors.NewForbidden(batchv1.Resource("jobs"), "scan-a", errors.New("a policy"))
	for name, tt := range map[string]struct {
		// before is recorded already, left how many reservations succeed.
		before recorded
		left   int
		exists bool
		// failing is what deletions fail with.
		failing error
	}{
		"before it is reserved":             {recorded{}, 0, false, nil},
		"before it is reserved again":       {recorded{"scan-a": {Name: "scan-a", Namespace: "shop", Open: true}}, 1, false, nil},
		"after the Job was created":         {recorded{}, 1, false, nil},
		"the Job was created before":        {recorded{}, 1, true, nil},
		"the Job cannot be deleted, either": {recorded{}, 1, false, forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			live := clientWith(t)
			if tt.exists {
				before := &failingRecords{tt.before, store.ErrUnavailable}
				jobs := NewJobs(splitClient{clientWith(t), live}, live, before, testclock.NewFakeClock(now), scanjob.DefaultOptions())
				if err := jobs.Start(t.Context(), client.ObjectKey{}, scanjob.Request{Name: "scan-a", Namespace: "shop", Key: imageKey("a")}); !errors.Is(err, store.ErrUnavailable) {
					t.Fatal(err)
				}
			}
			deleting := interceptor.NewClient(live, interceptor.Funcs{
				Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
					options := (&client.DeleteOptions{}).ApplyOptions(opts)
					if options.Preconditions == nil || options.Preconditions.UID == nil || *options.Preconditions.UID != "uid-of-scan-a" {
						t.Errorf("deleted %s without its UID", obj.GetName())
					}
					if tt.failing != nil {
						return tt.failing
					}
					return c.Delete(ctx, obj, opts...)
				},
			})
			jobs := NewJobs(splitClient{deleting, live}, live, &forgottenRecords{recorded: tt.before, left: tt.left}, testclock.NewFakeClock(now), scanjob.DefaultOptions())
			err := jobs.Start(t.Context(), client.ObjectKey{}, scanjob.Request{Name: "scan-a", Namespace: "shop", Key: imageKey("a")})
			if _, namespaced := errors.AsType[*NamespaceError](err); namespaced != (tt.failing != nil) || err != nil && !namespaced {
				t.Errorf("the start: %v", err)
			}
			var list batchv1.JobList
			if err := live.List(t.Context(), &list); err != nil || tt.failing == nil && len(list.Items) != 0 {
				t.Errorf("%v, %d Jobs are left", err, len(list.Items))
			}
		})
	}
}

// TestAJobOfAnEndedOperatorIsKnown: the next leader must not take the pod of a Job that was created and not recorded for a workload.
func TestAJobOfAnEndedOperatorIsKnown(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*batchv1.Job)
		want   bool
	}{
		"as it was built": {func(*batchv1.Job) {}, true},
		"replaced":        {func(job *batchv1.Job) { job.Spec.Template.Spec.Containers[0].Image = "evil" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			live, kept := clientWith(t), &failingRecords{recorded{}, store.ErrUnavailable}
			options := scanjob.DefaultOptions()
			options.Image = "operator:1"
			newJobs := func() *Jobs {
				return NewJobs(splitClient{clientWith(t), live}, live, kept, testclock.NewFakeClock(now), options)
			}
			req := scanjob.Request{Name: "scan-a", Namespace: "shop", Key: imageKey("a"), ScannerUID: "me"}
			if err := newJobs().Start(t.Context(), client.ObjectKey{Namespace: "ns", Name: "s"}, req); !errors.Is(err, store.ErrUnavailable) {
				t.Fatalf("the start: %v", err)
			}
			kept.err = nil
			var job batchv1.Job
			if err := live.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "scan-a"}, &job); err != nil {
				t.Fatal(err)
			}
			pod := scanPod(corev1.PodStatus{})
			pod.OwnerReferences, pod.Spec = []metav1.OwnerReference{ownedBy("scan-a", job.UID, true)}, *job.Spec.Template.Spec.DeepCopy()
			tt.change(&job)
			if err := live.Update(t.Context(), &job); err != nil {
				t.Fatal(err)
			}
			next := newJobs()
			attempts, err := next.Attempts(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if attempt, known := attempts["scan-a"]; known != tt.want || attempt.Done || next.Made(pod) != tt.want {
				t.Errorf("attempts %+v, the pod is one of a scan: %t; want %t", attempts, next.Made(pod), tt.want)
			}
		})
	}
}

// cancelingClient has the operator stop while a Job is created.
type cancelingClient struct {
	client.Client
	stop func()
}

func (c cancelingClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	defer c.stop()
	return c.Client.Create(ctx, obj, opts...)
}

// canceledRecords fail as a database does.
type canceledRecords struct{ recorded }

func (r canceledRecords) RecordScanJob(ctx context.Context, name, uid string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return r.recorded.RecordScanJob(ctx, name, uid)
}

// TestAJobIsRecordedWhileTheOperatorStops: what the API server has created is recorded before the next leader observes its pod.
func TestAJobIsRecordedWhileTheOperatorStops(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	live, kept := clientWith(t), canceledRecords{recorded{}}
	jobs := NewJobs(cancelingClient{splitClient{clientWith(t), live}, stop}, live, kept, testclock.NewFakeClock(now), scanjob.DefaultOptions())
	req := scanjob.Request{Name: "scan-a", Namespace: "shop", Key: imageKey("a"), ScannerUID: "me"}
	if err := jobs.Start(ctx, client.ObjectKey{Namespace: "ns", Name: "s"}, req); err != nil || kept.recorded["scan-a"].UID == "" {
		t.Errorf("%v, recorded the UID %q", err, kept.recorded["scan-a"].UID)
	}
}

// The image was deleted, or has its SBOM, since the plan was made.
func TestAStartThatIsNotWantedAnyMore(t *testing.T) {
	c := clientWith(t)
	jobs := NewJobs(c, c, notReserved{}, testclock.NewFakeClock(now), scanjob.DefaultOptions())
	req := scanjob.Request{Name: "scan-a", Namespace: "shop", Key: imageKey("a")}
	if err := jobs.Start(t.Context(), client.ObjectKey{Namespace: "ns", Name: "s"}, req); err != nil {
		t.Error(err)
	}
	var list batchv1.JobList
	if err := c.List(t.Context(), &list); err != nil || len(list.Items) != 0 {
		t.Errorf("%v, %+v; want no Job", err, list.Items)
	}
}

type notReserved struct{ recorded }

func (notReserved) ReserveScanJob(context.Context, store.ScanJob) (store.ScanJob, bool, error) {
	return store.ScanJob{}, false, store.ErrNotFound
}

// TestWhatOneRequestCausesRefusesIt: others must not wait for a request that the store does not take, but an error of the store is tried again at once.
func TestWhatOneRequestCausesRefusesIt(t *testing.T) {
	fine := scanjob.Request{Name: "scan-a", Namespace: "shop", Key: imageKey("a")}
	long := fine
	long.PullSecrets = []string{strings.Repeat("x", 300<<10)}
	broken, away := errors.New("a row is too long"), fmt.Errorf("record: %w", store.ErrUnavailable)
	for name, tt := range map[string]struct {
		req     scanjob.Request
		record  error
		refused bool
	}{
		"a spec that is too long":       {long, nil, true},
		"a Job that cannot be recorded": {fine, broken, false},
		"a store that is unavailable":   {fine, away, false},
	} {
		t.Run(name, func(t *testing.T) {
			live, kept := clientWith(t), &failingRecords{recorded{}, tt.record}
			jobs := NewJobs(splitClient{clientWith(t), live}, live, kept, testclock.NewFakeClock(now), scanjob.DefaultOptions())
			err := jobs.Start(t.Context(), client.ObjectKey{Namespace: "ns", Name: "s"}, tt.req)
			if refused, ok := errors.AsType[*RefusedError](err); err == nil || ok != tt.refused || ok && refused.Outcome.Reason != model.ReasonUnschedulable {
				t.Errorf("%v, refused %t; want it refused: %t", err, ok, tt.refused)
			}
		})
	}
}

// A webhook that adds a sidecar to every Job decides what the Job delivers.
func TestAJobThatAdmissionChangedIsRefused(t *testing.T) {
	c, kept := clientWith(t), recorded{}
	changing := interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			job, _ := obj.(*batchv1.Job)
			job.Spec.Template.Spec.Containers = append(job.Spec.Template.Spec.Containers, corev1.Container{Name: "sidecar"})
			return c.Create(ctx, obj, opts...)
		},
	})
	jobs := jobsOn(changing, c, kept, testclock.NewFakeClock(now))
	err := jobs.Start(t.Context(), client.ObjectKey{Namespace: "ns", Name: "s"}, scanjob.Request{Name: "scan-a", Namespace: "shop", Key: imageKey("a")})
	if refused, ok := errors.AsType[*RefusedError](err); !ok || !strings.Contains(refused.Outcome.Message, "spec.template.spec.containers[1]") {
		t.Errorf("got %v, want a refusal that names the sidecar", err)
	}
	if kept["scan-a"].UID != "" {
		t.Error("the Job is recorded")
	}
}
