package scanner

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// brokenImage is a Store that cannot record failures of one image.
type brokenImage struct {
	memory
	image string
	err   error
}

func (b *brokenImage) RecordFailure(ctx context.Context, key model.ImageKey, attempt int, outcome model.Outcome, next time.Time) (bool, error) {
	if strings.Contains(key.ImageID, b.image) && b.err != nil {
		return false, b.err
	}
	return b.memory.RecordFailure(ctx, key, attempt, outcome, next)
}

// TestAnImageWithoutRepositoryRunsOutOfMemory: it has no repository whose images could get more memory.
func TestAnImageWithoutRepositoryRunsOutOfMemory(t *testing.T) {
	imported := model.ImageKey{ImageID: "sha256:" + strings.Repeat("b", 64), Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
	fine := imageKey("fine")
	known, cataloger := memory{}, &starter{attempts: map[string]Attempt{}}
	scanner := scannerWith(func(s *scannerv1.Scanner) {
		s.Spec.Job.Source, s.Spec.Concurrency = scannerv1.SourceImageVolume, new(int32(1))
	})
	r, _ := newReconciler(t, known, cataloger, scanner, podOf("a", imported.ImageID, 2*time.Hour), podOf("b", fine.ImageID, time.Hour))
	reconcileOnce(t, r)
	cataloger.fail(t, known, imported, model.Outcome{Reason: model.ReasonOutOfMemory, Message: "killed"})
	reconcileOnce(t, r)
	if got := known[imported]; got.State != store.StateFailed || got.SizeClass.OrSmall() != model.SizeSmall || got.NextAttempt != now.Add(backoff(0, imported)) {
		t.Errorf("the image: %+v, want it failed, with the first backoff", got)
	}
	if name := scanjob.Name(fine, "nonce", 0); cataloger.attempts[name].Key != fine {
		t.Errorf("started %v, want the other image too", cataloger.started)
	}
	// The backoff grows: nothing would be different the next time.
	if next := planRetry(&store.Image{ImageState: store.ImageState{Key: imported, Attempts: 3}}, Attempt{Outcome: model.Outcome{Reason: model.ReasonOutOfMemory}},
		credential{}, model.SizeClass.Next, now); next.raise != "" || next.at != now.Add(backoff(3, imported)) {
		t.Errorf("after the fourth attempt: %+v, want the fourth backoff", next)
	}
}

// TestAFailureThatCannotBeRecordedStopsNoOther: other images are scanned, and the coverage is recorded.
func TestAFailureThatCannotBeRecordedStopsNoOther(t *testing.T) {
	broken, fine, later := imageKey("broken"), imageKey("fine"), imageKey("later")
	for name, refused := range map[string]bool{"of an attempt": false, "of a start": true} {
		t.Run(name, func(t *testing.T) {
			known, cataloger := &brokenImage{memory{}, "broken", errors.New("a row is too long")}, &starter{attempts: map[string]Attempt{}}
			if refused {
				cataloger.refuse = "broken"
			}
			r, _ := newReconciler(t, known, cataloger, scannerWith(func(s *scannerv1.Scanner) { s.Spec.Concurrency = new(int32(3)) }),
				podOf("a", broken.ImageID, 3*time.Hour), podOf("b", fine.ImageID, 2*time.Hour), podOf("c", later.ImageID, time.Hour))
			reconcileOnce(t, r)
			if !refused {
				cataloger.fail(t, known.memory, broken, model.Outcome{Reason: model.ReasonImageNotFound, Message: "gone"})
			}
			cataloger.fail(t, known.memory, fine, model.Outcome{Reason: model.ReasonImageNotFound, Message: "gone"})
			tries := len(cataloger.started)
			result, shown := reconcileOnce(t, r)
			if known.memory[fine].State != store.StateFailed || known.memory[broken].State != store.StatePending {
				t.Errorf("images %+v, want the failure of the one recorded that can be", known.memory)
			}
			if len(cataloger.attempts) == 0 || cataloger.attempts[scanjob.Name(later, "nonce", 0)].Key != later {
				t.Errorf("started %v, want the last image too", cataloger.started)
			}
			if len(cataloger.started) != tries || shown.Status.Containers == nil || shown.Status.Containers.Total != 3 || result.RequeueAfter > retryRead {
				t.Errorf("started %v, containers %+v, next after %s; want nothing started twice, a status, and another try soon",
					cataloger.started, shown.Status.Containers, result.RequeueAfter)
			}
			known.err = nil
			clk, ok := r.Clock.(*testclock.FakeClock)
			if !ok {
				t.Fatal("no clock")
			}
			clk.Step(result.RequeueAfter)
			if reconcileOnce(t, r); known.memory[broken].State != store.StateFailed {
				t.Errorf("the image: %+v, want its failure recorded once that is possible", known.memory[broken])
			}
		})
	}
}

// TestAnUnavailableStoreEndsTheReconcile: nothing that follows could be recorded.
func TestAnUnavailableStoreEndsTheReconcile(t *testing.T) {
	known, cataloger := &brokenImage{memory{}, "a", store.ErrUnavailable}, &starter{attempts: map[string]Attempt{}}
	r, _ := newReconciler(t, known, cataloger, scannerWith(nil), podOf("a", imageKey("a").ImageID, time.Hour))
	reconcileOnce(t, r)
	cataloger.fail(t, known.memory, imageKey("a"), model.Outcome{Reason: model.ReasonImageNotFound})
	scanner := scannerWith(nil)
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(scanner)}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("the reconcile: %v, want %v", err, store.ErrUnavailable)
	}
}
