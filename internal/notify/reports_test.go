package notify

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/notify/notifytest"
)

// The period of a report begins at the previous time of the schedule.
func TestPeriodsOfReports(t *testing.T) {
	for _, c := range []struct{ schedule, zone, at, want string }{
		{"0 8 * * 1", "", "2026-11-23T08:00:00Z", "2026-11-16T08:00:00Z"},
		{"0 8 * * *", "Europe/Budapest", "2026-03-29T06:00:00Z", "2026-03-28T07:00:00Z"},
		{"0 8 1 * *", "", "2026-03-01T08:00:00Z", "2026-02-01T08:00:00Z"},
		{"30 6,18 * * *", "", "2026-11-23T18:30:00Z", "2026-11-23T06:30:00Z"},
		{"0 0 1 1 *", "", "2026-01-01T00:00:00Z", "2025-01-01T00:00:00Z"},
		{"* * 1 1 *", "", "2026-01-01T00:00:00Z", "2025-01-01T23:59:00Z"},
		// At least an hour, at most 400 days.
		{"* * * * *", "", "2026-11-23T08:00:00Z", "2026-11-23T07:00:00Z"},
		{"0 0 29 2 *", "", "2028-02-29T00:00:00Z", "2027-01-25T00:00:00Z"},
	} {
		s, err := newSchedule(c.schedule, c.zone)
		must(t, err)
		at, err := time.Parse(time.RFC3339, c.at)
		must(t, err)
		if got := s.before(at).UTC().Format(time.RFC3339); got != c.want {
			t.Errorf("%s (%s) before %s: %s, want %s", c.schedule, c.zone, c.at, got, c.want)
		}
	}
}

// A report is sent at the times of the schedule to mail sinks, once, whether anything changed or not, and as long as the rule has it.
func TestReports(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	// Just after a report.
	f.clock.move(time.Until(time.Now().UTC().Truncate(24 * time.Hour).Add(32*time.Hour + time.Minute)))
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""))
	d := Definition{
		Name: "r", Namespace: "one", When: `change.kind == "FindingOpened"`, Schedule: "0 8 * * *", Report: &Scope{Owner: "red"}, MessagesPerHour: 1,
		Sinks: []Sink{{Name: "mail", Type: Email, URL: "https://unused.example/", To: []string{"a@example.com"}}, {Name: "hook", Type: Webhook, URL: "https://receiver.example/"}},
	}
	r := &recorder{}
	e, _ := f.engine(t, f.Store, r)
	stop := f.start(t, e, rule(t, d))
	waiting := func() int {
		messages, err := f.CollectingNotifications(t.Context(), "uid-oner", f.clock.Now())
		must(t, err)
		return len(messages)
	}
	g.Eventually(waiting, patience, tick).Should(gomega.Equal(1))
	stop()
	f.clock.move(20 * time.Hour)
	e, _ = f.engine(t, f.Store, r)
	stop = f.start(t, e, rule(t, d))
	// The report is none of the messages that the rule may send.
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
	g.Eventually(waiting, patience, tick).Should(gomega.Equal(3))
	f.clock.move(4 * time.Hour)
	said := func() []string {
		all := []string{}
		for _, one := range r.all() {
			all = append(all, one.sink+": "+Title(&one.message))
		}
		slices.Sort(all)
		return all
	}
	g.Eventually(said, patience, tick).Should(gomega.Equal([]string{
		"hook: [Low] 1 new finding in one", "mail: Report about owner red in namespace one", "mail: [Low] 1 new finding in one",
	}))
	for _, one := range r.all() {
		if report := one.message.Report; report != nil && f.clock.Now().Sub(report.Since).Round(time.Hour) != 24*time.Hour {
			t.Errorf("the report is about the time since %s", report.Since)
		}
	}
	// The next report is about what the rule says then.
	g.Eventually(waiting, patience, tick).Should(gomega.Equal(1))
	d.Report = &Scope{}
	f.rules(t, e, rule(t, d))
	f.clock.move(24 * time.Hour)
	g.Eventually(said, patience, tick).Should(gomega.ContainElement("mail: Report about namespace one"))
	g.Eventually(waiting, patience, tick).Should(gomega.Equal(1))
	stop()
	// A rule without reports sends none.
	d.Report = nil
	e, _ = f.engine(t, f.Store, r)
	f.start(t, e, rule(t, d))
	f.clock.move(24 * time.Hour)
	g.Eventually(func() (int, error) {
		queues, err := f.NotificationQueues(t.Context())
		pending := 0
		for _, q := range queues {
			pending += q.Pending
		}
		return pending, err
	}, patience, tick).Should(gomega.Equal(0))
	if got := len(r.all()); got != 4 {
		t.Errorf("%d messages: %s", got, said())
	}
}

func TestReportsAreChecked(t *testing.T) {
	to := []Sink{{Name: "s", Type: Email, URL: "https://unused.example/", To: []string{"a@example.com"}}}
	for name, c := range map[string]struct {
		d    Definition
		want string
	}{
		"no schedule":       {Definition{Report: &Scope{}, Sinks: to}, "needs a schedule"},
		"no mail":           {Definition{Report: &Scope{}, Schedule: "0 8 * * *", Sinks: []Sink{{Name: "s", Type: Webhook, URL: "https://receiver.example/"}}}, "needs a sink of type email"},
		"another namespace": {Definition{Namespace: "one", Report: &Scope{Namespace: "two"}, Schedule: "0 8 * * *", Sinks: to}, "only rules of the cluster"},
	} {
		if _, err := NewRule(c.d, &Config{}); err == nil || !strings.Contains(err.Error(), "digest.report: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for want, d := range map[string]Definition{
		"the cluster": {Report: &Scope{}}, "namespace two": {Report: &Scope{Namespace: "two"}}, "owner red": {Report: &Scope{Owner: "red"}},
		"namespace one": {Namespace: "one", Report: &Scope{}}, "owner red in namespace one": {Namespace: "one", Report: &Scope{Owner: "red"}},
	} {
		d.Schedule, d.Sinks = "0 8 * * *", to
		if got := rule(t, d).Report.String(); got != want {
			t.Errorf("a report about %s, want %s", got, want)
		}
	}
}

func TestMailWithReport(t *testing.T) {
	box := &notifytest.Mailbox{}
	address, ca := notifytest.Serve(t, box, false)
	r := receivers(t, map[string]string{"host": address, "from": "scanner@example.com", "ca.crt": ca})
	attached := strings.Repeat("<p>é</p>\n", 1000)
	failure := errors.New("the database is away")
	r.Reports = func(_ context.Context, report *Report) (*Attachment, error) {
		if failure != nil {
			return nil, failure
		}
		return &Attachment{fmt.Sprintf("report-%s.html", report.Namespace), []byte(attached)}, nil
	}
	sink := &Sink{Type: Email, Credential: "c", To: []string{"a@example.com"}}
	message := &Message{Rule: "shop/weekly", Report: &Report{Scope{Namespace: "shop"}, noon}, From: noon, To: noon}
	if err := r.Send(t.Context(), sink, "key-1", message); !errors.Is(err, failure) || len(box.All()) > 0 {
		t.Errorf("without a report: %v, %d mails", err, len(box.All()))
	}
	failure = nil
	must(t, r.Send(t.Context(), sink, "key-1", message))
	parsed, err := mail.ReadMessage(strings.NewReader(box.All()[0].Text))
	must(t, err)
	if subject := parsed.Header.Get("Subject"); subject != "Report about namespace shop" {
		t.Errorf("the subject is %q", subject)
	}
	part := func(reader *multipart.Reader, want string) (*multipart.Part, map[string]string) {
		t.Helper()
		p, err := reader.NextPart()
		must(t, err)
		kind, parameters, err := mime.ParseMediaType(p.Header.Get("Content-Type"))
		if err != nil || kind != want {
			t.Fatalf("the part is %s, %v, want %s", kind, err, want)
		}
		return p, parameters
	}
	_, parameters, err := mime.ParseMediaType(parsed.Header.Get("Content-Type"))
	must(t, err)
	mixed := multipart.NewReader(parsed.Body, parameters["boundary"])
	alternative, parameters := part(mixed, "multipart/alternative")
	alternatives := multipart.NewReader(alternative, parameters["boundary"])
	for _, kind := range []string{"text/plain", "text/html"} {
		p, _ := part(alternatives, kind)
		text, err := io.ReadAll(p)
		must(t, err)
		if !strings.Contains(string(text), "2026") {
			t.Errorf("the part %s is %s", kind, text)
		}
	}
	file, _ := part(mixed, "text/html")
	content, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, file))
	must(t, err)
	if diff := cmp.Diff(attached, string(content)); diff != "" || file.FileName() != "report-shop.html" {
		t.Errorf("the file %s: %s", file.FileName(), diff)
	}
	if _, err := mixed.NextPart(); !errors.Is(err, io.EOF) {
		t.Errorf("after the parts: %v", err)
	}
}
