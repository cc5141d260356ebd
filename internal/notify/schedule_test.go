package notify

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Times of a schedule are those of its time zone, also where the clock is changed.
func TestSchedules(t *testing.T) {
	for _, c := range []struct{ schedule, zone, after, want string }{
		{"0 8 * * *", "", "2026-11-21T12:00:00Z", "2026-11-22T08:00:00Z"},
		{"0 8 * * *", "Europe/Budapest", "2026-11-21T07:00:00Z", "2026-11-22T07:00:00Z"},
		{"0 8 * * *", "Europe/Budapest", "2026-07-21T05:59:59Z", "2026-07-21T06:00:00Z"},
		{"0 8 * * 1-5", "UTC", "2026-11-20T08:00:00Z", "2026-11-23T08:00:00Z"},
		{"*/15 9-17 * * MON", "UTC", "2026-11-23T17:45:00Z", "2026-11-30T09:00:00Z"},
		// There is no half past two on this day, and there is twice half past two on the other one.
		{"30 2 * * *", "Europe/Budapest", "2026-03-28T23:00:00Z", "2026-03-30T00:30:00Z"},
		{"30 2 * * *", "Europe/Budapest", "2026-10-24T23:00:00Z", "2026-10-25T00:30:00Z"},
		{"0 0 29 2 *", "UTC", "2026-11-21T12:00:00Z", "2028-02-29T00:00:00Z"},
	} {
		s, err := newSchedule(c.schedule, c.zone)
		must(t, err)
		after, err := time.Parse(time.RFC3339, c.after)
		must(t, err)
		if got := s.after(after).UTC().Format(time.RFC3339); got != c.want {
			t.Errorf("%s (%s) after %s: %s, want %s", c.schedule, c.zone, c.after, got, c.want)
		}
	}
	for _, c := range [][3]string{
		{"0 8 * *", "", "five fields"}, {"0 8 * * * *", "", "five fields"}, {"@daily", "", "five fields"}, {"@every 1s", "", "five fields"}, {"TZ=0", "", "five fields"},
		{"CRON_TZ=UTC 0 8 * * *", "", "five fields"}, {"0 24 * * *", "", "schedule:"}, {"*/0 * * * *", "", "schedule:"}, {"0 8 30 2 *", "", "at no time of the next five years"},
		{"0 8 * * *", "Local", "timeZone"}, {"0 8 * * *", "Mars/Phobos", "timeZone"}, {"0 8 * * *", "../../etc/passwd", "timeZone"}, {strings.Repeat("1,", 60) + "1 8 * * *", "", "at most 100 bytes"},
	} {
		if _, err := newSchedule(c[0], c[1]); err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%s (%s): %v, want %q", c[0], c[1], err, c[2])
		}
	}
}

// Whatever the schedule is, it is refused, or has a next time.
func FuzzSchedules(f *testing.F) {
	for _, seed := range []string{"0 8 * * *", "*/5 1-3,7 ? JAN-DEC mon", "TZ=0", "59/59 23 31 12 6", "1-0 0 0 0 0", "*/9999999999 * * * *"} {
		f.Add(seed, "Europe/Budapest")
	}
	f.Fuzz(func(t *testing.T, text, zone string) {
		s, err := newSchedule(text, zone)
		if err == nil && s != nil && !s.after(noon).After(noon) {
			t.Errorf("%q (%q) after %s: %s", text, zone, noon, s.after(noon))
		}
	})
}

// A digest collects until its time, as many messages as the limit allows, and continues after a restart.
func TestDigest(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	// Just after a digest.
	f.clock.move(time.Until(time.Now().UTC().Truncate(24 * time.Hour).Add(32*time.Hour + time.Minute)))
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""), workload("two", "web", ""), workload("three", "web", ""))
	daily := rule(t, Definition{Name: "r", When: `change.kind == "FindingOpened"`, Schedule: "0 8 * * *", MessagesPerHour: 2})
	r := &recorder{}
	position := func() int64 {
		cursors, err := f.NotificationCursors(t.Context())
		must(t, err)
		return cursors[0].Sequence
	}
	collected := func() {
		t.Helper()
		last, err := f.LastSequence(t.Context())
		must(t, err)
		g.Eventually(position, patience, tick).Should(gomega.Equal(last))
	}
	e, _ := f.engine(t, f.Store, r)
	stop := f.start(t, e, daily)
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow)}})
	collected()
	stop()
	f.clock.move(20 * time.Hour)
	e, _ = f.engine(t, f.Store, r)
	f.start(t, e, daily)
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityLow), finding("CVE-2", model.SeverityHigh)}})
	collected()
	if got := r.all(); len(got) > 0 {
		t.Fatalf("%d messages are sent before the digest", len(got))
	}
	f.clock.move(4 * time.Hour)
	g.Eventually(func() int { return len(r.all()) }, patience, tick).Should(gomega.Equal(3))
	groups, combined := 0, 0
	for _, one := range r.all() {
		m := &one.message
		if m.Combined {
			combined++
		} else {
			groups++
		}
		if m.Counts[FindingOpened] != 2 || vulnerabilities(m) != "CVE-2 CVE-1" || span(m) == "" {
			t.Errorf("%s: %+v", m.Group, m)
		}
	}
	if groups != 2 || combined != 1 {
		t.Errorf("%d messages of groups, %d combined", groups, combined)
	}
	// The next one begins anew.
	f.update(t, findings{"p": {finding("CVE-3", model.SeverityLow)}})
	collected()
	f.clock.move(24 * time.Hour)
	g.Eventually(func() int { return len(r.all()) }, patience, tick).Should(gomega.Equal(6))
}

// Rules select by the labels of namespaces, which are read only if a rule needs them.
func TestRulesSelectByNamespaceLabels(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	f.run(t, image("a"), []string{"p"}, workload("one", "web", ""), workload("two", "web", ""), workload("three", "web", ""))
	r := &recorder{}
	e, _ := f.engine(t, f.Store, r)
	reads := 0
	e.Labels = func(context.Context) (map[string]map[string]string, error) {
		if reads++; reads == 1 {
			return nil, errUnreachable
		}
		return map[string]map[string]string{"one": {"stage": "production"}, "two": {"stage": "test"}}, nil
	}
	f.start(t, e,
		rule(t, Definition{Name: "guarded", By: ByRule, When: `change.kind == "FindingOpened" && "stage" in workload.namespaceLabels && workload.namespaceLabels["stage"] == "production"`}),
		rule(t, Definition{Name: "bare", By: ByRule, When: `change.kind == "FindingOpened" && workload.namespaceLabels["stage"] == "production"`}),
	)
	f.update(t, findings{"p": {finding("CVE-1", model.SeverityHigh)}})
	g.Eventually(func() []string {
		all := []string{}
		for _, one := range r.all() {
			all = append(all, one.message.Rule+" "+strings.Join(one.message.Workloads, " "))
		}
		slices.Sort(all)
		return all
	}, patience, tick).Should(gomega.Equal([]string{"bare one/Deployment/web", "guarded one/Deployment/web"}))
	if failure := e.States()["uid-bare"].Failure; !strings.Contains(failure, "no such key") {
		t.Errorf("the status of the rule that reads a label which is not there has %q", failure)
	}
	if failure := e.States()["uid-guarded"].Failure; failure != "" {
		t.Errorf("the status of the rule that looks first has %q", failure)
	}
}

// What will happen, or has not happened, is told to whom it concerns.
func TestReminders(t *testing.T) {
	f, g := newFixture(t), gomega.NewWithT(t)
	f.run(t, image("a"), []string{"p"}, workload("one", "web", "red"))
	r := &recorder{}
	e, _ := f.engine(t, f.Store, r)
	f.start(t, e,
		rule(t, Definition{Name: "all", By: ByRule, When: `change.kind in ["CoverageLost", "ExceptionExpiring", "DatabaseStale"]`}),
		rule(t, Definition{Namespace: "one", Name: "own"}), rule(t, Definition{Namespace: "two", Name: "other"}),
		rule(t, Definition{Name: "blue", When: `change.kind == "CoverageLost" && workload.owner == "blue"`}),
	)
	_, err := f.SyncDecisions(t.Context(), store.DecisionSourceKubernetes, []store.Decision{
		{Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: "e"}, Vulnerabilities: []string{"CVE-1"}, Status: model.DecisionNotAffected, Comment: "why", ExpiresAt: f.clock.Now().Add(8 * 24 * time.Hour)},
		{Object: store.DecisionObject{Kind: "VulnerabilityException", Namespace: "one", Name: "e"}, Vulnerabilities: []string{"CVE-2"}, Status: model.DecisionNotAffected, Comment: "why", ExpiresAt: f.clock.Now().Add(8 * 24 * time.Hour)},
	})
	must(t, err)
	cover := func(state, reason string) {
		must(t, f.RecordCoverage(t.Context(), "scope", []store.ContainerCoverage{{Workload: workload("one", "web", "red"), Container: "c", Image: image("a"), Pods: 1, State: state, Reason: reason}}))
	}
	cover("Scanned", "")
	f.update(t, nil)
	f.clock.move(5 * 24 * time.Hour)
	cover("Failed", "ImageNotFound")
	must(t, f.RecordExpiring(t.Context()))
	must(t, f.RecordStaleDatabase(t.Context(), time.Hour))
	said := func() []string {
		all := []string{}
		for _, one := range r.all() {
			for _, other := range one.message.Others {
				text, _, _ := strings.Cut(other.Text, " on ")
				all = append(all, fmt.Sprintf("%s: %s %s", one.message.Rule, other.Kind, text))
			}
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	g.Eventually(said, patience, tick).Should(gomega.Equal([]string{
		"all: CoverageLost one/Deployment/web, container c: Failed, ImageNotFound",
		"all: DatabaseStale no vulnerability database that is newer than that of 1970-01-01 00:16:40 came into use: findings that were published since are missing",
		"all: ExceptionExpiring ClusterVulnerabilityException e expires",
		"all: ExceptionExpiring VulnerabilityException one/e expires",
		"one/own: CoverageLost one/Deployment/web, container c: Failed, ImageNotFound",
		"one/own: ExceptionExpiring VulnerabilityException one/e expires",
	}))
}

// What is beyond the messages of an hour, or of a sink that does not accept any, is collected for an hour if digests come more often, and not for longer.
func TestCombinedAt(t *testing.T) {
	now := time.Date(2026, 5, 1, 10, 20, 0, 0, time.UTC)
	for schedule, want := range map[string]string{
		"":              "01 11:00",
		"* * * * *":     "01 11:00",
		"*/7 * * * *":   "01 11:00",
		"30 * * * *":    "01 10:30",
		"45 10 * * *":   "01 10:45",
		"0 8 * * *":     "02 08:00",
		"25,59 * * * *": "01 11:25",
	} {
		r := rule(t, Definition{Name: "r", Schedule: schedule})
		if got := r.combinedAt(now); got.Format("02 15:04") != want || !got.After(now) {
			t.Errorf("%q: %s, want %s", schedule, got, want)
		}
	}
}
