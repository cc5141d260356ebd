package vexdecisions_test

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
	"github.com/scanner-operator/scanner-operator/internal/vex"
	"github.com/scanner-operator/scanner-operator/internal/vexdecisions"
)

// TestExportsReadBack expects that a store which reads the decisions about an image that another one wrote suppresses the same findings, whatever the
// package URLs of its packages have.
func TestExportsReadBack(t *testing.T) {
	t.Parallel()
	key := model.ImageKey{ImageID: "registry.example/shop@sha256:" + strings.Repeat("a", 64), Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
	s := open(t)
	_, err := s.StartResultSet(t.Context(), model.DatabaseBuild{ID: "1"}, "", true)
	must(t, err)
	_, err = s.WantImages(t.Context(), []model.ImageKey{key})
	must(t, err)
	var catalog model.Catalog
	for i := range packages {
		catalog.Packages = append(catalog.Packages, model.HeldPackage{Package: packages[i]})
	}
	must(t, s.SaveSBOM(t.Context(), key, store.SBOM{SHA256: "d", Size: 1}, catalog))
	must(t, storetest.Match(t.Context(), s, key, "d", findings()))
	decide := func(decisions ...store.Decision) {
		problems, err := s.SyncDecisions(t.Context(), store.DecisionSourceKubernetes, decisions)
		if err != nil || len(problems) > 0 {
			t.Fatal(problems, err)
		}
	}
	decide(store.Decision{
		Object: store.DecisionObject{Kind: "ClusterVulnerabilityException", Name: "a"}, Vulnerabilities: []string{"CVE-2026-3"},
		Status: model.DecisionNotAffected, Justification: "component_not_present",
	})
	decided := stored(t, s, key)
	page, err := s.Findings(t.Context(), store.AllNamespaces(), store.FindingQuery{Image: key, Suppressed: true, Page: store.Page{Size: store.MaxPageSize}})
	must(t, err)
	for _, format := range []vex.Format{vex.FormatOpenVEX, vex.FormatCycloneDX} {
		var written bytes.Buffer
		must(t, vex.Write(&written, format, vex.Export{Author: "another cluster", Images: func(yield func(vex.Image) error) error {
			return yield(vex.Image{Key: key, Findings: func(yield func(model.Finding) error) error {
				for i := range page.Findings {
					if err := yield(page.Findings[i]); err != nil {
						return err
					}
				}
				return nil
			}})
		}}))
		decide()
		must(t, s.SaveVEX(t.Context(), store.VEXSource{Kind: store.VEXKindSource, Name: "exported"}, []store.VEXContent{{Name: "exported", Content: written.Bytes()}}))
		if _, err := vexdecisions.NewApplier(s, clock.RealClock{}, nil).Apply(t.Context()); err != nil {
			t.Fatal(err)
		}
		suppressed := 0
		for name, status := range stored(t, s, key) {
			if status != decided[name] {
				t.Errorf("%s: %s is %s, want %s", format, name, status, decided[name])
			}
			if status != "open" {
				suppressed++
			}
		}
		if suppressed != len(packages) {
			t.Errorf("%s: %d findings are suppressed, want one of each of %d packages", format, suppressed, len(packages))
		}
	}
}
