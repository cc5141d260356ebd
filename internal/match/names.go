package match

import (
	"errors"
	"fmt"
	"slices"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/anchore/syft/syft/cpe"
	"github.com/cespare/xxhash/v2"
	"gorm.io/gorm"
)

// names is a set of names without regard to ASCII case, as hashes: 8 bytes each. A name that is in it by chance only costs a
// query.
type names []uint64

func hashName(name string) uint64 { return xxhash.Sum64String(fold(name)) }

func (n names) has(name string) bool {
	_, found := slices.BinarySearch(n, hashName(name))
	return found
}

// content contains the names that a database has records about. Most packages have no advisories at all: asking the set is a
// thousand times cheaper than asking the database.
type content struct {
	packages, unaffectedPackages names
	// packageProducts are products of CPEs that name a package, the others those that have records of their own.
	packageProducts, products, unaffectedProducts names
}

func readContent(db *gorm.DB) (*content, error) {
	c := &content{}
	for _, part := range []struct {
		into  *names
		query string
	}{
		{&c.packages, "SELECT name FROM packages"},
		{&c.unaffectedPackages, "SELECT name FROM packages WHERE id IN (SELECT package_id FROM unaffected_package_handles)"},
		{&c.packageProducts, "SELECT product FROM cpes WHERE id IN (SELECT cpe_id FROM package_cpes)"},
		{&c.products, "SELECT product FROM cpes"},
		{&c.unaffectedProducts, "SELECT product FROM cpes WHERE id IN (SELECT cpe_id FROM unaffected_cpe_handles)"},
	} {
		var err error
		if *part.into, err = readNames(db, part.query); err != nil {
			return nil, fmt.Errorf("read the package names: %w", err)
		}
	}
	return c, nil
}

func readNames(db *gorm.DB, query string) (out names, err error) {
	rows, err := db.Raw(query).Rows()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		out = append(out, hashName(name))
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	slices.Sort(out)
	return slices.Clip(slices.Compact(out)), nil
}

// lacksPackages says that there is no record that a question could find. Questions that have no answer because they are
// wrong go to Grype.
func (c *content) lacksPackages(known names, spec *v6.PackageSpecifier, options *v6.GetPackageOptions) bool {
	if spec == nil || options == nil {
		return false
	}
	for _, system := range options.OSs {
		if system != v6.AnyOSSpecified && *system != *v6.NoOSSpecified && system.Name == "" && system.LabelVersion == "" {
			return false
		}
	}
	switch {
	case spec.Name != "":
		return !known.has(spec.Name)
	case spec.CPE != nil:
		return c.lacksProduct(c.packageProducts, spec.CPE, options.AllowBroadCPEMatching)
	default:
		return false
	}
}

func (c *content) lacksProduct(known names, spec *cpe.Attributes, broad bool) bool {
	return spec != nil && spec.Product != cpe.Any && !broad && !known.has(spec.Product)
}
