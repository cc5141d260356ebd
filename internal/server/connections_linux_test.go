package server_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/scanner-operator/scanner-operator/internal/server"
)

// from opens a connection from an address of this machine.
func (f *fixture) from(address string) net.Conn {
	f.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	connection, err := dialer.DialContext(f.t.Context(), "tcp", f.server.Addr())
	f.must(err)
	f.t.Cleanup(func() { _ = connection.Close() })
	f.must(connection.SetDeadline(time.Now().Add(patience)))
	return connection
}

// closed waits until the server closes a connection.
func (f *fixture) closed(connection net.Conn) {
	f.t.Helper()
	if n, err := connection.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		f.t.Errorf("the connection is open: %v", err)
	}
}

// Of the connections of one address that have not authenticated, the least recently used gives way.
func TestConnectionsPerAddress(t *testing.T) {
	registry := prometheus.NewRegistry()
	f := newGuardedFixture(t, newCluster(), func(c *server.Config) { c.Limits.AddressConnections, c.Registerer = 3, registry })
	signedIn, refused, used, other := f.from("127.0.0.1"), f.from("127.0.0.1"), f.from("127.0.0.1"), f.from("127.0.0.2")
	if got := f.request(signedIn, anyRequest, "admin"); got != http.StatusOK {
		t.Fatal(got)
	}
	if got := f.request(refused, anyRequest, "foreign"); got != http.StatusUnauthorized {
		t.Fatal(got)
	}
	unused := f.from("127.0.0.1")
	// The use of a connection makes it younger.
	for _, c := range []net.Conn{other, used, refused} {
		if got := f.request(c, anyPage, ""); got != http.StatusOK {
			t.Fatal(got)
		}
	}
	fourth := f.from("127.0.0.1")
	f.closed(unused)
	for name, c := range map[string]net.Conn{"a signed-in user": signedIn, "another address": other, "a refused one": refused, "a used one": used, "the last": fourth} {
		if got := f.request(c, anyPage, ""); got != http.StatusOK {
			t.Errorf("the connection of %s was answered with %d", name, got)
		}
	}
	if got := dropped(t, registry); got["address"] != 1 || got["total"] != 0 {
		t.Errorf("dropped %v", got)
	}
}

// When no more connections are possible, one that has not authenticated gives way, whoever has it.
func TestConnectionsInTotal(t *testing.T) {
	registry := prometheus.NewRegistry()
	f := newGuardedFixture(t, newCluster(), func(c *server.Config) { c.Limits.Connections, c.Registerer = 3, registry })
	idle, signedIn, second := f.from("127.0.0.2"), f.from("127.0.0.1"), f.from("127.0.0.3")
	for _, c := range []net.Conn{signedIn, second} {
		if got := f.request(c, anyRequest, "admin"); got != http.StatusOK {
			t.Fatal(got)
		}
	}
	third := f.from("127.0.0.4")
	f.closed(idle)
	if got := f.request(third, anyRequest, "admin"); got != http.StatusOK {
		t.Fatal(got)
	}
	if got := dropped(t, registry); got["total"] != 1 || got["address"] != 0 {
		t.Errorf("dropped %v", got)
	}
}

func TestAddressesAreUnlimited(t *testing.T) {
	f := newGuardedFixture(t, newCluster(), func(c *server.Config) { c.Limits.AddressConnections = -1 })
	var all []net.Conn
	for range server.DefaultAddressConnections + 10 {
		all = append(all, f.from("127.0.0.1"))
	}
	for _, c := range all {
		if got := f.request(c, anyPage, ""); got != http.StatusOK {
			t.Fatal(got)
		}
	}
}

// Who has not authenticated is not waited for as long as others are.
func TestIdleConnectionsAreClosed(t *testing.T) {
	f := newGuardedFixture(t, newCluster(), func(c *server.Config) {
		c.Limits.UnauthenticatedIdleTimeout, c.Limits.IdleTimeout = 50*time.Millisecond, time.Hour
	})
	signedIn, pod := f.from("127.0.0.1"), f.from("127.0.0.1")
	if got := f.request(signedIn, anyRequest, "admin"); got != http.StatusOK {
		t.Fatal(got)
	}
	if got := f.request(pod, anyPage, ""); got != http.StatusOK {
		t.Fatal(got)
	}
	f.closed(pod)
	if got := f.request(signedIn, anyRequest, "admin"); got != http.StatusOK {
		t.Errorf("the connection of a signed-in user was answered with %d", got)
	}
}

// dropped are the counts of dropped connections, by limit.
func dropped(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "scanner_operator_http_connections_dropped_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			counts[metric.GetLabel()[0].GetValue()] = metric.GetCounter().GetValue()
		}
	}
	return counts
}
