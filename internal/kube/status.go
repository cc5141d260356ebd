package kube

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RetryConflict reconciles an object again after something had changed in the meantime. The pauses double from 5 milliseconds on: the cache may
// be minutes behind. An error would do that as well, and be logged.
var RetryConflict = ctrl.Result{Requeue: true} //nolint:staticcheck // What it waits for has no time of its own.

// PatchStatus writes the status of after unless the object is equal to before, its deep copy from when it was read. A
// conflict with another writer is an error, so that no status rests on an object that has changed since.
func PatchStatus(ctx context.Context, c client.StatusClient, before, after client.Object) error {
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Status().Patch(ctx, after, patch); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}
