package sinks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/report"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// workloads makes some with names that begin with a prefix.
func workloads(prefix string, n int) []store.Workload {
	all := make([]store.Workload, n)
	for i := range all {
		all[i] = workload("shop", fmt.Sprint(prefix, i), "")
	}
	return all
}

// counts tells items that are to be delivered, that are to be removed, and that the sink has.
func counts(t *testing.T, f *fixture, sink string) string {
	t.Helper()
	items, err := f.ReportItems(t.Context(), sink)
	must(t, err)
	due, gone, there := 0, 0, 0
	for i := range items {
		switch {
		case items[i].Gone:
			gone++
		case items[i].Due:
			due++
		default:
			there++
		}
	}
	return fmt.Sprintf("%d due, %d gone, %d there", due, gone, there)
}

// A sink with more than half of the items that it can have gets other templates: what it has is removed, and there are never more items than the bound.
func TestManyItemsChange(t *testing.T) {
	f := newFixture(t, nil)
	web := image("web")
	f.catalog(t, web, "1", "openssl")
	f.run(t, web, workloads("web-", store.MaxReportItems/2+1)...)
	e, _ := f.engine(t, f.Store)
	use(t, e, f.sink(t, Definition{DependencyTrack: &DependencyTrack{Credential: "c", ProjectName: "{workload}"}}))
	must(t, e.plan(t.Context()))
	if got, want := counts(t, f, "uid-"), "5001 due, 0 gone, 0 there"; got != want {
		t.Errorf("first: %s, want %s", got, want)
	}
	changed := f.sink(t, Definition{DependencyTrack: &DependencyTrack{Credential: "c", ProjectName: "new {workload}"}})
	changed.receiver = &noted{receiver: changed.receiver, clock: f.clock}
	use(t, e, changed)
	must(t, e.plan(t.Context()))
	if got, want := counts(t, f, "uid-"), "4999 due, 5001 gone, 0 there"; got != want {
		t.Errorf("other templates: %s, want %s", got, want)
	}
	if state := e.States()["uid-"]; state.Items != store.MaxReportItems || state.Omitted != 2 {
		t.Errorf("state %+v", state)
	}
	// What is removed makes room.
	for i := 0; e.States()["uid-"].Items > store.MaxReportItems-2; i++ {
		if i > 100 {
			t.Fatal("nothing is removed")
		}
		f.clock.move(retryMost)
		e.dispatch(t.Context())
		e.running.Wait()
	}
	must(t, e.plan(t.Context()))
	if state := e.States()["uid-"]; state.Items != store.MaxReportItems || state.Omitted != 0 {
		t.Errorf("after two removals: %+v", state)
	}
	// What is still to be removed is due again with a resync.
	f.clock.move(DefaultResync)
	must(t, e.plan(t.Context()))
	if got, want := counts(t, f, "uid-"), "5001 due, 4999 gone, 0 there"; got != want {
		t.Errorf("resync: %s, want %s", got, want)
	}
}

// unplannable is a store that cannot write the plans of a sink.
type unplannable struct {
	Store
	sink string
}

func (u *unplannable) PlanReports(ctx context.Context, from, to store.ReportCursor, items []store.ReportItem, deleted []string) (bool, error) {
	if from.Sink == u.sink {
		return false, errors.New("the database says no")
	}
	return u.Store.PlanReports(ctx, from, to, items, deleted)
}

// A sink that cannot be planned does not hold up others, and says so.
func TestFailedPlan(t *testing.T) {
	server := newTrackServer(t)
	f := newFixture(t, server.files())
	f.catalog(t, image("web"), "1", "openssl")
	f.run(t, image("web"), workload("shop", "web", ""))
	broken := &unplannable{f.Store, "uid-a"}
	e, results := f.engine(t, broken)
	sink := func(name string) *Sink {
		return f.sink(t, Definition{Name: name, DependencyTrack: &DependencyTrack{Credential: "c", ProjectName: name}})
	}
	use(t, e, sink("a"), sink("b"), sink("c"))
	if err := e.plan(t.Context()); err == nil || !strings.Contains(err.Error(), "the database says no") {
		t.Errorf("got %v", err)
	}
	f.deliver(t, e)
	results.expect(t, "dependencyTrack delivered 2")
	states := e.States()
	if s := states["uid-a"]; s.Planned || s.Problem != problemPlan {
		t.Errorf("the sink without a plan: %+v", s)
	}
	if s := states["uid-b"]; !s.Planned || s.Problem != "" {
		t.Errorf("the next sink: %+v", s)
	}
	if results.unplanned != 1 {
		t.Errorf("%d sinks without a plan are counted", results.unplanned)
	}
	// One that is not in effect any more is not counted.
	must(t, e.SetSinks(t.Context(), []*Sink{sink("b")}, []string{"uid-a", "uid-b", "uid-c"}))
	if results.unplanned != 0 {
		t.Errorf("%d sinks without a plan are counted, none is in effect", results.unplanned)
	}
	broken.sink = ""
	use(t, e, sink("a"))
	f.settle(t, e)
	if s := e.States()["uid-a"]; !s.Planned || s.Problem != "" || results.unplanned != 0 {
		t.Errorf("after the repair: %+v", s)
	}
}

// undeletable refuses to delete objects, as a webhook can.
type undeletable struct{ *objects }

func (undeletable) Delete(context.Context, Owner, string, string) error { return ErrRefused }

// There are never more objects than the bound, also while those of earlier workloads cannot be deleted.
func TestPolicyReportsThatStay(t *testing.T) {
	f := newFixture(t, nil)
	kept := &objects{kept: map[string]policyContent{}}
	f.factory.PolicyObjects = undeletable{kept}
	web := image("web")
	f.catalog(t, web, "1", "openssl")
	definition := Definition{PolicyReport: &PolicyReport{MaxObjects: 2}}
	e, _ := f.engine(t, f.Store)
	use(t, e, f.sink(t, definition))
	for _, generation := range []string{"first-", "second-", "third-"} {
		f.run(t, web, workloads(generation, 2)...)
		f.settle(t, e)
		if n := len(kept.state()); n != 2 {
			t.Errorf("%s: %d objects", generation, n)
		}
	}
	if state := e.States()["uid-"]; state.Failed != 2 || state.Omitted != 2 {
		t.Errorf("state %+v", state)
	}
	f.factory.PolicyObjects = kept
	use(t, e, f.sink(t, definition))
	f.clock.move(refusedMost)
	f.settle(t, e)
	f.settle(t, e)
	state := kept.state()
	if len(state) != 2 || !strings.Contains(state[0], "third-0") || !strings.Contains(state[1], "third-1") {
		t.Errorf("when the webhook is gone: %v", state)
	}
}

// The objects of a sink of policy reports are deleted when the sink gets another type: it exists, so Kubernetes does not delete them.
func TestPolicyReportsOfAnotherType(t *testing.T) {
	server := newTrackServer(t)
	f := newFixture(t, server.files())
	kept := &objects{kept: map[string]policyContent{}}
	f.factory.PolicyObjects = kept
	f.catalog(t, image("web"), "1", "openssl")
	f.run(t, image("web"), workload("shop", "web", ""))
	e, results := f.engine(t, f.Store)
	use(t, e, f.sink(t, Definition{PolicyReport: &PolicyReport{}}))
	f.settle(t, e)
	if n := len(kept.state()); n != 1 {
		t.Fatalf("%d objects", n)
	}
	track := Definition{DependencyTrack: &DependencyTrack{Credential: "c", ProjectName: "{workload}"}}
	use(t, e, f.sink(t, track))
	f.settle(t, e)
	if objects := kept.state(); len(objects) > 0 {
		t.Errorf("objects that stay: %v", objects)
	}
	expectState(t, "projects", server.state(), "web  active [] [openssl]")
	// What other systems have stays there.
	results.expect(t, "dependencyTrack delivered 1", "dependencyTrack removed 1", "policyReport delivered 1")
	use(t, e, f.sink(t, Definition{PolicyReport: &PolicyReport{}}))
	f.settle(t, e)
	expectState(t, "projects afterwards", server.state(), "web  active [] [openssl]")
	// Without the permission, nothing can be deleted, and nothing waits for it.
	f.factory.PolicyObjects = nil
	use(t, e, f.sink(t, track))
	f.settle(t, e)
	if got := counts(t, f, "uid-"); got != "0 due, 0 gone, 1 there" || len(kept.state()) != 1 {
		t.Errorf("without the permission: %s; %v", got, kept.state())
	}
}

// Formats that a sink has no more are deleted where it deletes, in the objects of images that run, and in those of images that run no more.
func TestS3FormatsChange(t *testing.T) {
	server := startedS3(t)
	f := newFixture(t, s3Files(server))
	for _, name := range []string{"web", "old"} {
		f.catalog(t, image(name), "1", "openssl")
		f.run(t, image(name), workload("shop", name, ""))
	}
	e, results := f.engine(t, f.Store)
	with := func(remove bool, formats ...report.Format) {
		t.Helper()
		use(t, e, f.sink(t, Definition{S3: &S3{Credential: "c", Bucket: "reports", Region: "us-east-1", Key: "formats/{workload}", Formats: formats, Delete: remove}}))
	}
	there := func() []string {
		t.Helper()
		all := []string{}
		for _, name := range []string{"old", "web"} {
			for _, extension := range []string{".cdx.json", ".csv", ".sarif.json", ".spdx.json"} {
				if fetch(t, server, "reports/formats/"+name+extension) != "" {
					all = append(all, name+extension)
				}
			}
		}
		return all
	}
	with(true, report.FormatCycloneDX, report.FormatSARIF)
	f.settle(t, e)
	expectState(t, "two formats", there(), "old.cdx.json", "old.sarif.json", "web.cdx.json", "web.sarif.json")
	// The sink changes twice before something is delivered, and one image ends meanwhile.
	with(true, report.FormatSPDX)
	must(t, e.plan(t.Context()))
	with(true, report.FormatCSV)
	must(t, e.plan(t.Context()))
	f.run(t, image("old"))
	f.settle(t, e)
	expectState(t, "another format", there(), "web.csv")
	results.expect(t, "s3 delivered 3", "s3 removed 1")
	// A delivery of another format fails after one object, and the sink is as before then.
	with(true, report.FormatSPDX)
	must(t, e.plan(t.Context()))
	spdx := e.sinks["uid-"].receiver.(*bucket)
	must(t, spdx.call(t.Context(), http.MethodPut, "formats/web.spdx.json", "text/plain", []byte("x")))
	with(true, report.FormatCSV)
	f.settle(t, e)
	expectState(t, "the format before", there(), "web.csv")
	with(false, report.FormatSPDX)
	f.settle(t, e)
	expectState(t, "retained", there(), "web.csv", "web.spdx.json")
	with(true, report.FormatSPDX)
	f.run(t, image("web"))
	f.settle(t, e)
	expectState(t, "what was retained stays", there(), "web.csv")
}
