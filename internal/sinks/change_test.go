package sinks

import (
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Nothing is delivered from a changed definition before it is planned, also if the same sinks are set again meanwhile.
func TestChangedSinkWaitsForItsPlan(t *testing.T) {
	f := newFixture(t, nil)
	f.catalog(t, image("web"), "1", "openssl")
	f.run(t, image("web"), workload("shop", "web", ""))
	e, _ := f.engine(t, f.Store)
	use(t, e, f.sink(t, Definition{DependencyTrack: &DependencyTrack{Credential: "c", ProjectName: "{workload}"}}))
	must(t, e.plan(t.Context()))
	changed := f.sink(t, Definition{DependencyTrack: &DependencyTrack{Credential: "c", ProjectName: "new {workload}"}})
	receiver := &noted{receiver: changed.receiver, clock: f.clock}
	changed.receiver = receiver
	for range 3 {
		use(t, e, changed)
		f.clock.move(retryMost)
		e.dispatch(t.Context())
		e.running.Wait()
	}
	if n := len(receiver.begun); n > 0 {
		t.Errorf("%d deliveries to the targets of the definition before", n)
	}
	f.settle(t, e)
	if n := len(receiver.begun); n != 1 {
		t.Errorf("%d deliveries after the plan, want 1", n)
	}
}

// A BOM is delivered again when the packages of an image are replaced: those of another SBOM, which come later than it, and those of another reading of the
// same SBOM.
func TestPackagesAreReplaced(t *testing.T) {
	server := newTrackServer(t)
	f := newFixture(t, server.files())
	web := image("web")
	f.catalog(t, image("other"), "1", "zlib", "curl") // so that all packages are matched
	f.catalog(t, web, "1", "openssl")
	f.run(t, web, workload("shop", "web", ""))
	e, results := f.engine(t, f.Store)
	use(t, e, f.sink(t, Definition{DependencyTrack: &DependencyTrack{Credential: "c", ProjectName: "{workload}"}}))
	f.settle(t, e)
	expectState(t, "first", server.state(), "web  active [] [openssl]")

	if begun, err := f.BeginRecatalog(t.Context(), web, 0, "another cataloger", 10); err != nil || !begun {
		t.Fatal(begun, err)
	}
	sbom, catalog := sbomOf(web, "2", "zlib")
	must(t, f.SaveSBOM(t.Context(), web, sbom, catalog))
	f.settle(t, e)
	expectState(t, "while the new SBOM is not read", server.state(), "web  active [] [openssl]")
	must(t, f.ReplaceCatalog(t.Context(), web, sbom.SHA256, catalog))
	f.settle(t, e)
	expectState(t, "when it is read", server.state(), "web  active [] [zlib]")

	_, catalog = sbomOf(web, "2", "curl", "zlib")
	catalog.Stamp = 2
	must(t, f.ReplaceCatalog(t.Context(), web, sbom.SHA256, catalog))
	f.settle(t, e)
	expectState(t, "read by another version", server.state(), "web  active [] [curl zlib]")
	// Findings alone are no reason.
	results.expect(t, "dependencyTrack delivered 4")
	f.update(t, map[string][]model.PackageFinding{"zlib": {finding("CVE-1", model.SeverityHigh)}})
	f.settle(t, e)
	results.expect(t)
}
