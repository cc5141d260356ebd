package scanner

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// start begins an attempt, and tells so. It tells first: the store knows which attempts were told, so that one that was told and
// not begun, because the process ended in between, is begun without another word.
func (r *Reconciler) start(ctx context.Context, scanner types.NamespacedName, req scanjob.Request) error {
	if _, err := r.Store.RecordQueued(ctx, req.Key, req.Attempt); err != nil {
		return fmt.Errorf("record a started scan: %w", err)
	}
	return r.Cataloger.Start(ctx, scanner, req)
}
