package vulndb

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/glebarez/sqlite"
)

// database is a file that is open for reading only.
type database struct{ *sql.DB }

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
	return use(database{db})
}

// maxRows bounds the rows of one table.
const maxRows = 1 << 26

// each calls visit for every row of a query. The values are valid until visit returns.
func (db database) each(ctx context.Context, query string, visit func(row []any) error) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		return fmt.Errorf("%s: %w", query, err)
	}
	row := make([]any, len(columns))
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

// number is an ID in a row, 0 when there is none.
func number(value any) int64 {
	n, _ := value.(int64)
	return n
}

// text is a name in a row, "" when there is none.
func text(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	default:
		return ""
	}
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
		err := db.each(ctx, query, func(row []any) error {
			*digest = mix(*digest, hashValues(row))
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
	return r.db.each(ctx, "SELECT id, value FROM blobs ORDER BY id", func(row []any) error {
		r.blobs.set(number(row[0]), hashValue(row[1]))
		return nil
	})
}

func (r *records) blob(id any) uint64 {
	return r.blobs.get(number(id))
}

// readSystems leaves out the dates at which support ends: no match depends on them.
func (r *records) readSystems(ctx context.Context) error {
	const query = "SELECT id, name, release_id, major_version, minor_version, label_version, codename, channel " +
		"FROM operating_systems ORDER BY id"
	return r.db.each(ctx, query, func(row []any) error {
		digest := hashValues(row[1:])
		r.systems.add(r.side, r.systems.at(AnyOSKey), digest)
		r.systems.add(r.side, r.systems.at(OSKey(text(row[1]))), digest)
		r.systems.add(r.side, r.systems.at(OSKey(text(row[2]))), digest)
		r.systemRows.set(number(row[0]), digest)
		return nil
	})
}

// readOverrides reads which names of operating systems stand for others. The first that applies counts, hence their order.
func (r *records) readOverrides(ctx context.Context) error {
	const query = "SELECT alias, replacement, version, version_pattern, codename, channel, replacement_major_version, " +
		"replacement_minor_version, replacement_label_version, replacement_channel, CAST(rolling AS TEXT), " +
		"applicable_client_db_schemas FROM operating_system_specifier_overrides ORDER BY rowid"
	return r.db.each(ctx, query, func(row []any) error {
		digest := hashValues(row)
		alias := r.systems.at(OSKey(text(row[0])))
		r.systems.add(r.side, alias, digest)
		r.systems.add(r.side, r.systems.at(AnyOSKey), digest)
		if row[1] != nil {
			r.systems.redirects = append(r.systems.redirects, redirect{alias, r.systems.at(OSKey(text(row[1])))})
		}
		return nil
	})
}

func (r *records) readVulnerabilities(ctx context.Context) error {
	const query = "SELECT id, blob_id, name, status, provider_id, CAST(published_date AS TEXT), CAST(modified_date AS TEXT), " +
		"CAST(withdrawn_date AS TEXT) FROM vulnerability_handles ORDER BY id"
	return r.db.each(ctx, query, func(row []any) error {
		v := named{mix(hashValues(row[2:]), r.blob(row[1])), r.vulnerabilities.at(VulnerabilityKey(text(row[2])))}
		r.vulnerabilities.add(r.side, v.place, v.digest)
		r.vulnerabilityOf.set(number(row[0]), v)
		return nil
	})
}

func (r *records) readAliases(ctx context.Context) error {
	return r.db.each(ctx, "SELECT name, alias FROM vulnerability_aliases ORDER BY name, alias", func(row []any) error {
		name, alias := r.vulnerabilities.at(VulnerabilityKey(text(row[0]))), r.vulnerabilities.at(VulnerabilityKey(text(row[1])))
		digest := hashValues(row)
		r.vulnerabilities.add(r.side, name, digest)
		r.vulnerabilities.add(r.side, alias, digest)
		r.vulnerabilities.redirects = append(r.vulnerabilities.redirects, redirect{alias, name})
		return nil
	})
}

func (r *records) readCPEs(ctx context.Context) error {
	const query = "SELECT id, product, part, vendor, edition, language, software_edition, target_hardware, target_software, other " +
		"FROM cpes ORDER BY id"
	return r.db.each(ctx, query, func(row []any) error {
		r.cpeOf.set(number(row[0]), named{hashValues(row[1:]), r.products.at(ProductKey(text(row[1])))})
		return nil
	})
}

func (r *records) readPackageCPEs(ctx context.Context) error {
	return r.db.each(ctx, "SELECT package_id, cpe_id FROM package_cpes ORDER BY cpe_id, package_id", func(row []any) error {
		id := number(row[0])
		r.cpesOf[id] = append(r.cpesOf[id], r.cpeOf.get(number(row[1])))
		return nil
	})
}

func (r *records) readPackages(ctx context.Context) error {
	return r.db.each(ctx, "SELECT id, ecosystem, name FROM packages ORDER BY id", func(row []any) error {
		id := number(row[0])
		digest := hashValues(row[1:])
		for _, cpe := range r.cpesOf[id] {
			digest = mix(digest, cpe.digest)
		}
		r.packageOf.set(id, named{digest, r.packages.at(PackageKey(text(row[2])))})
		return nil
	})
}

func (r *records) readPackageHandles(ctx context.Context) error {
	for kind, table := range []string{"affected_package_handles", "unaffected_package_handles"} {
		query := "SELECT vulnerability_id, operating_system_id, package_id, blob_id FROM " + table + " ORDER BY id"
		err := r.db.each(ctx, query, func(row []any) error {
			r.addPackageHandle(uint64(kind), row)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *records) addPackageHandle(kind uint64, row []any) {
	vulnerability, pkg := r.vulnerabilityOf.get(number(row[0])), r.packageOf.get(number(row[2]))
	system := uint64(0)
	if row[1] != nil { // a system that there is not is something else than none
		system = mix(1, r.systemRows.get(number(row[1])))
	}
	digest := mixAll(kind, vulnerability.digest, system, pkg.digest, r.blob(row[3]))
	r.packages.add(r.side, r.anyPackage, digest)
	r.packages.add(r.side, pkg.place, digest)
	r.vulnerabilities.add(r.side, vulnerability.place, digest)
	for _, cpe := range r.cpesOf[number(row[2])] {
		r.products.add(r.side, cpe.place, digest)
		r.products.add(r.side, r.anyProduct, digest)
	}
}

func (r *records) readCPEHandles(ctx context.Context) error {
	for kind, table := range []string{"affected_cpe_handles", "unaffected_cpe_handles"} {
		query := "SELECT vulnerability_id, cpe_id, blob_id FROM " + table + " ORDER BY id"
		err := r.db.each(ctx, query, func(row []any) error {
			r.addCPEHandle(uint64(kind), row)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *records) addCPEHandle(kind uint64, row []any) {
	vulnerability, cpe := r.vulnerabilityOf.get(number(row[0])), r.cpeOf.get(number(row[1]))
	digest := mixAll(kind, vulnerability.digest, cpe.digest, r.blob(row[2]))
	r.products.add(r.side, r.anyProduct, digest)
	r.products.add(r.side, cpe.place, digest)
	r.vulnerabilities.add(r.side, vulnerability.place, digest)
}

// readScores reads EPSS, KEV and CWEs.
func readScores(ctx context.Context, db database, cves *digests, side int) error {
	// Every probability carries the date of all of them.
	date := uint64(0)
	err := db.each(ctx, "SELECT CAST(date AS TEXT) FROM epss_metadata ORDER BY rowid LIMIT 1", func(row []any) error {
		date = hashValues(row)
		return nil
	})
	if err != nil {
		return err
	}
	for _, scores := range []struct {
		start uint64
		query string
	}{
		{mix(1, date), "SELECT cve, epss, percentile FROM epss_handles ORDER BY id"},
		{2, "SELECT cve, cwe, source, type FROM cwe_handles ORDER BY id"},
		{3, "SELECT k.cve, b.value FROM known_exploited_vulnerability_handles k LEFT JOIN blobs b ON b.id = k.blob_id ORDER BY k.id"},
	} {
		err := db.each(ctx, scores.query, func(row []any) error {
			cves.add(side, cves.at(cveKey(text(row[0]))), mix(scores.start, hashValues(row)))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
