package notify

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/notify/notifytest"
)

// listen answers connections in turn, the last way for all others, until the test ends.
func listen(t *testing.T, answers ...func(net.Conn)) (address string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	var answering sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	answering.Go(func() {
		for n := 0; ; n++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			answering.Go(func() { answers[min(n, len(answers)-1)](conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for _, conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		answering.Wait()
	})
	return listener.Addr().String()
}

// say answers a mail client with these lines, one for each of its lines, except for the greeting. Then it tells reached, and says nothing more.
func say(conn net.Conn, reached chan<- struct{}, lines ...string) {
	from := bufio.NewReader(conn)
	for i, line := range lines {
		if i > 0 {
			if _, err := from.ReadString('\n'); err != nil {
				return
			}
		}
		_, _ = io.WriteString(conn, line+"\r\n")
	}
	reached <- struct{}{}
	_, _ = io.Copy(io.Discard, from)
}

// Wherever a mail server stops to answer, an attempt ends by its deadline, and at once with the process.
func TestMailServerThatStopsToAnswer(t *testing.T) {
	certificates := httptest.NewTLSServer(http.NotFoundHandler())
	certificates.Close()
	config := &tls.Config{Certificates: certificates.TLS.Certificates, MinVersion: tls.VersionTLS12}
	for name, c := range map[string]struct {
		mode  string
		lines []string
	}{
		"before the greeting":       {tlsNone, nil},
		"before TLS":                {tlsImplicit, nil},
		"after the greeting":        {tlsStart, []string{"220 mail.example"}},
		"before STARTTLS":           {tlsStart, []string{"220 mail.example", "250-mail.example\r\n250 STARTTLS"}},
		"in the handshake":          {tlsStart, []string{"220 mail.example", "250-mail.example\r\n250 STARTTLS", "220 go"}},
		"before the recipient":      {tlsNone, []string{"220 mail.example", "250 mail.example", "250 sender"}},
		"before it has the message": {tlsNone, []string{"220 mail.example", "250 mail.example", "250 sender", "250 recipient", "354 go"}},
		"after the greeting in TLS": {tlsImplicit, []string{"220 mail.example"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reached := make(chan struct{}, 2)
			address := listen(t, func(conn net.Conn) {
				if c.mode == tlsImplicit && len(c.lines) > 0 {
					conn = tls.Server(conn, config)
				}
				say(conn, reached, c.lines...)
			})
			r := receivers(t, map[string]string{"host": address, "from": "scanner@example.com", "tls": c.mode, "ca.crt": caOf(certificates)})
			sink := &Sink{Type: Email, Credential: "c", To: []string{"a@example.com"}}
			send := func(ctx context.Context, want string) {
				ended := make(chan error, 1)
				go func() { ended <- r.Send(ctx, sink, "key-1", example()) }()
				select {
				case err := <-ended:
					if err == nil || !strings.HasSuffix(err.Error(), "the receiver cannot be reached: "+want) {
						t.Errorf("got %v, want %q", err, want)
					}
				case <-time.After(sendTimeout / 2):
					t.Errorf("%s: the attempt ended late: %v", want, <-ended)
				}
			}
			canceled, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				<-reached
				cancel()
			}()
			send(canceled, "the attempt was canceled")
			limited, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			send(limited, "timeout")
		})
	}
}

// holding is a Sender of mail whose attempts can be ended as if their time were over, and of all else.
type holding struct {
	mail, rest Sender
	// end ends one attempt. left is how much time each has when it begins.
	end  chan struct{}
	left chan time.Duration
}

func (s *holding) Send(ctx context.Context, sink *Sink, key string, message *Message) error {
	if sink.Type != Email {
		return s.rest.Send(ctx, sink, key, message)
	}
	deadline, _ := ctx.Deadline()
	s.left <- time.Until(deadline)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.end:
			cancel()
		case <-ctx.Done():
		}
	}()
	return s.mail.Send(ctx, sink, key, message)
}

// A mail server that accepts a connection and says nothing gets the messages later. Meanwhile the other sinks of the rule, and other rules, get all messages.
func TestSilentMailServerDelaysNoOther(t *testing.T) {
	f, g, box := newFixture(t), gomega.NewWithT(t), &notifytest.Mailbox{}
	mailbox, ca := notifytest.Serve(t, box, false)
	reached := make(chan struct{}, 1)
	address := listen(t, func(conn net.Conn) { say(conn, reached) }, func(conn net.Conn) {
		onward, err := new(net.Dialer).DialContext(context.Background(), "tcp", mailbox)
		if err != nil {
			_ = conn.Close()
			return
		}
		go func() {
			_, _ = io.Copy(onward, conn)
			_ = onward.Close()
		}()
		_, _ = io.Copy(conn, onward)
		_ = conn.Close()
	})
	r := receivers(t, map[string]string{"host": address, "from": "scanner@example.com", "username": "scanner", "password": "s3cret", "ca.crt": ca})
	r.Clock = f.clock
	rest := &recorder{}
	sender := &holding{mail: r, rest: rest, end: make(chan struct{}), left: make(chan time.Duration, 10)}
	f.run(t, image("a"), []string{"p"}, workload("shop", "web", ""))
	e, o := f.engine(t, f.Store, sender)
	var rules []*Rule
	hook, mail := Sink{Name: "hook", Type: Webhook, URL: "https://receiver.example/"}, Sink{Name: "mail", Type: Email, Credential: "c", To: []string{"a@example.com"}}
	for name, sinks := range map[string][]Sink{"r": {mail, hook}, "other": {hook}} {
		d := Definition{UID: "uid-" + name, Name: name, When: `change.kind == "FindingOpened"`, Sinks: sinks}
		one, err := NewRule(d, r.Config)
		must(t, err)
		rules = append(rules, one)
	}
	f.rules(t, e, rules...)
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityCritical)}})
	f.start(t, e, rules...)
	<-reached
	g.Eventually(func() int { return len(rest.all()) }, patience, tick).Should(gomega.Equal(2))
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityCritical), finding("CVE-2", model.SeverityCritical)}})
	g.Eventually(func() int { return len(rest.all()) }, patience, tick).Should(gomega.Equal(4))
	failed := func() int {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.results["email "+Failed]
	}
	if left := <-sender.left; failed() > 0 || left > sendTimeout || left < sendTimeout/2 {
		t.Errorf("%d attempts failed, the first one has %s", failed(), left)
	}
	sender.end <- struct{}{}
	g.Eventually(failed, patience, tick).Should(gomega.Equal(1))
	if q := e.States()["uid-r"]; q.Problems["mail"] != "the mail server cannot be used: the receiver cannot be reached: the attempt was canceled" || q.Queues["mail"].Pending != 2 {
		t.Errorf("the state is %+v", q)
	}
	f.clock.move(retryMost)
	g.Eventually(func() int { return len(box.All()) }, patience, tick).Should(gomega.Equal(2))
}
