package kube

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RetryConflict reconciles an object again after a conflict. The backoff doubles, from 5 milliseconds on: the cache may be minutes behind.
// Returning an error would have the same effect, but would log it.
var RetryConflict = ctrl.Result{Requeue: true} //nolint:staticcheck // RequeueAfter would need a fixed time.

// PatchStatus writes the status of after, unless after is equal to before, its deep copy as it was read. It fails with a conflict when the
// object has changed since it was read.
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
