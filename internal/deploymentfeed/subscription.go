package deploymentfeed

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
)

// ErrSlow is the error of a subscription whose client is behind the oldest message that is kept.
var ErrSlow = errors.New("the client is too slow")

// batchSize is the maximum number of messages that Next returns.
const batchSize = 32

// Scope selects Deployments. An empty field selects all.
type Scope struct{ Namespace, Deployment string }

// Visible reports whether a client sees the Deployments of a namespace.
type Visible func(namespace string) bool

func (s Scope) covers(key types.NamespacedName) bool {
	return (s.Namespace == "" || s.Namespace == key.Namespace) && (s.Deployment == "" || s.Deployment == key.Name)
}

// Subscription delivers messages to one client: first that each existing Deployment of its scope was processed, ordered by namespace and name,
// then every message about changes since. It must not be used by several goroutines at the same time.
type Subscription struct {
	feed    *Feed
	scope   Scope
	visible Visible
	// known are the existing Deployments that are not delivered yet.
	known []types.NamespacedName
	// joined is the number of the last change that known includes, next the number of the next message.
	joined, next int64
	buffer       []message
}

// tells reports whether the client is told about a Deployment.
func (s *Subscription) tells(key types.NamespacedName) bool {
	return s.scope.covers(key) && s.visible(key.Namespace)
}

// Next waits for messages and returns some of them. It returns ErrSlow, or the error of the context.
func (s *Subscription) Next(ctx context.Context) ([]string, error) {
	texts := make([]string, 0, batchSize)
	for len(s.known) > 0 && len(texts) < batchSize {
		if s.tells(s.known[0]) {
			texts = append(texts, processedText(s.known[0].Name))
		}
		s.known = s.known[1:]
	}
	if len(s.known) == 0 {
		// An empty slice would keep the whole list in memory while the client is connected.
		s.known = nil
	}
	for len(texts) == 0 {
		messages, appended, err := s.feed.history.read(s.next, s.buffer[:0])
		if err != nil {
			s.feed.metrics.Evicted()
			return nil, err
		}
		s.next += int64(len(messages))
		for _, m := range messages {
			if m.change > s.joined && s.tells(m.about) {
				texts = append(texts, m.text)
			}
		}
		if len(messages) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-appended:
		}
	}
	s.feed.metrics.Sent(len(texts))
	return texts, nil
}

// Close ends the subscription.
func (s *Subscription) Close() { s.feed.metrics.Left() }
