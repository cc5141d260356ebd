package scanner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// journal is a store that remembers what it was told for the event log.
type journal struct {
	memory
	queued  []model.ImageKey
	changes []store.ObjectChange
	err     error
	// lost is the error of the next RecordChange.
	lost error
}

func (j *journal) RecordQueued(_ context.Context, key model.ImageKey, attempt int) (bool, error) {
	if j.err == nil && attempt == j.memory[key].Attempts {
		j.queued = append(j.queued, key)
	}
	return j.err == nil, j.err
}

func (j *journal) RecordChange(_ context.Context, change store.ObjectChange) error {
	if lost := j.lost; lost != nil {
		j.lost = nil
		return lost
	}
	if n := len(j.changes); n == 0 || !bytes.Equal(j.changes[n-1].Detail, change.Detail) {
		j.changes = append(j.changes, change)
	}
	return nil
}

// The beginning of an attempt is told before it begins, a change of the status once, and nothing while nothing happens.
func TestEventsOfAScanner(t *testing.T) {
	key := imageKey("a")
	told, cataloger := &journal{memory: memory{}}, &starter{attempts: map[string]Attempt{}}
	r, _ := newReconciler(t, told, cataloger, scannerWith(nil), podOf("a", key.ImageID, time.Hour))
	told.err = store.ErrUnavailable
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "s"}}); err == nil {
		t.Error("no error while the store is away")
	}
	if len(cataloger.started) != 0 {
		t.Errorf("%v was started untold", cataloger.started)
	}
	told.err, told.changes = nil, nil

	// The status is written, and the store goes away before it is told.
	told.lost = store.ErrUnavailable
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "s"}}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v while the store is away", err)
	}
	_, scanner := reconcileOnce(t, r)
	if diff := cmp.Diff([]model.ImageKey{key}, told.queued, cmp.AllowUnexported(model.ImageKey{})); diff != "" {
		t.Errorf("queued (-want +got):\n%s", diff)
	}
	if len(told.changes) != 1 {
		t.Fatalf("got %+v, want one change", told.changes)
	}
	change := told.changes[0]
	var status scannerv1.ScannerStatus
	if err := json.Unmarshal(change.Detail, &status); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(scanner.Status.Containers, status.Containers); diff != "" || len(status.Conditions) == 0 {
		t.Errorf("the event tells another status: %s", change.Detail)
	}
	if change.Kind != store.EventScannerChanged || change.Object != (store.ObjectName{Namespace: "ns", Name: "s"}) || change.Validate() != nil {
		t.Errorf("got %+v, %v", change, change.Validate())
	}

	reconcileOnce(t, r)
	if len(told.changes) != 1 || len(told.queued) != 1 {
		t.Errorf("a settled Scanner was told of again: %+v, %v", told.changes, told.queued)
	}

	if err := r.Client.Delete(t.Context(), scanner); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(scanner)}); err != nil {
		t.Fatal(err)
	}
	if len(told.changes) != 2 || string(told.changes[1].Detail) != `{"deleted":true}` || !told.changes[1].Gone {
		t.Errorf("got %+v, want the deletion", told.changes)
	}
}
