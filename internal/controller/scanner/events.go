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

// gone is what the event log says of a Scanner that was deleted.
var gone = json.RawMessage(`{"deleted":true}`)

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

// tellStatus writes the new status of a Scanner to the event log.
func (r *Reconciler) tellStatus(ctx context.Context, scanner *scannerv1.Scanner) error {
	status, err := json.Marshal(scanner.Status)
	if err != nil {
		return fmt.Errorf("encode the status: %w", err)
	}
	return r.tell(ctx, types.NamespacedName{Namespace: scanner.Namespace, Name: scanner.Name}, status)
}

func (r *Reconciler) tell(ctx context.Context, scanner types.NamespacedName, detail json.RawMessage) error {
	err := r.Store.RecordChange(ctx, store.ObjectChange{Kind: store.EventScannerChanged, ObjectEvent: store.ObjectEvent{
		Object: store.ObjectName{Namespace: scanner.Namespace, Name: scanner.Name}, Detail: detail,
	}})
	if err != nil {
		return fmt.Errorf("record that the Scanner changed: %w", err)
	}
	return nil
}
