package sinks

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/report"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// crashing is a store at which a process ends at one step: nothing that it does afterwards has an effect.
type crashing struct {
	Store
	// at is the step: the name of a method, before or after it has written. Plans are numbered.
	at      string
	mu      sync.Mutex
	crashed bool
	plans   int
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
	c.plans++
	return done, c.step(fmt.Sprint("plan ", c.plans), func() error {
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

// crashServer is a server that a sink delivers to.
type crashServer struct {
	files map[string]string
	hooks *hooks
	// state lists what the server has.
	state func() []string
}

// crashReceivers are the systems whose servers are others than the operator's, each with a definition of a sink. folder is one that no other test uses.
var crashReceivers = map[string]struct {
	definition func(folder string) Definition
	start      func(t *testing.T, folder string) crashServer
	requests   []string
}{
	"dependencyTrack": {
		func(string) Definition {
			return Definition{DependencyTrack: &DependencyTrack{Credential: "c", ProjectName: "{repository}"}}
		},
		func(t *testing.T, _ string) crashServer {
			s := newTrackServer(t)
			return crashServer{s.files(), &s.hooks, s.state}
		},
		[]string{http.MethodGet, http.MethodPost, http.MethodPatch},
	},
	"defectDojo": {
		func(string) Definition {
			return Definition{DefectDojo: &DefectDojo{Credential: "c", Product: "p", Engagement: "e", Test: "{repository}"}}
		},
		func(t *testing.T, _ string) crashServer {
			s := newDojoServer(t)
			return crashServer{s.files(), &s.hooks, s.state}
		},
		[]string{http.MethodPost},
	},
	"s3": {
		func(folder string) Definition {
			return Definition{S3: &S3{
				Credential: "c", Bucket: "crashes", Region: "us-east-1", Key: folder + "/{image}", Formats: []report.Format{report.FormatCycloneDX, report.FormatCSV}, Delete: true,
			}}
		},
		startedS3Proxy,
		[]string{http.MethodPut, http.MethodDelete},
	},
}

// startedS3Proxy starts a proxy in front of the S3 server, which gives the requests as they are to it.
func startedS3Proxy(t *testing.T, folder string) crashServer {
	t.Helper()
	server, h := startedS3(t), &hooks{}
	target, err := url.Parse(server.URL)
	must(t, err)
	proxy := httptest.NewServer(h.around(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // which is signed
	}}))
	t.Cleanup(proxy.Close)
	files := s3Files(server)
	files["url"] = proxy.URL
	return crashServer{files, h, func() []string {
		all := []string{}
		for _, name := range []string{"cart.cdx.json", "cart.csv", "old.cdx.json", "old.csv", "web.cdx.json", "web.csv"} {
			content := fetch(t, server, "crashes/"+folder+"/"+name)
			if strings.Contains(content, "CVE-1") {
				all = append(all, name)
			} else if content != "" {
				t.Errorf("%s has no findings: %s", name, content)
			}
		}
		return all
	}}
}

// Wherever a process ends, the next one brings the receiver into the state that it would have otherwise.
func TestSameEndAfterACrash(t *testing.T) {
	for kind, receiver := range crashReceivers {
		t.Run(kind, func(t *testing.T) {
			// The plan has three items, and is written one by one.
			steps := []string{"none", "plan 1 begins", "plan 1 ends", "plan 2 ends", "plan 3 ends", "end begins", "end ends"}
			for _, method := range receiver.requests {
				steps = append(steps, method+" begins", method+" ends")
			}
			var want []string
			for i, at := range steps {
				t.Run(at, func(t *testing.T) {
					folder := fmt.Sprint("step-", i)
					server := receiver.start(t, folder)
					f := newFixture(t, server.files)
					// The signatures that an S3 server accepts are of its own time.
					f.factory.Clock = clock.RealClock{}
					web, cart, old := image("web"), image("cart"), image("old")
					for _, key := range []string{"web", "cart", "old"} {
						f.catalog(t, image(key), "1", "openssl")
					}
					f.update(t, map[string][]model.PackageFinding{"openssl": {finding("CVE-1", model.SeverityHigh)}})
					f.run(t, old, workload("shop", "old", ""))
					s := f.sink(t, receiver.definition(folder))
					before, _ := f.engine(t, f.Store)
					use(t, before, s)
					f.settle(t, before)
					// The process that ends has to deliver two items and to remove one.
					f.run(t, old)
					f.run(t, web, workload("shop", "web", ""))
					f.run(t, cart, workload("shop", "cart", ""))
					first := &crashing{Store: f.Store, at: at}
					server.hooks.set(first.before, first.after)
					e, _ := f.engine(t, first)
					e.part = 1
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
					server.hooks.set(nil, nil)
					second, _ := f.engine(t, f.Store)
					use(t, second, s)
					f.clock.move(retryMost)
					f.settle(t, second)
					got := server.state()
					if at == "none" {
						want = got
						if len(want) < 3 {
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

// A position does not move with a part of a plan: only the events say that findings changed whose number is the same.
func TestPositionAfterAPartOfAPlan(t *testing.T) {
	server := newDojoServer(t)
	f := newFixture(t, server.files())
	for _, name := range []string{"web", "cart"} {
		f.catalog(t, image(name), "1", "openssl")
		f.run(t, image(name), workload("shop", name, ""))
	}
	f.update(t, map[string][]model.PackageFinding{"openssl": {finding("CVE-1", model.SeverityHigh)}})
	s := f.sink(t, Definition{DefectDojo: &DefectDojo{Credential: "c", Product: "p", Engagement: "e", Test: "{image}"}})
	before, _ := f.engine(t, f.Store)
	use(t, before, s)
	f.settle(t, before)
	f.update(t, map[string][]model.PackageFinding{"openssl": {finding("CVE-2", model.SeverityHigh)}})
	ends, _ := f.engine(t, &crashing{Store: f.Store, at: "plan 1 ends"})
	ends.part = 1
	use(t, ends, s)
	if err := ends.plan(t.Context()); err == nil {
		t.Error("the process did not end")
	}
	if got, want := counts(t, f, "uid-"), "1 due, 0 gone, 1 there"; got != want {
		t.Errorf("after a part: %s, want %s", got, want)
	}
	next, _ := f.engine(t, f.Store)
	use(t, next, s)
	f.settle(t, next)
	expectState(t, "tests", server.state(), "p | e | cart: CVE-2 in openssl 1.0 (High)", "p | e | web: CVE-2 in openssl 1.0 (High)")
}
