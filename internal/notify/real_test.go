package notify

import (
	"errors"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/notify/notifytest"
)

func TestMail(t *testing.T) {
	for name, implicit := range map[string]bool{"starttls": false, "tls": true} {
		t.Run(name, func(t *testing.T) {
			box := &notifytest.Mailbox{}
			address, ca := notifytest.Serve(t, box, implicit)
			r := receivers(t, map[string]string{
				"host": address, "from": "Scänner <scanner@example.com>", "tls": name, "username": "scanner", "password": "s3cret", "ca.crt": ca,
			})
			sink := &Sink{Type: Email, Credential: "c", To: []string{"a@example.com", "b@example.com"}}
			must(t, r.Send(t.Context(), sink, "key-1", example()))
			got := box.All()
			if len(got) != 1 || got[0].From != "scanner@example.com" || !cmp.Equal(got[0].To, sink.To) || got[0].User != "scanner" || !got[0].Secure {
				t.Fatalf("the server got %+v", got)
			}
			parsed, err := mail.ReadMessage(strings.NewReader(got[0].Text))
			must(t, err)
			_, parameters, err := mime.ParseMediaType(parsed.Header.Get("Content-Type"))
			must(t, err)
			parts := multipart.NewReader(parsed.Body, parameters["boundary"])
			for _, want := range [][2]string{{"text/plain; charset=utf-8", defaultTexts.Text(example())}, {"text/html; charset=utf-8", defaultTexts.Page(example())}} {
				part, err := parts.NextPart()
				must(t, err)
				text, err := io.ReadAll(part)
				must(t, err)
				if got := part.Header.Get("Content-Type"); got != want[0] || strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")) != strings.TrimSpace(want[1]) {
					t.Errorf("the part %s is %q", got, text)
				}
			}
			if _, err := parts.NextPart(); !errors.Is(err, io.EOF) {
				t.Errorf("after the parts: %v", err)
			}
			if parsed.Header.Get("Message-ID") != "<key-1@example.com>" || parsed.Header.Get("To") != "a@example.com, b@example.com" {
				t.Errorf("the headers are %v", parsed.Header)
			}
			golden(t, "mail.eml", strings.ReplaceAll(got[0].Text, "\r\n", "\n"))
		})
	}
}

// A message is not sent without TLS, and errors tell no password.
func TestMailProblems(t *testing.T) {
	for name, c := range map[string]struct {
		files  map[string]string
		answer error
		want   string
	}{
		"an unknown authority":       {map[string]string{"ca.crt": ""}, nil, "certificate"},
		"a wrong password":           {map[string]string{"password": "wrong"}, nil, "answers with code"},
		"no server":                  {map[string]string{"host": ""}, nil, "has no key host"},
		"no port":                    {map[string]string{"host": "mail.example"}, nil, "not HOST:PORT"},
		"another kind of encryption": {map[string]string{"tls": "rot13"}, nil, "is not starttls, tls or none"},
		"a password without TLS":     {map[string]string{"tls": "none"}, nil, "not sent without TLS"},
		"no address":                 {map[string]string{"from": "Scanner"}, nil, "not an email address"},
		"refused":                    {nil, &smtp.SMTPError{Code: 554, Message: "s3cret"}, ErrRefused.Error()},
		"later":                      {nil, &smtp.SMTPError{Code: 451, Message: "s3cret"}, "code 451"},
	} {
		t.Run(name, func(t *testing.T) {
			box := &notifytest.Mailbox{Refuse: c.answer}
			address, ca := notifytest.Serve(t, box, false)
			files := map[string]string{"host": address, "from": "scanner@example.com", "username": "scanner", "password": "s3cret", "ca.crt": ca}
			maps.Copy(files, c.files)
			err := receivers(t, files).Send(t.Context(), &Sink{Type: Email, Credential: "c", To: []string{"a@example.com"}}, "k", example())
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if errors.Is(err, ErrRefused) != (name == "refused") {
				t.Errorf("refused: %v", err)
			}
			if got := box.All(); len(got) > 0 {
				t.Errorf("the server got %+v", got)
			}
		})
	}
}

// Recipients that the mail server accepts get the message if it rejects others for good, or for long.
func TestRejectedRecipients(t *testing.T) {
	gone, full := &smtp.SMTPError{Code: 550, Message: "s3cret"}, &smtp.SMTPError{Code: 452, Message: "s3cret"}
	for name, c := range map[string]struct {
		reject map[string]error
		// later: the message waits for an hour.
		later   bool
		got     []string
		refused bool
		want    string
	}{
		"one is gone":           {map[string]error{"a@example.com": gone}, false, []string{"b@example.com", "c@example.com"}, false, "rejects 1 of 3 recipients, the first one, a@example.com, with code 550"},
		"one is full":           {map[string]error{"c@example.com": full}, true, []string{"a@example.com", "b@example.com"}, false, "rejects 1 of 3 recipients, the first one, c@example.com, with code 452"},
		"one is gone, one full": {map[string]error{"a@example.com": gone, "b@example.com": full}, true, []string{"c@example.com"}, false, "rejects 2 of 3 recipients, the first one, a@example.com, with code 550"},
		"all are gone":          {map[string]error{"a@example.com": gone, "b@example.com": gone, "c@example.com": gone}, false, nil, true, "code 550"},
		"all are gone or full":  {map[string]error{"a@example.com": gone, "b@example.com": full, "c@example.com": gone}, true, nil, false, "code 452"},
	} {
		t.Run(name, func(t *testing.T) {
			box := &notifytest.Mailbox{Reject: c.reject}
			address, ca := notifytest.Serve(t, box, false)
			r := receivers(t, map[string]string{"host": address, "from": "scanner@example.com", "username": "scanner", "password": "s3cret", "ca.crt": ca})
			now := clocktesting.NewFakeClock(noon)
			r.Clock = now
			send := func() error {
				return r.Send(t.Context(), &Sink{Type: Email, Credential: "c", To: []string{"a@example.com", "b@example.com", "c@example.com"}}, "k", example())
			}
			if c.later {
				for range 2 {
					if err := send(); err == nil || !strings.Contains(err.Error(), "code 452") || errors.Is(err, ErrRefused) || len(box.All()) > 0 {
						t.Errorf("for now: %v, the server got %d messages", err, len(box.All()))
					}
					now.Step(lateFor - time.Second)
				}
			}
			err := send()
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v, want %q", err, c.want)
			}
			_, partial := errors.AsType[*PartialError](err)
			if partial != (c.got != nil) || errors.Is(err, ErrRefused) != c.refused {
				t.Errorf("partial %t, refused %t: %v", partial, errors.Is(err, ErrRefused), err)
			}
			var got []string
			for _, letter := range box.All() {
				got = append(got, letter.To...)
			}
			if diff := cmp.Diff(c.got, got); diff != "" {
				t.Errorf("got the message: %s", diff)
			}
			if c.got != nil && c.later {
				// When it is accepted again, it is waited for again.
				box.Reject = nil
				must(t, send())
				if r.late.waits("c@example.com", now.Now()) && r.late.waits("b@example.com", now.Now()) {
					return
				}
				t.Error("a recipient who was accepted is not waited for")
			}
		})
	}
}

// A database update arrives as one alert in a real Alertmanager and as one mail in a real mailbox, also when the alert is sent twice.
func TestFromDatabaseUpdateToReceivers(t *testing.T) {
	g, f, box := gomega.NewWithT(t), newFixture(t), &notifytest.Mailbox{}
	url := notifytest.Alertmanager(t)
	address, ca := notifytest.Serve(t, box, false)
	r := receivers(t, map[string]string{"url": url, "host": address, "from": "scanner@example.com", "username": "scanner", "password": "s3cret", "ca.crt": ca})
	r.Clock = clock.RealClock{}
	f.run(t, image("a"), []string{"p"}, workload("shop", "web", ""))
	e, _ := f.engine(t, f.Store, r)
	d := Definition{UID: "uid", Name: "r", When: `change.kind == "FindingOpened"`, Sinks: []Sink{
		{Name: "alerts", Type: Alertmanager, Credential: "c"}, {Name: "mail", Type: Email, Credential: "c", To: []string{"a@example.com"}},
	}}
	only, err := NewRule(d, r.Config)
	must(t, err)
	f.start(t, e, only)
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityCritical), finding("CVE-2", model.SeverityLow)}})
	g.Eventually(func() int { return len(notifytest.Alerts(t, url)) }, patience, tick).Should(gomega.Equal(1))
	g.Eventually(func() int { return len(box.All()) }, patience, tick).Should(gomega.Equal(1))
	one := notifytest.Alerts(t, url)[0]
	if one.Labels["severity"] != "critical" || one.Labels["group"] != "shop" || !strings.Contains(one.Annotations["summary"], "2 new findings in shop") {
		t.Errorf("the alert is %+v", one)
	}
	must(t, r.Send(t.Context(), &d.Sinks[0], one.Labels["message_id"], &Message{
		Rule: "r", Group: "shop", Counts: map[Kind]int{FindingOpened: 2}, Severities: map[Kind]model.SeverityCounts{FindingOpened: {Critical: 1, Low: 1}},
	}))
	if got := notifytest.Alerts(t, url); len(got) != 1 {
		t.Errorf("the same message is %d alerts", len(got))
	}
}
