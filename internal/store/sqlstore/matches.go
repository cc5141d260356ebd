package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// matched is the data of store.EventImageMatched.
type matched struct {
	Database string       `json:"database"`
	Counts   store.Counts `json:"counts"`
}

// ImagesToMatch implements store.Matches.
func (s *Store) ImagesToMatch(ctx context.Context, buildID string, after vuln.ImageKey, limit int) ([]vuln.ImageKey, error) {
	if limit <= 0 {
		return nil, nil
	}
	limit = min(limit, store.MaxKeys)
	var keys []vuln.ImageKey
	err := s.read(ctx, "list the images to match", func(tx *gorm.DB) error {
		var rows []imageRow
		err := tx.Raw(`SELECT i.image_id, i.platform FROM images i WHERE i.sbom_sha256 <> ''
			AND (i.state <> ? OR i.database_id IS NULL OR i.database_id NOT IN (SELECT d.id FROM vulnerability_databases d WHERE d.build_id = ?))
			AND i.image_id >= ? AND (i.image_id > ? OR i.platform > ?) ORDER BY i.image_id, i.platform LIMIT ?`,
			string(store.StateScanned), buildID, after.ImageID, after.ImageID, after.Platform.String(), limit).Scan(&rows).Error
		if err != nil {
			return err
		}
		keys = make([]vuln.ImageKey, len(rows))
		for i := range rows {
			if keys[i], err = rows[i].key(); err != nil {
				return err
			}
		}
		return nil
	})
	return keys, err
}

// SaveMatch implements store.Matches. Findings of a package that are known under the build stay as they are, since they are
// the same by construction.
func (s *Store) SaveMatch(ctx context.Context, key vuln.ImageKey, sbomDigest string, build vuln.DatabaseBuild, result vuln.MatchResult) error {
	const what = "save a match"
	if err := checkMatch(build, result); err != nil {
		return fmt.Errorf("%s of %s: %w", what, key, err)
	}
	return s.write(ctx, what, func(tx *txn) error {
		var images []struct {
			ID         int64
			SbomSha256 string `gorm:"column:sbom_sha256"`
		}
		err := tx.Raw("SELECT id, sbom_sha256 FROM images WHERE image_id = ? AND platform = ?", key.ImageID, key.Platform.String()).
			Scan(&images).Error
		if err != nil {
			return err
		}
		if len(images) == 0 || images[0].SbomSha256 == "" || images[0].SbomSha256 != sbomDigest {
			return fmt.Errorf("image %s with the SBOM %s: %w", key, sbomDigest, store.ErrNotFound)
		}
		m := &matchWriter{txn: tx, image: images[0].ID}
		if m.database, err = databaseID(tx, build); err != nil {
			return err
		}
		if err := m.save(result); err != nil {
			return err
		}
		counts, err := m.counts()
		if err != nil {
			return err
		}
		values := append([]any{string(store.StateScanned), m.database, tx.now}, countValues(counts)...)
		err = tx.exec(`UPDATE images SET state = ?, reason = '', message = '', database_id = ?, matched_at = ?, `+
			strings.Join(countColumns, " = ?, ")+" = ? WHERE id = ?", append(values, m.image)...)
		if err != nil {
			return err
		}
		return tx.event(store.EventImageMatched, key.ImageID, key.Platform.String(), matched{Database: build.ID, Counts: counts})
	})
}

// checkMatch refuses what would not fit into an index of every database.
func checkMatch(build vuln.DatabaseBuild, result vuln.MatchResult) error {
	if build.ID == "" || len(build.ID) > maxIdentifier {
		return fmt.Errorf("the ID of the database build has %d bytes, not 1 to %d", len(build.ID), maxIdentifier)
	}
	check := func(id, namespace string) error {
		if id == "" || len(id) > maxIdentifier || len(namespace) > maxIdentifier || clean(id) != id || clean(namespace) != namespace {
			return fmt.Errorf("the vulnerability %q of the namespace %q: each must be valid text of at most %d bytes, the ID not empty",
				cut(id, maxIdentifier), cut(namespace, maxIdentifier), maxIdentifier)
		}
		return nil
	}
	for _, findings := range result.Packages {
		for i := range findings {
			if err := check(findings[i].Vulnerability.ID, findings[i].Vulnerability.Namespace); err != nil {
				return err
			}
		}
	}
	for _, exclusion := range result.Exclusions {
		if err := check(exclusion.VulnerabilityID, exclusion.Namespace); err != nil {
			return err
		}
	}
	return nil
}

// matchWriter saves a match of one image under one database build.
type matchWriter struct {
	*txn
	image, database int64
}

// vulnerabilityKey identifies a vulnerability within a database build.
type vulnerabilityKey struct{ id, namespace string }

func (m *matchWriter) save(result vuln.MatchResult) error {
	var held []struct {
		ID          int64
		Fingerprint string
		Known       int64
	}
	err := m.Raw(`SELECT p.id, p.fingerprint, CASE WHEN pm.package_pk IS NULL THEN 0 ELSE 1 END AS known
		FROM image_packages ip JOIN packages p ON p.id = ip.package_pk
		LEFT JOIN package_matches pm ON pm.package_pk = ip.package_pk AND pm.database_id = ? WHERE ip.image_pk = ?`,
		m.database, m.image).Scan(&held).Error
	if err != nil {
		return err
	}
	packages := make(map[string]int64, len(held))
	fresh := make(map[int64][]vuln.PackageFinding)
	for _, row := range held {
		packages[row.Fingerprint] = row.ID
		if findings, answered := result.Packages[row.Fingerprint]; answered && row.Known == 0 {
			fresh[row.ID] = findings
		}
	}
	for fingerprint := range result.Packages {
		if _, found := packages[fingerprint]; !found {
			return fmt.Errorf("the match has findings for the package %q, which the image does not hold", cut(fingerprint, maxIdentifier))
		}
	}
	if err := m.saveFindings(fresh); err != nil {
		return err
	}
	return m.saveExclusions(result.Exclusions, packages)
}

func (m *matchWriter) saveFindings(fresh map[int64][]vuln.PackageFinding) error {
	vulnerabilities := map[vulnerabilityKey]*vuln.Vulnerability{}
	for _, findings := range fresh {
		for i := range findings {
			v := &findings[i].Vulnerability
			vulnerabilities[vulnerabilityKey{v.ID, v.Namespace}] = v
		}
	}
	ids, err := m.saveVulnerabilities(vulnerabilities)
	if err != nil {
		return err
	}
	var values, answers []any
	for id, findings := range fresh {
		answers = append(answers, id, m.database)
		for i := range findings {
			finding := &findings[i]
			key := vulnerabilityKey{finding.Vulnerability.ID, finding.Vulnerability.Namespace}
			vulnerability, found := ids[key]
			if !found {
				return fmt.Errorf("vulnerability %s of %s was not recorded", key.id, key.namespace)
			}
			versions, err := toJSON(finding.Fix.Versions)
			if err != nil {
				return err
			}
			details, err := toJSON(finding.Details)
			if err != nil {
				return fmt.Errorf("encode the details of %s: %w", key.id, err)
			}
			values = append(values, m.database, id, vulnerability, clean(string(finding.Fix.State)),
				boolean(finding.Fix.State == vuln.FixStateFixed), versions, details)
		}
	}
	err = m.insert("findings", []string{
		"database_id", "package_pk", "vulnerability_pk", "fix_state", "fixable", "fix_versions", "details",
	}, values, m.dialect.ignoreConflict("package_pk", "database_id", "vulnerability_pk"))
	if err != nil {
		return err
	}
	return m.insert("package_matches", []string{"package_pk", "database_id"}, answers,
		m.dialect.ignoreConflict("package_pk", "database_id"))
}

// saveVulnerabilities records those that are not known under the build and returns the ids of all.
func (m *matchWriter) saveVulnerabilities(all map[vulnerabilityKey]*vuln.Vulnerability) (map[vulnerabilityKey]int64, error) {
	names := make([]string, 0, len(all))
	for key := range all {
		names = append(names, key.id)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	ids, err := m.vulnerabilityIDs(names)
	if err != nil {
		return nil, err
	}
	var values []any
	for key, v := range all {
		if _, known := ids[key]; known {
			continue
		}
		detail, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("encode vulnerability %s: %w", key.id, err)
		}
		var epss float64
		if v.EPSS != nil {
			epss = v.EPSS.Score
		}
		values = append(values, m.database, key.namespace, key.id, int64(v.Severity), millionths(epss), millionths(v.Risk),
			boolean(len(v.KEV) > 0), string(detail))
	}
	if len(values) == 0 {
		return ids, nil
	}
	err = m.insert("vulnerabilities", []string{
		"database_id", "namespace", "vulnerability_id", "severity", "epss_micros", "risk_micros", "kev", "detail",
	}, values, m.dialect.ignoreConflict("database_id", "vulnerability_id", "namespace"))
	if err != nil {
		return nil, err
	}
	return m.vulnerabilityIDs(names)
}

func (m *matchWriter) vulnerabilityIDs(names []string) (map[vulnerabilityKey]int64, error) {
	ids := make(map[vulnerabilityKey]int64, len(names))
	for part := range slices.Chunk(names, maxIn) {
		var rows []struct {
			ID              int64
			Namespace       string
			VulnerabilityID string
		}
		err := m.Raw("SELECT id, namespace, vulnerability_id FROM vulnerabilities WHERE database_id = ? AND vulnerability_id IN ?",
			m.database, part).Scan(&rows).Error
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			ids[vulnerabilityKey{row.VulnerabilityID, row.Namespace}] = row.ID
		}
	}
	return ids, nil
}

func (m *matchWriter) saveExclusions(exclusions []vuln.Exclusion, packages map[string]int64) error {
	if err := m.exec("DELETE FROM image_exclusions WHERE image_pk = ?", m.image); err != nil {
		return err
	}
	var values []any
	for _, exclusion := range exclusions {
		id, found := packages[exclusion.Fingerprint]
		if !found {
			return fmt.Errorf("the match excludes %s for the package %q, which the image does not hold",
				exclusion.VulnerabilityID, cut(exclusion.Fingerprint, maxIdentifier))
		}
		values = append(values, m.image, id, exclusion.VulnerabilityID, exclusion.Namespace)
	}
	return m.insert("image_exclusions", []string{"image_pk", "package_pk", "vulnerability_id", "namespace"}, values,
		m.dialect.ignoreConflict("image_pk", "package_pk", "vulnerability_id", "namespace"))
}

// imageFindings are the tables and conditions of the findings of an image; the values are those of ofImage. It is a CROSS JOIN
// since that tells SQLite to begin with the packages of the image; it would begin with all findings of the build.
const imageFindings = ` FROM image_packages ip CROSS JOIN findings f
	JOIN vulnerabilities v ON v.id = f.vulnerability_pk
	WHERE ` + ofImage + ` AND ` + notExcluded

// ofImage is the condition for findings of an image under a build; the values are the image and the build.
const ofImage = `ip.image_pk = ? AND ip.excluded = 0 AND f.package_pk = ip.package_pk AND f.database_id = ?`

const notExcluded = `NOT EXISTS (SELECT 1 FROM image_exclusions x WHERE x.image_pk = ip.image_pk
	AND x.package_pk = ip.package_pk AND x.vulnerability_id = v.vulnerability_id AND x.namespace = v.namespace)`

// counts sums up the findings of the image under the build.
func (m *matchWriter) counts() (store.Counts, error) {
	columns := make([]string, 0, len(countColumns))
	for _, severity := range vuln.Severities() {
		columns = append(columns, fmt.Sprintf("COALESCE(SUM(CASE WHEN v.severity = %d THEN 1 ELSE 0 END), 0) AS %s",
			severity, strings.ToLower(severity.String())))
	}
	columns = append(columns, "COALESCE(SUM(v.kev), 0) AS kev", "COALESCE(SUM(f.fixable), 0) AS fixable")
	var row countsRow
	err := m.Raw("SELECT "+strings.Join(columns, ", ")+imageFindings, m.image, m.database).Scan(&row).Error
	return row.counts(), err
}

// RecordMatchFailure implements store.Matches. Noting the same failure again changes nothing.
func (s *Store) RecordMatchFailure(ctx context.Context, key vuln.ImageKey, outcome vuln.Outcome) error {
	message := cut(outcome.Message, maxMessage)
	return s.write(ctx, "record a failed match", func(tx *txn) error {
		id, err := exactImage(tx.DB, key)
		if err != nil {
			return err
		}
		result := tx.Exec("UPDATE images SET reason = ?, message = ? WHERE id = ? AND sbom_sha256 <> '' AND (reason <> ? OR message <> ?)",
			string(outcome.Reason), message, id, string(outcome.Reason), message)
		if result.Error != nil || result.RowsAffected == 0 {
			return result.Error
		}
		return tx.event(store.EventImageFailed, key.ImageID, key.Platform.String(), failure{Reason: outcome.Reason, Message: message})
	})
}

// millionths turns a figure into a whole number that compares the same everywhere.
func millionths(figure float64) int64 {
	if math.IsNaN(figure) {
		return 0
	}
	return int64(math.Round(min(max(figure, 0), 1e6) * 1e6))
}
