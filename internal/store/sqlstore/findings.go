package sqlstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// findingTies make every order of findings a total one.
var findingTies = []sortKey{
	{column: "v.vulnerability_id"}, {column: "v.namespace"}, {column: "p.fingerprint"}, {column: "f.digest"},
}

var findingSorts = map[store.FindingSort][]sortKey{
	store.SortFindingRisk:     append([]sortKey{{column: "v.risk_micros", number: true, descending: true}}, findingTies...),
	store.SortFindingSeverity: append([]sortKey{{column: "v.severity", number: true, descending: true}}, findingTies...),
	store.SortFindingPackage:  append([]sortKey{{column: "p.name"}, {column: "p.version"}}, findingTies...),
}

// findingToken is what a page token of findings belongs to. The image is the one that was asked for.
type findingToken struct {
	List         string
	ImageID      string
	Platform     string
	Text         string
	MinSeverity  vuln.Severity
	Fixable, KEV bool
	Sort         store.FindingSort
}

// findingRow is a finding with all that belongs to it.
type findingRow struct {
	Package         packageRow `gorm:"embedded"`
	Severity        int64
	RiskMicros      int64
	VulnerabilityID string
	Namespace       string
	Detail          string
	Scores          string
	FixState        string
	FixVersions     string
	Details         string
	Digest          string
}

// value is the sort value of a column.
func (r *findingRow) value(column string) string {
	switch column {
	case "v.risk_micros":
		return strconv.FormatInt(r.RiskMicros, 10)
	case "v.severity":
		return strconv.FormatInt(r.Severity, 10)
	case "v.vulnerability_id":
		return r.VulnerabilityID
	case "v.namespace":
		return r.Namespace
	case "p.name":
		return r.Package.Name
	case "p.version":
		return r.Package.Version
	case "f.digest":
		return r.Digest
	default:
		return r.Package.Fingerprint
	}
}

func (r *findingRow) finding() (vuln.Finding, error) {
	held, err := r.Package.held()
	if err != nil {
		return vuln.Finding{}, err
	}
	finding := vuln.Finding{Package: held.Package, Locations: held.Locations}
	finding.Fix.State = vuln.FixState(r.FixState)
	if finding.Vulnerability, err = vulnerabilityOf(r.Detail, r.Scores); err != nil {
		return vuln.Finding{}, err
	}
	if err := fromJSON(r.FixVersions, &finding.Fix.Versions); err != nil {
		return vuln.Finding{}, fmt.Errorf("fix of %s in the database: %w", r.VulnerabilityID, err)
	}
	if err := fromJSON(r.Details, &finding.Details); err != nil {
		return vuln.Finding{}, fmt.Errorf("details of %s in the database: %w", r.VulnerabilityID, err)
	}
	return finding, nil
}

// Findings implements store.Matches.
func (s *Store) Findings(ctx context.Context, query store.FindingQuery) (store.FindingPage, error) {
	const what = "list findings"
	if query.Sort == "" {
		query.Sort = store.SortFindingRisk
	}
	keys, known := findingSorts[query.Sort]
	if !known {
		return store.FindingPage{}, fmt.Errorf("%s: the order %q is not known", what, query.Sort)
	}
	var page store.FindingPage
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		page = store.FindingPage{Findings: []vuln.Finding{}}
		image, err := findImage(tx, query.Image)
		if err != nil {
			return err
		}
		token := findingToken{
			"findings", query.Image.ImageID, query.Image.Platform.String(), query.Text, query.MinSeverity, query.Fixable, query.KEV, query.Sort,
		}
		if image.MatchedAt == 0 {
			if query.Token != "" {
				_, err = store.DecodeToken(query.Token, token, len(keys))
			}
			return err
		}
		current, err := currentNumber(tx)
		if err != nil {
			return err
		}
		filtered := s.filterFindings(tx, image.ID, current, query).Session(&gorm.Session{})
		var total int64
		if err := filtered.Count(&total).Error; err != nil {
			return err
		}
		page.Total = int(total)
		if filtered, err = fromToken(filtered, query.Token, token, keys); err != nil {
			return err
		}
		return readFindings(tx, filtered, image.ID, keys, query.Limit(), token, &page)
	})
	if err != nil {
		return store.FindingPage{}, err
	}
	return page, nil
}

func (s *Store) filterFindings(tx *gorm.DB, image, generation int64, query store.FindingQuery) *gorm.DB {
	tx = tx.Table("image_packages AS ip").
		Joins("CROSS JOIN findings f").
		Joins("JOIN vulnerabilities v ON v.id = f.vulnerability_pk").
		Joins("JOIN packages p ON p.id = ip.package_pk").
		Where(ofImage, image, generation, generation)
	tx = contains(tx, s.dialect, query.Text, "v.vulnerability_id", "p.name")
	if query.MinSeverity > vuln.SeverityUnknown {
		tx = tx.Where("v.severity >= ?", int64(query.MinSeverity))
	}
	if query.Fixable {
		tx = tx.Where("f.fixable = 1")
	}
	if query.KEV {
		tx = tx.Where("v.kev = 1")
	}
	return tx
}

// readFindings fills a page. The rows of the page are found first and the long texts read for those alone, so that the
// database does not sort them.
func readFindings(tx, filtered *gorm.DB, image int64, keys []sortKey, limit int, token findingToken, page *store.FindingPage) error {
	columns := []string{"f.id AS finding_id"}
	for i, key := range keys {
		columns = append(columns, fmt.Sprintf("%s AS k%d", key.column, i))
	}
	chosen := filtered.Select(strings.Join(columns, ", ")).Order(orderBy(keys, sameName)).Limit(limit + 1)
	var rows []findingRow
	err := tx.Table("(?) AS c", chosen).
		Joins("CROSS JOIN findings f").
		Joins("JOIN vulnerabilities v ON v.id = f.vulnerability_pk").
		Joins("JOIN vulnerability_details d ON d.vulnerability_pk = v.id").
		Joins("JOIN packages p ON p.id = f.package_pk").
		Joins("JOIN image_packages ip ON ip.package_pk = p.id AND ip.image_pk = ?", image).
		Where("f.id = c.finding_id").
		Select(packageColumns + ", v.severity, v.risk_micros, v.vulnerability_id, v.namespace, d.detail, v.scores, f.fix_state, f.fix_versions, f.details, f.digest").
		Order(orderBy(keys, func(i int, _ string) string { return fmt.Sprintf("c.k%d", i) })).
		Scan(&rows).Error
	if err != nil {
		return err
	}
	if len(rows) > limit {
		rows = rows[:limit]
		values := make([]string, len(keys))
		for i, key := range keys {
			values[i] = rows[limit-1].value(key.column)
		}
		if page.NextToken, err = store.EncodeToken(token, values...); err != nil {
			return err
		}
	}
	page.Findings = make([]vuln.Finding, len(rows))
	for i := range rows {
		if page.Findings[i], err = rows[i].finding(); err != nil {
			return err
		}
	}
	return nil
}
