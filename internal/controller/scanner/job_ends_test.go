package scanner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// TestDeletionsThatHangStopNothing: all reconciles wait for the deletions of Jobs that are over, and a webhook may take 20 seconds for each.
func TestDeletionsThatHangStopNothing(t *testing.T) {
	kept, objects := recorded{}, []client.Object{}
	add := func(namespace, name string) {
		job := scanJobOf()
		job.Namespace, job.UID, job.CreationTimestamp, job.Name = namespace, types.UID(name), metav1.NewTime(now), "scan-"+name
		record := records(t, job)[job.Name]
		record.Key = imageKey(name)
		kept[job.Name] = record
		kept.close(job.Name)
		objects = append(objects, job)
	}
	for i := range 15 {
		add("bad", fmt.Sprint("bad-", i))
	}
	add("fine", "fine")
	clk := testclock.NewFakeClock(now)
	deletions := map[string]int{}
	c := interceptor.NewClient(clientWith(t, objects...), interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			deletions[obj.GetNamespace()]++
			if limit, limited := ctx.Deadline(); !limited || time.Until(limit) > slowStart {
				t.Errorf("a deletion may take until %s, want at most %s", limit, slowStart)
			}
			if obj.GetNamespace() == "bad" {
				clk.Step(slowStart)
				return fmt.Errorf("delete: %w", context.DeadlineExceeded)
			}
			return c.Delete(ctx, obj, opts...)
		},
	})
	jobs := jobsOn(c, c, kept, clk)
	var again time.Duration
	read := func() map[string]Attempt {
		t.Helper()
		began := clk.Now()
		attempts, err := jobs.Attempts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		again = jobs.DeleteEnded(t.Context())
		if took := clk.Since(began); took > slowStart {
			t.Errorf("the deletions took %s, want at most %s", took, slowStart)
		}
		return attempts
	}
	for name, attempt := range read() {
		if !attempt.Done {
			t.Errorf("%s is not done", name)
		}
	}
	if again != retryRead {
		t.Errorf("the deletions that are left are tried after %s, want %s", again, retryRead)
	}
	if read(); again != deleteAgain {
		t.Errorf("the deletions that hang are tried after %s, want %s", again, deleteAgain)
	}
	if deletions["bad"] != 1 || deletions["fine"] != 1 {
		t.Errorf("deletions by namespace: %v, want one each", deletions)
	}
	clk.Step(deleteAgain)
	read()
	if deletions["bad"] != 2 {
		t.Errorf("%d deletions after %s, want one more", deletions["bad"], deleteAgain)
	}
}

// TestDeletionsHoldNoLock: scans of new pods start while the deletion of a Job hangs, and delete none themselves.
func TestDeletionsHoldNoLock(t *testing.T) {
	kept, objects := jobsOf(t, "over", "under-way")
	kept.close("scan-over")
	r, _ := newReconciler(t, &meanwhile{memory: memory{}}, nil, append(objects, scannerWith(nil))...)
	cluster, ok := r.Client.(client.WithWatch)
	if !ok {
		t.Fatal("no client")
	}
	var jobs *Jobs
	deletions := 0
	c := interceptor.NewClient(cluster, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			deletions++
			for name, lock := range map[string]*sync.Mutex{"plan scans": &r.newPods.deciding, "read attempts": &jobs.mu} {
				if !lock.TryLock() {
					t.Errorf("nobody can %s during the deletion of %s", name, obj.GetName())
					continue
				}
				lock.Unlock()
			}
			return c.Delete(ctx, obj, opts...)
		},
	})
	jobs = jobsOn(c, c, kept, clockOf(r))
	r.Cataloger = jobs
	reconcileOnce(t, r)
	if deletions != 1 {
		t.Fatalf("%d deletions, want one", deletions)
	}
	kept.close("scan-under-way")
	fresh := podOf("fresh", imageKey("fresh").ImageID, 0)
	if !arrives(t, r, fresh) || deletions != 1 {
		t.Errorf("%d deletions before the scan of a new pod, want none", deletions-1)
	}
	if _, started := kept[scanjob.Name(imageKey("fresh"), "nonce", 0)]; !started {
		t.Errorf("recorded: %v, want the scan of the new pod too", slices.Collect(maps.Keys(kept)))
	}
	if reconcileOnce(t, r); deletions != 2 {
		t.Errorf("%d deletions, want two", deletions)
	}
}

// TestPodsOfSuccessfulJobsAreNotRead: these Jobs remain for some minutes, and there may be hundreds.
func TestPodsOfSuccessfulJobsAreNotRead(t *testing.T) {
	complete := scanJobOf(batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue})
	complete.CreationTimestamp = metav1.NewTime(now)
	reads := 0
	c := interceptor.NewClient(clientWith(t, complete), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, pods := list.(*corev1.PodList); pods {
				reads++
			}
			return c.List(ctx, list, opts...)
		},
	})
	if got := attemptOf(t, jobsOn(c, c, records(t, complete), testclock.NewFakeClock(now))); !got.Done || !got.Outcome.Succeeded() || reads != 0 {
		t.Errorf("%+v after pods were read %d times, want it done without that", got, reads)
	}
}

// TestADeletionThatFailsIsTriedLessOften: an error of the API server is over soon, or lasts.
func TestADeletionThatFailsIsTriedLessOften(t *testing.T) {
	kept, objects := jobsOf(t, "a")
	kept.close("scan-a")
	deletions := 0
	c := interceptor.NewClient(clientWith(t, objects...), interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			deletions++
			return apierrors.NewInternalError(errors.New("etcd"))
		},
	})
	clk := testclock.NewFakeClock(now)
	jobs := jobsOn(c, c, kept, clk)
	read := func() {
		t.Helper()
		if _, err := jobs.Attempts(t.Context()); err != nil {
			t.Fatal(err)
		}
		jobs.DeleteEnded(t.Context())
	}
	read()
	for i, wait := range []time.Duration{retryRead, 2 * retryRead, 4 * retryRead} {
		clk.Step(wait - 1)
		if read(); deletions != i+1 {
			t.Fatalf("%d deletions before %s, want %d", deletions, wait, i+1)
		}
		clk.Step(1)
		if read(); deletions != i+2 {
			t.Fatalf("%d deletions after %s, want %d", deletions, wait, i+2)
		}
	}
	before := deletions
	for clk.Since(now) < 24*time.Hour {
		clk.Step(time.Minute)
		read()
	}
	if most := int(24*time.Hour/deleteAgain) + 5; deletions-before > most {
		t.Errorf("%d deletions in a day, want at most %d", deletions-before, most)
	}
}
