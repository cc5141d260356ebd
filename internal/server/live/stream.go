package live

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/gorilla/websocket"

	"github.com/scanner-operator/scanner-operator/internal/deploymentfeed"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Stream is what one WebSocket is sent.
type Stream struct {
	// encode makes the message of an item, nil for one that the stream leaves out. A stream without it is all in open.
	encode encoder
	// open sends what comes before the stream follows the hub, and joins the hub. Without encode it goes on until its context ends.
	open opening
}

// encoder turns an item into what a subscriber is sent, nil for nothing.
type encoder func(*item) (*websocket.PreparedMessage, error)

// opening sends messages to a subscriber.
type opening func(ctx context.Context, s *subscriber, connection *websocket.Conn) error

// item is an event, with the messages that tell it. Each message is made once, for all subscribers with the same encoder.
type item struct {
	store.Event
	event, result sharedMessage
}

// sharedMessage is a message that is made when it is needed for the first time.
type sharedMessage struct {
	once    sync.Once
	message *websocket.PreparedMessage
	err     error
}

func (m *sharedMessage) get(encode func() ([]byte, error)) (*websocket.PreparedMessage, error) {
	m.once.Do(func() {
		var data []byte
		if data, m.err = encode(); m.err == nil {
			m.message, m.err = websocket.NewPreparedMessage(websocket.TextMessage, data)
		}
	})
	return m.message, m.err
}

// Results is the stream of new results that are visible, as JSON strings with the image ID.
func Results(in store.Namespaces) Stream {
	return Stream{encode: func(i *item) (*websocket.PreparedMessage, error) {
		if !i.VisibleIn(in) {
			return nil, nil //nolint:nilnil // no error: the stream leaves it out
		}
		if i.Kind != store.EventImageMatched && i.Kind != store.EventImageReported || i.ImageID == "" {
			return nil, nil //nolint:nilnil // no error: the stream leaves it out
		}
		return i.result.get(func() ([]byte, error) { return json.Marshal(i.ImageID) })
	}}
}

// Deployments is the stream of messages about Deployments that are visible.
func Deployments(feed *deploymentfeed.Feed, scope deploymentfeed.Scope, in store.Namespaces) Stream {
	return Stream{open: func(ctx context.Context, s *subscriber, connection *websocket.Conn) error {
		subscription := feed.Subscribe(scope, in.Contains)
		defer subscription.Close()
		for {
			texts, err := subscription.Next(ctx)
			if errors.Is(err, deploymentfeed.ErrSlow) {
				s.stop(websocket.CloseTryAgainLater, "client too slow")
				s.hub.metrics.Evicted.Inc()
			}
			if err != nil {
				return err
			}
			for _, text := range texts {
				if err := s.send(connection, []byte(text)); err != nil {
					return err
				}
			}
		}
	}}
}
