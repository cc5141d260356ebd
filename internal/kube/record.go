package kube

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// ChangeRecorder writes changes of objects to the event log.
type ChangeRecorder interface {
	RecordChange(ctx context.Context, change store.ObjectChange) error
}

// deletedDetail is the detail of the event about a deleted object.
var deletedDetail = json.RawMessage(`{"deleted":true}`)

// RecordStatus records the status of an object in the event log, unless the last event about the object has the same status. Call it in every
// reconcile, whether or not the status was written: an earlier process may have ended after it wrote the status.
func RecordStatus(ctx context.Context, changes ChangeRecorder, kind store.EventKind, object types.NamespacedName, status any) error {
	detail, err := json.Marshal(status)
	if err != nil {
		return fmt.Errorf("encode the status: %w", err)
	}
	return record(ctx, changes, kind, object, detail, false)
}

// RecordDeletion records in the event log that an object was deleted, unless there is no event about the object.
func RecordDeletion(ctx context.Context, changes ChangeRecorder, kind store.EventKind, object types.NamespacedName) error {
	return record(ctx, changes, kind, object, deletedDetail, true)
}

func record(ctx context.Context, changes ChangeRecorder, kind store.EventKind, object types.NamespacedName, detail json.RawMessage, gone bool) error {
	err := changes.RecordChange(ctx, store.ObjectChange{Kind: kind, Gone: gone, ObjectEvent: store.ObjectEvent{
		Object: store.ObjectName{Namespace: object.Namespace, Name: object.Name}, Detail: detail,
	}})
	if err != nil {
		return fmt.Errorf("record %s of %s: %w", kind, object, err)
	}
	return nil
}
