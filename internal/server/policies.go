package server

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	// dueTTL is how long the numbers of what is due are remembered: to count them, the packages of all visible images are read. A decision shows in all
	// lists within 5 seconds. dueTimeout bounds counting
	// them, maxDue how many answers of a kind are remembered.
	dueTTL     = 3 * time.Second
	dueTimeout = time.Minute
	maxDue     = 100
)

// dueCounts remembers answers with the numbers of what is due.
type dueCounts[T any] struct {
	remembered *cache.LRUExpireCache
	flights    singleflight.Group
}

func newDueCounts[T any](clock func() time.Time) *dueCounts[T] {
	return &dueCounts[T]{remembered: cache.NewLRUExpireCacheWithClock(maxDue, clockFunc(clock))}
}

// clockFunc is a clock of the cache.
type clockFunc func() time.Time

func (c clockFunc) Now() time.Time { return c() }

// get returns the answer for a key, which is at most dueTTL old. Callers with the same key wait for the same answer; who asks first may go away.
func (d *dueCounts[T]) get(ctx context.Context, key string, count func(ctx context.Context) (T, error)) (T, error) {
	if known, ok := d.remembered.Get(key); ok {
		answer, _ := known.(T)
		return answer, nil
	}
	found, err, _ := d.flights.Do(key, func() (any, error) {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), dueTimeout)
		defer cancel()
		answer, err := count(bounded)
		if err == nil {
			d.remembered.Add(key, answer, dueTTL)
		}
		return answer, err
	})
	answer, _ := found.(T)
	return answer, err
}

// ListPolicies answers the policies that apply, with what is due because of them.
func (o operations) ListPolicies(ctx context.Context, _ api.ListPoliciesRequestObject) (api.ListPoliciesResponseObject, error) {
	in := visible(ctx)
	policies, err := o.s.duePolicies.get(ctx, in.Digest(), func(ctx context.Context) ([]store.PolicySummary, error) {
		return o.s.store.ListPolicies(ctx, in)
	})
	if err != nil {
		return nil, err
	}
	answer := api.ListPolicies200JSONResponse{Items: make([]api.PolicySummary, 0, len(policies))}
	for i := range policies {
		p := &policies[i]
		var places string
		if p.Places != nil {
			places = p.Places.Selector
		}
		answer.Items = append(answer.Items, api.PolicySummary{
			Name: p.Name, Select: optional(p.Select), Places: optional(places), From: api.PolicySummaryFrom(p.From),
			DueIn: api.DueIn{Critical: p.DueIn.Critical, High: p.DueIn.High, Medium: p.DueIn.Medium, Low: p.DueIn.Low, Kev: p.DueIn.KEV},
			Due:   toSeverityCounts(p.Due), Overdue: toSeverityCounts(p.Overdue), Next: optionalTime(p.Next),
		})
	}
	return answer, nil
}

// toDeadline is until when a finding is due, nil if it is not.
func toDeadline(d *model.Deadline) *api.Deadline {
	if d == nil {
		return nil
	}
	return &api.Deadline{At: d.At, Overdue: d.Overdue, Policy: d.Policy}
}
