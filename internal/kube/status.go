package kube

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PatchStatus writes the status of after unless the object is equal to before, its deep copy from when it was read. A
// conflict with another writer is an error, so that no status rests on an object that has changed since. It reports
// whether it wrote.
func PatchStatus(ctx context.Context, c client.StatusClient, before, after client.Object) (bool, error) {
	if equality.Semantic.DeepEqual(before, after) {
		return false, nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Status().Patch(ctx, after, patch); err != nil {
		return false, fmt.Errorf("write status: %w", err)
	}
	return true, nil
}
