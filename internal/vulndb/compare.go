package vulndb

import (
	"context"
	"fmt"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Difference says which answers of one database another one may give differently. It is never too small: what it does not
// name, both answer alike.
type Difference struct {
	full    string
	keys    map[model.SearchKey]struct{}
	cves    map[model.SearchKey]struct{}
	summary DifferenceSummary
}

// DifferenceSummary counts what differs, for logs. All counts are 0 when everything counts as different.
type DifferenceSummary struct {
	// Packages, Products, OperatingSystems and Vulnerabilities are the names behind which records differ.
	Packages         int `json:"packages"`
	Products         int `json:"products"`
	OperatingSystems int `json:"operatingSystems"`
	Vulnerabilities  int `json:"vulnerabilities"`
	// CVEs is the number of CVEs whose EPSS, KEV or CWEs differ.
	CVEs int `json:"cves"`
}

// Full says whether everything has to be asked anew, and why.
func (d *Difference) Full() (reason string, full bool) { return d.full, d.full != "" }

// Touches says whether a question behind one of the keys may have another answer.
func (d *Difference) Touches(keys []model.SearchKey) bool {
	if d.full != "" {
		return true
	}
	for _, key := range keys {
		if _, changed := d.keys[key]; changed {
			return true
		}
	}
	return false
}

// ScoresTouched says whether the EPSS, the entry in the KEV catalog or the CWEs of one of the CVEs may be another.
func (d *Difference) ScoresTouched(cves []string) bool {
	if d.full != "" {
		return true
	}
	for _, cve := range cves {
		if _, changed := d.cves[cveKey(cve)]; changed {
			return true
		}
	}
	return false
}

// Keys is the number of search keys that are touched, 0 when all are.
func (d *Difference) Keys() int { return len(d.keys) }

// CVEs is the number of CVEs whose scores are touched, 0 when all are.
func (d *Difference) CVEs() int { return len(d.cves) }

// Summary counts what differs.
func (d *Difference) Summary() DifferenceSummary { return d.summary }

func cveKey(cve string) model.SearchKey { return searchKey(cveKind, cve) }

// Compare reads two installed databases, one after the other, and says where they differ. It changes neither.
//
// It holds 8 bytes for each record of a database, 16 for each vulnerability, package and CPE, and about 40 for each
// distinct name in both, but no record itself; afterwards about 40 for each CVE. It fails when a file does not have the tables
// that this version of Grype reads; then everything has to be asked anew.
func Compare(ctx context.Context, from, to Installed) (*Difference, error) {
	sides := [2]Installed{from, to}
	var settings [2][]setting
	for side, installed := range sides {
		err := withDatabase(installed, func(db database) (err error) {
			settings[side], err = db.settings(ctx)
			return err
		})
		if err != nil {
			return nil, compareError(installed, err)
		}
	}
	if reason := differentSetting(settings[0], settings[1]); reason != "" {
		return &Difference{full: reason}, nil
	}
	difference := &Difference{keys: map[model.SearchKey]struct{}{}, cves: map[model.SearchKey]struct{}{}}
	// One after the other, so that the digests of the one do not take memory beside those of the other.
	if err := difference.compareRecords(ctx, sides); err != nil {
		return nil, err
	}
	if err := difference.compareScores(ctx, sides); err != nil {
		return nil, err
	}
	return difference, nil
}

// compareRecords finds the keys that are touched.
func (d *Difference) compareRecords(ctx context.Context, sides [2]Installed) error {
	c := newComparison()
	for side, installed := range sides {
		err := withDatabase(installed, func(db database) error { return c.read(ctx, db, side) })
		if err != nil {
			return compareError(installed, err)
		}
	}
	d.summary.Packages = c.packages.collect(d.keys, AnyPackageKey)
	d.summary.Products = c.products.collect(d.keys, AnyCPEKey)
	d.summary.OperatingSystems = c.systems.collect(d.keys, AnyOSKey)
	d.summary.Vulnerabilities = c.vulnerabilities.collect(d.keys, 0)
	return nil
}

// compareScores finds the CVEs whose scores are touched.
func (d *Difference) compareScores(ctx context.Context, sides [2]Installed) error {
	cves := newDigests()
	for side, installed := range sides {
		err := withDatabase(installed, func(db database) error { return readScores(ctx, db, cves, side) })
		if err != nil {
			return compareError(installed, err)
		}
	}
	d.summary.CVEs = cves.collect(d.cves, 0)
	return nil
}

func compareError(installed Installed, err error) error {
	return fmt.Errorf("compare vulnerability databases: read build %s in %s: %w", installed.Build.ID, installed.Dir, err)
}

// comparison holds digests of the records behind each key, for both databases.
type comparison struct {
	packages, products, systems, vulnerabilities *digests
	// anyPackage and anyProduct are the places of the keys that stand for all.
	anyPackage, anyProduct uint32
}

func newComparison() *comparison {
	c := &comparison{packages: newDigests(), products: newDigests(), systems: newDigests(), vulnerabilities: newDigests()}
	c.anyPackage, c.anyProduct = c.packages.at(AnyPackageKey), c.products.at(AnyCPEKey)
	return c
}
