package vulndb

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/glebarez/sqlite"
)

// database is a file that is open for reading only: for queries, and for the rows of whole tables.
type database struct {
	*sql.DB
	*tables
}

// withDatabase opens a database as what never changes: SQLite then takes no locks and writes nothing beside it. Its pages
// are not shared with other readers of this process.
func withDatabase(installed Installed, use func(database) error) error {
	path := filepath.Join(installed.SQLiteDir(), v6.VulnerabilityDBFileName)
	if err := checkHeader(path); err != nil {
		return err
	}
	escaped := (&url.URL{Path: path}).EscapedPath()
	db, err := sql.Open(sqlite.DriverName, "file:"+escaped+"?mode=ro&immutable=1&_pragma=query_only(1)")
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	defer func() { _ = db.Close() }()
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	tables, err := newTables(file, info.Size())
	if err != nil {
		return err
	}
	return use(database{db, tables})
}

// maxRows bounds the rows of one table.
const maxRows = 1 << 26

// each calls visit for every row of a query, for what is sorted, joined or small. The row is valid until visit returns.
func (db database) each(ctx context.Context, query string, visit func(row []field) error) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	row := make([]field, len(columns))
	places := make([]any, len(columns))
	for i := range row {
		places[i] = &row[i]
	}
	for count := 0; rows.Next(); count++ {
		if count == maxRows {
			return fmt.Errorf("%s: there are more than %d rows", query, maxRows)
		}
		if err := rows.Scan(places...); err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
		if err := visit(row); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	return nil
}

// selectOf is the query for columns of a table.
func selectOf(table string, columns []string) string {
	return "SELECT " + strings.Join(columns, ", ") + " FROM " + table
}

// setting is something that every answer depends on.
type setting struct {
	what   string
	digest uint64
}

func (db database) settings(ctx context.Context) ([]setting, error) {
	settings := []setting{
		{what: "the schema is another"}, {what: "ecosystems stand for others than before"},
		{what: "architectures stand for others than before"},
	}
	for i, query := range []string{
		"SELECT model, revision, addition FROM db_metadata",
		"SELECT ecosystem, replacement_ecosystem FROM package_specifier_overrides ORDER BY rowid",
		"SELECT alias, canonical FROM architecture_aliases ORDER BY alias",
	} {
		digest := &settings[i].digest
		err := db.each(ctx, query, func(row []field) error {
			*digest = mix(*digest, hashFields(row))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return settings, nil
}

// differentSetting names the first setting that is not the same on both sides, "" when all are.
func differentSetting(from, to []setting) string {
	for i := range from {
		if from[i].digest != to[i].digest {
			return from[i].what
		}
	}
	return ""
}

// named is a row that others refer to: a digest of its content and the place of its key. Zero stands for no row.
type named struct {
	digest uint64
	place  uint32
}

// records reads one database into a comparison. Tables are read in their own order, each once.
type records struct {
	*comparison
	db   database
	side int

	blobs           byID[uint64]
	systemRows      byID[uint64]
	vulnerabilityOf byID[named]
	packageOf       byID[named]
	cpeOf           byID[named]
	// cpesOf are the CPEs of those packages that have any.
	cpesOf map[int64][]named
}

func (c *comparison) read(ctx context.Context, db database, side int) error {
	r := &records{comparison: c, db: db, side: side, cpesOf: map[int64][]named{}}
	for _, read := range []func(context.Context) error{
		r.readBlobs, r.readSystems, r.readOverrides, r.readVulnerabilities, r.readAliases, r.readCPEs, r.readPackageCPEs,
		r.readPackages, r.readPackageHandles, r.readCPEHandles,
	} {
		if err := read(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *records) readBlobs(ctx context.Context) error {
	return r.db.scan(ctx, "blobs", []string{"id", "value"}, func(row []field) error {
		r.blobs.set(row[0].number(), row[1].hash())
		return nil
	})
}

func (r *records) blob(id field) uint64 {
	return r.blobs.get(id.number())
}

// readSystems leaves out the dates at which support ends: no match depends on them.
func (r *records) readSystems(ctx context.Context) error {
	columns := []string{"id", "name", "release_id", "major_version", "minor_version", "label_version", "codename", "channel"}
	return r.db.scan(ctx, "operating_systems", columns, func(row []field) error {
		digest := hashFields(row[1:])
		r.systems.add(r.side, r.systems.at(AnyOSKey), digest)
		r.systems.add(r.side, r.systems.at(searchKey(osKind, row[1].text())), digest)
		r.systems.add(r.side, r.systems.at(searchKey(osKind, row[2].text())), digest)
		r.systemRows.set(row[0].number(), digest)
		return nil
	})
}

// readOverrides reads which names of operating systems stand for others. The first that applies counts, hence their order.
func (r *records) readOverrides(ctx context.Context) error {
	const query = "SELECT alias, replacement, version, version_pattern, codename, channel, replacement_major_version, " +
		"replacement_minor_version, replacement_label_version, replacement_channel, CAST(rolling AS TEXT), " +
		"applicable_client_db_schemas FROM operating_system_specifier_overrides ORDER BY rowid"
	return r.db.each(ctx, query, func(row []field) error {
		digest := hashFields(row)
		alias := r.systems.at(searchKey(osKind, row[0].text()))
		r.systems.add(r.side, alias, digest)
		r.systems.add(r.side, r.systems.at(AnyOSKey), digest)
		if row[1].kind != null {
			r.systems.redirects = append(r.systems.redirects, redirect{alias, r.systems.at(searchKey(osKind, row[1].text()))})
		}
		return nil
	})
}

func (r *records) readVulnerabilities(ctx context.Context) error {
	columns := []string{"id", "blob_id", "name", "status", "provider_id", "published_date", "modified_date", "withdrawn_date"}
	return r.db.scan(ctx, "vulnerability_handles", columns, func(row []field) error {
		v := named{mix(hashFields(row[2:]), r.blob(row[1])), r.vulnerabilities.at(searchKey(vulnerabilityKind, row[2].text()))}
		r.vulnerabilities.add(r.side, v.place, v.digest)
		r.vulnerabilityOf.set(row[0].number(), v)
		return nil
	})
}

func (r *records) readAliases(ctx context.Context) error {
	return r.db.each(ctx, "SELECT name, alias FROM vulnerability_aliases ORDER BY name, alias", func(row []field) error {
		name, alias := r.vulnerabilities.at(searchKey(vulnerabilityKind, row[0].text())), r.vulnerabilities.at(searchKey(vulnerabilityKind, row[1].text()))
		digest := hashFields(row)
		r.vulnerabilities.add(r.side, name, digest)
		r.vulnerabilities.add(r.side, alias, digest)
		r.vulnerabilities.redirects = append(r.vulnerabilities.redirects, redirect{alias, name})
		return nil
	})
}

func (r *records) readCPEs(ctx context.Context) error {
	columns := []string{
		"id", "product", "part", "vendor", "edition", "language", "software_edition", "target_hardware", "target_software", "other",
	}
	return r.db.scan(ctx, "cpes", columns, func(row []field) error {
		r.cpeOf.set(row[0].number(), named{hashFields(row[1:]), r.products.at(searchKey(productKind, row[1].text()))})
		return nil
	})
}

func (r *records) readPackageCPEs(ctx context.Context) error {
	return r.db.each(ctx, "SELECT package_id, cpe_id FROM package_cpes ORDER BY cpe_id, package_id", func(row []field) error {
		id := row[0].number()
		r.cpesOf[id] = append(r.cpesOf[id], r.cpeOf.get(row[1].number()))
		return nil
	})
}

func (r *records) readPackages(ctx context.Context) error {
	return r.db.scan(ctx, "packages", []string{"id", "ecosystem", "name"}, func(row []field) error {
		id := row[0].number()
		digest := hashFields(row[1:])
		for _, cpe := range r.cpesOf[id] {
			digest = mix(digest, cpe.digest)
		}
		r.packageOf.set(id, named{digest, r.packages.at(searchKey(packageKind, row[2].text()))})
		return nil
	})
}

func (r *records) readPackageHandles(ctx context.Context) error {
	for kind, table := range []string{"affected_package_handles", "unaffected_package_handles"} {
		err := r.db.scan(ctx, table, []string{"vulnerability_id", "operating_system_id", "package_id", "blob_id"}, func(row []field) error {
			r.addPackageHandle(uint64(kind), row)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *records) addPackageHandle(kind uint64, row []field) {
	vulnerability, pkg := r.vulnerabilityOf.get(row[0].number()), r.packageOf.get(row[2].number())
	system := uint64(0)
	if row[1].kind != null { // a system that there is not is something else than none
		system = mix(1, r.systemRows.get(row[1].number()))
	}
	digest := mixAll(kind, vulnerability.digest, system, pkg.digest, r.blob(row[3]))
	r.packages.add(r.side, r.anyPackage, digest)
	r.packages.add(r.side, pkg.place, digest)
	r.vulnerabilities.add(r.side, vulnerability.place, digest)
	for _, cpe := range r.cpesOf[row[2].number()] {
		r.products.add(r.side, cpe.place, digest)
		r.products.add(r.side, r.anyProduct, digest)
	}
}

func (r *records) readCPEHandles(ctx context.Context) error {
	for kind, table := range []string{"affected_cpe_handles", "unaffected_cpe_handles"} {
		err := r.db.scan(ctx, table, []string{"vulnerability_id", "cpe_id", "blob_id"}, func(row []field) error {
			r.addCPEHandle(uint64(kind), row)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *records) addCPEHandle(kind uint64, row []field) {
	vulnerability, cpe := r.vulnerabilityOf.get(row[0].number()), r.cpeOf.get(row[1].number())
	digest := mixAll(kind, vulnerability.digest, cpe.digest, r.blob(row[2]))
	r.products.add(r.side, r.anyProduct, digest)
	r.products.add(r.side, cpe.place, digest)
	r.vulnerabilities.add(r.side, vulnerability.place, digest)
}

// readScores reads EPSS, KEV and CWEs.
func readScores(ctx context.Context, db database, cves *digests, side int) error {
	// Every probability carries the date of all of them.
	date := uint64(0)
	err := db.each(ctx, "SELECT CAST(date AS TEXT) FROM epss_metadata ORDER BY rowid LIMIT 1", func(row []field) error {
		date = hashFields(row)
		return nil
	})
	if err != nil {
		return err
	}
	visit := func(start uint64) func(row []field) error {
		return func(row []field) error {
			cves.add(side, cves.at(searchKey(cveKind, row[0].text())), mix(start, hashFields(row)))
			return nil
		}
	}
	if err := db.scan(ctx, "epss_handles", []string{"cve", "epss", "percentile"}, visit(mix(1, date))); err != nil {
		return err
	}
	if err := db.scan(ctx, "cwe_handles", []string{"cve", "cwe", "source", "type"}, visit(2)); err != nil {
		return err
	}
	const exploited = "SELECT k.cve, b.value FROM known_exploited_vulnerability_handles k LEFT JOIN blobs b ON b.id = k.blob_id ORDER BY k.id"
	return db.each(ctx, exploited, visit(3))
}
