package sqlstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// findingTies make every order of findings a total one.
var findingTies = []sqldb.SortKey{
	{Column: "v.vulnerability_id"}, {Column: "v.namespace"}, {Column: "p.fingerprint"}, {Column: "f.digest"},
}

var findingSorts = map[store.FindingSort][]sqldb.SortKey{
	store.SortFindingRisk:     append([]sqldb.SortKey{{Column: "v.risk_micros", Number: true, Descending: true}}, findingTies...),
	store.SortFindingSeverity: append([]sqldb.SortKey{{Column: "v.severity", Number: true, Descending: true}}, findingTies...),
	store.SortFindingEPSS:     append([]sqldb.SortKey{{Column: "v.epss_micros", Number: true, Descending: true}}, findingTies...),
	store.SortFindingDue:      append([]sqldb.SortKey{{Column: dueFirst, Number: true}, {Column: "v.severity", Number: true, Descending: true}}, findingTies...),
	store.SortFindingPackage:  append([]sqldb.SortKey{{Column: "p.name"}, {Column: "p.version"}}, findingTies...),
}

// findingToken is what a page token of findings belongs to. The image is the one that was asked for.
type findingToken struct {
	List         string
	ImageID      string
	Platform     string
	Text         string
	MinSeverity  model.Severity
	Fixable, KEV bool
	EpssMicros   int64
	Closed       bool
	Suppressed   bool
	Overdue      bool
	DueBefore    int64
	Origin       model.Origin
	Workloads    string
	Sort         store.FindingSort
}

// findingRow is a finding with all that belongs to it.
type findingRow struct {
	Package         packageRow `gorm:"embedded"`
	FindingID       int64
	PackagePk       int64
	Severity        int64
	RiskMicros      int64
	EpssMicros      int64
	FirstSeen       int64
	Ended           int64
	VulnerabilityID string
	Namespace       string
	Detail          string
	Scores          string
	FixState        string
	FixVersions     string
	Details         string
	Digest          string
	// DueAt is stillOpen if it is not due.
	DueAt int64
}

// value is the sort value of a column. That of a deadline is an expression.
func (r *findingRow) value(column string) string {
	switch column {
	case dueFirst:
		return strconv.FormatInt(r.DueAt, 10)
	case "v.risk_micros":
		return strconv.FormatInt(r.RiskMicros, 10)
	case "v.epss_micros":
		return strconv.FormatInt(r.EpssMicros, 10)
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

func (r *findingRow) finding() (model.Finding, error) {
	held, err := r.Package.held()
	if err != nil {
		return model.Finding{}, err
	}
	finding := model.Finding{
		Package: held.Package, Locations: held.Locations, FirstSeen: fromMicros(r.FirstSeen), FixedAt: fromEnd(r.Ended),
	}
	finding.Fix.State = model.FixState(r.FixState)
	if finding.Vulnerability, err = vulnerabilityOf(r.Detail, r.Scores); err != nil {
		return model.Finding{}, err
	}
	if err := fromJSON(r.FixVersions, &finding.Fix.Versions); err != nil {
		return model.Finding{}, fmt.Errorf("fix of %s in the database: %w", r.VulnerabilityID, err)
	}
	if err := fromJSON(r.Details, &finding.Details); err != nil {
		return model.Finding{}, fmt.Errorf("details of %s in the database: %w", r.VulnerabilityID, err)
	}
	return finding, nil
}

// Findings implements store.Matches.
func (s *Store) Findings(ctx context.Context, in store.Namespaces, query store.FindingQuery) (store.FindingPage, error) {
	const what = "list findings"
	if query.Sort == "" {
		query.Sort = store.SortFindingRisk
	}
	keys, known := findingSorts[query.Sort]
	if !known {
		return store.FindingPage{}, fmt.Errorf("%s: unknown sort order %q", what, query.Sort)
	}
	var page store.FindingPage
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		page = store.FindingPage{Findings: []model.Finding{}}
		image, view, err := findSeen(tx, in, query.Image)
		if err != nil {
			return err
		}
		token := findingToken{
			"findings", query.Image.ImageID, query.Image.Platform.String(), query.Text, query.MinSeverity, query.Fixable, query.KEV,
			millionths(query.MinEPSS), query.Closed, query.Suppressed, query.Overdue, micros(query.DueBefore), query.Origin,
			workloadsToken(query.Workloads), query.Sort,
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
		var policies []policyRow
		if !query.Closed {
			if policies, err = policiesOfImage(tx, in, image.ID); err != nil {
				return err
			}
		}
		limited, err := view.ofOne(tx, image.ID)
		if err != nil {
			return err
		}
		if limited, err = limited.limitTo(tx, image.ID, query.Workloads); err != nil {
			return err
		}
		due := imageDeadlines(limited, policies, image.findingsSince(), query.Suppressed)
		now := s.now()
		origins := origins{image: image.ID}
		if query.Described || query.Origin != "" {
			if origins, err = s.originsIn(tx, in, image.ID); err != nil {
				return err
			}
		}
		filtered, err := origins.filter(tx, filterDue(s.filterFindings(tx, limited, &image, current, query), due, now, query), query.Origin)
		if err != nil {
			return err
		}
		filtered = filtered.Session(&gorm.Session{})
		var total int64
		if err := filtered.Count(&total).Error; err != nil {
			return err
		}
		page.Total = int(total)
		named := namedDue(keys, due)
		if filtered, err = fromToken(filtered, query.Token, token, named); err != nil {
			return err
		}
		chosen := filtered.Select("f.id AS finding_id, " + due + " AS due_at, " + columnsOf(named)).Order(sqldb.OrderBy(named)).Limit(query.Limit() + 1)
		rows, err := readFindings(tx, chosen, &image, current, named)
		if err != nil {
			return err
		}
		if rows, page.NextToken, err = cutPage(rows, query.Limit(), token, keys, (*findingRow).value); err != nil {
			return err
		}
		page.Findings = make([]model.Finding, len(rows))
		for i := range rows {
			if page.Findings[i], err = rows[i].finding(); err != nil {
				return err
			}
		}
		if query.Described {
			owners, err := ownersOfImages(tx, visibleUses(tx, in), []int64{image.ID})
			if err != nil {
				return err
			}
			page.Owners = owners[image.ID]
		}
		if err := origins.add(tx, rows, page.Findings); err != nil || query.Closed {
			return err
		}
		if err := addDecisions(tx, view, limited.workloads, query.Suppressed, image.ID, rows, page.Findings); err != nil {
			return err
		}
		return addDeadlines(tx, policies, image.findingsSince(), now, rows, page.Findings)
	})
	if err != nil {
		return store.FindingPage{}, err
	}
	return page, nil
}

// filterFindings selects the findings f of an image that the query matches.
func (s *Store) filterFindings(tx *gorm.DB, view seen, image *imageRow, resultSet int64, query store.FindingQuery) *gorm.DB {
	tx = tx.Table("image_packages AS ip").
		Joins("CROSS JOIN findings f").
		Joins("JOIN vulnerabilities v ON v.id = f.vulnerability_pk").
		Joins("JOIN packages p ON p.id = ip.package_pk").
		Where("ip.image_pk = ? AND ip.excluded = 0 AND f.package_pk = ip.package_pk", image.ID)
	if query.Closed {
		tx = tx.Where(closed, resultSet, resultSet).
			Where("(SELECT e.current_since FROM generations e WHERE e.number = f.until_gen) > ?", image.findingsSince())
	} else {
		condition := view.open()
		if query.Suppressed {
			condition = shown
		}
		tx = tx.Where(condition, resultSet, resultSet)
	}
	tx = contains(tx, s.db.Dialect(), query.Text, "v.vulnerability_id", "p.name")
	if query.MinSeverity > model.SeverityUnknown {
		tx = tx.Where("v.severity >= ?", int64(query.MinSeverity))
	}
	if query.Fixable {
		tx = tx.Where("f.fixable = 1")
	}
	if query.KEV {
		tx = tx.Where("v.kev = 1")
	}
	if least := millionths(query.MinEPSS); least > 0 {
		tx = tx.Where("v.epss_micros >= ?", least)
	}
	return tx
}

// columnsOf names the columns of keys k0, k1 and so on.
func columnsOf(keys []sqldb.SortKey) string {
	columns := make([]string, len(keys))
	for i, key := range keys {
		columns[i] = fmt.Sprintf("%s AS k%d", key.Column, i)
	}
	return strings.Join(columns, ", ")
}

// readFindings reads all about the chosen findings of an image, of which finding_id and the columns of keys are selected. The long
// texts are read for those alone, so that the database does not sort them.
func readFindings(tx, chosen *gorm.DB, image *imageRow, resultSet int64, keys []sqldb.SortKey) ([]findingRow, error) {
	var rows []findingRow
	err := tx.Table("(?) AS c", chosen).
		Joins("CROSS JOIN findings f").
		Joins("JOIN vulnerabilities v ON v.id = f.vulnerability_pk").
		Joins("JOIN vulnerability_details d ON d.vulnerability_pk = v.id").
		Joins("JOIN packages p ON p.id = f.package_pk").
		Joins("JOIN image_packages ip ON ip.package_pk = p.id AND ip.image_pk = ?", image.ID).
		Joins("LEFT JOIN generations e ON e.number = f.until_gen AND e.number <= ?", resultSet).
		Where("f.id = c.finding_id").
		Select(packageColumns + ", f.id AS finding_id, f.package_pk, v.severity, v.risk_micros, v.epss_micros, v.vulnerability_id, v.namespace, d.detail, v.scores, f.fix_state, f.fix_versions, " +
			"f.details, f.digest, c.due_at, " + laterOf("f.opened_at", strconv.FormatInt(image.findingsSince(), 10)) + " AS first_seen, " + ended + " AS ended").
		Order(sqldb.OrderByRenamed(keys, func(i int, _ string) string { return fmt.Sprintf("c.k%d", i) })).
		Scan(&rows).Error
	return rows, err
}
