package matching

import (
	"context"
	"fmt"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// retryFailed matches the packages again that could not be matched, every retryFailedAfter: what kept them from it may be gone. The first
// time is that long after the start, since a package may have ended the process.
func (r *runner) retryFailed(ctx context.Context, current store.ResultSet) error {
	now := r.clock.Now()
	if r.retried.IsZero() {
		r.retried = now
	}
	if r.current == nil || now.Sub(r.retried) < retryFailedAfter {
		return nil
	}
	r.retried = now
	for after := int64(0); ; {
		packages, err := r.store.FailedPackages(ctx, after, batchPackages)
		if err != nil {
			return fmt.Errorf("list the packages whose matching failed: %w", err)
		}
		if len(packages) == 0 {
			break
		}
		after = packages[len(packages)-1].ID
		if err := r.retry(ctx, current, packages); err != nil {
			return err
		}
	}
	return r.finishRecovered(ctx)
}

// retry saves nothing of packages that fail again.
func (r *runner) retry(ctx context.Context, current store.ResultSet, packages []store.StoredPackage) error {
	answers, err := matchAll(ctx, r.current, packages)
	if err != nil {
		return err
	}
	for id, answer := range answers {
		if answer.Failure != "" {
			delete(answers, id)
		}
	}
	if len(answers) == 0 {
		return nil
	}
	if err := r.saveAnswers(ctx, current.Number, answers); err != nil {
		return fmt.Errorf("save match results: %w", err)
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
