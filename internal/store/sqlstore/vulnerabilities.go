package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

var vulnerabilitySorts = map[store.VulnerabilitySort][]sqldb.SortKey{
	store.SortVulnerabilityRisk:     {{Column: "l.risk_micros", Number: true, Descending: true}, {Column: "l.vulnerability_id"}},
	store.SortVulnerabilitySeverity: {{Column: "l.severity", Number: true, Descending: true}, {Column: "l.vulnerability_id"}},
	store.SortVulnerabilityEPSS:     {{Column: "l.epss_micros", Number: true, Descending: true}, {Column: "l.vulnerability_id"}},
	store.SortVulnerabilityID:       {{Column: "l.vulnerability_id"}},
}

// vulnerabilityToken is what a page token of vulnerabilities belongs to.
type vulnerabilityToken struct {
	List         string
	Where        store.Where
	ID, Text     string
	MinSeverity  model.Severity
	EpssMicros   int64
	Fixable, KEV bool
	Suppressed   bool
	Overdue      bool
	DueBefore    int64
	Sort         store.VulnerabilitySort
}

// vulnerabilityEntry is a vulnerability over all of its records that are found.
type vulnerabilityEntry struct {
	VulnerabilityID                       string
	Severity, EpssMicros, RiskMicros, Kev int64
}

func (r *vulnerabilityEntry) value(column string) string {
	switch column {
	case "l.severity":
		return strconv.FormatInt(r.Severity, 10)
	case "l.epss_micros":
		return strconv.FormatInt(r.EpssMicros, 10)
	case "l.risk_micros":
		return strconv.FormatInt(r.RiskMicros, 10)
	default:
		return r.VulnerabilityID
	}
}

func (r *vulnerabilityEntry) summary() store.VulnerabilitySummary {
	return store.VulnerabilitySummary{
		ID: r.VulnerabilityID, Severity: model.Severity(r.Severity), EPSS: float64(r.EpssMicros) / 1e6, //nolint:gosec // It was stored from one.
		Risk: float64(r.RiskMicros) / 1e6, KEV: r.Kev != 0,
	}
}

// ListVulnerabilities implements store.Reader.
func (s *Store) ListVulnerabilities(ctx context.Context, in store.Namespaces, query store.VulnerabilityQuery) (store.VulnerabilityPage, error) {
	const what = "list vulnerabilities"
	if query.Sort == "" {
		query.Sort = store.SortVulnerabilityRisk
	}
	keys, known := vulnerabilitySorts[query.Sort]
	if !known {
		return store.VulnerabilityPage{}, fmt.Errorf("%s: unknown sort order %q", what, query.Sort)
	}
	token := vulnerabilityToken{
		"vulnerabilities", query.Where, query.ID, query.Text, query.MinSeverity, millionths(query.MinEPSS), query.Fixable, query.KEV, query.Suppressed,
		query.Overdue, micros(query.DueBefore), query.Sort,
	}
	chosen := place{query.Where, in}
	var page store.VulnerabilityPage
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		page = store.VulnerabilityPage{}
		current, err := currentNumber(tx)
		if err != nil {
			return err
		}
		var rows []vulnerabilityEntry
		known, images, err := s.matchedImages(tx, chosen)
		if err != nil {
			return err
		}
		view, err := seenOf(tx, in, "", known.places(chosen))
		if err != nil {
			return err
		}
		packages := s.countingPackages(tx, chosen, images)
		divided, err := view.dividing(tx, chosen, known.all())
		if err != nil {
			return err
		}
		if !query.Suppressed && !chosen.everywhere() {
			counting := tx.Table("(?) AS c", chosen.images(tx)).Where(isMatched)
			if err := divided.readEverywhere(tx); err != nil {
				return err
			}
			if err := divided.hide(tx, s.db.Dialect(), images, counting, true, current); err != nil {
				return err
			}
		}
		entries := s.foundVulnerabilities(tx, current, chosen, view, packages, divided, query)
		if until, filters := (dueFilter{query.Overdue, query.DueBefore}).until(s.now()); filters {
			due, err := dueFindings(tx, tx.Table("image_packages AS ip"), chosen, current, until)
			if err != nil {
				return err
			}
			entries = entries.Where("g.vulnerability_id IN (?)",
				due.Joins("CROSS JOIN vulnerabilities v").Where("v.id = f.vulnerability_pk").Select("v.vulnerability_id"))
		}
		rows, page.NextToken, page.Total, err = readEntries(tx, entries, keys, query.Page, token, (*vulnerabilityEntry).value)
		if err != nil {
			return err
		}
		page.Vulnerabilities = make([]store.VulnerabilitySummary, len(rows))
		summaries := make(map[string]*store.VulnerabilitySummary, len(rows))
		ids := make([]string, len(rows))
		for i := range rows {
			page.Vulnerabilities[i], ids[i] = rows[i].summary(), rows[i].VulnerabilityID
			summaries[ids[i]] = &page.Vulnerabilities[i]
		}
		return inParts(ids, func(part []string) error {
			return s.addReach(tx, current, part, chosen, images, view, divided, query, summaries)
		})
	})
	if err != nil {
		return store.VulnerabilityPage{}, err
	}
	return page, nil
}

// foundVulnerabilities selects a vulnerabilityEntry for each vulnerability that the query matches. packages are those of countingPackages.
func (s *Store) foundVulnerabilities(tx *gorm.DB, current int64, chosen place, view seen, packages any, divided dividing, query store.VulnerabilityQuery) *gorm.DB {
	columns := "v.vulnerability_id, MAX(v.severity) AS severity, MAX(v.epss_micros) AS epss_micros, MAX(v.risk_micros) AS risk_micros, MAX(v.kev) AS kev"
	var values []any
	found := tx.Table("found_vulnerabilities AS h")
	if query.Suppressed {
		found = tx.Table("(?) AS h", foundOrSuppressed(tx, current))
	}
	found = found.Joins("JOIN vulnerabilities v ON v.id = h.vulnerability_pk")
	if !chosen.everywhere() {
		condition, held := s.heldFindings(tx, current, chosen, view, packages, divided, query.Suppressed, "")
		found = found.Where(condition, held)
	}
	if query.ID != "" {
		found = found.Where("v.vulnerability_id IN ?", spellings(query.ID))
	}
	switch {
	case query.Fixable && chosen.everywhere():
		columns += fmt.Sprintf(", MAX(CASE WHEN h.level = %d THEN 1 ELSE 0 END) AS fixable", foundFixable)
	case query.Fixable:
		condition, held := s.heldFindings(tx, current, chosen, view, packages, divided, query.Suppressed, " AND f.fixable = 1")
		columns += ", MAX(CASE WHEN " + condition + " THEN 1 ELSE 0 END) AS fixable"
		values = append(values, held)
	}
	if query.Text != "" {
		named := func() *gorm.DB {
			return contains(tx.Table("vulnerability_names AS n").Select("n.vulnerability_pk"), s.db.Dialect(), query.Text, "n.name")
		}
		columns += ", MAX(CASE WHEN v.id IN (?) THEN 1 ELSE 0 END) AS named"
		values = append(values, named())
		// A record counts with others of its ID, so this only saves the look at what cannot match.
		found = found.Where("v.vulnerability_id IN (?)", tx.Table("vulnerabilities AS w").Select("w.vulnerability_id").Where("w.id IN (?)", named()))
	}
	entries := tx.Table("(?) AS g", found.Select(columns, values...).Group("v.vulnerability_id")).
		Select("g.vulnerability_id, g.severity, g.epss_micros, g.risk_micros, g.kev")
	if query.Fixable {
		entries = entries.Where("g.fixable = 1")
	}
	if query.Text != "" {
		entries = entries.Where("g.named = 1")
	}
	if query.MinSeverity > model.SeverityUnknown {
		entries = entries.Where("g.severity >= ?", int64(query.MinSeverity))
	}
	if least := millionths(query.MinEPSS); least > 0 {
		entries = entries.Where("g.epss_micros >= ?", least)
	}
	if query.KEV {
		entries = entries.Where("g.kev = 1")
	}
	return entries
}

// matchedImages reads the images that the query chooses, and what the matched ones hold; nil of all images, or if these are too many.
func (s *Store) matchedImages(tx *gorm.DB, chosen place) (*someImages, *heldSets, error) {
	if chosen.everywhere() {
		return nil, nil, nil // Then found_vulnerabilities says what is found.
	}
	images, err := readImages(tx, tx.Table("(?) AS c", chosen.images(tx)))
	if err != nil || images == nil {
		return nil, nil, err
	}
	sets, err := s.readHeld(tx, images.matched(), images.isMatched)
	return images, sets, err
}

// countingPackages are the packages that matched images hold and do not exclude which the query chooses, as a condition about findings f; nil of all images.
func (s *Store) countingPackages(tx *gorm.DB, chosen place, images *heldSets) any {
	if chosen.everywhere() {
		return nil
	}
	if images != nil {
		ids := images.counted.sorted(nil)
		if len(ids) <= min(sqldb.MaxIn, s.manyPackages) { // They are looked up.
			return gorm.Expr("f.package_pk IN (?)", numberList(ids))
		}
		return s.db.Dialect().Among("f.package_pk", ids)
	}
	return gorm.Expr("f.package_pk IN (?)", tx.Table("image_packages AS ip").Where("ip.excluded = 0").Joins("JOIN images i ON i.id = ip.image_pk").
		Where("i.matched_at > 0 AND ip.image_pk IN (?)", chosen.images(tx)).Distinct("ip.package_pk"))
}

// heldFindings is the condition that a vulnerability v is found in one of the packages of countingPackages, also if decisions suppress
// it if that is wanted, and the value of the condition. SQLite asks an index about each vulnerability several times faster than it makes a list of them; servers make the list faster.
func (s *Store) heldFindings(tx *gorm.DB, current int64, chosen place, view seen, packages any, divided dividing, suppressed bool, further string) (condition string, held *gorm.DB) {
	condition = shown + further
	values := []any{current, current}
	switch {
	case suppressed:
	case !divided.few && s.db.Dialect().Type() == sqldb.TypeMySQL: // It would ask about each finding.
		condition += " AND f.id NOT IN (SELECT fs.finding_id FROM finding_suppressions fs WHERE fs.reach = 0)"
	case !divided.few:
		condition += " AND " + unsuppressed
	case len(divided.everywhere) > 0:
		condition += " AND f.id NOT IN (?)"
		values = append(values, numberList(divided.everywhere))
	}
	switch {
	case suppressed:
	case divided.known:
		if len(divided.hidden) > 0 {
			condition += " AND f.id NOT IN (?)"
			values = append(values, numberList(divided.hidden))
		}
	case divided.any():
		counting := tx.Table("image_packages AS ip").Joins("JOIN images im ON im.id = ip.image_pk AND im.matched_at > 0").Select("1").
			Where("ip.package_pk = d.package_pk AND ip.excluded = 0 AND NOT "+view.suppressedIn("d.id", divided)+" AND ip.image_pk IN (?)", chosen.images(tx))
		// They are few, and are found once: what other findings there are is asked nothing.
		condition += " AND f.id NOT IN (?)"
		values = append(values, tx.Table("(?) AS d", divided.suppressed(tx)).Where("NOT EXISTS (?)", counting).Select("d.id"))
	}
	found := tx.Table("findings AS f").Where(packages).Where(condition, values...)
	if s.db.Dialect().Type() == sqldb.TypeSQLite {
		return "EXISTS (?)", found.Select("f.id").Where("f.vulnerability_pk = v.id")
	}
	return "v.id IN (?)", found.Select("f.vulnerability_pk")
}

// addReach adds to summaries what the vulnerabilities of these IDs reach.
func (s *Store) addReach(tx *gorm.DB, current int64, ids []string, chosen place, images *heldSets, view seen, divided dividing, query store.VulnerabilityQuery,
	summaries map[string]*store.VulnerabilitySummary,
) error {
	rows, err := foundIn(tx, current, ids, divided, query.Suppressed)
	if err != nil {
		return err
	}
	groups := make(map[string]int, len(ids))
	for i, id := range ids {
		groups[id] = i
	}
	members := map[int64][]*groupMember{}
	for _, row := range rows {
		row.member.group = groups[row.VulnerabilityID]
		members[row.PackagePk] = append(members[row.PackagePk], &row.member)
	}
	holders := &holdersOf{rows: tx.Table("image_packages AS ip").Where("ip.excluded = 0")}
	if images != nil && images.lists != nil {
		holders.lists = images.lists
	} else {
		if holders.leftOut, err = unmatchedImages(tx); err != nil {
			return err
		}
		if !chosen.everywhere() {
			if err := holders.limit(tx, chosen.images(tx), s.fewChosen); err != nil {
				return err
			}
		}
	}
	reached, err := reachOfGroups(tx, s.db.Dialect(), len(ids), members, holders, chosen, view)
	if err != nil {
		return err
	}
	for i, id := range ids {
		summaries[id].Images, summaries[id].Workloads = len(reached.images[i]), reached.workloads[i]
	}
	if query.Owners {
		owners, err := reached.owners(tx, chosen)
		if err != nil {
			return err
		}
		for i, id := range ids {
			summaries[id].Owners = owners[i]
		}
	}
	counted := map[foundPackage]bool{}
	for _, row := range rows {
		if !row.member.held {
			continue
		}
		summary := summaries[row.VulnerabilityID]
		if one := (foundPackage{row.VulnerabilityID, row.PackagePk}); !counted[one] {
			counted[one] = true
			summary.Packages++
		}
		summary.Fixable = summary.Fixable || row.Fixable != 0
		if opened := fromMicros(max(row.OpenedAt, row.member.since)); summary.FirstSeen.IsZero() || opened.Before(summary.FirstSeen) {
			summary.FirstSeen = opened
		}
	}
	return nil
}

// foundPackage is a package in which a vulnerability is found.
type foundPackage struct {
	vulnerability string
	packagePk     int64
}

// foundRow is a package in which a vulnerability is found, or one of its divided findings.
type foundRow struct {
	VulnerabilityID    string
	PackagePk, Divided int64
	Fixable, OpenedAt  int64
	member             groupMember
}

// foundIn reads in which packages vulnerabilities are found, without what is suppressed unless that is wanted.
func foundIn(tx *gorm.DB, current int64, ids []string, reaches dividing, suppressed bool) ([]*foundRow, error) {
	var rows []*foundRow
	condition, divided := shown+" AND "+unsuppressed, "CASE WHEN "+reaches.divides()+" THEN f.id ELSE 0 END"
	if suppressed {
		condition, divided = shown, "0"
	}
	found := tx.Table("vulnerabilities AS v").Joins("CROSS JOIN findings f").
		Where("v.vulnerability_id IN ? AND f.vulnerability_pk = v.id AND "+condition, ids, current, current).
		Select("v.vulnerability_id, f.package_pk, f.fixable, f.opened_at, " + divided + " AS divided")
	err := tx.Table("(?) AS n", found).Select("n.vulnerability_id, n.package_pk, n.divided, MAX(n.fixable) AS fixable, MIN(n.opened_at) AS opened_at").
		Group("n.vulnerability_id, n.package_pk, n.divided").Scan(&rows).Error
	if err != nil {
		return nil, err
	}
	var packages []int64
	for _, row := range rows {
		if row.Divided != 0 {
			packages = append(packages, row.PackagePk)
		}
	}
	slices.Sort(packages)
	err = inParts(slices.Compact(packages), func(part []int64) error {
		sets, err := reaches.setsOf(tx, part)
		for _, row := range rows {
			if set, found := sets[row.Divided]; found {
				row.member.suppressed = set
			}
		}
		return err
	})
	return rows, err
}

// VulnerabilityRecords implements store.Reader. Of records with the same ID and namespace it returns one: what is found now before what
// was found, then the latest.
func (s *Store) VulnerabilityRecords(ctx context.Context, in store.Namespaces, id string) ([]model.Vulnerability, error) {
	names := spellings(id)
	var records []model.Vulnerability
	err := s.read(ctx, "read a vulnerability", func(tx *gorm.DB) error {
		records = nil
		if len(names) == 0 {
			return fmt.Errorf("vulnerability %q: %w", sqldb.Truncate(id, maxIdentifier), store.ErrNotFound)
		}
		current, err := currentNumber(tx)
		if err != nil {
			return err
		}
		known, values, err := s.knownRecords(tx, in, names, current)
		if err != nil {
			return err
		}
		var rows []struct{ Detail, Scores string }
		err = tx.Raw(`SELECT d.detail, v.scores FROM (`+known+`) c CROSS JOIN vulnerabilities v CROSS JOIN vulnerability_details d
			WHERE c.place = 1 AND v.id = c.id AND d.vulnerability_pk = v.id ORDER BY v.vulnerability_id, v.namespace LIMIT ?`,
			append(values, store.MaxPageSize)...).Scan(&rows).Error
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return fmt.Errorf("vulnerability %q: %w", id, store.ErrNotFound)
		}
		records = make([]model.Vulnerability, len(rows))
		for i, row := range rows {
			if records[i], err = vulnerabilityOf(row.Detail, row.Scores); err != nil {
				return err
			}
		}
		return nil
	})
	return records, err
}

// knownRecords selects the records of these names, with the place of each among those of the same ID and namespace.
func (s *Store) knownRecords(tx *gorm.DB, in store.Namespaces, names []string, current int64) (statement string, values []any, err error) {
	if in.All() {
		return `SELECT v.id, ROW_NUMBER() OVER (PARTITION BY v.vulnerability_id, v.namespace ORDER BY
				CASE WHEN EXISTS (SELECT 1 FROM findings f WHERE f.vulnerability_pk = v.id AND ` + shown + `) THEN 0 ELSE 1 END, v.id DESC) AS place
			FROM (SELECT DISTINCT n.vulnerability_pk FROM vulnerability_names n WHERE n.name IN ?) named CROSS JOIN vulnerabilities v
			WHERE v.id = named.vulnerability_pk AND EXISTS (SELECT 1 FROM findings f WHERE f.vulnerability_pk = v.id AND f.from_gen <= ?)`,
			[]any{current, current, names, current}, nil
	}
	view, err := s.changesIn(tx, in)
	if err != nil {
		return "", nil, err
	}
	// The numbers of records, and since when they are named, follow from other images, too: the latest is the one that was named last in a visible image.
	statement = `SELECT k.id, ROW_NUMBER() OVER (PARTITION BY k.vulnerability_id, k.namespace ORDER BY k.until_gen DESC, k.digest) AS place
		FROM (SELECT v.id, v.vulnerability_id, v.namespace, v.digest, MAX(CASE WHEN f.until_gen > ? THEN ? ELSE f.until_gen END) AS until_gen
			FROM (SELECT DISTINCT n.vulnerability_pk FROM vulnerability_names n WHERE n.name IN ?) named CROSS JOIN vulnerabilities v CROSS JOIN findings f%s
			WHERE v.id = named.vulnerability_pk AND f.vulnerability_pk = v.id AND f.from_gen <= ? AND %s GROUP BY v.id, v.vulnerability_id, v.namespace, v.digest) k`
	values = []any{current, int64(stillOpen), names, current}
	if condition, known := view.findings(current); known {
		return fmt.Sprintf(statement, "", "?"), append(values, condition), nil
	}
	found := `EXISTS (SELECT 1 FROM image_packages ip CROSS JOIN images i CROSS JOIN image_namespaces m
		WHERE ip.package_pk = f.package_pk AND ip.excluded = 0 AND i.id = ip.image_pk AND i.matched_at > 0 AND m.image_pk = i.id
		AND ` + isWithin("m.namespace", in) + " AND " + ended + " > m.since AND " + ended + " > i.matched_at)"
	return fmt.Sprintf(statement, " LEFT JOIN generations e ON e.number = f.until_gen AND e.number <= "+strconv.FormatInt(current, 10), found), values, nil
}
