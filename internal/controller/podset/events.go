package podset

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// deleted is what the event log says of a PodSet that is gone.
var deleted = json.RawMessage(`{"deleted":true}`)

// tellStatus writes the status of a PodSet to the event log, unless it was the last that was told.
func (r *Reconciler) tellStatus(ctx context.Context, ps *appv1alpha1.PodSet) error {
	status, err := json.Marshal(ps.Status)
	if err != nil {
		return fmt.Errorf("encode the status: %w", err)
	}
	return r.tell(ctx, client.ObjectKeyFromObject(ps), status, false)
}

// tellGone writes to the event log that a PodSet was deleted.
func (r *Reconciler) tellGone(ctx context.Context, key types.NamespacedName) error {
	return r.tell(ctx, key, deleted, true)
}

func (r *Reconciler) tell(ctx context.Context, key types.NamespacedName, detail json.RawMessage, gone bool) error {
	err := r.Store.RecordChange(ctx, store.ObjectChange{Kind: store.EventPodSetChanged, Gone: gone, ObjectEvent: store.ObjectEvent{
		Object: store.ObjectName{Namespace: key.Namespace, Name: key.Name}, Detail: detail,
	}})
	if err != nil {
		return fmt.Errorf("record that the PodSet changed: %w", err)
	}
	return nil
}
