package match

import (
	"context"
	"fmt"
	"slices"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/anchore/grype/grype/presenter/models"
	"github.com/anchore/grype/grype/version"
	"github.com/anchore/grype/grype/vulnerability"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// scoreBatch bounds the vulnerabilities whose scores are read at once.
const scoreBatch = 500

// Scores sets EPSS, KEV, CWEs and Risk of vulnerabilities, in place, to what this database says of their CVEs: what
// matching anew would give. Risk also depends on their Severity and CVSS.
func (d *Database) Scores(ctx context.Context, vulnerabilities []model.Vulnerability) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.closed {
		return ErrClosed
	}
	for batch := range slices.Chunk(vulnerabilities, scoreBatch) {
		if err := ctx.Err(); err != nil {
			return err
		}
		var cves []string
		for i := range batch {
			cves = append(cves, batch[i].CVEs...)
		}
		decorations, err := d.store.decorate(cves)
		if err != nil {
			return fmt.Errorf("read the scores of vulnerability database %s: %w", d.build.ID, err)
		}
		for i := range batch {
			if err := score(&batch[i], decorations); err != nil {
				return err
			}
		}
	}
	return nil
}

// score leaves the figures to the code that makes them of a fresh match.
func score(v *model.Vulnerability, decorations map[string]*decoration) error {
	metadata := vulnerability.Metadata{ID: v.ID, Severity: v.Severity.String()}
	for _, c := range v.CVSS {
		metadata.Cvss = append(metadata.Cvss, vulnerability.Cvss{Metrics: vulnerability.CvssMetrics{BaseScore: c.Score}})
	}
	for _, cve := range v.CVEs {
		decorations[fold(cve)].addTo(&metadata)
	}
	fresh, err := convertVulnerability(models.NewVulnerability(vulnerability.Vulnerability{}, &metadata, version.UnknownFormat))
	if err != nil {
		return err
	}
	v.EPSS, v.KEV, v.CWEs, v.Risk = fresh.EPSS, fresh.KEV, fresh.CWEs, fresh.Risk
	return nil
}

// addTo does what Grype's provider does with the rows.
func (d *decoration) addTo(metadata *vulnerability.Metadata) {
	for _, row := range d.epss {
		metadata.EPSS = append(metadata.EPSS, vulnerability.EPSS{CVE: row.Cve, EPSS: row.Epss, Percentile: row.Percentile, Date: row.Date})
	}
	for _, row := range d.cwes {
		metadata.CWEs = append(metadata.CWEs, vulnerability.CWE{CVE: row.CVE, CWE: row.CWE, Source: row.Source, Type: row.Type})
	}
	for _, row := range d.kev {
		metadata.KnownExploited = append(metadata.KnownExploited, knownExploited(row.Cve, row.BlobValue))
	}
}

func knownExploited(cve string, blob *v6.KnownExploitedVulnerabilityBlob) vulnerability.KnownExploited {
	return vulnerability.KnownExploited{
		CVE:                        cve,
		VendorProject:              blob.VendorProject,
		Product:                    blob.Product,
		DateAdded:                  blob.DateAdded,
		RequiredAction:             blob.RequiredAction,
		DueDate:                    blob.DueDate,
		KnownRansomwareCampaignUse: blob.KnownRansomwareCampaignUse,
	}
}
