package vex

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/decision"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// noVersions fails for each comparison: documents of Write need none.
type noVersions struct{}

func (noVersions) Satisfies(_, _, constraint string) (bool, error) {
	return false, fmt.Errorf("%s is compared", constraint)
}

// heldImage is an image with findings.
type heldImage struct {
	key      model.ImageKey
	findings []model.Finding
}

func (i *heldImage) names() *image {
	return newImage(model.ImageNames{References: []string{i.key.ImageID}, Digests: []string{i.key.Digest()}, Architecture: i.key.Platform.Architecture})
}

// exportOf is the export of images.
func exportOf(images []heldImage) Export {
	return Export{Author: "scanner-operator", Images: func(yield func(Image) error) error {
		for _, image := range images {
			if err := yield(Image{Key: image.key, Findings: func(yield func(model.Finding) error) error {
				for _, f := range image.findings {
					if err := yield(f); err != nil {
						return err
					}
				}
				return nil
			}}); err != nil {
				return err
			}
		}
		return nil
	}}
}

// pick returns one of a list.
func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

func randomDecision(r *rand.Rand, suppresses bool) model.Decision {
	d := model.Decision{
		Kind: "K", Name: fmt.Sprint(r.IntN(100)), Author: "somebody",
		Since: time.UnixMicro(1_700_000_000_000_000 + r.Int64N(1000)*100_000),
		Comment: pick(r, "", "Not used.", "Decision: Fixed. Not.", " two\nlines “é” \u2028<b>", strings.Repeat("é", 3000), "Decision: AcceptedRisk until 2030-01-01T00:00:00Z.",
			reasons[model.DecisionFalsePositive]+" Really."),
	}
	if r.IntN(2) == 0 {
		d.ExpiresAt = pick(r, time.Date(2030, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600)), time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC))
	}
	d.Status = pick(r, model.DecisionNotAffected, model.DecisionFixed, model.DecisionFalsePositive, model.DecisionAcceptedRisk)
	if !suppresses && r.IntN(2) == 0 {
		d.Status = model.DecisionUnderInvestigation
	}
	if d.Status == model.DecisionNotAffected {
		d.Justification = pick(r, "component_not_present", "vulnerable_code_not_present", "vulnerable_code_not_in_execute_path",
			"vulnerable_code_cannot_be_controlled_by_adversary", "inline_mitigations_already_exist", "")
	}
	d.Suppresses = suppresses && d.Status.Suppresses()
	return d
}

// randomImages have few packages and vulnerabilities, so that findings get in each other's way.
func randomImages(r *rand.Rand) []heldImage {
	images := make([]heldImage, 1+r.IntN(3))
	for i := range images {
		images[i].key = model.ImageKey{
			ImageID:  fmt.Sprintf("registry.example.com:5000/team/App%d@sha256:%064x", i%2, i+1),
			Platform: model.Platform{OS: "linux", Architecture: pick(r, "amd64", "arm64")},
		}
		for range r.IntN(12) {
			var f model.Finding
			f.Package = model.Package{Name: pick(r, "a", "b"), Version: pick(r, "1", "2", ""), Type: "npm"}
			f.Package.PURL = pick(r, "", "%%", "pkg:npm/a@1", "pkg:npm/a@1?arch=amd64", "pkg:npm/a@1?arch=amd64&distro=x", "pkg:npm/a@2", "pkg:npm/a", "pkg:npm/b@1#sub", "pkg:npm/b@1",
				"pkg:deb/debian/openssl@1:3.0~1%2Bb1?arch=amd64", "pkg:oci/a@1", "pkg:golang/example.com/%C3%A9/x@v1.0.0#v2")
			switch r.IntN(5) {
			case 0:
				f.Vulnerability.ID, f.Vulnerability.Aliases = "GHSA-1", []string{"CVE-1"}
			case 1:
				f.Vulnerability.ID, f.Vulnerability.Aliases, f.Vulnerability.CVEs = "ADVISORY-1", []string{"CVE-1", "CVE-2"}, []string{"CVE-1", "CVE-2"}
			case 2:
				f.Vulnerability.ID, f.Vulnerability.CVEs = "ghsa-2", []string{"cve-2", "CVE-2"}
			default:
				f.Vulnerability.ID = pick(r, "CVE-1", "CVE-2", "GHSA-1")
			}
			f.Suppressed = r.IntN(2) == 0
			if f.Suppressed {
				f.Decisions = append(f.Decisions, randomDecision(r, true))
			}
			for range r.IntN(3) {
				f.Decisions = append(f.Decisions, randomDecision(r, false))
			}
			slices.SortFunc(f.Decisions, decision.Compare)
			images[i].findings = append(images[i].findings, f)
		}
	}
	return images
}

// reaches reports whether a statement about a finding under the ID of its vulnerability is about another finding of the image, too.
func reaches(from, to *model.Finding) bool {
	a, b := newSubject(from), newSubject(to)
	if a.purl == nil || b.purl == nil || !slices.Contains(b.ids, a.ids[0]) {
		return false
	}
	written, _ := writtenPURL(&from.Package, a.purl)
	return written.Contains(b.purl)
}

// readDecision is a decision as it is read back.
func readDecision(d *model.Decision) model.Decision {
	cut := truncate.Ellipsis(d.Comment, len(d.Comment))
	if limit := maxText - len(notesOf(&model.Decision{Status: d.Status, ExpiresAt: d.ExpiresAt}, "")) - 1; len(cut) > limit {
		cut = truncate.Ellipsis(cut, limit)
	}
	return model.Decision{
		Status: d.Status, Justification: d.Justification, Comment: cut, Since: d.Since.UTC(), ExpiresAt: d.ExpiresAt.UTC(), Suppresses: d.Status.Suppresses(),
	}
}

// TestRoundTrip writes decisions about random findings, and reads the document as others do: it says of each finding what was decided about it, and
// nothing of the others. What cannot be told apart is left out, never suppressed.
func TestRoundTrip(t *testing.T) {
	stated, leftOut, open := 0, 0, 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		images := randomImages(r)
		for _, format := range []Format{FormatOpenVEX, FormatCycloneDX} {
			var written bytes.Buffer
			err := Write(&written, format, exportOf(images))
			set := &Set{}
			if !errors.Is(err, ErrNoDecision) {
				if err != nil {
					t.Fatalf("seed %d, %s: %v", seed, format, err)
				}
				document, err := Read("x", bytes.NewReader(written.Bytes()), Limits{})
				if err != nil {
					t.Fatalf("seed %d, %s: %v\n%s", seed, format, err, written.String())
				}
				if set, err = NewSet([]*Document{document}); err != nil {
					t.Fatal(err)
				}
			}
			for _, image := range images {
				for i := range image.findings {
					f := &image.findings[i]
					own := decisionAbout(f)
					var got *model.Decision
					if e, _ := set.decide(image.names(), newSubject(f), noVersions{}, time.Time{}, func(entry) {}); e != nil {
						d, known := e.statement.Decision()
						if !known || e.document.Author != "scanner-operator" {
							t.Fatalf("seed %d, %s: %+v", seed, format, e.statement)
						}
						got = &d
					}
					if own == nil {
						open++
						if got != nil {
							t.Fatalf("seed %d, %s: %s of %s has %+v, but nothing was decided\n%s", seed, format, f.Vulnerability.ID, f.Package.PURL, got, written.String())
						}
						continue
					}
					mixed, several := false, false
					for j := range image.findings {
						other := &image.findings[j]
						d := decisionAbout(other)
						mixed = mixed || reaches(f, other) && (d == nil || statuses[d.Status] != statuses[own.Status] || !d.ExpiresAt.Equal(own.ExpiresAt))
						several = several || d != nil && readDecision(d) != readDecision(own) && slices.ContainsFunc(newSubject(other).ids, func(id string) bool {
							return slices.Contains(newSubject(f).ids, id)
						})
					}
					purl := newSubject(f).purl
					if purl == nil || purl.Version == "" || purl.Type == typeOCI || mixed {
						leftOut++
						if got != nil && statuses[got.Status] != statuses[own.Status] {
							t.Fatalf("seed %d, %s: %s of %s cannot be told apart, and has %+v", seed, format, f.Vulnerability.ID, f.Package.PURL, got)
						}
						continue
					}
					stated++
					switch {
					case got == nil || statuses[got.Status] != statuses[own.Status]:
						t.Fatalf("seed %d, %s: %s of %s has %+v, want %+v\n%s", seed, format, f.Vulnerability.ID, f.Package.PURL, got, own, written.String())
					case !several:
						if diff := cmp.Diff(readDecision(own), *got); diff != "" {
							t.Fatalf("seed %d, %s: %s of %s: %s", seed, format, f.Vulnerability.ID, f.Package.PURL, diff)
						}
					}
				}
			}
			again := slices.Clone(images)
			for i := range again {
				again[i].findings = slices.Clone(again[i].findings)
				r.Shuffle(len(again[i].findings), func(a, b int) {
					again[i].findings[a], again[i].findings[b] = again[i].findings[b], again[i].findings[a]
				})
			}
			r.Shuffle(len(again), func(a, b int) { again[a], again[b] = again[b], again[a] })
			var second bytes.Buffer
			if other := Write(&second, format, exportOf(again)); !errors.Is(other, err) || !bytes.Equal(written.Bytes(), second.Bytes()) {
				t.Fatalf("seed %d, %s: another order gives another document (%v, %v):\n%s\n%s", seed, format, err, other, written.String(), second.String())
			}
		}
	}
	if stated < 500 || leftOut < 500 || open < 500 {
		t.Errorf("the test covers too little: %d findings with decisions, %d that cannot be stated, %d without", stated, leftOut, open)
	}
}
