package notify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

var errCrash = errors.New("crashed")

// crashing is a store at which a process ends at one step: nothing that it does afterwards has an effect.
type crashing struct {
	Store
	// at is the step: the name of a method, before or after it has written.
	at      string
	crash   func()
	mu      sync.Mutex
	crashed bool
}

// step does a step, unless the process has ended.
func (c *crashing) step(name string, work func() error) error {
	if c.ended(name + " begins") {
		return errCrash
	}
	if err := work(); err != nil {
		return err
	}
	if c.ended(name + " ends") {
		return errCrash
	}
	return nil
}

func (c *crashing) ended(step string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if step == c.at && !c.crashed {
		c.crashed = true
		c.crash()
	}
	return c.crashed
}

func (c *crashing) QueueNotifications(ctx context.Context, from, to store.NotificationCursor, messages []store.NotificationMessage) (done bool, err error) {
	return done, c.step("queue", func() error {
		done, err = c.Store.QueueNotifications(ctx, from, to, messages)
		return err
	})
}

func (c *crashing) SkipNotifications(ctx context.Context, rules []string, from, to int64) error {
	return c.step("skip", func() error { return c.Store.SkipNotifications(ctx, rules, from, to) })
}

func (c *crashing) SealNotification(ctx context.Context, rule, sink string, now time.Time, revise func([]byte) ([]byte, error)) (message *store.NotificationMessage, err error) {
	return message, c.step("seal", func() error {
		message, err = c.Store.SealNotification(ctx, rule, sink, now, revise)
		return err
	})
}

func (c *crashing) EndNotification(ctx context.Context, message *store.NotificationMessage, delivered time.Time) error {
	return c.step("end", func() error { return c.Store.EndNotification(ctx, message, delivered) })
}

// Send implements Sender: the process can end before a receiver gets a message, and after that.
func (c *crashing) Send(ctx context.Context, r *recorder, sink *Sink, key string, message *Message) error {
	return c.step("send", func() error { return r.Send(ctx, sink, key, message) })
}

// crashingSender is the Sender of a process that ends.
type crashingSender struct {
	*crashing
	receiver *recorder
}

func (s crashingSender) Send(ctx context.Context, sink *Sink, key string, message *Message) error {
	return s.crashing.Send(ctx, s.receiver, sink, key, message)
}

// Wherever a process ends, the next one delivers all messages; those that arrive twice have the same key and content, and the order stays.
func TestNothingIsLostInACrash(t *testing.T) {
	for _, at := range []string{
		"queue begins", "queue ends", "skip begins", "skip ends", "seal begins", "seal ends", "send begins", "send ends", "end begins", "end ends",
	} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			f, g := newFixture(t), gomega.NewWithT(t)
			f.run(t, image("a"), []string{"p"}, workload("one", "web", ""), workload("two", "web", ""))
			rules := []*Rule{
				rule(t, Definition{Name: "r", When: `change.kind == "FindingOpened"`}), rule(t, Definition{Name: "other", When: `change.kind == "ScanFailed"`}),
			}
			received := &recorder{}
			dead := make(chan struct{})
			first := &crashing{Store: f.Store, at: at, crash: func() { close(dead) }}
			e, _ := f.engine(t, first, crashingSender{first, received})
			stop := f.start(t, e, rules...)
			f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
			<-dead
			stop()
			f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow), finding("CVE-2", model.SeverityLow)}})
			second, _ := f.engine(t, f.Store, received)
			f.start(t, second, rules...)
			unique := func() []string {
				keys, names := map[string]string{}, []string{}
				for _, one := range received.all() {
					content := asJSON(t, one.message)
					if known, again := keys[one.key]; again && known != content {
						t.Errorf("two messages with the key %s", one.key)
					} else if !again {
						names = append(names, one.message.Group+" "+vulnerabilities(&one.message))
					}
					keys[one.key] = content
				}
				for _, group := range []string{"one", "two"} {
					if a, b := slices.Index(names, group+" CVE-1"), slices.Index(names, group+" CVE-2"); b >= 0 && a > b {
						t.Errorf("%v: not in order", names)
					}
				}
				slices.Sort(names)
				return names
			}
			// What is collected after the crash can be one message.
			g.Eventually(func() string { return fmt.Sprint(unique()) }, patience, tick).Should(gomega.BeElementOf(
				"[one CVE-1 one CVE-2 two CVE-1 two CVE-2]", "[one CVE-1 CVE-2 two CVE-1 CVE-2]"))
		})
	}
}

// vulnerabilities are those that a message names.
func vulnerabilities(m *Message) string {
	text := ""
	for _, one := range m.Worst {
		if text != "" {
			text += " "
		}
		text += one.VulnerabilityID
	}
	return text
}

// Two processes that both take themselves for the leader put each change into one message; what both send has the same key and content.
func TestTwoLeaders(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""), workload("two", "web", ""))
	received := &recorder{}
	for range 2 {
		e, _ := f.engine(t, f.Store, received)
		f.start(t, e, rule(t, Definition{Name: "r", When: `change.kind == "FindingOpened"`}))
	}
	var found []model.PackageFinding
	const builds = 4
	for i := range builds {
		found = append(found, finding(fmt.Sprint("CVE-", i), model.SeverityLow))
		f.update(t, findings{"p": found})
	}
	reported := func() map[string]int {
		keys, changes := map[string]string{}, map[string]int{}
		for _, one := range received.all() {
			content := asJSON(t, one.message)
			if known, again := keys[one.key]; again && known != content {
				t.Errorf("two messages with the key %s", one.key)
			} else if !again {
				keys[one.key] = content
				changes[one.message.Group] += one.message.Counts[FindingOpened]
			}
		}
		return changes
	}
	g.Eventually(reported, patience, tick).Should(gomega.Equal(map[string]int{"one": builds, "two": builds}))
	// Each message was queued once: a repetition ends no other one.
	queued := func() (int64, error) {
		queues, err := f.NotificationQueues(t.Context())
		return queues[0].Delivered + int64(queues[0].Pending), err
	}
	keys := map[string]bool{}
	for _, one := range received.all() {
		keys[one.key] = true
	}
	g.Expect(queued()).To(gomega.Equal(int64(len(keys))))
	cursors, err := f.NotificationCursors(t.Context())
	must(t, err)
	if log, err := f.EventLog(t.Context()); err != nil || len(cursors) != 1 || cursors[0].Sequence != log.Last {
		t.Errorf("the rule is at %+v of %d, %v", cursors, log.Last, err)
	}
}
