package storetest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// RunShared runs the part of the suite about databases that several processes share. open returns two stores on the same empty
// database each time, and closes them at the end of the test.
func RunShared(t *testing.T, open func(t *testing.T) [2]store.Store) {
	t.Helper()
	for name, test := range sharedTests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// Bounds of what two stores do at once.
const (
	sharedImages   = 24
	sharedPackages = 30
	// followPause is how long a follower that has seen everything waits for a sign, as readers of the feed do.
	followPause = 5 * time.Millisecond
)

var sharedTests = map[string]func(*testing.T, [2]store.Store){
	"Two stores record the same images and packages": func(t *testing.T, stores [2]store.Store) {
		if _, err := stores[0].StartResultSet(t.Context(), oldBuild, "engine", true); err != nil {
			t.Fatal(err)
		}
		var followers, writers sync.WaitGroup
		done := make(chan struct{})
		var followed [4][]store.Event
		for i := range followed {
			followers.Go(func() { followed[i] = follow(t, stores[i%2], done) })
		}
		for n := range sharedImages {
			for _, s := range stores {
				writers.Go(func() { scanShared(t, s, n) })
			}
		}
		writers.Wait()
		close(done)
		followers.Wait()

		// Both see the same, and each follower has seen every event once.
		want, err := stores[0].EventsSince(t.Context(), store.AllNamespaces(), 0, store.MaxKeys)
		if err != nil {
			t.Fatal(err)
		}
		for n, event := range want {
			if event.Sequence != int64(n+1) {
				t.Fatalf("event %d has the number %d", n, event.Sequence)
			}
		}
		for i, got := range followed {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("follower %d: %s", i, diff)
			}
		}
		for i, s := range stores {
			checkShared(t, fmt.Sprint("store ", i), s)
		}
	},
	"Only one of two stores evaluates a rollout": func(t *testing.T, stores [2]store.Store) {
		const count = 20
		f := &fixture{Store: stores[0], clock: &stoppableClock{}}
		from, to := rolledOut(t, f, count)
		f.match(t, from, "1", answers{"p": {finding("CVE-1", model.SeverityHigh)}})
		f.match(t, to, "1", nil)
		last := f.last(t)
		var group sync.WaitGroup
		var taken [6]int
		for i := range taken {
			group.Go(func() {
				var err error
				if taken[i], err = stores[i%2].EvaluateRollouts(t.Context(), day, count); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		total := 0
		for _, n := range taken {
			total += n
		}
		if events := f.events(t, last); total != count || len(events) != count {
			t.Errorf("%d rollouts were evaluated %v times with %d events", count, taken, len(events))
		}
	},
	"Only one of two stores records a failure": func(t *testing.T, stores [2]store.Store) {
		key := image("a", amd64)
		if _, err := stores[0].WantImages(t.Context(), []model.ImageKey{key}); err != nil {
			t.Fatal(err)
		}
		const attempts = 10
		for attempt := range attempts {
			var group sync.WaitGroup
			var recorded [6]bool
			for i := range recorded {
				group.Go(func() {
					var err error
					recorded[i], err = stores[i%2].RecordFailure(t.Context(), key, attempt, model.Outcome{Reason: model.ReasonOutOfDisk}, oldBuild.Built)
					if err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			if first := slices.Index(recorded[:], true); first < 0 || slices.Contains(recorded[first+1:], true) {
				t.Errorf("attempt %d was recorded by %v", attempt, recorded)
			}
		}
		if got, err := stores[1].Image(t.Context(), store.AllNamespaces(), key); err != nil || got.Attempts != attempts {
			t.Errorf("got %+v, %v", got, err)
		}
	},
}

// scanShared does all that is done with an image, while the other store may do the same with it.
func scanShared(t *testing.T, s store.Store, n int) {
	key := model.ImageKey{ImageID: fmt.Sprint("image", n), Platform: amd64}
	findings := map[string][]model.PackageFinding{}
	var held []string
	for i := range sharedPackages / 2 {
		// In another order in each image, which would make deadlocks if the transactions overlapped.
		p := (n*7 + i*11) % sharedPackages
		name := fmt.Sprintf("p%02d", p)
		held, findings[name] = append(held, name), []model.PackageFinding{finding(fmt.Sprintf("CVE-%d", p%10), model.SeverityHigh)}
	}
	for number, step := range []func() error{
		func() error {
			_, err := s.WantImages(t.Context(), []model.ImageKey{key, image("all", amd64)})
			return err
		},
		func() error { return s.SaveSBOM(t.Context(), key, sbomOf("1"), catalogOf(held...)) },
		func() error { return Match(t.Context(), s, key, "1", findings) },
		func() error {
			return s.SaveReport(t.Context(), store.AllNamespaces(), "reported", store.Report{Content: []byte("{}")})
		},
		func() error {
			_, err := s.ListImages(t.Context(), store.AllNamespaces(), store.ImageQuery{})
			return err
		},
	} {
		if err := step(); err != nil {
			t.Errorf("%s, step %d: %v", key, number, err)
		}
	}
}

// checkShared expects every image with all its findings.
func checkShared(t *testing.T, who string, s store.Store) {
	t.Helper()
	page, err := s.ListImages(t.Context(), store.AllNamespaces(), store.ImageQuery{States: []store.State{store.StateScanned}})
	if err != nil || page.Total != sharedImages {
		t.Fatalf("%s: got %d scanned images, want %d, %v", who, page.Total, sharedImages, err)
	}
	for _, i := range page.Images {
		found, err := s.Findings(t.Context(), store.AllNamespaces(), store.FindingQuery{Image: i.Key})
		if err != nil || found.Total != sharedPackages/2 || i.Counts.High != sharedPackages/2 {
			t.Errorf("%s: %s has %d findings, counts %+v, %v", who, i.Key, found.Total, i.Counts, err)
		}
	}
}

// follow reads events as they come, until done is closed and nothing is left.
func follow(t *testing.T, s store.Store, done <-chan struct{}) []store.Event {
	var all []store.Event
	var since int64
	for ended := false; ; {
		changed := s.Changed()
		// What was written before done was closed must be seen by the read that follows.
		select {
		case <-done:
			ended = true
		default:
		}
		events, err := s.EventsSince(t.Context(), store.AllNamespaces(), since, 7)
		if err != nil {
			t.Error(err)
			return all
		}
		all = append(all, events...)
		if len(events) > 0 {
			since = events[len(events)-1].Sequence
			continue
		}
		if ended {
			return all
		}
		timer := time.NewTimer(followPause)
		select {
		case <-changed:
		case <-timer.C:
		case <-done:
		}
		timer.Stop()
	}
}
