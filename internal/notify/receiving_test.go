package notify

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// delivery is a request as a receiver got it.
type delivery struct{ id, body string }

// impatient is a Sender that waits a second for answers.
type impatient struct{ Sender }

func (s impatient) Send(ctx context.Context, sink *Sink, key string, message *Message) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return s.Sender.Send(ctx, sink, key, message)
}

// A receiver that fails, redirects, answers slowly or hangs up after it has the message gets the same message again, with the same key, until it accepts
// it, and the next message after that.
func TestReceiversThatMisbehave(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	var mu sync.Mutex
	var got []delivery
	elsewhere := 0
	release := make(chan struct{})
	hangUp := func(w http.ResponseWriter) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}
	misbehave := []func(w http.ResponseWriter, r *http.Request){
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		// It has the message, and nobody learns of it.
		func(w http.ResponseWriter, _ *http.Request) { hangUp(w) },
		// The answer has no end.
		func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			_ = http.NewResponseController(w).Flush()
			<-release
		},
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		if r.URL.Path != "/in" {
			elsewhere++
		}
		got = append(got, delivery{r.Header.Get("Webhook-Id"), string(body)})
		n := len(got)
		mu.Unlock()
		if n <= len(misbehave) {
			misbehave[n-1](w, r)
		}
	}))
	server.EnableHTTP2 = false
	server.StartTLS()
	defer server.Close()
	defer close(release)
	all := func() []delivery {
		mu.Lock()
		defer mu.Unlock()
		return append([]delivery{}, got...)
	}
	r := receivers(t, map[string]string{"url": server.URL + "/in", "key": "secret", "ca.crt": caOf(server)})
	r.Clock = f.clock
	f.run(t, image("a"), []string{"p"}, workload("shop", "web", ""))
	e, o := f.engine(t, f.Store, impatient{r})
	d := Definition{UID: "uid-r", Name: "r", When: `change.kind == "FindingOpened"`, Sinks: []Sink{{Name: "sink", Type: Webhook, Credential: "c"}}}
	only, err := NewRule(d, r.Config)
	must(t, err)
	f.start(t, e, only)
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityCritical)}})
	for attempt := range misbehave {
		g.Eventually(func() int { return len(all()) }, patience, tick).Should(gomega.Equal(attempt + 1))
		g.Eventually(func() int {
			o.mu.Lock()
			defer o.mu.Unlock()
			return o.results["webhook "+Failed]
		}, patience, tick).Should(gomega.Equal(attempt + 1))
		if attempt == 0 {
			// A later message waits for the first one.
			f.update(t, findings{"p": {finding("CVE-1", model.SeverityCritical), finding("CVE-2", model.SeverityCritical)}})
			g.Eventually(func() int { return e.States()["uid-r"].Queues["sink"].Pending }, patience, tick).Should(gomega.Equal(2))
		}
		f.clock.move(retryMost)
	}
	g.Eventually(func() int { return len(all()) }, patience, tick).Should(gomega.Equal(len(misbehave) + 2))
	g.Eventually(func() int64 { return e.States()["uid-r"].Queues["sink"].Delivered }, patience, tick).Should(gomega.Equal(int64(2)))
	for i, one := range all()[:len(misbehave)+1] {
		if one != all()[0] {
			t.Errorf("attempt %d has another key or content: %+v, want %+v", i+1, one, all()[0])
		}
	}
	if last := all()[len(misbehave)+1]; last.id == all()[0].id || last.body == all()[0].body {
		t.Errorf("the second message is the first one: %+v", last)
	}
	if elsewhere > 0 {
		t.Error("a redirect was followed")
	}
}
