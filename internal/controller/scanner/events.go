package scanner

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// start begins an attempt, and tells so. It tells first: the store knows which attempts were told, so that one that was told and
// not begun, because the process ended in between, is begun without another word. hurried: it may take no longer than slowStart.
func (r *Reconciler) start(ctx context.Context, scanner types.NamespacedName, req scanjob.Request, hurried bool) error {
	if _, err := r.Store.RecordQueued(ctx, req.Key, req.Attempt); err != nil {
		return fmt.Errorf("record a started scan: %w", err)
	}
	limited := ctx
	if hurried {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, slowStart)
		defer cancel()
	}
	err := r.Cataloger.Start(limited, scanner, req)
	if err != nil && limited.Err() != nil && ctx.Err() == nil && !errors.Is(err, store.ErrUnavailable) {
		return &NamespaceError{req.Namespace, fmt.Errorf("it took longer than %s, while other scans waited: %w", slowStart, err)}
	}
	return err
}
