package vulndb

import (
	"github.com/cespare/xxhash/v2"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// The search keys of questions that no name narrows down. Any change of the records of that sort touches them.
const (
	AnyPackageKey model.SearchKey = 1
	AnyCPEKey     model.SearchKey = 2
	AnyOSKey      model.SearchKey = 3
)

// PackageKey is the key of all records about packages of a name, in whatever ecosystem or operating system.
func PackageKey(name string) model.SearchKey { return searchKey("package", name) }

// ProductKey is the key of all records about CPEs of a product, of whatever vendor.
func ProductKey(product string) model.SearchKey { return searchKey("product", product) }

// OSKey is the key of the releases of an operating system that the database knows, by its name or the name that another one
// stands for.
func OSKey(name string) model.SearchKey { return searchKey("os", name) }

// VulnerabilityKey is the key of all records about a vulnerability, for questions that name no package.
func VulnerabilityKey(id string) model.SearchKey { return searchKey("vulnerability", id) }

// searchKey hashes without regard to ASCII case, as the database compares (SQLite's NOCASE).
func searchKey(kind, name string) model.SearchKey {
	folded := make([]byte, 0, len(kind)+1+len(name))
	folded = append(append(folded, kind...), 0)
	for i := range len(name) {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		folded = append(folded, c)
	}
	return model.SearchKey(xxhash.Sum64(folded))
}
