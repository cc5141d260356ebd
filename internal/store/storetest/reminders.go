package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// reminders lists the events of reminders after since, as who sees some namespaces is told them.
func (f *fixture) reminders(t *testing.T, in store.Namespaces, since int64) []string {
	t.Helper()
	events, err := f.EventsSince(t.Context(), in, since, store.MaxKeys)
	must(t, err)
	var all []string
	for _, e := range events {
		switch e.Kind {
		case store.EventDecisionExpiring:
			var data store.DecisionEvent
			must(t, json.Unmarshal(e.Data, &data))
			name := fmt.Sprint(data.Omitted, " further")
			if data.Object != nil {
				name = data.Object.Name
			}
			all = append(all, fmt.Sprintf("%s %s %d %s", e.Kind, name, data.Findings, data.Action))
		case store.EventDatabaseStale:
			var data store.StaleDatabaseEvent
			must(t, json.Unmarshal(e.Data, &data))
			all = append(all, fmt.Sprintf("%s %s %d", e.Kind, data.ID, data.MaxAge))
		case store.EventCoverageLost:
			var data store.CoverageLostEvent
			must(t, json.Unmarshal(e.Data, &data))
			text := fmt.Sprintf("%s %s", e.Kind, data.Namespace)
			for _, c := range data.Containers {
				text += fmt.Sprintf(" %s/%s=%s,%s", c.Workload.Namespace, c.Workload.Name, c.State, c.Reason)
			}
			if data.Omitted > 0 {
				text = fmt.Sprintf("%s %s %d named, %d omitted", e.Kind, data.Namespace, len(data.Containers), data.Omitted)
			}
			all = append(all, text)
		default:
		}
	}
	return all
}

var reminderTests = map[string]func(*testing.T, *fixture){
	"Decisions that expire soon are told once": func(t *testing.T, f *fixture) {
		const day = 24 * time.Hour
		began := oldBuild.Built
		f.clock.set(began)
		key := image("i", amd64)
		f.catalog(t, key, "1", catalogOf("a"))
		f.match(t, key, "1", decided)
		long, short := exception("long", model.DecisionAcceptedRisk, []string{"CVE-1"}, nil), exception("short", model.DecisionAcceptedRisk, []string{"CVE-2"}, nil)
		endless := exception("endless", model.DecisionAcceptedRisk, []string{"CVE-1"}, nil)
		long.ExpiresAt, short.ExpiresAt = began.Add(30*day), began.Add(2*day)
		f.decide(t, long, short, endless)
		last := f.last(t)
		expect := func(after time.Duration, want ...string) {
			t.Helper()
			f.clock.set(began.Add(after))
			must(t, f.RecordExpiring(t.Context()))
			expectTexts(t, fmt.Sprint("after ", after), f.reminders(t, store.AllNamespaces(), last), want...)
			last = f.last(t)
		}
		expect(0)
		expect(day - time.Second)
		expect(day, "decision.expiring short 1 ")
		expect(day + time.Hour)
		expect(23*day - time.Second)
		expect(23*day, "decision.expiring long 1 ")
		expect(24 * day)
		// One that is prolonged is told again, and one that is over is not.
		long.ExpiresAt = began.Add(60 * day)
		f.decide(t, long, endless)
		last = f.last(t)
		expect(42*day - time.Second)
		expect(53*day, "decision.expiring long 1 ")
		long.ExpiresAt = began.Add(100 * day)
		f.decide(t, long, endless)
		last = f.last(t)
		expect(101 * day)
	},
	"Events about many decisions that expire soon are bounded": func(t *testing.T, f *fixture) {
		f.clock.set(oldBuild.Built)
		var many []store.Decision
		for i := range store.MaxDecisionEvents + 3 {
			d := exception(fmt.Sprintf("d%03d", i), model.DecisionFixed, []string{"CVE-9"}, nil)
			d.ExpiresAt = oldBuild.Built.Add(time.Hour)
			many = append(many, d)
		}
		f.decide(t, many...)
		last := f.last(t)
		f.clock.set(oldBuild.Built.Add(40 * time.Minute))
		must(t, f.RecordExpiring(t.Context()))
		told := f.reminders(t, store.AllNamespaces(), last)
		if len(told) != store.MaxDecisionEvents+1 || told[len(told)-1] != "decision.expiring 3 further 0 " {
			t.Errorf("%d events, the last is %s", len(told), told[len(told)-1])
		}
		last = f.last(t)
		must(t, f.RecordExpiring(t.Context()))
		expectTexts(t, "again", f.reminders(t, store.AllNamespaces(), last))
	},
	"A database that is old is told once": func(t *testing.T, f *fixture) {
		f.clock.set(oldBuild.Built)
		must(t, f.RecordStaleDatabase(t.Context(), time.Hour))
		key := image("i", amd64)
		f.catalog(t, key, "1", catalogOf("a"))
		f.match(t, key, "1", decided)
		last := f.last(t)
		expect := func(after time.Duration, want ...string) {
			t.Helper()
			f.clock.set(oldBuild.Built.Add(after))
			must(t, f.RecordStaleDatabase(t.Context(), time.Hour))
			expectTexts(t, fmt.Sprint("after ", after), f.reminders(t, store.OnlyNamespaces("n"), last), want...)
			last = f.last(t)
		}
		expect(time.Hour)
		expect(time.Hour+time.Second, "database.stale "+oldBuild.ID+" 3600")
		expect(2 * time.Hour)
	},
	"Lost coverage is told to its namespace": func(t *testing.T, f *fixture) {
		f.coverAt(t, 0, "s", covered("n", "web", "Pending", "NotPulled", 1), covered("n", "db", "Scanned", "", 1), covered("m", "web", "Stale", "NotMatched", 1), covered("n", "bad", "Failed", "NotPullable", 1))
		last := f.last(t)
		expect := func(want ...string) {
			t.Helper()
			expectTexts(t, "all", f.reminders(t, store.AllNamespaces(), last), want...)
			var mine []string
			for _, text := range want {
				if strings.HasPrefix(text, "coverage.lost m") {
					mine = append(mine, text)
				}
			}
			expectTexts(t, "namespace m", f.reminders(t, store.OnlyNamespaces("m"), last), mine...)
			last = f.last(t)
		}
		expect()
		// New containers and those that were not covered before have lost nothing.
		f.coverAt(t, 1, "s", covered("n", "web", "Failed", "ImageNotFound", 1), covered("n", "db", "Skipped", "IgnoreLabel", 1), covered("m", "web", "Failed", "OutOfMemory", 1), covered("n", "bad", "Failed", "ImageNotFound", 1), covered("n", "new", "Skipped", "IgnoreLabel", 1))
		expect("coverage.lost m m/web=Failed,OutOfMemory", "coverage.lost n n/db=Skipped,IgnoreLabel n/web=Failed,ImageNotFound")
		f.coverAt(t, 2, "s", covered("n", "web", "Failed", "RegistryUnavailable", 2), covered("n", "db", "Scanned", "", 1))
		expect()
		f.coverAt(t, 3, "s", covered("n", "db", "Failed", "OutOfDisk", 1))
		expect("coverage.lost n n/db=Failed,OutOfDisk")
		f.coverAt(t, 4, "s")
		expect()
		var many, lost []store.ContainerCoverage
		for i := range store.MaxLostContainers + 5 {
			many = append(many, covered("n", fmt.Sprintf("w%03d", i), "Scanned", "", 1))
			lost = append(lost, covered("n", fmt.Sprintf("w%03d", i), "Failed", "OutOfDisk", 1))
		}
		f.coverAt(t, 5, "s", many...)
		f.coverAt(t, 6, "s", lost...)
		expect("coverage.lost n 100 named, 5 omitted")
	},
}
