package scanner

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
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
	read := func() map[string]Attempt {
		t.Helper()
		began := clk.Now()
		attempts, err := jobs.Attempts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if took := clk.Since(began); took > slowStart {
			t.Errorf("reading the attempts took %s, want at most %s", took, slowStart)
		}
		return attempts
	}
	waits := false
	for name, attempt := range read() {
		if waits = waits || attempt.Retry; !attempt.Done {
			t.Errorf("%s is not done", name)
		}
	}
	if !waits {
		t.Error("no attempt says that it is to be read again")
	}
	read()
	if deletions["bad"] != 1 || deletions["fine"] != 1 {
		t.Errorf("deletions by namespace: %v, want one each", deletions)
	}
	clk.Step(deleteAgain)
	read()
	if deletions["bad"] != 2 {
		t.Errorf("%d deletions after %s, want one more", deletions["bad"], deleteAgain)
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
