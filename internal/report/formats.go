package report

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Format names a form that a report is written in.
type Format string

// The formats.
const (
	FormatTable     Format = "table"
	FormatJSON      Format = "json"
	FormatCycloneDX Format = "cyclonedx-json"
	FormatSPDX      Format = "spdx-json"
	FormatSARIF     Format = "sarif"
	FormatCSV       Format = "csv"
)

// The formats that state decisions. Package vex writes them.
const (
	FormatOpenVEX      Format = "openvex"
	FormatCycloneDXVEX Format = "cyclonedx-vex"
)

// writers lists the formats as they are shown to people.
var writers = []struct {
	format Format
	write  func(io.Writer, Input) error
}{
	{FormatTable, table},
	{FormatJSON, findingsJSON},
	{FormatCycloneDX, CycloneDX},
	{FormatSPDX, spdxJSON},
	{FormatSARIF, sarifJSON},
	{FormatCSV, csvText},
}

// Formats names all formats, for help texts.
func Formats() string {
	names := make([]string, len(writers))
	for i, w := range writers {
		names[i] = string(w.format)
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// ParseFormat reads the name of a format.
func ParseFormat(name string) (Format, error) {
	for _, w := range writers {
		if string(w.format) == name {
			return w.format, nil
		}
	}
	return "", fmt.Errorf("output format %q is not supported: use %s", name, Formats())
}

// Write writes a report in one of the formats. The same input gives the same bytes.
func Write(w io.Writer, format Format, in Input) error {
	for _, known := range writers {
		if known.format != format {
			continue
		}
		if in.ShowSuppressed && ShowsSuppressed(format) && format != FormatTable && format != FormatJSON {
			in = in.withSuppressed()
		}
		buffered := bufio.NewWriterSize(w, 64<<10)
		if err := known.write(buffered, in); err != nil {
			return err
		}
		if err := buffered.Flush(); err != nil {
			return fmt.Errorf("write the report of %s: %w", in.ImageID, err)
		}
		return nil
	}
	return fmt.Errorf("output format %q is not supported: use %s", format, Formats())
}

// byRisk orders findings, those with the greatest risk first.
func byRisk(a, b model.Finding) int {
	return cmp.Or(
		cmp.Compare(b.Vulnerability.Risk, a.Vulnerability.Risk),
		cmp.Compare(b.Vulnerability.Severity, a.Vulnerability.Severity),
		cmp.Compare(a.Vulnerability.ID, b.Vulnerability.ID),
		cmp.Compare(a.Package.Name, b.Package.Name),
		cmp.Compare(a.Package.Version, b.Package.Version),
		cmp.Compare(a.Vulnerability.Namespace, b.Vulnerability.Namespace),
		cmp.Compare(a.Package.Fingerprint, b.Package.Fingerprint),
	)
}

// ShowsSuppressed reports whether a format has a place for suppressed findings.
func ShowsSuppressed(format Format) bool { return format != FormatSPDX }

// sortedSuppressed returns the findings that do not count in the same order.
func sortedSuppressed(in Input) []model.SuppressedFinding {
	all := slices.Clone(in.Suppressed)
	slices.SortStableFunc(all, func(a, b model.SuppressedFinding) int { return byRisk(a.Finding, b.Finding) })
	return all
}

// sortedFindings returns all findings, those with the greatest risk first.
func sortedFindings(in Input) ([]model.Finding, error) {
	var all []model.Finding
	if err := in.Findings(func(f model.Finding) error {
		all = append(all, f)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("findings of %s: %w", in.ImageID, err)
	}
	slices.SortStableFunc(all, byRisk)
	return all, nil
}

// fixedIn lists the versions that fix a finding, each once: databases repeat some.
func fixedIn(f model.Finding) []string {
	if f.Fix.State != model.FixStateFixed {
		return nil
	}
	var versions []string
	for _, version := range f.Fix.Versions {
		if version != "" && !slices.Contains(versions, version) {
			versions = append(versions, version)
		}
	}
	return versions
}

// page is the answer of the HTTP API to a query for findings, with what the query would have named.
type page struct {
	ImageID  string               `json:"imageId"`
	Platform string               `json:"platform,omitempty"`
	Distro   string               `json:"distro,omitempty"`
	Database *model.DatabaseBuild `json:"database,omitempty"`
	Items    []item               `json:"items"`
	Total    int                  `json:"total"`
	// Suppressed is missing when nobody asked what suppresses findings.
	Suppressed *[]suppressedItem `json:"suppressed,omitempty"`
}

// suppressedItem is a finding that does not count.
type suppressedItem struct {
	item
	Suppression model.Suppression `json:"suppression"`
}

// item is a Finding as the HTTP API has it. The parts that a model.Finding shares with it are written as they are.
type item struct {
	Package       itemPackage         `json:"package"`
	Vulnerability model.Vulnerability `json:"vulnerability"`
	Fix           model.Fix           `json:"fix"`
	Details       []model.MatchDetail `json:"details"`
	Locations     []model.Location    `json:"locations"`
}

type itemPackage struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Version  string   `json:"version"`
	Type     string   `json:"type"`
	Language string   `json:"language,omitempty"`
	PURL     string   `json:"purl,omitempty"`
	Distro   string   `json:"distro,omitempty"`
	Licenses []string `json:"licenses,omitempty"`
	CPEs     []string `json:"cpes,omitempty"`
}

func findingsJSON(w io.Writer, in Input) error {
	findings, err := sortedFindings(in)
	if err != nil {
		return err
	}
	out := page{
		ImageID: in.ImageID, Platform: in.Platform.String(), Distro: in.Distro, Database: in.Build,
		Items: make([]item, 0, len(findings)), Total: len(findings),
	}
	for _, f := range findings {
		out.Items = append(out.Items, itemOf(f))
	}
	if in.Suppressed != nil {
		list := make([]suppressedItem, 0, len(in.Suppressed))
		for _, f := range sortedSuppressed(in) {
			list = append(list, suppressedItem{itemOf(f.Finding), f.Suppression})
		}
		out.Suppressed = &list
	}
	return writeIndented(w, in, out)
}

func itemOf(f model.Finding) item {
	p := f.Package
	out := item{
		Package: itemPackage{
			ID: p.Fingerprint, Name: p.Name, Version: p.Version, Type: p.Type, Language: p.Language, PURL: p.PURL, Distro: p.Distro,
			Licenses: p.Licenses, CPEs: p.CPEs,
		},
		Vulnerability: f.Vulnerability, Fix: f.Fix,
		Details: make([]model.MatchDetail, 0, len(f.Details)), Locations: append([]model.Location{}, f.Locations...),
	}
	out.Vulnerability.CVEs = nil // how scores are looked up is no part of the API
	switch f.Fix.State {
	case model.FixStateFixed, model.FixStateNotFixed, model.FixStateWontFix, model.FixStateUnknown:
	default:
		out.Fix.State = model.FixStateUnknown
	}
	for _, d := range f.Details {
		d.SearchedBy, d.Found = objectOrNothing(d.SearchedBy), objectOrNothing(d.Found)
		out.Details = append(out.Details, d)
	}
	return out
}

// objectOrNothing leaves out what the API does not allow there.
func objectOrNothing(raw json.RawMessage) json.RawMessage {
	if !isObject(raw) {
		return nil
	}
	return raw
}

func writeIndented(w io.Writer, in Input, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("write the report of %s: %w", in.ImageID, err)
	}
	return nil
}
