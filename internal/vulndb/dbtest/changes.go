package dbtest

import (
	"database/sql"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// mutation is one transaction that changes a database.
type mutation struct {
	testing.TB
	tx     *sql.Tx
	random *rand.Rand
}

func (m *mutation) exec(statement string, arguments ...any) int64 {
	m.Helper()
	result, err := m.tx.ExecContext(m.Context(), statement, arguments...)
	if err != nil {
		m.Fatalf("%s: %v", statement, err)
	}
	id, err := result.LastInsertId()
	if err != nil {
		m.Fatalf("%s: %v", statement, err)
	}
	return id
}

// pairs reads rows of a group and an ID.
func (m *mutation) pairs(query string, arguments ...any) (groups []string, ids map[string][]int64) {
	m.Helper()
	rows, err := m.tx.QueryContext(m.Context(), query, arguments...)
	if err != nil {
		m.Fatalf("%s: %v", query, err)
	}
	defer func() { _ = rows.Close() }()
	ids = map[string][]int64{}
	for rows.Next() {
		var group string
		var id int64
		if err := rows.Scan(&group, &id); err != nil {
			m.Fatalf("%s: %v", query, err)
		}
		if ids[group] == nil {
			groups = append(groups, group)
		}
		ids[group] = append(ids[group], id)
	}
	if err := rows.Err(); err != nil {
		m.Fatalf("%s: %v", query, err)
	}
	return groups, ids
}

// choose picks a fraction of the groups of a query and one ID of each. In the query "%s" stands for the condition on names.
func (m *mutation) choose(change Change, query, column string) []int64 {
	m.Helper()
	condition, arguments := "true", []any(nil)
	if change.Only != nil {
		condition = column + " COLLATE NOCASE IN (''" + strings.Repeat(", ?", len(change.Only)) + ")"
		for _, name := range change.Only {
			arguments = append(arguments, name)
		}
	}
	groups, ids := m.pairs(fmt.Sprintf(query, condition), arguments...)
	slices.Sort(groups)
	m.random.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	n := max(1, int(math.Round(change.Fraction*float64(len(groups)))))
	var out []int64
	for _, group := range groups[:min(n, len(groups))] {
		out = append(out, ids[group][m.random.IntN(len(ids[group]))])
	}
	if len(out) == 0 {
		m.Logf("the database holds nothing that a change of %q could change", change.Kind)
	}
	return out
}

func (m *mutation) apply(change Change) {
	m.Helper()
	switch change.Kind {
	case Ranges, Fixes, Remove, Add, Unaffected, PackageCPEs:
		for _, id := range m.choose(change, "SELECT p.name, h.id FROM affected_package_handles h JOIN packages p ON p.id = h.package_id "+
			"WHERE %s ORDER BY h.id", "p.name") {
			m.packageHandle(change.Kind, id)
		}
	case Imports:
		for _, id := range m.choose(change, "SELECT p.name, h.id FROM affected_package_handles h JOIN packages p ON p.id = h.package_id "+
			"WHERE p.ecosystem = 'go-module' AND %s ORDER BY h.id", "p.name") {
			m.imports(id)
		}
	case CPERanges, RemoveCPEs, AddCPEs, UnaffectedCPEs:
		for _, id := range m.choose(change, "SELECT c.product, h.id FROM affected_cpe_handles h JOIN cpes c ON c.id = h.cpe_id "+
			"WHERE %s ORDER BY h.id", "c.product") {
			m.cpeHandle(change.Kind, id)
		}
	case Severities, Descriptions, Withdraw:
		for _, id := range m.choose(change, "SELECT v.name, v.id FROM vulnerability_handles v WHERE EXISTS (SELECT 1 FROM "+
			"affected_package_handles h JOIN packages p ON p.id = h.package_id WHERE h.vulnerability_id = v.id AND %s) ORDER BY v.id",
			"p.name") {
			m.vulnerability(change.Kind, id)
		}
	case EPSS, AddKEV, RemoveKEV, CWEs:
		m.scores(change)
	case EPSSForAll:
		m.allEPSS()
	case EPSSDrift:
		m.driftEPSS()
	case OperatingSystems, Overrides:
		m.systems(change)
	case MoveEndOfLife:
		m.exec("UPDATE operating_systems SET eol_date = strftime('%Y-%m-%d %H:%M:%S+00:00', substr(eol_date, 1, 19), '+1 year') WHERE eol_date IS NOT NULL")
	case Renumber:
		m.renumber()
	default:
		m.Fatalf("unknown kind of change %q", change.Kind)
	}
}

// newBlob copies the blob of a row with a change, since other rows may share it, and returns the ID of the copy.
func (m *mutation) newBlob(table string, id int64, path, value string) int64 {
	m.Helper()
	return m.exec("INSERT INTO blobs (value) SELECT json_set(value, ?, json(?)) FROM blobs WHERE id = "+
		"(SELECT blob_id FROM "+table+" WHERE id = ?)", path, value, id)
}

// someRange affects nearly all versions or none.
func (m *mutation) someRange() string {
	if m.random.IntN(2) == 0 {
		return `"< 0"`
	}
	return `"< 999999"`
}

const constraintPath = "$.ranges[0].version.constraint"

func (m *mutation) packageHandle(kind Kind, id int64) {
	m.Helper()
	const table = "affected_package_handles"
	switch kind {
	case Ranges:
		m.exec("UPDATE "+table+" SET blob_id = ? WHERE id = ?", m.newBlob(table, id, constraintPath, m.someRange()), id)
	case Fixes:
		fix := fmt.Sprintf(`{"version":"99999.%d","state":"fixed"}`, m.random.IntN(1000))
		m.exec("UPDATE "+table+" SET blob_id = ? WHERE id = ?", m.newBlob(table, id, "$.ranges[0].fix", fix), id)
	case Remove:
		m.exec("DELETE FROM "+table+" WHERE id = ?", id)
	case Add:
		blob := m.newBlob(table, id, constraintPath, `"< 999999"`)
		m.exec("INSERT INTO "+table+" (vulnerability_id, operating_system_id, package_id, blob_id) SELECT "+
			"(SELECT vulnerability_id FROM "+table+" WHERE id >= ? ORDER BY id LIMIT 1), operating_system_id, package_id, ? FROM "+table+
			" WHERE id = ?", m.someID(table), blob, id)
	case Unaffected:
		blob := m.newBlob(table, id, constraintPath, `"< 999999"`)
		m.exec("INSERT INTO unaffected_package_handles (vulnerability_id, operating_system_id, package_id, blob_id) SELECT "+
			"vulnerability_id, operating_system_id, package_id, ? FROM "+table+" WHERE id = ?", blob, id)
	case PackageCPEs:
		m.exec("INSERT OR IGNORE INTO package_cpes (package_id, cpe_id) SELECT package_id, (SELECT id FROM cpes WHERE id >= ? "+
			"ORDER BY id LIMIT 1) FROM "+table+" WHERE id = ?", m.someID("cpes"), id)
	default:
		m.Fatalf("unknown kind of change %q", kind)
	}
}

// imports lets a record of a package hold only for binaries that contain a symbol.
func (m *mutation) imports(id int64) {
	m.Helper()
	const table = "affected_package_handles"
	_, names := m.pairs("SELECT p.name, h.id FROM "+table+" h JOIN packages p ON p.id = h.package_id WHERE h.id = ?", id)
	for name := range names {
		value := fmt.Sprintf(`{"go_imports":[{"path":%q,"symbols":["Parse"]}]}`, name+"/parse")
		m.exec("UPDATE "+table+" SET blob_id = ? WHERE id = ?", m.newBlob(table, id, "$.qualifiers", value), id)
	}
}

func (m *mutation) cpeHandle(kind Kind, id int64) {
	m.Helper()
	const table = "affected_cpe_handles"
	switch kind {
	case CPERanges:
		m.exec("UPDATE "+table+" SET blob_id = ? WHERE id = ?", m.newBlob(table, id, constraintPath, m.someRange()), id)
	case RemoveCPEs:
		m.exec("DELETE FROM "+table+" WHERE id = ?", id)
	case AddCPEs:
		blob := m.newBlob(table, id, constraintPath, `"< 999999"`)
		m.exec("INSERT INTO "+table+" (vulnerability_id, cpe_id, blob_id) SELECT (SELECT vulnerability_id FROM "+table+
			" WHERE id >= ? ORDER BY id LIMIT 1), cpe_id, ? FROM "+table+" WHERE id = ?", m.someID(table), blob, id)
	case UnaffectedCPEs:
		blob := m.newBlob(table, id, constraintPath, `"< 999999"`)
		m.exec("INSERT INTO unaffected_cpe_handles (vulnerability_id, cpe_id, blob_id) SELECT vulnerability_id, cpe_id, ? FROM "+table+
			" WHERE id = ?", blob, id)
	default:
		m.Fatalf("unknown kind of change %q", kind)
	}
}

func (m *mutation) vulnerability(kind Kind, id int64) {
	m.Helper()
	const table = "vulnerability_handles"
	switch kind {
	case Severities:
		blob := m.newBlob(table, id, "$.severities", `[{"scheme":"CHMLN","value":"critical","rank":1}]`)
		m.exec("UPDATE "+table+" SET blob_id = ? WHERE id = ?", blob, id)
	case Descriptions:
		blob := m.newBlob(table, id, "$.description", fmt.Sprintf(`"another description %d"`, m.random.IntN(1000)))
		m.exec("UPDATE "+table+" SET blob_id = ? WHERE id = ?", blob, id)
	case Withdraw:
		m.exec("UPDATE "+table+" SET status = 'rejected' WHERE id = ?", id)
	default:
		m.Fatalf("unknown kind of change %q", kind)
	}
}

// someID is an ID up to the greatest of a table.
func (m *mutation) someID(table string) int64 {
	m.Helper()
	var greatest int64
	query := "SELECT COALESCE(MAX(id), 1) FROM " + table
	if err := m.tx.QueryRowContext(m.Context(), query).Scan(&greatest); err != nil {
		m.Fatalf("%s: %v", query, err)
	}
	return 1 + m.random.Int64N(greatest)
}

func (m *mutation) scores(change Change) {
	m.Helper()
	const cves = "SELECT name, id FROM vulnerability_handles v WHERE name LIKE 'CVE-%%' AND %s "
	switch change.Kind {
	case EPSS:
		m.exec("UPDATE epss_metadata SET date = strftime('%Y-%m-%d %H:%M:%S+00:00', substr(date, 1, 19), '+1 day')")
		for _, id := range m.choose(change, "SELECT cve, id FROM epss_handles WHERE %s", "cve") {
			m.exec("UPDATE epss_handles SET epss = 1 - epss, percentile = 1 - percentile WHERE id = ?", id)
		}
	case AddKEV:
		for _, id := range m.choose(change, cves+"AND NOT EXISTS (SELECT 1 FROM known_exploited_vulnerability_handles k WHERE "+
			"k.cve = v.name COLLATE NOCASE)", "name") {
			blob := m.exec("INSERT INTO blobs (value) SELECT json_object('cve', name, 'date_added', '2026-10-01T00:00:00Z', "+
				"'known_ransomware_campaign_use', 'unknown') FROM vulnerability_handles WHERE id = ?", id)
			m.exec("INSERT INTO known_exploited_vulnerability_handles (cve, blob_id) SELECT name, ? FROM vulnerability_handles WHERE id = ?",
				blob, id)
		}
	case RemoveKEV:
		for _, id := range m.choose(change, "SELECT cve, id FROM known_exploited_vulnerability_handles WHERE %s", "cve") {
			m.exec("DELETE FROM known_exploited_vulnerability_handles WHERE id = ?", id)
		}
	case CWEs:
		for _, id := range m.choose(change, cves, "name") {
			m.exec("INSERT INTO cwe_handles (cve, cwe, source, type) SELECT name, 'CWE-79', 'nvd@nist.gov', 'Primary' FROM "+
				"vulnerability_handles WHERE id = ?", id)
		}
	default:
		m.Fatalf("unknown kind of change %q", change.Kind)
	}
}

// scattered is a number from 0 to 1 that follows from the ID of a row, in SQL.
const scattered = "(id * 2654435761 % 1000 / 1000.0)"

// allEPSS makes one CVE in twenty likely to be exploited, and the others very unlikely.
func (m *mutation) allEPSS() {
	m.Helper()
	m.exec("INSERT INTO epss_handles (cve, epss, percentile) SELECT name, CASE WHEN s > 0.95 THEN (s - 0.95) * 20 ELSE s / 20 END, s " +
		"FROM (SELECT name, " + scattered + " AS s FROM (SELECT MIN(id) AS id, name FROM vulnerability_handles WHERE name LIKE 'CVE-%' " +
		"AND name NOT IN (SELECT cve FROM epss_handles) GROUP BY name))")
}

func (m *mutation) driftEPSS() {
	m.Helper()
	m.exec("UPDATE epss_metadata SET date = strftime('%Y-%m-%d %H:%M:%S+00:00', substr(date, 1, 19), '+1 day')")
	m.exec("UPDATE epss_handles SET epss = epss * (0.98 + 0.04 * " + scattered + "), percentile = percentile * (0.98 + 0.02 * " + scattered + ")")
}

func (m *mutation) systems(change Change) {
	m.Helper()
	for _, id := range m.choose(change, "SELECT name, id FROM operating_systems WHERE %s", "name") {
		if change.Kind == OperatingSystems {
			m.exec("INSERT INTO operating_systems (name, release_id, major_version, minor_version, label_version, codename, channel) "+
				"SELECT name, release_id, major_version, '99', label_version, codename, channel FROM operating_systems WHERE id = ?", id)
			continue
		}
		m.exec("INSERT INTO operating_system_specifier_overrides (alias, version, version_pattern, codename, channel, replacement, "+
			"rolling, applicable_client_db_schemas) SELECT name, '', '', '', '', (SELECT name FROM operating_systems o WHERE "+
			"o.name <> s.name ORDER BY id LIMIT 1), false, '' FROM operating_systems s WHERE id = ?", id)
	}
}

// renumber moves all IDs of the tables that others refer to.
func (m *mutation) renumber() {
	m.Helper()
	move := func(table, column string, by int) {
		// In two steps, since no two rows may have one ID in between.
		m.exec(fmt.Sprintf("UPDATE %s SET %s = -%s", table, column, column))
		m.exec(fmt.Sprintf("UPDATE %s SET %s = %d - %s", table, column, by, column))
	}
	move("blobs", "id", 1000)
	for _, table := range []string{
		"vulnerability_handles", "affected_package_handles", "unaffected_package_handles", "affected_cpe_handles",
		"unaffected_cpe_handles", "known_exploited_vulnerability_handles",
	} {
		move(table, "blob_id", 1000)
		move(table, "id", 7)
	}
	for _, table := range []string{
		"affected_package_handles", "unaffected_package_handles", "affected_cpe_handles", "unaffected_cpe_handles",
	} {
		move(table, "vulnerability_id", 7)
	}
	for _, table := range []string{"affected_package_handles", "unaffected_package_handles", "package_cpes"} {
		move(table, "package_id", 11)
	}
	for _, table := range []string{"affected_package_handles", "unaffected_package_handles"} {
		move(table, "operating_system_id", 13)
	}
	for _, table := range []string{"affected_cpe_handles", "unaffected_cpe_handles", "package_cpes"} {
		move(table, "cpe_id", 17)
	}
	move("packages", "id", 11)
	move("operating_systems", "id", 13)
	move("cpes", "id", 17)
}
