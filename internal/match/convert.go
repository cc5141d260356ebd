package match

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/anchore/grype/grype/match"
	"github.com/anchore/grype/grype/pkg"
	"github.com/anchore/grype/grype/presenter/models"

	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// convertMatches puts Grype's matches into our words. Figures come from the models behind Grype's own JSON report, so
// that ours are the same.
func convertMatches(matches []match.Match) ([]vuln.PackageFinding, error) {
	out := make([]vuln.PackageFinding, 0, len(matches))
	for _, m := range matches {
		model := models.NewVulnerability(m.Vulnerability, m.Vulnerability.Metadata, pkg.VersionFormat(m.Package))
		converted, err := convertVulnerability(model)
		if err != nil {
			return nil, err
		}
		for _, related := range m.Vulnerability.RelatedVulnerabilities {
			if !slices.Contains(converted.Aliases, related.ID) {
				converted.Aliases = append(converted.Aliases, related.ID)
			}
		}
		if handle, ok := m.Vulnerability.Internal.(*v6.VulnerabilityHandle); ok && handle != nil {
			converted.CVEs = cvesOf(handle)
		}
		details, err := convertDetails(m.Details)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", model.ID, err)
		}
		out = append(out, vuln.PackageFinding{
			Vulnerability: converted,
			Fix:           convertFix(model.Fix),
			Details:       details,
		})
	}
	return out, nil
}

// cvesOf returns the CVE IDs of a vulnerability's own record, by which Grype looks up EPSS, KEV and CWEs, in Grype's order.
func cvesOf(handle *v6.VulnerabilityHandle) []string {
	ids := []string{handle.Name}
	if handle.BlobValue != nil {
		ids = append(append(ids, handle.BlobValue.ID), handle.BlobValue.Aliases...)
	}
	var cves []string
	for _, id := range ids {
		same := func(other string) bool { return strings.EqualFold(other, id) }
		if strings.HasPrefix(strings.ToLower(id), "cve-") && !slices.ContainsFunc(cves, same) {
			cves = append(cves, id)
		}
	}
	return cves
}

func convertVulnerability(model models.Vulnerability) (vuln.Vulnerability, error) {
	severity, err := vuln.ParseSeverity(model.Severity)
	if err != nil {
		return vuln.Vulnerability{}, fmt.Errorf("%s: %w", model.ID, err)
	}
	out := vuln.Vulnerability{
		ID:          model.ID,
		Namespace:   model.Namespace,
		Severity:    severity,
		Description: model.Description,
		DataSource:  model.DataSource,
		URLs:        model.URLs,
		Risk:        model.Risk,
	}
	for _, c := range model.CWEs {
		if !slices.Contains(out.CWEs, c.CWE) {
			out.CWEs = append(out.CWEs, c.CWE)
		}
	}
	for _, c := range model.Cvss {
		out.CVSS = append(out.CVSS, vuln.CVSS{
			Version: c.Version, Vector: c.Vector, Source: c.Source, Type: c.Type, Score: c.Metrics.BaseScore,
		})
	}
	// Grype computes the risk from the first figure as well.
	if len(model.EPSS) > 0 {
		e := model.EPSS[0]
		out.EPSS = &vuln.EPSS{CVE: e.CVE, Score: e.EPSS, Percentile: e.Percentile, Date: e.Date}
	}
	for _, k := range model.KnownExploited {
		out.KEV = append(out.KEV, vuln.KnownExploited{
			CVE:                k.CVE,
			VendorProject:      k.VendorProject,
			Product:            k.Product,
			DateAdded:          k.DateAdded,
			DueDate:            k.DueDate,
			RequiredAction:     k.RequiredAction,
			KnownRansomwareUse: k.KnownRansomwareCampaignUse,
		})
	}
	return out, nil
}

func convertFix(model models.Fix) vuln.Fix {
	state := vuln.FixState(model.State)
	if state == "" {
		state = vuln.FixStateUnknown
	}
	return vuln.Fix{State: state, Versions: slices.Clone(model.Versions)}
}

func convertDetails(details match.Details) ([]vuln.MatchDetail, error) {
	out := make([]vuln.MatchDetail, 0, len(details))
	for _, d := range details {
		searchedBy, err := json.Marshal(d.SearchedBy)
		if err != nil {
			return nil, fmt.Errorf("write how %s searched: %w", d.Matcher, err)
		}
		found, err := json.Marshal(d.Found)
		if err != nil {
			return nil, fmt.Errorf("write what %s found: %w", d.Matcher, err)
		}
		out = append(out, vuln.MatchDetail{
			Type: string(d.Type), Matcher: string(d.Matcher), SearchedBy: searchedBy, Found: found,
		})
	}
	return out, nil
}
