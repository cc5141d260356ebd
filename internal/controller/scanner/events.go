package scanner

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// start begins an attempt, and tells so. It tells first: the store knows which attempts were told, so that one that was told and
// not begun, because the process ended in between, is begun without another word. hurried: the API server may take no longer than slowStart. took is how long it took.
func (r *Reconciler) start(ctx context.Context, scanner types.NamespacedName, req scanjob.Request, hurried bool) (took time.Duration, err error) {
	if _, err := r.Store.RecordQueued(ctx, req.Key, req.Attempt); err != nil {
		return 0, fmt.Errorf("record a started scan: %w", err)
	}
	calls := apiCalls{clock: r.Clock}
	if hurried {
		calls.limit = slowStart
	}
	err = r.Cataloger.Start(calls.in(ctx), scanner, req)
	return calls.took, err
}
