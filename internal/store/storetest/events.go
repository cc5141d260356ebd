package storetest

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

var feedTests = map[string]func(*testing.T, *fixture){
	"CompactEvents": func(t *testing.T, f *fixture) {
		expectLog(t, f, store.EventLog{})
		for n := range 5 {
			f.want(t, model.ImageKey{ImageID: strconv.Itoa(n), Platform: amd64})
		}
		events := f.events(t, 0)
		last := events[4].Sequence
		expectLog(t, f, store.EventLog{Last: last})
		for _, step := range []struct {
			name   string
			before time.Time
			floor  int64
			left   int
		}{
			{"nothing is old", events[0].At, 0, 5},
			{"some are", events[2].At, floorOf(events, events[2].At), countFrom(events, events[2].At)},
			{"earlier than before", events[0].At, floorOf(events, events[2].At), countFrom(events, events[2].At)},
			{"all are", time.Now().Add(time.Hour), last, 0},
			{"none is left", time.Now().Add(time.Hour), last, 0},
		} {
			if err := f.CompactEvents(t.Context(), step.before); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			expectLog(t, f, store.EventLog{Floor: step.floor, Last: last})
			if got := f.events(t, 0); len(got) != step.left {
				t.Errorf("%s: %d events are left, want %d", step.name, len(got), step.left)
			}
		}
		// Numbers are not used again.
		f.want(t, image("a", amd64))
		if got := f.events(t, 0); len(got) != 1 || got[0].Sequence <= last {
			t.Errorf("got %+v, want one event behind %d", got, last)
		}
	},
	"IDs of the event log": func(t *testing.T, f *fixture) {
		for _, transaction := range [][]model.ImageKey{{image("a", amd64), image("b", amd64)}, {image("c", amd64)}} {
			if _, err := f.WantImages(t.Context(), transaction); err != nil {
				t.Fatal(err)
			}
		}
		events := f.events(t, 0)
		log, err := f.EventLog(t.Context())
		if err != nil || len(events) != 3 {
			t.Fatalf("%d events, %v", len(events), err)
		}
		first, second := events[0].LogID, events[2].LogID
		if first == "" || second == "" || first == second || events[1].LogID != first || log.LastID != second || log.FloorID != "" {
			t.Errorf("events with %q, %q and %q, %+v", first, events[1].LogID, second, log)
		}
		if err := f.CompactEvents(t.Context(), time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if log, err = f.EventLog(t.Context()); err != nil || log.FloorID != second || log.LastID != second {
			t.Errorf("after all events were removed: %+v, %v", log, err)
		}
	},
	"CompactEvents while events are written": func(t *testing.T, f *fixture) {
		const count = 200
		var writers sync.WaitGroup
		for n := range 2 {
			writers.Go(func() {
				for i := range count / 2 {
					key := model.ImageKey{ImageID: strconv.Itoa(n) + "-" + strconv.Itoa(i), Platform: amd64}
					if _, err := f.WantImages(t.Context(), []model.ImageKey{key}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		done := make(chan struct{})
		go func() { defer close(done); writers.Wait() }()
		// Whoever follows the log and looks at the floor behind each page misses nothing without knowing.
		seen, since := 0, int64(0)
		for writing := true; writing; {
			select {
			case <-done:
				writing = false
			default:
			}
			page := f.events(t, since)
			seen += len(page)
			if len(page) > 0 {
				since = page[len(page)-1].Sequence
			}
			if err := f.CompactEvents(t.Context(), time.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
			log, err := f.EventLog(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if log.Floor > since {
				// What was removed unseen is known by its numbers; the suite's databases leave none out.
				seen += int(log.Floor - since)
				since = log.Floor
			}
		}
		if seen != count {
			t.Errorf("%d events were seen or known to be removed, want %d", seen, count)
		}
	},
	"RecordQueued": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		record := func(key model.ImageKey, attempt int, want bool) {
			t.Helper()
			last := f.last(t)
			recorded, err := f.RecordQueued(t.Context(), key, attempt)
			if err != nil || recorded != want {
				t.Fatalf("attempt %d: got %v, %v, want %v", attempt, recorded, err, want)
			}
			events := f.events(t, last)
			if !want {
				expectKinds(t, f.kinds(t, last))
				return
			}
			expectKinds(t, f.kinds(t, last), store.EventImageQueued)
			if data := string(events[0].Data); data != `{"attempt":`+strconv.Itoa(attempt)+`}` || events[0].ImageID != key.ImageID || events[0].Platform != "linux/amd64" {
				t.Errorf("got %+v with %s", events[0], data)
			}
		}
		record(key, 0, false)
		f.want(t, key)
		record(key, 0, true)
		record(key, 0, false)
		record(key, 1, false)
		if _, err := f.RecordFailure(t.Context(), key, 0, model.Outcome{Reason: model.ReasonOutOfDisk}, oldBuild.Built); err != nil {
			t.Fatal(err)
		}
		record(key, 0, false)
		record(key, 1, true)
		record(key, 1, false)
		f.catalog(t, key, "1", catalogOf("p"))
		record(key, 0, false)
		record(key, 1, false)
	},
	"RecordQueued at once": func(t *testing.T, f *fixture) {
		key := image("a", amd64)
		f.want(t, key)
		last := f.last(t)
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				if _, err := f.RecordQueued(t.Context(), key, 0); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		expectKinds(t, f.kinds(t, last), store.EventImageQueued)
	},
	"RecordChange": func(t *testing.T, f *fixture) {
		changed := f.Changed()
		change := store.ObjectChange{Kind: store.EventScannerChanged, ObjectEvent: store.ObjectEvent{
			Object: store.ObjectName{Namespace: "team", Name: "scanner"}, Detail: json.RawMessage(`{"a":[1,"<&>"]}`),
		}}
		if err := f.RecordChange(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		<-changed
		event := f.events(t, 0)[0]
		var data store.ObjectEvent
		if err := json.Unmarshal(event.Data, &data); err != nil {
			t.Fatal(err)
		}
		if data.Detail = compact(t, data.Detail); event.Kind != store.EventScannerChanged || event.ImageID != "" || event.Namespace() != "team" {
			t.Errorf("got %+v", event)
		}
		if diff := cmp.Diff(change.ObjectEvent, data); diff != "" {
			t.Error(diff)
		}
		for name, spoil := range map[string]func(*store.ObjectChange){
			"another kind":      func(c *store.ObjectChange) { c.Kind = store.EventImageMatched },
			"no name":           func(c *store.ObjectChange) { c.Object.Name = "" },
			"a long name":       func(c *store.ObjectChange) { c.Object.Name = strings.Repeat("x", 254) },
			"a long namespace":  func(c *store.ObjectChange) { c.Object.Namespace = strings.Repeat("x", 254) },
			"no UTF-8":          func(c *store.ObjectChange) { c.Object.Name = "\xff" },
			"detail not JSON":   func(c *store.ObjectChange) { c.Detail = json.RawMessage(`{`) },
			"detail of 100 KiB": func(c *store.ObjectChange) { c.Detail = json.RawMessage(`"` + strings.Repeat("x", 100<<10) + `"`) },
		} {
			bad := change
			spoil(&bad)
			if err := f.RecordChange(t.Context(), bad); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		expectKinds(t, f.kinds(t, 0), store.EventScannerChanged)
	},
	"Prune forgets objects that are not seen": func(t *testing.T, f *fixture) {
		start := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
		record := func(name string, gone bool) {
			t.Helper()
			detail := json.RawMessage(`{}`)
			must(t, f.RecordChange(t.Context(), store.ObjectChange{Kind: store.EventPodSetChanged, Gone: gone, ObjectEvent: store.ObjectEvent{
				Object: store.ObjectName{Namespace: "team", Name: name}, Detail: detail,
			}}))
		}
		f.clock.set(start)
		record("seen", false)
		record("unseen", false)
		f.clock.set(start.Add(25 * time.Hour))
		record("seen", false)
		f.clock.set(start.Add(49 * time.Hour))
		must(t, f.Prune(t.Context(), start.Add(48*time.Hour)))
		last := f.last(t)
		record("unseen", true)
		expectKinds(t, f.kinds(t, last))
		record("seen", true)
		expectKinds(t, f.kinds(t, last), store.EventPodSetChanged)
	},
	"requests to change": func(t *testing.T, f *fixture) {
		changes := func(since int64) (requests []store.ChangeRequest) {
			t.Helper()
			for _, event := range f.events(t, since) {
				if event.Kind != store.EventChangeRequested {
					continue
				}
				var request store.ChangeRequest
				if err := json.Unmarshal(event.Data, &request); err != nil {
					t.Fatal(err)
				}
				if event.ImageID != request.Object.Name && (model.ImageKey{ImageID: request.Object.Name}).Validate() == nil {
					t.Errorf("an event of %q about %q", event.ImageID, request.Object.Name)
				}
				requests = append(requests, request)
			}
			return requests
		}
		// The transaction that makes the change records it, once.
		put := store.ChangeRequest{User: "jane", Verb: "update", Object: store.ChangeObject{Resource: "scanresults", Name: "image"}}
		ctx := store.WithChangeRequest(t.Context(), &put)
		for range 2 {
			if err := f.SaveReport(ctx, store.AllNamespaces(), "image", store.Report{Content: []byte("{}")}); err != nil {
				t.Fatal(err)
			}
		}
		want := put
		want.Outcome, want.Recorded = store.ChangeSucceeded, false
		if diff := cmp.Diff([]store.ChangeRequest{want}, changes(0)); diff != "" || !put.Recorded {
			t.Errorf("recorded %v, %s", put.Recorded, diff)
		}
		// Without a change there is no event, until the failure is recorded.
		last := f.last(t)
		failed := store.ChangeRequest{Verb: "delete", Object: store.ChangeObject{Resource: "scanresults", Name: strings.Repeat("ä", 1000)}}
		if err := f.DeleteImage(store.WithChangeRequest(t.Context(), &failed), store.AllNamespaces(), store.AllNamespaces(), "unknown"); !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		if got := f.kinds(t, last); len(got) > 0 || failed.Recorded {
			t.Errorf("a change that failed is recorded: %v", got)
		}
		failed.Outcome, failed.User = store.ChangeFailed, "\xff"
		if err := f.RecordChangeRequest(t.Context(), failed); err != nil {
			t.Fatal(err)
		}
		got := changes(last)
		if len(got) != 1 || got[0].Outcome != store.ChangeFailed || got[0].Verb != "delete" || len(got[0].Object.Name) > 1<<10 || !strings.HasPrefix(got[0].Object.Name, "ää") {
			t.Errorf("%+v", got)
		}
	},
	"RecordChange says each thing once": func(t *testing.T, f *fixture) {
		record := func(step string, want int, change store.ObjectChange) {
			t.Helper()
			last := f.last(t)
			if err := f.RecordChange(t.Context(), change); err != nil {
				t.Fatal(err)
			}
			if got := len(f.kinds(t, last)); got != want {
				t.Errorf("%s: %d events, want %d", step, got, want)
			}
		}
		like := func(kind store.EventKind, name, detail string) store.ObjectChange {
			return store.ObjectChange{Kind: kind, ObjectEvent: store.ObjectEvent{
				Object: store.ObjectName{Namespace: "team", Name: name}, Detail: json.RawMessage(detail),
			}}
		}
		gone := like(store.EventScannerChanged, "a", `{"deleted":true}`)
		gone.Gone = true
		record("one that nobody knew is gone", 0, gone)
		record("a new one", 1, like(store.EventScannerChanged, "a", `{"n":1}`))
		record("the same again", 0, like(store.EventScannerChanged, "a", `{"n":1}`))
		record("another name", 1, like(store.EventScannerChanged, "b", `{"n":1}`))
		record("another kind", 1, like(store.EventPodSetChanged, "a", `{"n":1}`))
		record("a change", 1, like(store.EventScannerChanged, "a", `{"n":2}`))
		record("the change again", 0, like(store.EventScannerChanged, "a", `{"n":2}`))
		record("it is gone", 1, gone)
		record("it is still gone", 0, gone)
		record("it is back as it was", 1, like(store.EventScannerChanged, "a", `{"n":2}`))
		record("the others are as they were", 0, like(store.EventScannerChanged, "b", `{"n":1}`))
	},
}

func expectLog(t *testing.T, f *fixture, want store.EventLog) {
	t.Helper()
	got, err := f.EventLog(t.Context())
	if (got.FloorID == "") != (want.Floor == 0) || (got.LastID == "") != (want.Last == 0) {
		t.Errorf("EventLog: got %+v, want IDs for numbers but 0", got)
	}
	got.FloorID, got.LastID = "", ""
	if err != nil || got != want {
		t.Errorf("EventLog: got %+v, %v, want %+v", got, err, want)
	}
	if last := f.last(t); last != want.Last {
		t.Errorf("LastSequence: got %d, want %d", last, want.Last)
	}
}

// floorOf is the number of the last event before the first that is from a time or later; events of one clock may share a time.
func floorOf(events []store.Event, before time.Time) int64 {
	var floor int64
	for _, event := range events {
		if !event.At.Before(before) {
			break
		}
		floor = event.Sequence
	}
	return floor
}

func countFrom(events []store.Event, before time.Time) int {
	count := 0
	for _, event := range events {
		if !event.At.Before(before) {
			count++
		}
	}
	return count
}

// compact takes out the spaces that a database may have put in.
func compact(t *testing.T, data json.RawMessage) json.RawMessage {
	t.Helper()
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		t.Fatal(err)
	}
	content, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	// As the encoder of a json.RawMessage within an object writes it.
	return json.RawMessage(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(content)))
}
