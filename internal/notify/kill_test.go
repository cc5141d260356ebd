package notify

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest/storefile"
)

// The environment of a process that is killed: the store, the credentials, and the step at which it kills itself.
const (
	killedStore = "NOTIFY_KILLED_STORE"
	killedDir   = "NOTIFY_KILLED_DIR"
	killedAt    = "NOTIFY_KILLED_AT"
)

// killedRule is a rule whose messages are sent with the credential "c".
func killedRule(t *testing.T) *Rule {
	t.Helper()
	config, err := ParseConfig(`{credentials: [{name: c}]}`)
	must(t, err)
	one, err := NewRule(Definition{UID: "uid-r", Name: "r", When: `change.kind == "FindingOpened"`, Sinks: []Sink{{Name: "sink", Type: Webhook, Credential: "c"}}}, config)
	must(t, err)
	return one
}

// dying is a Sender whose process ends before or after a receiver gets a message.
type dying struct {
	*crashing
	Sender
}

func (s dying) Send(ctx context.Context, sink *Sink, key string, message *Message) error {
	return s.step("send", func() error { return s.Sender.Send(ctx, sink, key, message) })
}

// runUntilKilled is what the processes do.
func runUntilKilled(t *testing.T) {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), sqlstore.Config{DSN: os.Getenv(killedStore)})
	must(t, err)
	r := &Receivers{Config: &Config{}, Dir: os.Getenv(killedDir), Source: "prod", Clock: clock.RealClock{}}
	c := &crashing{Store: s, at: os.Getenv(killedAt), crash: func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }}
	e := NewEngine(EngineConfig{
		Store: c, Sender: dying{c, r}, Clock: clock.RealClock{}, Observer: &observed{results: map[string]int{}}, Log: logr.Discard(), Changed: func() {},
	})
	f := &fixture{Store: s}
	f.rules(t, e, killedRule(t))
	must(t, e.Run(t.Context()))
}

// TestKilledProcesses kills processes that collect and deliver, one after the other, at each step. All messages arrive; those that arrive again have the
// same key and content.
func TestKilledProcesses(t *testing.T) {
	if os.Getenv(killedStore) != "" {
		runUntilKilled(t)
		return
	}
	var mu sync.Mutex
	var got []delivery
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, delivery{r.Header.Get("Webhook-Id"), string(body)})
	}))
	defer server.Close()
	r := receivers(t, map[string]string{"url": server.URL, "ca.crt": caOf(server)})
	path := filepath.Join(t.TempDir(), "store.db")
	storefile.Put(t, path)
	open := func() *fixture {
		s, err := sqlstore.Open(t.Context(), sqlstore.Config{DSN: path})
		must(t, err)
		return &fixture{Store: s, clock: &movable{}}
	}
	f := open()
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""), workload("two", "web", ""))
	e, _ := f.engine(t, f.Store, r)
	f.rules(t, e, killedRule(t))
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
	must(t, f.Close())
	program, err := os.Executable()
	must(t, err)
	for _, at := range []string{
		"queue begins", "queue ends", "seal begins", "seal ends", "send begins", "send ends", "end begins", "end ends", "send ends", "end ends",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		process := exec.CommandContext(ctx, program, "-test.run=^TestKilledProcesses$")
		process.Env = append(os.Environ(), killedStore+"="+path, killedDir+"="+r.Dir, killedAt+"="+at)
		output, err := process.CombinedOutput()
		late := ctx.Err()
		cancel()
		ended, is := errors.AsType[*exec.ExitError](err)
		if late != nil || !is || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("the process that is to be killed when %q: %v, %v\n%s", at, err, late, output)
		}
	}
	f = open()
	defer func() { must(t, f.Close()) }()
	queues, err := f.NotificationQueues(t.Context())
	must(t, err)
	if q := queues[0]; len(queues) != 1 || q.Pending > 0 || q.Delivered != 2 || q.Dropped > 0 {
		t.Errorf("the queues are %+v", queues)
	}
	mu.Lock()
	defer mu.Unlock()
	bodies := map[string]string{}
	for i, one := range got {
		if known, again := bodies[one.id]; again && known != one.body {
			t.Errorf("delivery %d has the key of another message: %s", i+1, one.body)
		}
		bodies[one.id] = one.body
	}
	for _, group := range []string{"one", "two"} {
		if !slices.ContainsFunc(got, func(d delivery) bool {
			return strings.Contains(d.body, `"group":"`+group+`"`) && strings.Contains(d.body, "CVE-1")
		}) {
			t.Errorf("nothing about %s arrived", group)
		}
	}
	// One message was sent in three processes, the other one in two.
	if len(bodies) != 2 || len(got) != 5 {
		t.Errorf("%d messages were sent %d times", len(bodies), len(got))
	}
}
