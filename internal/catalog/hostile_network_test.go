package catalog

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// bystander is a server that has nothing to do with a registry, and must not get its credentials.
type bystander struct {
	url, host string
	mu        sync.Mutex
	requests  int
}

func newBystander(t *testing.T) *bystander {
	t.Helper()
	b := &bystander{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.requests++
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			t.Error(err)
		}
		if r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" || strings.Contains(r.RequestURI+string(body), secret) {
			t.Errorf("%s %s with %v and %q reached another host", r.Method, r.RequestURI, r.Header, body)
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(server.Close)
	b.url, b.host = server.URL, strings.TrimPrefix(server.URL, "http://")
	return b
}

// asked is the number of requests so far.
func (b *bystander) asked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests
}

// resolveAll answers all questions for the addresses of a name with these until the test ends.
func resolveAll(t *testing.T, addresses ...string) {
	t.Helper()
	before := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = before })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer func() { _ = server.Close() }()
			for answerQuestion(server, addresses) == nil {
				continue
			}
		}()
		return client, nil
	}}
}

// answerQuestion reads a DNS message with its length in front, and answers it.
func answerQuestion(connection net.Conn, addresses []string) error {
	var size uint16
	if err := binary.Read(connection, binary.BigEndian, &size); err != nil {
		return err
	}
	question := make([]byte, size)
	if _, err := io.ReadFull(connection, question); err != nil {
		return err
	}
	var message dnsmessage.Message
	if err := message.Unpack(question); err != nil || len(message.Questions) != 1 {
		return errors.Join(err, errors.New("not one question"))
	}
	message.Response, message.Authoritative, message.Additionals = true, true, nil
	asked := message.Questions[0]
	for _, address := range addresses {
		header := dnsmessage.ResourceHeader{Name: asked.Name, Type: asked.Type, Class: asked.Class, TTL: 1}
		switch ip := netip.MustParseAddr(address); {
		case ip.Is4() && asked.Type == dnsmessage.TypeA:
			message.Answers = append(message.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: ip.As4()}})
		case ip.Is6() && asked.Type == dnsmessage.TypeAAAA:
			message.Answers = append(message.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: ip.As16()}})
		}
	}
	answer, err := message.Pack()
	if err != nil {
		return err
	}
	_, err = connection.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
	return err
}
