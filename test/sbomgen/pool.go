package sbomgen

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/glebarez/sqlite" // registers the driver as well
)

// maxRows bounds how many records of each kind a pool is made of. Of a larger database every n-th record is taken.
const maxRows = 60_000

// maxVersions bounds the versions that a pool keeps of one name.
const maxVersions = 40

// Pool is what SBOMs are drawn from. It does not change once it is read, so that generators may share it.
type Pool struct {
	// Systems are the operating systems that the database knows packages of.
	Systems []System
	// Ecosystems are the packages of no operating system, by ecosystem.
	Ecosystems []Ecosystem
	// Products are known by CPE only.
	Products []Product
	// Pairs are packages that the database distinguishes and that have one name in an image, as Maven artifacts of two groups.
	Pairs [][2]Affected
}

// System is an operating system with its packages.
type System struct {
	OS       v6.OperatingSystem
	Packages []Affected
	// Kin are packages whose files other catalogers find as well, such as a distribution's package of a Python library.
	Kin []Kin
}

// Kin is a package of an operating system and what it seems to be made of: a package of an ecosystem, or a product.
type Kin struct {
	Owner   Affected
	Owned   Affected
	Product Product
}

// Ecosystem is the packages of one language or tool.
type Ecosystem struct {
	Name     string
	Packages []Affected
}

// Affected is a package that the database names.
type Affected struct {
	Ecosystem, Name string
	// Versions are those that stand in constraints and fixes: what matters lies at them or next to them.
	Versions []string
	// Modules are RPM modularity labels, and Imports Go import paths with symbols, that records ask for.
	Modules []string
	Imports map[string][]string
}

// Product is what a CPE names.
type Product struct {
	Part, Vendor, Product, TargetSoftware string
	Versions                              []string
}

// ReadPool reads a pool from a database; dir is the folder that holds v6.VulnerabilityDBFileName.
func ReadPool(ctx context.Context, dir string) (pool *Pool, err error) {
	file := url.URL{Scheme: "file", Opaque: filepath.ToSlash(filepath.Join(dir, v6.VulnerabilityDBFileName)), RawQuery: "mode=ro&immutable=1"}
	db, err := sql.Open(sqlite.DriverName, file.String())
	if err != nil {
		return nil, fmt.Errorf("open the database in %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	pool = &Pool{}
	for _, table := range []string{"affected_package_handles", "unaffected_package_handles"} {
		if err := pool.readPackages(ctx, db, table); err != nil {
			return nil, fmt.Errorf("read %s of the database in %s: %w", table, dir, err)
		}
	}
	if err := pool.readProducts(ctx, db); err != nil {
		return nil, fmt.Errorf("read the CPEs of the database in %s: %w", dir, err)
	}
	if len(pool.Systems)+len(pool.Ecosystems)+len(pool.Products) == 0 {
		return nil, fmt.Errorf("the database in %s names no packages", dir)
	}
	pool.findKin()
	pool.findPairs()
	return pool, nil
}

func (p *Pool) readPackages(ctx context.Context, db *sql.DB, table string) error {
	rows, err := query(ctx, db, table, `SELECT p.ecosystem, p.name, b.value, COALESCE(o.name, ''), COALESCE(o.release_id, ''),
			COALESCE(o.major_version, ''), COALESCE(o.minor_version, ''), COALESCE(o.label_version, ''),
			COALESCE(o.codename, ''), COALESCE(o.channel, '')
		FROM `+table+` h JOIN packages p ON p.id = h.package_id JOIN blobs b ON b.id = h.blob_id
		LEFT JOIN operating_systems o ON o.id = h.operating_system_id WHERE h.id % ? = 0
		ORDER BY o.name, o.major_version, o.minor_version, o.label_version, o.codename, o.channel, p.ecosystem, p.name, h.id`)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var ecosystem, name, blob string
		var os v6.OperatingSystem
		if err := rows.Scan(&ecosystem, &name, &blob, &os.Name, &os.ReleaseID, &os.MajorVersion, &os.MinorVersion,
			&os.LabelVersion, &os.Codename, &os.Channel); err != nil {
			return err
		}
		if err := p.packagesOf(os, ecosystem).add(ecosystem, name, blob); err != nil {
			return err
		}
	}
	return rows.Err()
}

// packages is a list whose last element grows while the rows of one name come.
type packages []Affected

func (p *Pool) packagesOf(os v6.OperatingSystem, ecosystem string) *packages {
	if os.Name != "" {
		i := slices.IndexFunc(p.Systems, func(s System) bool { return s.OS == os })
		if i < 0 {
			i = len(p.Systems)
			p.Systems = append(p.Systems, System{OS: os})
		}
		return (*packages)(&p.Systems[i].Packages)
	}
	i := slices.IndexFunc(p.Ecosystems, func(e Ecosystem) bool { return e.Name == ecosystem })
	if i < 0 {
		i = len(p.Ecosystems)
		p.Ecosystems = append(p.Ecosystems, Ecosystem{Name: ecosystem})
	}
	return (*packages)(&p.Ecosystems[i].Packages)
}

func (l *packages) add(ecosystem, name, blob string) error {
	var value v6.PackageBlob
	if err := json.Unmarshal([]byte(blob), &value); err != nil {
		return fmt.Errorf("package %s: %w", name, err)
	}
	if n := len(*l); n == 0 || (*l)[n-1].Name != name || (*l)[n-1].Ecosystem != ecosystem {
		*l = append(*l, Affected{Ecosystem: ecosystem, Name: name})
	}
	a := &(*l)[len(*l)-1]
	a.Versions = addVersions(a.Versions, value.Ranges)
	if q := value.Qualifiers; q != nil {
		if q.RpmModularity != nil && !slices.Contains(a.Modules, *q.RpmModularity) {
			a.Modules = append(a.Modules, *q.RpmModularity)
		}
		for _, i := range q.GoImports {
			if a.Imports == nil {
				a.Imports = map[string][]string{}
			}
			a.Imports[i.Path] = i.Symbols
		}
	}
	return nil
}

func (p *Pool) readProducts(ctx context.Context, db *sql.DB) error {
	rows, err := query(ctx, db, "affected_cpe_handles", `SELECT c.part, COALESCE(c.vendor, ''), c.product, COALESCE(c.target_software, ''), b.value
		FROM affected_cpe_handles h JOIN cpes c ON c.id = h.cpe_id JOIN blobs b ON b.id = h.blob_id WHERE h.id % ? = 0
		ORDER BY c.part, c.vendor, c.product, c.target_software, h.id`)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var product Product
		var blob string
		if err := rows.Scan(&product.Part, &product.Vendor, &product.Product, &product.TargetSoftware, &blob); err != nil {
			return err
		}
		var value v6.PackageBlob
		if err := json.Unmarshal([]byte(blob), &value); err != nil {
			return fmt.Errorf("product %s: %w", product.Product, err)
		}
		last := len(p.Products) - 1
		if last < 0 || p.Products[last].Part != product.Part || p.Products[last].Vendor != product.Vendor ||
			p.Products[last].Product != product.Product || p.Products[last].TargetSoftware != product.TargetSoftware {
			p.Products = append(p.Products, product)
			last++
		}
		p.Products[last].Versions = addVersions(p.Products[last].Versions, value.Ranges)
	}
	return rows.Err()
}

// query asks for every n-th row of a table; statement has one parameter for n.
func query(ctx context.Context, db *sql.DB, table, statement string) (*sql.Rows, error) {
	var count int
	if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+table).Scan(&count); err != nil {
		return nil, err
	}
	return db.QueryContext(ctx, statement, count/maxRows+1)
}

// bound finds the versions in a constraint such as ">= 1.0, < 1.2.3 || = 2.0".
var bound = regexp.MustCompile(`[^\s<>=!,|&~^]+[^\s,|]*`)

func addVersions(versions []string, ranges []v6.Range) []string {
	add := func(version string) {
		if version != "" && len(versions) < maxVersions && !slices.Contains(versions, version) {
			versions = append(versions, version)
		}
	}
	for _, r := range ranges {
		for _, version := range bound.FindAllString(r.Version.Constraint, -1) {
			add(version)
		}
		if r.Fix != nil {
			add(r.Fix.Version)
		}
	}
	return versions
}

// kinPrefixes are put by distributions in front of the names of libraries.
var kinPrefixes = []string{"", "py3-", "py3.12-", "python3-", "python-", "node-", "ruby-", "golang-", "php-"}

func (p *Pool) findKin() {
	libraries, products := map[string][]Affected{}, map[string][]Product{}
	for _, e := range p.Ecosystems {
		for _, a := range e.Packages {
			name := strings.ToLower(a.Name[strings.LastIndexAny(a.Name, "/:")+1:])
			libraries[name] = append(libraries[name], a)
		}
	}
	for _, product := range p.Products {
		name := strings.ToLower(product.Product)
		products[name] = append(products[name], product)
	}
	for i := range p.Systems {
		s := &p.Systems[i]
		for _, owner := range s.Packages {
			for _, prefix := range kinPrefixes {
				name, ok := strings.CutPrefix(owner.Name, prefix)
				if !ok {
					continue
				}
				for _, owned := range libraries[name] {
					s.Kin = append(s.Kin, Kin{Owner: owner, Owned: owned})
				}
				for _, product := range products[name] {
					s.Kin = append(s.Kin, Kin{Owner: owner, Product: product})
				}
			}
		}
	}
}

func (p *Pool) findPairs() {
	for _, e := range p.Ecosystems {
		artifacts := map[string]Affected{}
		for _, a := range e.Packages {
			_, artifact, found := strings.Cut(a.Name, ":")
			if !found {
				continue
			}
			if other, ok := artifacts[artifact]; ok {
				p.Pairs = append(p.Pairs, [2]Affected{other, a})
			}
			artifacts[artifact] = a
		}
	}
}
