package rollout

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
)

// ErrSlow is the end of a subscription whose client is further behind than messages are kept.
var ErrSlow = errors.New("the client is too slow")

// takeAtOnce is how many messages a client gets at a time.
const takeAtOnce = 32

// Scope chooses Deployments. Empty fields do not choose.
type Scope struct{ Namespace, Deployment string }

func (s Scope) covers(key types.NamespacedName) bool {
	return (s.Namespace == "" || s.Namespace == key.Namespace) && (s.Deployment == "" || s.Deployment == key.Name)
}

// Subscription delivers to one client that every Deployment of its scope was processed, by namespace and name, and then every message
// about what happened since. One goroutine uses it.
type Subscription struct {
	feed  *Feed
	scope Scope
	// known are the Deployments that are still to be told.
	known []types.NamespacedName
	// joined is the number of the last change that known tells of, next that of the message that comes next.
	joined, next int64
	buffer       []message
}

// Next waits for messages and returns some of them. It fails with ErrSlow, and with the error of the context.
func (s *Subscription) Next(ctx context.Context) ([]string, error) {
	texts := make([]string, 0, takeAtOnce)
	for len(s.known) > 0 && len(texts) < takeAtOnce {
		if s.scope.covers(s.known[0]) {
			texts = append(texts, processedText(s.known[0].Name))
		}
		s.known = s.known[1:]
	}
	if len(s.known) == 0 {
		// An empty slice would keep the whole list for as long as the client stays.
		s.known = nil
	}
	for len(texts) == 0 {
		taken, grown, err := s.feed.board.take(s.next, s.buffer[:0])
		if err != nil {
			s.feed.metrics.Evicted()
			return nil, err
		}
		s.next += int64(len(taken))
		for _, m := range taken {
			if m.change > s.joined && s.scope.covers(m.about) {
				texts = append(texts, m.text)
			}
		}
		if len(taken) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-grown:
		}
	}
	s.feed.metrics.Sent(len(texts))
	return texts, nil
}

// Close ends the subscription.
func (s *Subscription) Close() { s.feed.metrics.Left() }
