package notify

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// testPause is how long a rule cannot be tested after a test.
	testPause = 10 * time.Second
	// maxTests is how many rules are tested at a time.
	maxTests = 4
)

// ErrTestLater says that a rule cannot be tested now.
var ErrTestLater = errors.New("the rule was tested a moment ago, or too many rules are being tested")

// ErrInvalid says that a rule is not valid, so that it sends nothing.
var ErrInvalid = errors.New("the rule is not valid")

// SinkTest says what became of a test message.
type SinkTest struct {
	Sink string
	Type Type
	// Problem says why the sink did not accept the message, nil if it did.
	Problem error
}

// Tester sends test messages to the sinks of rules, beside the messages of the engine: on any replica, once, whether they arrive or not.
type Tester struct {
	Sender Sender
	Clock  clock.PassiveClock

	mu     sync.Mutex
	active int
	// last is when rules were tested last, by UID.
	last map[string]time.Time
}

// Test sends a message to each sink of a rule at the same time, and says what became of it, in the order of the sinks. It returns ErrTestLater if the rule
// was tested less than 10 seconds ago.
func (t *Tester) Test(ctx context.Context, rule *Rule) ([]SinkTest, error) {
	now := t.Clock.Now()
	if !t.begin(rule.UID, now) {
		return nil, ErrTestLater
	}
	defer t.end()
	message := &Message{Rule: rule.String(), Test: true, From: now, To: now, Counts: map[Kind]int{}}
	key := digest(rule.UID, "test", strconv.FormatInt(now.UnixNano(), 10))
	limited, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	results := make([]SinkTest, len(rule.Sinks))
	var sending sync.WaitGroup
	for i := range rule.Sinks {
		sink := &rule.Sinks[i]
		sending.Go(func() { results[i] = SinkTest{sink.Name, sink.Type, t.Sender.Send(limited, sink, key, message)} })
	}
	sending.Wait()
	return results, ctx.Err()
}

// begin reports whether a rule may be tested, and notes it.
func (t *Tester) begin(rule string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for known, at := range t.last {
		if now.Sub(at) >= testPause {
			delete(t.last, known)
		}
	}
	if _, recent := t.last[rule]; recent || t.active >= maxTests {
		return false
	}
	if t.last == nil {
		t.last = map[string]time.Time{}
	}
	t.last[rule] = now
	t.active++
	return true
}

func (t *Tester) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.active--
}
