package sqlstore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// Conditions of findings f of vulnerabilities v.
const (
	// shown: a result set, which is given twice, has them.
	shown = "f.from_gen <= ? AND f.until_gen > ?"
	// unsuppressed: no decision suppresses them everywhere.
	unsuppressed = "NOT EXISTS (SELECT 1 FROM finding_suppressions fs WHERE fs.finding_id = f.id AND fs.reach = 0)"
	// open: they are shown, and no decision suppresses them in the image of ip. The values are those of shown.
	open = shown + " AND " + unsuppressedThere
	// unsuppressedThere: no decision suppresses them in the image of ip.
	unsuppressedThere = `NOT EXISTS (SELECT 1 FROM finding_suppressions fs WHERE fs.finding_id = f.id
		AND (fs.reach = 0 OR EXISTS (SELECT 1 FROM reached x WHERE x.reach = fs.reach AND x.image_pk = ip.image_pk)))`
	// openInSome and openInMatched: they are open in an image that holds the package and does not exclude it, and in one that is matched, if there
	// is such an image.
	openInSome    = shown + " AND " + unsuppressedBefore + "image_packages ip" + unsuppressedMiddle + unsuppressedAfter
	openInMatched = shown + " AND " + unsuppressedBefore + "image_packages ip JOIN images im ON im.id = ip.image_pk AND im.matched_at > 0" + unsuppressedMiddle + unsuppressedAfter
	// openSomewhere is openInSome, asked about each finding of some packages: as a condition, PostgreSQL reads all that decisions suppress.
	openSomewhere = shown + " AND (" + suppressionBefore + "image_packages ip" + unsuppressedMiddle + suppressionAfter + " LIMIT 1) IS NULL"
	// These are about images ip: a finding that is suppressed somewhere is suppressed in all of them.
	unsuppressedBefore = "NOT EXISTS (" + suppressionBefore
	suppressionBefore  = "SELECT 1 FROM finding_suppressions fs WHERE fs.finding_id = f.id AND (fs.reach = 0 OR NOT EXISTS (SELECT 1 FROM "
	unsuppressedMiddle = " WHERE ip.package_pk = f.package_pk AND ip.excluded = 0"
	unsuppressedAfter  = suppressionAfter + ")"
	suppressionAfter   = ` AND NOT EXISTS (SELECT 1 FROM finding_suppressions ft JOIN reached x ON x.reach = ft.reach
		WHERE ft.finding_id = f.id AND x.image_pk = ip.image_pk)))`
	// others are the findings n of the same vulnerability in the same package, shown under a result set or before.
	others = `FROM findings n JOIN vulnerabilities w ON w.id = n.vulnerability_pk WHERE n.package_pk = f.package_pk
		AND w.vulnerability_id = v.vulnerability_id AND w.namespace = v.namespace AND n.from_gen <= ?`
	// closed: they were shown before a result set, which is given twice, and nothing of the same vulnerability in the package was
	// shown for longer.
	closed = "f.until_gen <= ? AND NOT EXISTS (SELECT 1 " + others + " AND n.until_gen > f.until_gen)"
)

// forever is the end of what has not ended, as a number in a statement.
var forever = strconv.FormatInt(stillOpen, 10)

// laterOf is the later of two times.
func laterOf(a, b string) string {
	return "CASE WHEN " + a + " > " + b + " THEN " + a + " ELSE " + b + " END"
}

// ended is until when an image has finding f, if result set e is the first that does not show it.
var ended = "COALESCE(e.current_since, " + forever + ")"

// uses adds the condition that uses u of images, or presences u, are of what the query chooses.
func uses(tx *gorm.DB, chosen place) *gorm.DB {
	tx = within(tx, "u.namespace", chosen.in)
	tx = equals(tx, "u.namespace", chosen.Namespace)
	tx = equals(tx, "u.name", chosen.Workload)
	return ownedBy(equals(tx, "u.kind", chosen.WorkloadKind), "u", chosen.Ownership)
}

// severitySums are the columns of countsRow over findings f of vulnerabilities v.
func severitySums() string {
	columns := make([]string, 0, len(countColumns))
	for _, severity := range model.Severities() {
		columns = append(columns, fmt.Sprintf("SUM(CASE WHEN v.severity = %d THEN 1 ELSE 0 END) AS %s", severity, strings.ToLower(severity.String())))
	}
	return strings.Join(append(columns, "SUM(v.kev) AS kev", "SUM(f.fixable) AS fixable"), ", ")
}

// orWorse is the condition that one of the counts of this severity or worse is not 0; count is a format of an expression, in which %[1]s is the column.
func orWorse(count string, least model.Severity) string {
	var columns []string
	for _, severity := range model.Severities() {
		if severity >= least {
			columns = append(columns, fmt.Sprintf(count+" > 0", strings.ToLower(severity.String())))
		}
	}
	if len(columns) == 0 {
		return "1 = 0" // There is nothing worse than critical.
	}
	return "(" + strings.Join(columns, " OR ") + ")"
}

// worstFirst orders by counts that l has.
var worstFirst = []sqldb.SortKey{
	{Column: "l.critical", Number: true, Descending: true}, {Column: "l.high", Number: true, Descending: true},
	{Column: "l.medium", Number: true, Descending: true}, {Column: "l.low", Number: true, Descending: true},
}

// value is the sort value of a column of worstFirst, false when it is another one.
func (r *countsRow) value(column string) (string, bool) {
	switch column[strings.IndexByte(column, '.')+1:] {
	case "critical":
		return strconv.Itoa(r.Critical), true
	case "high":
		return strconv.Itoa(r.High), true
	case "medium":
		return strconv.Itoa(r.Medium), true
	case "low":
		return strconv.Itoa(r.Low), true
	default:
		return "", false
	}
}

// inParts runs read for parts of a list that fit into a statement.
func inParts[T any](list []T, read func(part []T) error) error {
	for part := range slices.Chunk(list, sqldb.MaxIn) {
		if err := read(part); err != nil {
			return err
		}
	}
	return nil
}

// spellings are those in which databases write an ID that people write in other ones: CVE-2021-44228, GHSA-jfh8-c2jp-5v3q. Other
// text has none.
func spellings(id string) []string {
	if id == "" || len(id) > maxIdentifier || id != sqldb.Clean(id) {
		return nil
	}
	upper := asciiUpper(id)
	prefix, rest, _ := strings.Cut(id, "-")
	all := []string{id, upper, asciiUpper(prefix) + "-" + sqldb.ASCIILower(rest)}
	slices.Sort(all)
	return slices.Compact(all)
}

func asciiUpper(text string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			return r + 'A' - 'a'
		}
		return r
	}, text)
}
