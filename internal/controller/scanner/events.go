package scanner

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// deleted is what the event log says of a Scanner that is gone.
var deleted = json.RawMessage(`{"deleted":true}`)

// start begins an attempt, and tells so. It tells first: the store knows which attempts were told, so that one that was told and
// not begun, because the process ended in between, is begun without another word.
func (r *Reconciler) start(ctx context.Context, scanner types.NamespacedName, v *view, req scanjob.Request) error {
	first, err := r.Store.RecordQueued(ctx, req.Key, v.images[req.Key].Attempts)
	if err != nil {
		return fmt.Errorf("record that a scan begins: %w", err)
	}
	req.Resumed = !first
	return r.Cataloguer.Start(ctx, scanner, req)
}

// tellStatus writes the status of a Scanner to the event log, unless it was the last that was told.
func (r *Reconciler) tellStatus(ctx context.Context, scanner *scannerv1.Scanner) error {
	status, err := json.Marshal(scanner.Status)
	if err != nil {
		return fmt.Errorf("encode the status: %w", err)
	}
	return r.tell(ctx, types.NamespacedName{Namespace: scanner.Namespace, Name: scanner.Name}, status, false)
}

// tellGone writes to the event log that a Scanner was deleted.
func (r *Reconciler) tellGone(ctx context.Context, scanner types.NamespacedName) error {
	return r.tell(ctx, scanner, deleted, true)
}

func (r *Reconciler) tell(ctx context.Context, scanner types.NamespacedName, detail json.RawMessage, gone bool) error {
	err := r.Store.RecordChange(ctx, store.ObjectChange{Kind: store.EventScannerChanged, Gone: gone, ObjectEvent: store.ObjectEvent{
		Object: store.ObjectName{Namespace: scanner.Namespace, Name: scanner.Name}, Detail: detail,
	}})
	if err != nil {
		return fmt.Errorf("record that the Scanner changed: %w", err)
	}
	return nil
}
