package sinks

import (
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
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

// A target that is not one of the sink is refused.
func TestTargetsOfOtherTypes(t *testing.T) {
	f := newFixture(t, nil)
	kept := &objects{kept: map[string]policyContent{}}
	f.factory.PolicyObjects = kept
	f.catalog(t, image("web"), "1", "openssl")
	e, _ := f.engine(t, f.Store)
	for _, sink := range []*Sink{
		f.sink(t, Definition{DependencyTrack: &DependencyTrack{Credential: "c", ProjectName: "{workload}", ProjectVersion: "1"}}),
		f.sink(t, Definition{DefectDojo: &DefectDojo{Credential: "c", Product: "a", Engagement: "b", Test: "c"}}),
		f.sink(t, Definition{S3: &S3{Credential: "c", Bucket: "b", Region: "r", Key: "k", Delete: true}}),
		f.sink(t, Definition{PolicyReport: &PolicyReport{}}),
	} {
		for _, parts := range []string{`[]`, `["a"]`, `["a","b"]`, `["a","b","c"]`, `["a","b","c","d"]`} {
			for _, kind := range []Type{TypeDependencyTrack, TypeDefectDojo, TypeS3, TypePolicyReport} {
				text := `{"parts":` + parts + `,"type":"` + string(kind) + `"}`
				stored, err := decodeTarget(text)
				must(t, err)
				stored.images = []*targetImage{{RunningReport: &store.RunningReport{RunningImage: store.RunningImage{ImageKey: image("web")}}}}
				if len(stored.Parts) == len(sink.parts) && kind == sink.Type {
					continue
				}
				_, err = e.attempt(t.Context(), sink, &store.ReportItem{Target: text}, stored)
				if err == nil || !strings.Contains(err.Error(), "no item of the sink") {
					t.Errorf("%s delivers to %s: %v", sink.Type, text, err)
				}
				if kind == TypePolicyReport && len(stored.Parts) == 3 {
					continue // Each sink deletes policy reports.
				}
				_, err = e.attempt(t.Context(), sink, &store.ReportItem{Target: text, Gone: true, Due: true}, nil)
				if err == nil || !strings.Contains(err.Error(), "no item of the sink") {
					t.Errorf("%s removes %s: %v", sink.Type, text, err)
				}
			}
		}
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
