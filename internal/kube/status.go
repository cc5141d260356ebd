package kube

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RetryConflict reconciles an object again after a conflict. The backoff doubles, from 5 milliseconds on: the cache may be minutes behind.
// Returning an error would have the same effect, but would log it.
var RetryConflict = ctrl.Result{Requeue: true} //nolint:staticcheck // RequeueAfter would need a fixed time.

// written has by UID the resource version that each status written last was based on. A cache that still has this version does not show what was written.
var written = lru.New(10_000)

// PatchStatus writes the status of after, unless after is equal to before, its deep copy as it was read. It fails with a conflict when the
// object has changed since it was read, also by the last call.
func PatchStatus(ctx context.Context, c client.StatusClient, before, after client.Object) error {
	uid, version := before.GetUID(), before.GetResourceVersion()
	if equality.Semantic.DeepEqual(before, after) {
		if IsBehind(before) {
			return behind(before)
		}
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Status().Patch(ctx, after, patch); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	if after.GetResourceVersion() != version {
		written.Add(uid, version)
	}
	return nil
}

// behind is the conflict of an object for which IsBehind is true.
func behind(object client.Object) error {
	return apierrors.NewConflict(schema.GroupResource{}, object.GetName(), errBehind)
}

var errBehind = errors.New("the cache does not show the status that was written last")

// IsBehind reports whether an object, as it was read from the cache, lacks the status that was written last. A status that is equal to that of such an
// object is still to be written.
func IsBehind(object client.Object) bool {
	based, found := written.Get(object.GetUID())
	return found && object.GetUID() != "" && based == object.GetResourceVersion()
}
