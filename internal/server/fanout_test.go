package server_test

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/scanner-operator/scanner-operator/internal/server"
)

// BenchmarkFanOut measures the way of one message to 500 subscribers: until the last one has it, and the memory that each takes
// (both ends of the connection are in this process).
func BenchmarkFanOut(b *testing.B) {
	const subscribers = 500
	hand := newHandFeed()
	f := newFixture(b, func(c *server.Config) { c.Feed = hand.subscribe })
	subscription := <-hand.subscriptions
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	received := make(chan time.Time, subscribers)
	var running sync.WaitGroup
	var connections []*websocket.Conn
	for range subscribers {
		connection, _ := f.dial()
		connections = append(connections, connection)
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
	var latencies []time.Duration
	for b.Loop() {
		start := time.Now()
		subscription.events <- hand.matched(scannedID)
		for range subscribers {
			latencies = append(latencies, (<-received).Sub(start))
		}
	}
	slices.Sort(latencies)
	b.ReportMetric(float64(latencies[len(latencies)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(after.HeapInuse+after.StackInuse-before.HeapInuse-before.StackInuse)/subscribers/1024, "KiB/subscriber")
	for _, connection := range connections {
		_ = connection.Close()
	}
	running.Wait()
}
