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

// retries has when packages whose matching failed are matched again, by ID. It is kept in memory. The zero value is ready.
type retries map[int64]attempt

// attempt is when a package is matched again, and how long it waits for that.
type attempt struct {
	at   time.Time
	wait time.Duration
}

// failed notes that a package could not be matched.
func (r *retries) failed(id int64, now time.Time) {
	if *r == nil {
		*r = retries{}
	}
	if _, waits := (*r)[id]; !waits && len(*r) < maxRetries {
		(*r)[id] = attempt{now.Add(firstRetry), firstRetry}
	}
}

// failedAgain notes that of a package that was matched again. After the longest wait that is done with all others.
func (r retries) failedAgain(id int64, now time.Time) {
	before, waits := r[id]
	switch wait := 2 * before.wait; {
	case !waits:
	case wait >= retryFailedAfter:
		delete(r, id)
	default:
		r[id] = attempt{now.Add(wait), wait}
	}
}

// due reports whether a package is to be matched again.
func (r retries) due(id int64, now time.Time) bool {
	one, waits := r[id]
	return waits && !one.at.After(now)
}

// anyDue reports whether any package is.
func (r retries) anyDue(now time.Time) bool {
	for id := range r {
		if r.due(id, now) {
			return true
		}
	}
	return false
}

// wait shortens a time to that until the first package is due, but for those that are overdue: their database is not there.
func (r retries) wait(most time.Duration, now time.Time) time.Duration {
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
	if r.current == nil || !all && !r.retries.anyDue(now) {
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
	// What is still due did not fail again.
	maps.DeleteFunc(r.retries, func(_ int64, one attempt) bool { return !one.at.After(now) })
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
