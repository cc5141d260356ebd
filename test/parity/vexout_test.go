package parity_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vex"
)

// TestVEXOutParity writes decisions about the findings of an image as a VEX document, and compares which findings remain when the grype command applies
// it to the same SBOM: those without a decision, those whose risk is accepted and those under investigation. Reading it ourselves gives the same.
func TestVEXOutParity(t *testing.T) {
	installed := databases(t)["sample"]
	document := vexSBOM(t)
	decoded, err := match.Decode(bytes.NewReader(document), match.DecodeLimits{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := ourFindings(t, openDatabase(t, installed), document)
	file := sbomFile(t, document)
	name := func(f *model.Finding) string { return f.Vulnerability.ID + " " + f.Package.PURL }
	statuses := []model.DecisionStatus{
		model.DecisionNotAffected, model.DecisionFalsePositive, model.DecisionFixed, model.DecisionAcceptedRisk, model.DecisionUnderInvestigation, "",
	}
	if len(all) < len(statuses) {
		t.Fatalf("the image has only %d findings", len(all))
	}
	// Each time, each finding has another decision.
	for offset := range statuses {
		t.Run(fmt.Sprint(offset), func(t *testing.T) {
			findings := slices.Clone(all)
			byVulnerability := map[string]model.DecisionStatus{}
			want, suppressed := map[string]bool{}, 0
			for i := range findings {
				f := &findings[i]
				// As exceptions do, a decision is about a vulnerability under each of its names.
				key := f.Package.PURL + f.Vulnerability.ID
				status, found := byVulnerability[key]
				if !found {
					status = statuses[(i+offset)%len(statuses)]
					byVulnerability[key] = status
				}
				if status != "" {
					d := model.Decision{Status: status, Comment: "Because.", Since: time.Date(2026, 1, 1, i, 0, 0, 0, time.UTC), Suppresses: status.Suppresses()}
					f.Suppressed, f.Decisions = d.Suppresses, []model.Decision{d}
				}
				if status.Suppresses() && status != model.DecisionAcceptedRisk {
					suppressed++
				} else {
					want[name(f)] = true
				}
			}
			var written bytes.Buffer
			if err := vex.Write(&written, vex.FormatOpenVEX, vex.Export{Author: "test", Images: func(yield func(vex.Image) error) error {
				return yield(vex.Image{
					Key: model.ImageKey{ImageID: "registry.example.com/team/shop@" + vexImage, Platform: model.Platform{OS: "linux", Architecture: "amd64"}},
					Findings: func(yield func(model.Finding) error) error {
						for _, f := range findings {
							if err := yield(f); err != nil {
								return err
							}
						}
						return nil
					},
				})
			}}); err != nil {
				t.Fatal(err)
			}
			vexFile := filepath.Join(t.TempDir(), "vex.json")
			if err := os.WriteFile(vexFile, written.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			theirs := map[string]bool{}
			for _, m := range readReport(t, runGrypeOn(t, installed, "sbom:"+file, "--vex", vexFile)).Matches {
				theirs[m.Vulnerability.ID+" "+m.Artifact.PURL] = true
			}
			if !maps.Equal(want, theirs) {
				t.Errorf("grype shows %v, want %v\n%s", slices.Sorted(maps.Keys(theirs)), slices.Sorted(maps.Keys(want)), written.String())
			}
			read, err := vex.Read("vex.json", bytes.NewReader(written.Bytes()), vex.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			set, err := vex.NewSet([]*vex.Document{read})
			if err != nil {
				t.Fatal(err)
			}
			ours := map[string]bool{}
			result, err := set.Apply(t.Context(), decoded.ImageNames(), all, match.Versions{}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range result.Open {
				ours[name(&f)] = true
			}
			if !maps.Equal(want, ours) {
				t.Errorf("we show %v, want %v", slices.Sorted(maps.Keys(ours)), slices.Sorted(maps.Keys(want)))
			}
			if suppressed == 0 {
				t.Error("nothing was suppressed; the comparison says nothing")
			}
		})
	}
}
