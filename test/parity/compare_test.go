package parity_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// row is one match in the form that both sides are brought into. Everything is compared.
type row struct {
	Name, Version, Type, Language, PURL string
	CPEs                                []string

	Vulnerability model.Vulnerability
	Fix           model.Fix
	Details       []detail

	// Of a package that is in the image several times, the places and licences come together.
	Locations []model.Location
	Licenses  []string
}

type detail struct {
	Type, Matcher     string
	SearchedBy, Found any
}

// rows merges matches that differ in nothing but where the package is.
func rows(t *testing.T, all []row) map[string]row {
	t.Helper()
	out := map[string]row{}
	for _, r := range all {
		locations, licenses := r.Locations, r.Licenses
		r.Locations, r.Licenses = nil, nil
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprintf("%s %s %s %s %s", r.Vulnerability.ID, r.Vulnerability.Namespace, r.Name, r.Version, data)
		merged, ok := out[key]
		if !ok {
			merged = r
		}
		merged.Locations = append(merged.Locations, locations...)
		merged.Licenses = append(merged.Licenses, licenses...)
		out[key] = merged
	}
	for key, r := range out {
		slices.SortFunc(r.Locations, func(a, b model.Location) int {
			return cmpStrings(a.Path+"\x00"+a.Layer, b.Path+"\x00"+b.Layer)
		})
		r.Locations = slices.Compact(r.Locations)
		slices.Sort(r.Licenses)
		r.Licenses = slices.Compact(r.Licenses)
		out[key] = r
	}
	return out
}

func cmpStrings(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func decode(t *testing.T, raw json.RawMessage) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}

// nonNil makes empty lists of both sides equal.
func nonNil[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

func ourRows(t *testing.T, findings []model.Finding) []row {
	t.Helper()
	var out []row
	for _, f := range findings {
		r := row{
			Name: f.Package.Name, Version: f.Package.Version, Type: f.Package.Type, Language: f.Package.Language,
			PURL: f.Package.PURL, CPEs: nonNil(f.Package.CPEs),
			Vulnerability: f.Vulnerability, Fix: f.Fix,
			Locations: slices.Clone(f.Locations), Licenses: slices.Clone(f.Package.Licenses),
		}
		r.Vulnerability.URLs = nonNil(r.Vulnerability.URLs)
		r.Vulnerability.CVEs = nil // no report has them; see checkScores
		r.Fix.Versions = nonNil(r.Fix.Versions)
		for _, d := range f.Details {
			r.Details = append(r.Details, detail{d.Type, d.Matcher, decode(t, d.SearchedBy), decode(t, d.Found)})
		}
		out = append(out, r)
	}
	return out
}

func grypeRows(t *testing.T, r report) []row {
	t.Helper()
	var out []row
	for _, m := range r.Matches {
		severity, err := model.ParseSeverity(m.Vulnerability.Severity)
		if err != nil {
			t.Fatal(err)
		}
		v := model.Vulnerability{
			ID: m.Vulnerability.ID, Namespace: m.Vulnerability.Namespace, Severity: severity,
			Description: m.Vulnerability.Description, DataSource: m.Vulnerability.DataSource,
			URLs: nonNil(m.Vulnerability.URLs), Risk: m.Vulnerability.Risk,
		}
		for _, related := range m.RelatedVulnerabilities {
			if !slices.Contains(v.Aliases, related.ID) {
				v.Aliases = append(v.Aliases, related.ID)
			}
		}
		for _, c := range m.Vulnerability.CWEs {
			if !slices.Contains(v.CWEs, c.CWE) {
				v.CWEs = append(v.CWEs, c.CWE)
			}
		}
		for _, c := range m.Vulnerability.Cvss {
			v.CVSS = append(v.CVSS, model.CVSS{
				Version: c.Version, Vector: c.Vector, Source: c.Source, Type: c.Type, Score: c.Metrics.BaseScore,
			})
		}
		if len(m.Vulnerability.EPSS) > 0 {
			e := m.Vulnerability.EPSS[0]
			v.EPSS = &model.EPSS{CVE: e.CVE, Score: e.EPSS, Percentile: e.Percentile, Date: e.Date}
		}
		for _, k := range m.Vulnerability.KnownExploited {
			v.KEV = append(v.KEV, model.KnownExploited{
				CVE: k.CVE, VendorProject: k.VendorProject, Product: k.Product, DateAdded: k.DateAdded, DueDate: k.DueDate,
				RequiredAction: k.RequiredAction, KnownRansomwareUse: k.KnownRansomwareCampaignUse,
			})
		}
		// Grype writes the unknown state in both ways.
		state := model.FixState(m.Vulnerability.Fix.State)
		if state == "" {
			state = model.FixStateUnknown
		}
		a := m.Artifact
		converted := row{
			Name: a.Name, Version: a.Version, Type: a.Type, Language: a.Language, PURL: a.PURL, CPEs: nonNil(a.CPEs),
			Vulnerability: v, Fix: model.Fix{State: state, Versions: nonNil(m.Vulnerability.Fix.Versions)},
			Licenses: a.Licenses,
		}
		for _, l := range a.Locations {
			converted.Locations = append(converted.Locations, model.Location{Path: l.Path, Layer: l.Layer})
		}
		for _, d := range m.MatchDetails {
			converted.Details = append(converted.Details, detail{
				d.Type, d.Matcher, decode(t, d.SearchedBy), decode(t, d.Found),
			})
		}
		out = append(out, converted)
	}
	return out
}

// difference is empty when both sides say the same.
func difference(grype, ours map[string]row) string {
	if equal(grype, ours) {
		return ""
	}
	return cmp.Diff(grype, ours)
}

// equal is a quick look: the keys hold all fields but two.
func equal(grype, ours map[string]row) bool {
	if len(grype) != len(ours) {
		return false
	}
	for key, want := range grype {
		got, ok := ours[key]
		if !ok || !slices.Equal(got.Locations, want.Locations) || !slices.Equal(got.Licenses, want.Licenses) {
			return false
		}
	}
	return true
}
