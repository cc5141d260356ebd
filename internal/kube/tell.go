package kube

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Changes is the event log, as far as controllers tell it of objects.
type Changes interface {
	RecordChange(ctx context.Context, change store.ObjectChange) error
}

// deleted is what the event log says of an object that is gone.
var deleted = json.RawMessage(`{"deleted":true}`)

// TellStatus writes the status of an object to the event log, unless it was the last that was told. It is to be said at every look at the
// object, whether the status was written now or before: the process may have ended in between.
func TellStatus(ctx context.Context, changes Changes, kind store.EventKind, object types.NamespacedName, status any) error {
	detail, err := json.Marshal(status)
	if err != nil {
		return fmt.Errorf("encode the status: %w", err)
	}
	return tell(ctx, changes, kind, object, detail, false)
}

// TellGone writes to the event log that an object was deleted, unless nothing was told of it before.
func TellGone(ctx context.Context, changes Changes, kind store.EventKind, object types.NamespacedName) error {
	return tell(ctx, changes, kind, object, deleted, true)
}

func tell(ctx context.Context, changes Changes, kind store.EventKind, object types.NamespacedName, detail json.RawMessage, gone bool) error {
	err := changes.RecordChange(ctx, store.ObjectChange{Kind: kind, Gone: gone, ObjectEvent: store.ObjectEvent{
		Object: store.ObjectName{Namespace: object.Namespace, Name: object.Name}, Detail: detail,
	}})
	if err != nil {
		return fmt.Errorf("record %s of %s: %w", kind, object, err)
	}
	return nil
}
