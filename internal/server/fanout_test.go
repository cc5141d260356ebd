package server_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// eventData is what an event of a matched image says.
var eventData = json.RawMessage(`{"database":"xxh64:00ff00ff00ff00ff","counts":{"critical":1,"high":23,"medium":45,"low":67,"negligible":8,"unknown":9,"kev":1,"fixable":40}}`)

// BenchmarkFanOut measures the way of one event to all clients, over loopback: how many messages are delivered in a second, and
// when a message is there. Both ends of every connection are in this process.
func BenchmarkFanOut(b *testing.B) {
	for _, path := range []string{eventsPath, "/subscribe"} {
		for _, clients := range []int{1000, 5000} {
			b.Run(fmt.Sprintf("path=%s/clients=%d", path[1:], clients), func(b *testing.B) { fanOut(b, path, clients) })
		}
	}
}

func fanOut(b *testing.B, path string, clients int) {
	b.Helper()
	hand := newHandFeed()
	f := newFixture(b, func(c *server.Config) {
		c.Feed = hand.subscribe
		c.Limits.Connections, c.Limits.Subscribers = 2*clients, clients
	})
	subscription := <-hand.subscriptions
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	// A client that comes while the feed speaks may read the same event from the log; here the log is empty.
	received := make(chan time.Time, clients)
	var running sync.WaitGroup
	connections := make([]*websocket.Conn, clients)
	for i := range connections {
		connection, _ := f.dialPath(path)
		f.must(connection.SetReadDeadline(time.Time{}))
		connections[i] = connection
		if path == eventsPath {
			_, _, err := connection.ReadMessage() // hello
			f.must(err)
		}
		running.Go(func() {
			for {
				if _, _, err := connection.ReadMessage(); err != nil {
					return
				}
				received <- time.Now()
			}
		})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	send := func() time.Time {
		event := store.Event{Sequence: hand.last.Add(1), At: time.Now(), Kind: store.EventImageMatched, ImageID: scannedID, Platform: "linux/amd64", Data: eventData}
		start := time.Now()
		subscription.events <- event
		return start
	}
	// All follow once an event has reached all: before, a client may still be looking for the end of the log.
	for got := 0; got != clients; {
		got = 0
		send()
		for quiet := false; !quiet; {
			select {
			case <-received:
				got++
			case <-time.After(time.Second):
				quiet = true
			}
		}
	}
	latencies := make([]time.Duration, 0, 1<<20)
	b.ResetTimer()
	for b.Loop() {
		start := send()
		for range clients {
			latencies = append(latencies, (<-received).Sub(start))
		}
	}
	elapsed := b.Elapsed()
	slices.Sort(latencies)
	b.ReportMetric(float64(len(latencies))/elapsed.Seconds(), "messages/s")
	b.ReportMetric(float64(latencies[len(latencies)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(latencies[len(latencies)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(after.HeapInuse+after.StackInuse-before.HeapInuse-before.StackInuse)/float64(clients)/1024, "KiB/client")
	for _, connection := range connections {
		_ = connection.Close()
	}
	running.Wait()
}
