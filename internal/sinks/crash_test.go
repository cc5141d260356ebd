package sinks

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// crashing is a store at which a process ends at one step: nothing that it does afterwards has an effect.
type crashing struct {
	Store
	// at is the step: the name of a method, before or after it has written.
	at      string
	mu      sync.Mutex
	crashed bool
}

func (c *crashing) ended(step string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.crashed = c.crashed || step == c.at
	return c.crashed
}

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

func (c *crashing) PlanReports(ctx context.Context, from, to store.ReportCursor, items []store.ReportItem, deleted []string) (done bool, err error) {
	return done, c.step("plan", func() error {
		done, err = c.Store.PlanReports(ctx, from, to, items, deleted)
		return err
	})
}

func (c *crashing) EndReport(ctx context.Context, item *store.ReportItem) (done bool, err error) {
	return done, c.step("end", func() error {
		done, err = c.Store.EndReport(ctx, item)
		return err
	})
}

// before and after let a request through, or end the process before or after the server has acted.
func (c *crashing) before(r *http.Request) bool { return !c.ended(r.Method + " begins") }

func (c *crashing) after(r *http.Request) bool { return !c.ended(r.Method + " ends") }

// Wherever a process ends, the next one brings the receiver into the state that it would have otherwise.
func TestSameEndAfterACrash(t *testing.T) {
	steps := []string{"none", "plan begins", "plan ends", "end begins", "end ends", "GET begins", "GET ends", "POST begins", "POST ends", "PATCH begins", "PATCH ends"}
	var want []string
	for _, at := range steps {
		t.Run(at, func(t *testing.T) {
			server := newTrackServer(t)
			f := newFixture(t, server.files())
			web, cart, old := image("web"), image("cart"), image("old")
			for _, key := range []string{"web", "cart", "old"} {
				f.catalog(t, image(key), "1", "openssl")
			}
			f.run(t, old, workload("shop", "old", ""))
			s := f.sink(t, Definition{DependencyTrack: &DependencyTrack{Credential: "c", ProjectName: "{repository}"}})
			before, _ := f.engine(t, f.Store)
			use(t, before, s)
			f.settle(t, before)
			// The process that ends has to create two projects and to make one inactive.
			f.run(t, old)
			f.run(t, web, workload("shop", "web", ""))
			f.run(t, cart, workload("shop", "cart", ""))
			first := &crashing{Store: f.Store, at: at}
			server.mu.Lock()
			server.before, server.after = first.before, first.after
			server.mu.Unlock()
			e, _ := f.engine(t, first)
			use(t, e, s)
			if err := e.plan(t.Context()); err == nil {
				for range 4 {
					f.clock.move(retryMost)
					e.dispatch(t.Context())
					e.running.Wait()
				}
			}
			if first.crashed == (at == "none") {
				t.Errorf("the process ended: %t", first.crashed)
			}
			server.mu.Lock()
			server.before, server.after = nil, nil
			server.mu.Unlock()
			second, _ := f.engine(t, f.Store)
			use(t, second, s)
			f.clock.move(retryMost)
			f.settle(t, second)
			got := server.state()
			if at == "none" {
				want = got
				if len(want) != 3 {
					t.Fatalf("without a crash: %v", want)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if state := second.States()["uid-"]; state.Pending != 0 || state.Items != 2 {
				t.Errorf("state %+v", state)
			}
		})
	}
}

// Two processes that both believe to lead do not undo what the other one did.
func TestTwoLeaders(t *testing.T) {
	server := newTrackServer(t)
	f := newFixture(t, server.files())
	web := image("web")
	f.catalog(t, web, "1", "openssl")
	f.run(t, web, workload("shop", "web", ""))
	s := f.sink(t, Definition{DependencyTrack: &DependencyTrack{Credential: "c", ProjectName: "{repository}"}})
	old, _ := f.engine(t, f.Store)
	use(t, old, s)
	must(t, old.plan(t.Context()))
	next, results := f.engine(t, f.Store)
	use(t, next, s)
	f.settle(t, next)
	f.run(t, web)
	f.settle(t, next)
	results.expect(t, "dependencyTrack delivered 1", "dependencyTrack removed 1")
	// What the old leader ends is about an item that is gone.
	f.clock.move(retryMost)
	old.dispatch(t.Context())
	old.running.Wait()
	if n := len(old.lanes["uid-"].items); n != 0 {
		t.Errorf("the old leader has %d items, want none until its next plan", n)
	}
	if items, err := f.ReportItems(t.Context(), "uid-"); err != nil || len(items) > 0 {
		t.Errorf("items %v, %v", items, err)
	}
}
