package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	// fanOutEvents is how many events are sent, each when the one before has reached all clients.
	fanOutEvents = 20
	// fanOutBound is what the 99th percentile should be below.
	fanOutBound = 250 * time.Millisecond
)

// eventData is what an event of a matched image says.
var eventData = json.RawMessage(`{"database":"xxh64:00ff00ff00ff00ff","counts":{"critical":1,"high":23,"medium":45,"low":67,"negligible":8,"unknown":9,"kev":1,"fixable":40}}`)

// BenchmarkFanOut measures the way of one event to all clients, over loopback: how many messages are delivered in a second, and
// when a message is there. The clients are in another process, so that the memory and the CPU time are those of the server.
func BenchmarkFanOut(b *testing.B) {
	for _, path := range []string{eventsPath, "/subscribe"} {
		for _, clients := range []int{1000, 10000} {
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
	rounds := startClients(b, f.base+path, clients)
	runtime.GC()
	runtime.ReadMemStats(&after)
	send := func() {
		subscription.events <- store.Event{
			Sequence: hand.last.Add(1), At: time.Now(), Kind: store.EventImageMatched, Platform: "linux/amd64", Data: eventData,
			ImageID: fmt.Sprintf("registry.example%s%d@sha256:%064d", fanOutMark, time.Now().UnixMicro(), 0),
		}
	}
	// All follow once an event has reached all: before, a client may still be looking for the end of the log.
	for following := false; !following; {
		send()
		select {
		case _, following = <-rounds:
			if !following {
				b.Fatal("the clients ended")
			}
		case <-time.After(2 * time.Second):
		}
	}
	var latencies []int
	cpu, wall := processTime(b), time.Duration(0)
	for b.Loop() {
		latencies = latencies[:0]
		cpu, wall = processTime(b), 0
		for range fanOutEvents {
			start := time.Now()
			send()
			latencies = append(latencies, <-rounds...)
			wall += time.Since(start)
		}
		cpu = processTime(b) - cpu
	}
	if len(latencies) != fanOutEvents*clients {
		b.Fatalf("%d messages arrived", len(latencies))
	}
	slices.Sort(latencies)
	p99 := time.Duration(latencies[len(latencies)*99/100]) * time.Microsecond
	b.ReportMetric(float64(len(latencies))/wall.Seconds(), "messages/s")
	b.ReportMetric(float64(latencies[len(latencies)/2])/1000, "p50-ms")
	b.ReportMetric(float64(p99.Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(cpu.Microseconds())/float64(len(latencies)), "cpu-µs/message")
	b.ReportMetric(float64(after.HeapInuse+after.StackInuse-before.HeapInuse-before.StackInuse)/float64(clients)/1024, "KiB/client")
	b.ReportMetric(0, "ns/op")
	within := "yes"
	if p99 >= fanOutBound {
		within = "NO"
	}
	fmt.Printf("feed, %d clients of %s: p99 %s, at most %s: %s\n", clients, path, p99, fanOutBound, within)
}

// startClients starts a process with clients and waits until all are connected. The channel has, for each event that has reached all of them, how
// many microseconds that took for each.
func startClients(b *testing.B, url string, clients int) <-chan []int {
	b.Helper()
	command := exec.CommandContext(b.Context(), os.Args[0])
	command.Env = append(os.Environ(), fanOutVariable+"="+strings.TrimPrefix(url, "http://"), fmt.Sprintf("%s=%d", fanOutClients, clients))
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<22)
	if !lines.Scan() {
		b.Fatal("the clients did not connect")
	}
	rounds := make(chan []int)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(rounds)
		for lines.Scan() {
			var round []int
			if err := json.Unmarshal(lines.Bytes(), &round); err != nil {
				b.Error(err)
				return
			}
			select {
			case rounds <- round:
			case <-b.Context().Done():
			}
		}
	}()
	b.Cleanup(func() {
		_ = command.Process.Kill()
		<-ended
		_ = command.Wait()
	})
	return rounds
}
