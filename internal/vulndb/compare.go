package vulndb

import (
	"context"
	"fmt"

	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// Difference says which answers of one database another one may give differently. It is never too small: what it does not
// name, both answer alike.
type Difference struct {
	full    string
	keys    map[vuln.SearchKey]struct{}
	cves    map[vuln.SearchKey]struct{}
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
func (d *Difference) Touches(keys []vuln.SearchKey) bool {
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

// ScoresTouched says whether the EPSS, the entry in the KEV catalogue or the CWEs of one of the CVEs may be another.
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

func cveKey(cve string) vuln.SearchKey { return searchKey("cve", cve) }

// Compare reads two installed databases, one after the other, and says where they differ. It changes neither.
//
// It holds 8 bytes for each record of a database, 16 for each vulnerability, package and CPE, and about 40 for each
// distinct name in both, but no record itself. It fails when a file does not have the tables that this version of Grype
// reads; then everything has to be asked anew.
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
	c := newComparison()
	for side, installed := range sides {
		err := withDatabase(installed, func(db database) error { return c.read(ctx, db, side) })
		if err != nil {
			return nil, compareError(installed, err)
		}
	}
	return c.difference(), nil
}

func compareError(installed Installed, err error) error {
	return fmt.Errorf("compare vulnerability databases: read build %s in %s: %w", installed.Build.ID, installed.Dir, err)
}

// comparison holds digests of the records behind each key, for both databases.
type comparison struct {
	packages, products, systems, vulnerabilities, cves *digests
}

func newComparison() *comparison {
	return &comparison{
		packages: newDigests(), products: newDigests(), systems: newDigests(), vulnerabilities: newDigests(), cves: newDigests(),
	}
}

func (c *comparison) difference() *Difference {
	d := &Difference{keys: map[vuln.SearchKey]struct{}{}, cves: map[vuln.SearchKey]struct{}{}}
	d.summary = DifferenceSummary{
		Packages:         c.packages.collect(d.keys, AnyPackageKey),
		Products:         c.products.collect(d.keys, AnyCPEKey),
		OperatingSystems: c.systems.collect(d.keys, AnyOSKey),
		Vulnerabilities:  c.vulnerabilities.collect(d.keys, 0),
		CVEs:             c.cves.collect(d.cves, 0),
	}
	return d
}
