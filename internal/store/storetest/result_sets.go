package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

var thirdBuild = model.DatabaseBuild{ID: "xxh64:3", SchemaVersion: "v6.1.0", Built: newBuild.Built.AddDate(0, 0, 1), Source: model.DatabaseSourceSample}

var resultSetTests = map[string]func(*testing.T, *fixture){
	"StartResultSet": func(t *testing.T, f *fixture) {
		if _, found, err := f.CurrentResultSet(t.Context()); err != nil || found {
			t.Errorf("at first: %t, %v", found, err)
		}
		first, err := f.StartResultSet(t.Context(), oldBuild, "grype 1", true)
		must(t, err)
		want := store.ResultSet{Number: first.Number, Build: oldBuild, Engine: "grype 1", Full: true, State: store.ResultSetCurrent}
		want.StartedAt, want.CurrentSince = first.StartedAt, first.CurrentSince
		if diff := cmp.Diff(want, first); diff != "" || first.Number < 1 || first.CurrentSince.IsZero() || first.StartedAt.IsZero() {
			t.Errorf("got %+v: %s", first, diff)
		}
		events := f.events(t, 0)
		var data store.DatabaseEvent
		if len(events) != 1 || events[0].Kind != store.EventDatabaseUpdated || json.Unmarshal(events[0].Data, &data) != nil ||
			data != (store.DatabaseEvent{DatabaseBuild: oldBuild}) {
			t.Errorf("got %+v", events)
		}
		next, err := f.StartResultSet(t.Context(), newBuild, "grype 2", false)
		must(t, err)
		want = store.ResultSet{
			Number: next.Number, Build: newBuild, Engine: "grype 2", PreviousBuild: oldBuild.ID, State: store.ResultSetPreparing,
			StartedAt: next.StartedAt,
		}
		if diff := cmp.Diff(want, next); diff != "" || next.Number <= first.Number {
			t.Errorf("got %+v: %s", next, diff)
		}
		if last := f.last(t); last != 1 {
			t.Errorf("a result set that is prepared wrote %d events", last-1)
		}
		current, found, err := f.CurrentResultSet(t.Context())
		if diff := cmp.Diff(first, current); err != nil || !found || diff != "" {
			t.Errorf("%t, %v: %s", found, err, diff)
		}
		prepared, found, err := f.NextResultSet(t.Context())
		if diff := cmp.Diff(next, prepared); err != nil || !found || diff != "" {
			t.Errorf("%t, %v: %s", found, err, diff)
		}
		for limit, want := range map[int][]store.ResultSet{0: nil, 1: {next}, 9: {next, first}} {
			got, err := f.ListResultSets(t.Context(), store.AllNamespaces(), limit)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("limit %d: %v %s", limit, err, diff)
			}
		}
		for _, id := range []string{"", strings.Repeat("x", 300), "\xff"} {
			if _, err := f.StartResultSet(t.Context(), model.DatabaseBuild{ID: id}, "", false); err == nil {
				t.Errorf("the build %.9q is no error", id)
			}
		}
		if _, found, err := f.NextResultSet(t.Context()); err != nil || !found {
			t.Errorf("after refusals: %t, %v", found, err)
		}
	},
	"A result set is invisible until the switch": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.catalog(t, key, "1", catalogOf("p", "q"))
		f.match(t, key, "1", answers{"p": {finding("CVE-1", model.SeverityLow)}, "q": {finding("CVE-2", model.SeverityHigh)}})
		before, last := f.image(t, key), f.last(t)
		next := f.prepare(t, newBuild, answers{"p": {finding("CVE-1", model.SeverityCritical, "2")}, "q": {finding("CVE-3", model.SeverityHigh)}})
		if got := f.found(t, key); !slices.Equal(got, []string{"CVE-1 p", "CVE-2 q"}) {
			t.Errorf("before the switch: got %v", got)
		}
		if diff := cmp.Diff(before, f.image(t, key)); diff != "" || f.last(t) != last {
			t.Errorf("before the switch, with %d events: %s", f.last(t)-last, diff)
		}
		prepared, _, err := f.NextResultSet(t.Context())
		if err != nil || prepared.State != store.ResultSetMatching || prepared.Queued != 2 || prepared.Matched != 2 {
			t.Errorf("got %+v, %v", prepared, err)
		}
		switched := f.switchTo(t, next.Number)
		want := store.ChangeCounts{Opened: 1, Closed: 1, Changed: 1, Images: 1}
		if switched.State != store.ResultSetCurrent || switched.CurrentSince.IsZero() || switched.Changes != want || switched.Queued != 2 {
			t.Errorf("got %+v", switched)
		}
		if got := f.found(t, key); !slices.Equal(got, []string{"CVE-1 p", "CVE-3 q"}) {
			t.Errorf("after the switch: got %v", got)
		}
		after := f.image(t, key)
		if after.Counts != (store.Counts{SeverityCounts: model.SeverityCounts{Critical: 1, High: 1}, Fixable: 1}) || after.Database.ID != newBuild.ID ||
			after.State != store.StateScanned || after.MatchedAt.Before(before.MatchedAt) {
			t.Errorf("got %+v", after)
		}
		if _, found, err := f.NextResultSet(t.Context()); err != nil || found {
			t.Errorf("after the switch: %t, %v", found, err)
		}
		resultSets, err := f.ListResultSets(t.Context(), store.AllNamespaces(), 9)
		if err != nil || len(resultSets) != 2 || resultSets[0] != switched || resultSets[1].State != store.ResultSetPast {
			t.Errorf("got %+v, %v", resultSets, err)
		}
	},
	"Switch tells": func(t *testing.T, f *fixture) {
		a, b, untouched := image("a", amd64), image("bb", amd64), image("ccc", amd64)
		f.catalog(t, a, "1", catalogOf("p", "q"))
		f.catalog(t, b, "1", catalogOf("q"))
		f.catalog(t, untouched, "1", catalogOf("r"))
		old := answers{"p": {finding("CVE-1", model.SeverityLow)}, "q": {finding("CVE-2", model.SeverityHigh)}, "r": {finding("CVE-2", model.SeverityHigh)}}
		for _, key := range []model.ImageKey{a, b, untouched} {
			f.match(t, key, "1", old)
		}
		exploited := finding("CVE-3", model.SeverityCritical)
		exploited.Vulnerability.KEV = []model.KnownExploited{{CVE: "CVE-3"}}
		last := f.last(t)
		switched := f.rematch(t, newBuild, answers{
			"p": {exploited}, "q": {finding("CVE-2", model.SeverityMedium, "3")}, "r": {finding("CVE-2", model.SeverityHigh)},
		})
		want := store.ChangeCounts{Opened: 1, Closed: 1, Changed: 1, Images: 2, OpenedCritical: 1, NewKEV: 1}
		if switched.Changes != want {
			t.Errorf("got %+v, want %+v", switched.Changes, want)
		}
		events := f.events(t, last)
		var kinds []store.EventKind
		var told []store.FindingEvent
		for _, e := range events {
			if kinds = append(kinds, e.Kind); strings.HasPrefix(string(e.Kind), "finding.") {
				var data store.FindingEvent
				must(t, json.Unmarshal(e.Data, &data))
				told = append(told, data)
			}
		}
		expectKinds(t, kinds, store.EventDatabaseUpdated, store.EventFindingOpened, store.EventFindingChanged, store.EventFindingClosed,
			store.EventImageMatched, store.EventImageMatched)
		about := func(name, id string, severity model.Severity, images int) store.FindingEvent {
			return store.FindingEvent{
				Build: newBuild.ID, PreviousBuild: oldBuild.ID, Package: name, Version: "1.0-" + name, Type: "deb", VulnerabilityID: id,
				Namespace: "debian:distro:debian:12", Severity: severity, Images: images,
			}
		}
		wanted := []store.FindingEvent{
			about("p", "CVE-3", model.SeverityCritical, 1), about("q", "CVE-2", model.SeverityMedium, 2), about("p", "CVE-1", model.SeverityLow, 1),
		}
		wanted[0].KEV, wanted[1].Reasons = true, []store.ChangeReason{store.ReasonSeverity, store.ReasonFix}
		if diff := cmp.Diff(wanted, told); diff != "" {
			t.Error(diff)
		}
		var data store.DatabaseEvent
		must(t, json.Unmarshal(events[0].Data, &data))
		if diff := cmp.Diff(store.DatabaseEvent{DatabaseBuild: newBuild, PreviousBuild: oldBuild.ID, Changes: want}, data); diff != "" {
			t.Error(diff)
		}
		if !strings.Contains(string(events[4].Data), `"critical":1`) || !strings.Contains(string(events[4].Data), newBuild.ID) ||
			events[4].ImageID != a.ImageID || events[5].ImageID != b.ImageID || events[5].Platform != "linux/amd64" {
			t.Errorf("got %+v", events[4:])
		}
	},
	"Switch tells of the worst findings": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		names := make([]string, 60)
		for i := range names {
			names[i] = fmt.Sprintf("p%02d", i)
		}
		f.catalog(t, key, "1", catalogOf(names...))
		f.match(t, key, "1", nil)
		last := f.last(t)
		a := answers{}
		for n, name := range names {
			for i := range 20 {
				severity := model.SeverityLow
				if n%6 == 5 {
					severity = model.SeverityCritical
				}
				a[name] = append(a[name], finding(fmt.Sprintf("CVE-%02d", i), severity))
			}
		}
		if switched := f.rematch(t, newBuild, a); switched.Changes.Opened != 1200 || switched.Changes.OpenedCritical != 200 {
			t.Errorf("got %+v", switched.Changes)
		}
		var data store.FindingEvent
		var database store.DatabaseEvent
		told := 0
		for _, e := range f.events(t, last) {
			if e.Kind == store.EventDatabaseUpdated {
				must(t, json.Unmarshal(e.Data, &database))
			}
			if e.Kind != store.EventFindingOpened {
				continue
			}
			must(t, json.Unmarshal(e.Data, &data))
			if told++; (told <= 200) != (data.Severity == model.SeverityCritical) {
				t.Errorf("event %d is about a finding of severity %s", told, data.Severity)
			}
		}
		if told != store.MaxFindingEvents {
			t.Errorf("got %d events, want %d", told, store.MaxFindingEvents)
		}
		if database.Changes.Opened != 1200 || database.Omitted != 200 {
			t.Errorf("got %+v", database)
		}
	},
	"Switch refuses": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.catalog(t, key, "1", catalogOf("p"))
		f.match(t, key, "1", nil)
		refuses := func(resultSet int64, notFound bool) {
			t.Helper()
			if _, err := f.Switch(t.Context(), resultSet); err == nil || errors.Is(err, store.ErrNotFound) != notFound {
				t.Errorf("Switch(%d) = %v", resultSet, err)
			}
		}
		refuses(f.current(t).Number, true)
		refuses(0, true)
		next := f.start(t, newBuild).Number
		refuses(next+1, true)
		refuses(next, false) // It is not known yet which packages have to be matched.
		f.queueAll(t, next)
		refuses(next, false)
		f.answerQueue(t, next, nil)
		f.switchTo(t, next)
		refuses(next, true)
	},
	"A result set is superseded": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.catalog(t, key, "1", catalogOf("p", "q"))
		old := answers{"p": {finding("CVE-1", model.SeverityLow), finding("CVE-2", model.SeverityHigh)}}
		f.match(t, key, "1", old)
		before, found, last := f.image(t, key), f.found(t, key), f.last(t)
		answered, err := f.AnsweredPackages(t.Context(), 0, 9)
		must(t, err)
		known, err := f.Vulnerabilities(t.Context(), 0, 9)
		must(t, err)
		dropped := f.prepare(t, newBuild, answers{"p": {finding("CVE-1", model.SeverityCritical)}, "q": {finding("CVE-3", model.SeverityHigh)}}).Number
		scored := known[0]
		scored.KEV = []model.KnownExploited{{CVE: "x"}}
		must(t, f.StageScores(t.Context(), dropped, []store.StoredVulnerability{scored}))
		must(t, f.QueuePackages(t.Context(), dropped, []int64{answered[0].ID}))
		next := f.start(t, thirdBuild)
		if next.Number <= dropped || next.PreviousBuild != oldBuild.ID || next.Queued != 0 {
			t.Errorf("got %+v", next)
		}
		for name, err := range map[string]error{
			"QueuePackages": f.QueuePackages(t.Context(), dropped, nil),
			"StartMatching": f.StartMatching(t.Context(), dropped),
			"SaveAnswers":   f.SaveAnswers(t.Context(), dropped, nil),
			"StageScores":   f.StageScores(t.Context(), dropped, nil),
		} {
			if !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s of the dropped one: %v", name, err)
			}
		}
		if _, err := f.QueuedPackages(t.Context(), dropped, 1); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("QueuedPackages of the dropped one: %v", err)
		}
		if queued, err := f.QueuedPackages(t.Context(), next.Number, 9); err != nil || len(queued) != 0 {
			t.Errorf("the queue of the dropped one is there: %v, %v", queued, err)
		}
		if resultSets, err := f.ListResultSets(t.Context(), store.AllNamespaces(), 9); err != nil || len(resultSets) != 2 {
			t.Errorf("got %+v, %v", resultSets, err)
		}
		again, err := f.Vulnerabilities(t.Context(), 0, 9)
		if diff := cmp.Diff(known, again); err != nil || diff != "" {
			t.Errorf("vulnerabilities of the dropped one are there: %v %s", err, diff)
		}
		// Nothing is left of it: the switch to one that changes nothing changes nothing.
		must(t, f.StartMatching(t.Context(), next.Number))
		if switched := f.switchTo(t, next.Number); switched.Changes != (store.ChangeCounts{}) {
			t.Errorf("got %+v", switched.Changes)
		}
		expectKinds(t, f.kinds(t, last), store.EventDatabaseUpdated)
		after := f.image(t, key)
		if after.Counts != before.Counts || after.Database.ID != thirdBuild.ID || !slices.Equal(f.found(t, key), found) {
			t.Errorf("got %+v with %v", after, f.found(t, key))
		}
		unchanged, err := f.AnsweredPackages(t.Context(), 0, 9)
		if diff := cmp.Diff(answered, unchanged); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
	},
	"Images come, go and change while a result set is prepared": func(t *testing.T, f *fixture) {
		a, b, late := image("a", amd64), image("bb", amd64), image("late", amd64)
		old := answers{"p": {finding("CVE-1", model.SeverityLow)}, "q": {finding("CVE-2", model.SeverityHigh)}, "r": {finding("CVE-1", model.SeverityLow)}}
		for _, key := range []model.ImageKey{a, b} {
			f.catalog(t, key, "1", catalogOf("p", "q"))
			f.match(t, key, "1", old)
		}
		changed := answers{"p": {finding("CVE-3", model.SeverityLow)}, "r": {finding("CVE-4", model.SeverityCritical)}, "s": {finding("CVE-5", model.SeverityMedium)}}
		next := f.prepare(t, newBuild, changed).Number
		// A package that nobody had yet is answered under the current result set, and has to be answered for the next one too.
		f.catalog(t, late, "1", catalogOf("p", "r"))
		f.match(t, late, "1", old)
		if got := f.found(t, late); !slices.Equal(got, []string{"CVE-1 p", "CVE-1 r"}) || f.image(t, late).Database.ID != oldBuild.ID {
			t.Errorf("under the current result set: got %v", got)
		}
		if prepared, _, err := f.NextResultSet(t.Context()); err != nil || prepared.Queued != 3 || prepared.Matched != 2 {
			t.Errorf("got %+v, %v", prepared, err)
		}
		if _, err := f.Switch(t.Context(), next); err == nil {
			t.Error("the package is not in the queue")
		}
		must(t, f.DeleteImage(t.Context(), store.AllNamespaces(), store.AllNamespaces(), a.ImageID))
		f.catalog(t, b, "2", catalogOf("q", "s")) // It waits while the switch comes.
		f.answerQueue(t, next, changed)
		f.switchTo(t, next)
		if got := f.found(t, late); !slices.Equal(got, []string{"CVE-3 p", "CVE-4 r"}) || f.image(t, late).Counts.Critical != 1 {
			t.Errorf("after the switch: got %v, %+v", got, f.image(t, late).Counts)
		}
		if got := f.waiting(t); !slices.Equal(got, []model.ImageKey{b}) {
			t.Errorf("waiting: got %v", got)
		}
		f.match(t, b, "2", changed)
		if got := f.found(t, b); !slices.Equal(got, []string{"CVE-5 s"}) {
			t.Errorf("got %v", got)
		}
	},
	"The same SBOM packages again while a result set is prepared": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.catalog(t, key, "1", catalogOf("p"))
		f.match(t, key, "1", answers{"p": {finding("CVE-1", model.SeverityLow)}})
		next := f.prepare(t, newBuild, answers{"p": {finding("CVE-2", model.SeverityHigh)}}).Number
		f.catalog(t, key, "2", catalogOf("p"))
		f.switchTo(t, next)
		i := f.image(t, key)
		if i.State != store.StateCataloged || i.Counts.High != 1 || i.Counts.Low != 0 || !slices.Equal(f.found(t, key), []string{"CVE-2 p"}) {
			t.Errorf("got %+v with %v", i, f.found(t, key))
		}
	},
	"A result set of the same build": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.catalog(t, key, "1", catalogOf("p"))
		f.match(t, key, "1", answers{"p": {finding("CVE-1", model.SeverityLow)}})
		if switched := f.rematch(t, oldBuild, answers{"p": {finding("CVE-1", model.SeverityHigh)}}); switched.PreviousBuild != oldBuild.ID || switched.Changes.Changed != 1 {
			t.Errorf("got %+v", switched)
		}
		// And back: what had ended is not opened again, it begins anew.
		f.rematch(t, newBuild, answers{"p": {finding("CVE-1", model.SeverityLow)}})
		if i := f.image(t, key); i.Counts.Low != 1 || i.Counts.High != 0 || len(f.found(t, key)) != 1 {
			t.Errorf("got %+v", i.Counts)
		}
	},
	"A reader sees one result set": func(t *testing.T, f *fixture) {
		keys := []model.ImageKey{image("a", amd64), image("bb", amd64), image("ccc", amd64)}
		names := make([]string, 30)
		for i := range names {
			names[i] = fmt.Sprintf("p%02d", i)
		}
		says := func(resultSet int) answers {
			a := answers{}
			for _, name := range names {
				for i := range resultSet%3 + 1 {
					a[name] = append(a[name], finding(fmt.Sprintf("CVE-%d-%d", resultSet, i), model.SeverityHigh))
				}
			}
			return a
		}
		for _, key := range keys {
			f.catalog(t, key, "1", catalogOf(names...))
			f.match(t, key, "1", says(0))
		}
		done, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for reads := 0; ; reads++ {
				select {
				case <-done:
					return
				default:
				}
				f.readOnce(t, keys[reads%len(keys)])
			}
		}()
		for n := 1; n <= 12; n++ {
			f.rematch(t, model.DatabaseBuild{ID: fmt.Sprint("build-", n)}, says(n))
		}
		close(done)
		<-stopped
	},
	"StartMatching and the queue": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.catalog(t, key, "1", catalogOf("p", "q", "r"))
		f.match(t, key, "1", nil)
		answered, err := f.AnsweredPackages(t.Context(), 0, 9)
		if err != nil || len(answered) != 3 {
			t.Fatalf("%v, %v", answered, err)
		}
		current := f.current(t).Number
		if err := f.QueuePackages(t.Context(), current, []int64{answered[0].ID}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("QueuePackages for the current one: %v", err)
		}
		if err := f.StartMatching(t.Context(), current); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("StartMatching of the current one: %v", err)
		}
		next := f.start(t, newBuild).Number
		must(t, f.QueuePackages(t.Context(), next, []int64{answered[1].ID, answered[0].ID, answered[1].ID, 99999}))
		must(t, f.QueuePackages(t.Context(), next, []int64{answered[0].ID}))
		if err := f.QueuePackages(t.Context(), next, make([]int64, store.MaxKeys+1)); err == nil {
			t.Error("too many packages are no error")
		}
		must(t, f.StartMatching(t.Context(), next))
		must(t, f.StartMatching(t.Context(), next))
		got, found, err := f.NextResultSet(t.Context())
		if err != nil || !found || got.State != store.ResultSetMatching || got.Queued != 2 || got.Matched != 0 {
			t.Errorf("got %+v, %v", got, err)
		}
		for limit, want := range map[int]int{0: 0, 1: 1, 9: 2} {
			queued, err := f.QueuedPackages(t.Context(), next, limit)
			if err != nil || len(queued) != want {
				t.Errorf("limit %d: got %d packages, %v", limit, len(queued), err)
			}
			for _, p := range queued {
				if diff := cmp.Diff(pkg(p.Name), p.Package); diff != "" {
					t.Error(diff)
				}
			}
		}
	},
}
