package match

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/anchore/grype/grype/match"
	"github.com/anchore/grype/grype/pkg"
	"github.com/anchore/grype/grype/presenter/models"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// convertMatches puts Grype's matches into our words. Figures come from the models behind Grype's own JSON report, so
// that ours are the same. Matches that differ in nothing that we keep become one finding.
func convertMatches(matches []match.Match) ([]model.PackageFinding, error) {
	out := make([]model.PackageFinding, 0, len(matches))
	named := make(map[[2]string][]int, len(matches))
	for _, m := range matches {
		entry := models.NewVulnerability(m.Vulnerability, m.Vulnerability.Metadata, pkg.VersionFormat(m.Package))
		converted, err := convertVulnerability(entry)
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
			return nil, fmt.Errorf("%s: %w", entry.ID, err)
		}
		finding := model.PackageFinding{Vulnerability: converted, Fix: convertFix(entry.Fix), Details: details}
		name := [2]string{converted.ID, converted.Namespace}
		if slices.ContainsFunc(named[name], func(i int) bool { return reflect.DeepEqual(out[i], finding) }) {
			continue
		}
		named[name] = append(named[name], len(out))
		out = append(out, finding)
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

func convertVulnerability(entry models.Vulnerability) (model.Vulnerability, error) {
	severity, err := model.ParseSeverity(entry.Severity)
	if err != nil {
		return model.Vulnerability{}, fmt.Errorf("%s: %w", entry.ID, err)
	}
	out := model.Vulnerability{
		ID:          entry.ID,
		Namespace:   entry.Namespace,
		Severity:    severity,
		Description: entry.Description,
		DataSource:  entry.DataSource,
		URLs:        entry.URLs,
		Risk:        entry.Risk,
	}
	for _, c := range entry.CWEs {
		if !slices.Contains(out.CWEs, c.CWE) {
			out.CWEs = append(out.CWEs, c.CWE)
		}
	}
	for _, c := range entry.Cvss {
		out.CVSS = append(out.CVSS, model.CVSS{
			Version: c.Version, Vector: c.Vector, Source: c.Source, Type: c.Type, Score: c.Metrics.BaseScore,
		})
	}
	// Grype computes the risk from the first figure as well.
	if len(entry.EPSS) > 0 {
		e := entry.EPSS[0]
		out.EPSS = &model.EPSS{CVE: e.CVE, Score: e.EPSS, Percentile: e.Percentile, Date: e.Date}
	}
	for _, k := range entry.KnownExploited {
		out.KEV = append(out.KEV, model.KnownExploited{
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

func convertFix(entry models.Fix) model.Fix {
	state := model.FixState(entry.State)
	if state == "" {
		state = model.FixStateUnknown
	}
	return model.Fix{State: state, Versions: slices.Clone(entry.Versions)}
}

func convertDetails(details match.Details) ([]model.MatchDetail, error) {
	out := make([]model.MatchDetail, 0, len(details))
	for _, d := range details {
		searchedBy, err := json.Marshal(d.SearchedBy)
		if err != nil {
			return nil, fmt.Errorf("encode the search of %s: %w", d.Matcher, err)
		}
		found, err := json.Marshal(d.Found)
		if err != nil {
			return nil, fmt.Errorf("encode the result of %s: %w", d.Matcher, err)
		}
		out = append(out, model.MatchDetail{
			Type: string(d.Type), Matcher: string(d.Matcher), SearchedBy: searchedBy, Found: found,
		})
	}
	return out, nil
}
