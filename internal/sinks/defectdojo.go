package sinks

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/outbound"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

const (
	// scanType is the format of the findings, and what they are called in DefectDojo.
	scanType = "Generic Findings Import"
	// maxDojoText bounds a description, in bytes.
	maxDojoText = 8 << 10
	// maxDojoFindings is the most findings of a test.
	maxDojoFindings = 50_000
)

// defectDojo imports findings into tests of DefectDojo.
type defectDojo struct {
	factory *Factory
	spec    *DefectDojo
}

func (*defectDojo) parts() int { return 3 }

func (*defectDojo) longest() int { return 255 }

func (*defectDojo) clean(text string) string { return text }

func (*defectDojo) most() int { return store.MaxReportItems }

func (d *defectDojo) config() string {
	return digestOf(d.spec.Credential, d.spec.ProductType, d.spec.MinSeverity)
}

func (*defectDojo) findings() bool { return true }

func (*defectDojo) removes() bool { return true }

// dojoImport is a file of the type "Generic Findings Import". DefectDojo refuses a file with a field that it does not know, so there are none that
// old versions do not know.
type dojoImport struct {
	Findings []dojoFinding `json:"findings"`
}

type dojoFinding struct {
	Title            string   `json:"title"`
	Severity         string   `json:"severity"`
	Description      string   `json:"description"`
	Mitigation       string   `json:"mitigation,omitempty"`
	References       string   `json:"references,omitempty"`
	Date             string   `json:"date,omitempty"`
	CWE              int      `json:"cwe,omitempty"`
	CVSSv3           string   `json:"cvssv3,omitempty"`
	ComponentName    string   `json:"component_name"`
	ComponentVersion string   `json:"component_version,omitempty"`
	FilePath         string   `json:"file_path,omitempty"`
	VulnerabilityIDs []string `json:"vulnerability_ids,omitempty"`
	UniqueID         string   `json:"unique_id_from_tool"`
	VulnID           string   `json:"vuln_id_from_tool"`
	Tags             []string `json:"tags,omitempty"`
	Static           bool     `json:"static_finding"`
	Dynamic          bool     `json:"dynamic_finding"`
	Active           bool     `json:"active"`
}

// encode lists the open findings of all images: DefectDojo closes what is not in the list.
func (d *defectDojo) encode(ctx context.Context, _ *target, r *reports) ([]document, error) {
	var out dojoImport
	err := r.steadily(ctx, func(images []store.Image) error {
		out.Findings = []dojoFinding{}
		seen := map[string]bool{}
		for i := range images {
			image := &images[i]
			err := r.each(ctx, image.Key, false, func(f model.Finding) error {
				found := dojoFindingOf(image, &f)
				if seen[found.UniqueID] {
					return nil
				}
				seen[found.UniqueID] = true
				if len(out.Findings) >= maxDojoFindings {
					return refusal("there are more than %d findings; use templates that put fewer images into one test", maxDojoFindings)
				}
				out.Findings = append(out.Findings, found)
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out.Findings, func(a, b dojoFinding) int { return cmp.Compare(a.UniqueID, b.UniqueID) })
	body, err := json.Marshal(out)
	if err == nil && len(body) > maxDocument {
		err = errTooLarge
	}
	return []document{{"findings", "application/json", body}}, err
}

// dojoFindingOf is a finding as DefectDojo reads it.
func dojoFindingOf(image *store.Image, f *model.Finding) dojoFinding {
	v, p := &f.Vulnerability, &f.Package
	out := dojoFinding{
		Title:    truncate.Ellipsis(fmt.Sprintf("%s in %s %s", v.ID, p.Name, p.Version), 500),
		Severity: dojoSeverity(v.Severity), ComponentName: truncate.Ellipsis(p.Name, 500), ComponentVersion: truncate.Ellipsis(p.Version, 100), Static: true, Active: true,
		VulnID: truncate.Text(v.ID, 500), References: truncate.Ellipsis(strings.Join(references(v), "\n"), maxDojoText),
		UniqueID: digestOf(image.Key.ImageID, image.Key.Platform.String(), v.ID, v.Namespace, p.Fingerprint),
	}
	if !f.FirstSeen.IsZero() {
		out.Date = f.FirstSeen.UTC().Format(time.DateOnly)
	}
	for _, id := range append([]string{v.ID}, v.Aliases...) {
		if !slices.Contains(out.VulnerabilityIDs, id) {
			out.VulnerabilityIDs = append(out.VulnerabilityIDs, id)
		}
	}
	for _, cwe := range v.CWEs {
		if n, err := strconv.Atoi(strings.TrimPrefix(cwe, "CWE-")); err == nil && n > 0 {
			out.CWE = n
			break
		}
	}
	for _, score := range v.CVSS {
		if strings.HasPrefix(score.Vector, "CVSS:3") {
			out.CVSSv3 = score.Vector
			break
		}
	}
	if len(f.Locations) > 0 {
		out.FilePath = truncate.Text(f.Locations[0].Path, 4000)
	}
	if versions := f.Fix.Versions; f.Fix.State == model.FixStateFixed && len(versions) > 0 {
		out.Mitigation = truncate.Ellipsis("Upgrade "+p.Name+" to version "+strings.Join(versions, " or ")+".", maxDojoText)
	}
	facts := []string{"Image: " + image.Key.String(), "Package: " + p.Name + " " + p.Version + " (" + p.Type + ")"}
	if len(v.KEV) > 0 {
		out.Tags = append(out.Tags, "kev")
		facts = append(facts, "Known to be exploited (KEV)")
	}
	if v.EPSS != nil {
		facts = append(facts, fmt.Sprintf("EPSS: %.4f", v.EPSS.Score))
	}
	out.Description = truncate.Ellipsis(strings.Join(append(facts, "", v.Description), "\n"), maxDojoText)
	return out
}

// references are the web pages about a vulnerability, each once.
func references(v *model.Vulnerability) []string {
	var all []string
	for _, link := range append([]string{v.DataSource}, v.URLs...) {
		if link != "" && !slices.Contains(all, link) {
			all = append(all, link)
		}
	}
	return all
}

// dojoSeverity is a severity in the words of DefectDojo, which has neither Negligible nor Unknown.
func dojoSeverity(s model.Severity) string {
	switch s {
	case model.SeverityCritical, model.SeverityHigh, model.SeverityMedium, model.SeverityLow:
		return s.String()
	case model.SeverityNegligible, model.SeverityUnknown:
		return "Info"
	default:
		return "Info"
	}
}

func (d *defectDojo) deliver(ctx context.Context, t *target, documents []document, _ bool) error {
	return d.reimport(ctx, t, documents[0].body)
}

// remove closes the findings of a test.
func (d *defectDojo) remove(ctx context.Context, t *target) error {
	return d.reimport(ctx, t, []byte(`{"findings":[]}`))
}

// reimport makes these the open findings of a test, which is created if it does not exist.
func (d *defectDojo) reimport(ctx context.Context, t *target, findings []byte) error {
	if slices.Contains(t.Parts, "") {
		return refusal("the name of the product, of the engagement or of the test is empty")
	}
	token, err := outbound.Credential{Dir: d.factory.Dir, Name: d.spec.Credential}.Need(outbound.FileToken)
	if err != nil {
		return unavailable(err)
	}
	fields := [][2]string{
		{"scan_type", scanType}, {"product_name", t.Parts[0]}, {"engagement_name", t.Parts[1]}, {"test_title", t.Parts[2]}, {"auto_create_context", "true"},
		{"close_old_findings", "true"}, {"do_not_reactivate", "false"}, {"minimum_severity", cmp.Or(d.spec.MinSeverity, "Info")},
	}
	if d.spec.ProductType != "" {
		fields = append(fields, [2]string{"product_type_name", d.spec.ProductType})
	}
	body, contentType, err := form(fields, "file", "findings.json", "application/json", findings)
	if err != nil {
		return err
	}
	_, err = d.factory.call(ctx, d.spec.Credential, &request{
		method: http.MethodPost, path: "api/v2/reimport-scan/", contentType: contentType, body: body,
		header: http.Header{"Authorization": {"Token " + token}, "Accept": {"application/json"}},
	})
	return err
}
