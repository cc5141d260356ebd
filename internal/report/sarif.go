package report

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/owenrumney/go-sarif/sarif"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

const (
	homePage = "https://github.com/scanner-operator/scanner-operator"
	// maxLogicalLocations bounds the paths that one result names.
	maxLogicalLocations = 100
)

// sarifJSON writes SARIF 2.1.0: a rule for each vulnerability and a result for each package that has it.
func sarifJSON(w io.Writer, in Input) error {
	document, err := sarif.New(sarif.Version210)
	if err != nil {
		return fmt.Errorf("write the report of %s: %w", in.ImageID, err)
	}
	run, err := sarifRun(in)
	if err != nil {
		return err
	}
	document.AddRun(run)
	return writeIndented(w, in, document)
}

// sarifRun is what was found in one image.
func sarifRun(in Input) (*sarif.Run, error) {
	findings, err := sortedFindings(in)
	if err != nil {
		return nil, err
	}
	run := sarif.NewRun("scanner-operator", homePage)
	if in.ToolVersion != "" {
		run.Tool.Driver.WithVersion(in.ToolVersion)
	}
	run.Properties = sarif.Properties{"imageId": in.ImageID}
	if in.Build != nil {
		run.Properties["database"] = in.Build
	}
	indexes := map[string]int{}
	for _, f := range findings {
		index, known := indexes[f.Vulnerability.ID]
		if !known {
			// Of several records with the same name, the first is the one with the greatest risk.
			index = len(run.Tool.Driver.Rules)
			indexes[f.Vulnerability.ID] = index
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule(f.Vulnerability))
		}
		run.Results = append(run.Results, sarifResult(in, f, index))
	}
	return run, nil
}

func sarifRule(v model.Vulnerability) *sarif.ReportingDescriptor {
	tags := []string{"security", "vulnerability"}
	if numbers := cwes(v.CWEs); numbers != nil {
		for _, n := range *numbers {
			// The form in which GitHub recognises them.
			tags = append(tags, fmt.Sprintf("external/cwe/cwe-%03d", n))
		}
	}
	properties := sarif.Properties{
		"security-severity": securitySeverity(v), "severity": v.Severity.String(), "namespace": v.Namespace, "risk": v.Risk, "tags": tags,
	}
	if v.EPSS != nil {
		properties["epss"] = v.EPSS.Score
	}
	if len(v.KEV) > 0 {
		properties["kev"] = true
	}
	description := v.Description
	if description == "" {
		description = v.ID + " has no description."
	}
	rule := &sarif.ReportingDescriptor{
		ID:               v.ID,
		ShortDescription: sarif.NewMultiformatMessageString(v.ID + ", severity " + v.Severity.String()),
		FullDescription:  sarif.NewMultiformatMessageString(description),
		Properties:       properties,
	}
	help := description
	if address := bestURL(v); address != "" {
		rule.HelpURI = &address
		help += "\n\n" + address
	}
	return rule.WithHelp(help)
}

// securitySeverity is the figure by which GitHub distinguishes critical from high: the greatest CVSS score, or one that stands
// for the severity where the two would disagree or there is none.
func securitySeverity(v model.Vulnerability) string {
	var score float64
	for _, c := range v.CVSS {
		score = max(score, min(c.Score, 10))
	}
	if score == 0 || cvssSeverity(score) != v.Severity {
		switch v.Severity {
		case model.SeverityCritical:
			score = 9
		case model.SeverityHigh:
			score = 7
		case model.SeverityMedium:
			score = 4
		case model.SeverityLow:
			score = 1
		case model.SeverityNegligible, model.SeverityUnknown:
			score = 0
		}
	}
	return strconv.FormatFloat(score, 'f', 1, 64)
}

func sarifLevel(s model.Severity) string {
	switch {
	case s >= model.SeverityHigh:
		return "error"
	case s == model.SeverityMedium:
		return "warning"
	default:
		return "note"
	}
}

func sarifResult(in Input, f model.Finding, rule int) *sarif.Result {
	p := f.Package
	text := fmt.Sprintf("%s %s (%s) is affected by %s", p.Name, p.Version, p.Type, f.Vulnerability.ID)
	fixed := fixedIn(f)
	switch {
	case len(fixed) > 0:
		text += ", which is fixed in " + strings.Join(fixed, ", ") + "."
	case f.Fix.State == model.FixStateWontFix:
		text += ", which will not be fixed."
	default:
		text += ", for which no fix is known."
	}
	first := ""
	if len(f.Locations) > 0 {
		first = f.Locations[0].Path
	}
	// Without the version, so that an update that fixes nothing does not look like something new.
	digest := sha256.Sum256([]byte(strings.Join([]string{f.Vulnerability.ID, f.Vulnerability.Namespace, p.Type, p.Name, first}, "\x00")))
	properties := sarif.Properties{"package": p.Name, "version": p.Version, "type": p.Type}
	if p.PURL != "" {
		properties["purl"] = p.PURL
	}
	if len(fixed) > 0 {
		properties["fixedIn"] = fixed
	}
	result := &sarif.Result{
		RuleID: &f.Vulnerability.ID, Message: *sarif.NewTextMessage(text), Properties: properties,
		PartialFingerprints: map[string]any{"scanner-operator/v1": hex.EncodeToString(digest[:])},
		Locations:           []*sarif.Location{sarifLocation(in, f, first)},
		Suppressions:        sarifSuppressions(f),
	}
	return result.WithRuleIndex(rule).WithLevel(sarifLevel(f.Vulnerability.Severity))
}

// sarifLocation points at the first path of the package. Viewers want a file with a line, so below the image's name it
// looks like one; the logical locations are exact.
func sarifLocation(in Input, f model.Finding, first string) *sarif.Location {
	name := path.Base(imageComponent(in).Name)
	address := (&url.URL{Path: strings.TrimPrefix(path.Join("/", name, first), "/")}).String()
	location := sarif.NewLocationWithPhysicalLocation(
		sarif.NewPhysicalLocation().WithArtifactLocation(sarif.NewSimpleArtifactLocation(address)).WithRegion(sarif.NewSimpleRegion(1, 1)))
	for _, l := range f.Locations[:min(len(f.Locations), maxLogicalLocations)] {
		qualified := in.ImageID + ":" + l.Path
		if l.Layer != "" {
			qualified = in.ImageID + "@" + l.Layer + ":" + l.Path
		}
		location.LogicalLocations = append(location.LogicalLocations,
			sarif.NewLogicalLocation().WithName(l.Path).WithFullyQualifiedName(qualified))
	}
	return location
}
