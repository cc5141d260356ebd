package scanner

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/clock"
)

// apiCalls are the requests of one start to the API server. How long they take says something about a namespace, because of its admission webhooks for
// example; how long the SQL database takes does not.
type apiCalls struct {
	clock clock.Clock
	// limit is how long they may take together, 0 for any time; took is how long they took.
	limit, took time.Duration
}

type apiCallsKey struct{}

// in returns a context in which callAPI counts.
func (c *apiCalls) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, apiCallsKey{}, c)
}

// callAPI makes requests to the API server within the limit of a start.
func callAPI(ctx context.Context, call func(context.Context) error) error {
	calls, counted := ctx.Value(apiCallsKey{}).(*apiCalls)
	if !counted {
		return call(ctx)
	}
	limited := ctx
	if calls.limit > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, calls.limit-calls.took)
		defer cancel()
	}
	began := calls.clock.Now()
	err := call(limited)
	calls.took += calls.clock.Since(began)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("it took longer than %s, while other scans waited: %w", calls.limit, err)
	}
	return err
}
