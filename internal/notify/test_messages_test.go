package notify

import (
	"errors"
	"testing"
	"time"
)

// A test goes to each sink once, says what is wrong with each, and cannot be repeated at once.
func TestTestMessages(t *testing.T) {
	r := &recorder{fail: func(sink *Sink, _ string) error {
		if sink.Name == "broken" {
			return errUnreachable
		}
		return nil
	}}
	c := &movable{}
	tester := &Tester{Sender: r, Clock: c}
	one := rule(t, Definition{Namespace: "shop", Name: "r", Sinks: []Sink{
		{Name: "broken", Type: Webhook, URL: "https://broken.example/"}, {Name: "sink", Type: Slack, URL: "https://receiver.example/"},
	}})
	results, err := tester.Test(t.Context(), one)
	must(t, err)
	if len(results) != 2 || results[0].Sink != "broken" || !errors.Is(results[0].Problem, errUnreachable) || results[1] != (SinkTest{"sink", Slack, nil}) {
		t.Errorf("results: %+v", results)
	}
	got := r.all()
	if len(got) != 2 || !got[0].message.Test || got[0].key != got[1].key || Title(&got[0].message) != "Test message of the notification rule shop/r" {
		t.Errorf("sent: %+v", got)
	}
	if _, err := tester.Test(t.Context(), one); !errors.Is(err, ErrTestLater) {
		t.Errorf("again: %v", err)
	}
	c.move(testPause)
	if _, err := tester.Test(t.Context(), one); err != nil {
		t.Errorf("later: %v", err)
	}
	for range maxTests {
		tester.begin(time.Now().String(), c.Now())
	}
	if _, err := tester.Test(t.Context(), rule(t, Definition{Name: "other"})); !errors.Is(err, ErrTestLater) {
		t.Errorf("beside others: %v", err)
	}
}
