package matching

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// retries has when what failed is tried again: packages whose matching failed, by ID, or images that were passed over. It is kept in memory, and has at most
// maxRetries. The zero value is ready.
type retries[K comparable] map[K]attempt

// attempt is when something is tried again, and how long it waits for that.
type attempt struct {
	at   time.Time
	wait time.Duration
}

// failed notes that something failed, which is tried again after a time unless it waits already.
func (r *retries[K]) failed(key K, wait time.Duration, now time.Time) {
	if *r == nil {
		*r = retries[K]{}
	}
	if _, waits := (*r)[key]; !waits && len(*r) < maxRetries {
		(*r)[key] = attempt{now.Add(wait), wait}
	}
}

// failedAgain notes that of a package that was matched again. After the longest wait that is done with all others.
func (r retries[K]) failedAgain(key K, now time.Time) {
	before, waits := r[key]
	switch wait := 2 * before.wait; {
	case !waits:
	case wait >= retryFailedAfter:
		delete(r, key)
	default:
		r[key] = attempt{now.Add(wait), wait}
	}
}

// passedOver notes that of an image. All are tried again with each pass, and the next one is soon only for those that did not fail often.
func (r *retries[K]) passedOver(key K, now time.Time) {
	if r.due(key, now) {
		wait := min(2*(*r)[key].wait, retryAfter)
		(*r)[key] = attempt{now.Add(wait), wait}
		return
	}
	r.failed(key, storeRetry, now)
}

// due reports whether something is to be tried again.
func (r retries[K]) due(key K, now time.Time) bool {
	one, waits := r[key]
	return waits && !one.at.After(now)
}

// anyDue reports whether anything is.
func (r retries[K]) anyDue(now time.Time) bool {
	for key := range r {
		if r.due(key, now) {
			return true
		}
	}
	return false
}

// forget removes what was due at a time: it did not fail again.
func (r retries[K]) forget(due time.Time) {
	maps.DeleteFunc(r, func(_ K, one attempt) bool { return !one.at.After(due) })
}

// wait shortens a time to that until the first one is due, but for those that are overdue: their database is not there.
func (r retries[K]) wait(most time.Duration, now time.Time) time.Duration {
	for _, one := range r {
		if left := one.at.Sub(now); left > 0 {
			most = min(most, left)
		}
	}
	return most
}

// retryFailed matches the packages again that could not be matched: what kept them from it may be gone. Those that failed since the start are tried soon, and
// less and less often; all of them every retryFailedAfter. The first time is that long after the start, since a package may have ended the process.
func (r *runner) retryFailed(ctx context.Context, current store.ResultSet) error {
	now := r.clock.Now()
	if r.retried.IsZero() {
		r.retried = now
	}
	all := now.Sub(r.retried) >= retryFailedAfter
	switch {
	case r.current == nil:
		return nil
	case all || r.retries.anyDue(now):
	case r.images.anyDue(now):
		return r.finishRecovered(ctx)
	default:
		return nil
	}
	if all {
		r.retried = now
	}
	for after := int64(0); ; {
		packages, err := r.store.FailedPackages(ctx, after, batchPackages)
		if err != nil {
			return fmt.Errorf("list the packages whose matching failed: %w", err)
		}
		if len(packages) == 0 {
			break
		}
		after = packages[len(packages)-1].ID
		if !all {
			packages = slices.DeleteFunc(packages, func(p store.StoredPackage) bool { return !r.retries.due(p.ID, now) })
		}
		if err := r.retry(ctx, current, packages); err != nil {
			return err
		}
	}
	r.retries.forget(now)
	return r.finishRecovered(ctx)
}

// retry saves nothing of packages that fail again.
func (r *runner) retry(ctx context.Context, current store.ResultSet, packages []store.StoredPackage) error {
	if len(packages) == 0 {
		return nil
	}
	answers, err := matchAll(ctx, r.current, packages)
	if err != nil {
		return err
	}
	for id, answer := range answers {
		if answer.Failure != "" {
			r.retries.failedAgain(id, r.clock.Now())
			delete(answers, id)
		}
	}
	if len(answers) == 0 {
		return nil
	}
	if err := r.saveAnswers(ctx, current.Number, answers, true); err != nil {
		return fmt.Errorf("save match results: %w", err)
	}
	for id, answer := range answers {
		if answer.Failure != "" {
			r.retries.failedAgain(id, r.clock.Now())
		}
	}
	r.observer.PackagesMatched(len(answers))
	return nil
}

// finishRecovered counts the findings of scanned images that had packages whose matching failed. newImages finishes the others.
func (r *runner) finishRecovered(ctx context.Context) error {
	for after := (model.ImageKey{}); ; {
		keys, err := r.store.RecoveredImages(ctx, after, batchImages)
		if err != nil {
			return fmt.Errorf("list the images whose matching failed: %w", err)
		}
		if len(keys) == 0 {
			return nil
		}
		after = keys[len(keys)-1]
		for _, key := range keys {
			digest, _, err := r.store.UnansweredPackages(ctx, key)
			if err == nil {
				err = r.store.FinishImage(ctx, key, digest)
			}
			if err != nil && !isGone(err) && !r.passedOver(ctx, key, err) {
				return fmt.Errorf("save the results of image %s: %w", key, err)
			}
		}
	}
}
