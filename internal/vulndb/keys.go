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

// What names are of, in search keys.
const (
	packageKind       = "package"
	productKind       = "product"
	osKind            = "os"
	vulnerabilityKind = "vulnerability"
	cveKind           = "cve"
)

// PackageKey is the key of all records about packages of a name, in whatever ecosystem or operating system.
func PackageKey(name string) model.SearchKey { return searchKey(packageKind, name) }

// ProductKey is the key of all records about CPEs of a product, of whatever vendor.
func ProductKey(product string) model.SearchKey { return searchKey(productKind, product) }

// OSKey is the key of the releases of an operating system that the database knows, by its name or the name that another one
// stands for.
func OSKey(name string) model.SearchKey { return searchKey(osKind, name) }

// VulnerabilityKey is the key of all records about a vulnerability, for questions that name no package.
func VulnerabilityKey(id string) model.SearchKey { return searchKey(vulnerabilityKind, id) }

// searchKey hashes without regard to ASCII case, as the database compares (SQLite's NOCASE).
func searchKey[T string | []byte](kind string, name T) model.SearchKey {
	var room [128]byte // Names are short.
	folded := append(append(room[:0], kind...), 0)
	for i := range len(name) {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		folded = append(folded, c)
	}
	return model.SearchKey(xxhash.Sum64(folded))
}
