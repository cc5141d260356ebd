package vulndb

import (
	"github.com/cespare/xxhash/v2"

	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// The search keys of questions that no name narrows down. Any change of the records of that sort touches them.
const (
	AnyPackageKey vuln.SearchKey = 1
	AnyCPEKey     vuln.SearchKey = 2
	AnyOSKey      vuln.SearchKey = 3
)

// PackageKey is the key of all records about packages of a name, in whatever ecosystem or operating system.
func PackageKey(name string) vuln.SearchKey { return searchKey("package", name) }

// ProductKey is the key of all records about CPEs of a product, of whatever vendor.
func ProductKey(product string) vuln.SearchKey { return searchKey("product", product) }

// OSKey is the key of the releases of an operating system that the database knows, by its name or the name that another one
// stands for.
func OSKey(name string) vuln.SearchKey { return searchKey("os", name) }

// VulnerabilityKey is the key of all records about a vulnerability, for questions that name no package.
func VulnerabilityKey(id string) vuln.SearchKey { return searchKey("vulnerability", id) }

// searchKey hashes without regard to ASCII case, as the database compares (SQLite's NOCASE).
func searchKey(kind, name string) vuln.SearchKey {
	folded := make([]byte, 0, len(kind)+1+len(name))
	folded = append(append(folded, kind...), 0)
	for i := range len(name) {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		folded = append(folded, c)
	}
	return vuln.SearchKey(xxhash.Sum64(folded))
}
