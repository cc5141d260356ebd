package match

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	v6 "github.com/anchore/grype/grype/db/v6"
	syftpkg "github.com/anchore/syft/syft/pkg"
	"gorm.io/gorm"
)

// Imports are the import paths and symbols that the advisories of vulnerability databases name, by Go module. Grype reports such an
// advisory for a binary with a symbol table only if the table contains one of them; no other symbols influence a match. It is
// immutable.
type Imports struct {
	modules map[string]importPaths
}

// importPaths are symbols by import path. A path without symbols stands for all of them.
type importPaths map[string]map[string]struct{}

// evidenceOfOthers stands in a symbol table for import paths that no advisory names: Grype takes an empty table for none. No import path
// contains a space.
const evidenceOfOthers = "other packages"

func readImports(db *gorm.DB) (out *Imports, err error) {
	out = &Imports{modules: map[string]importPaths{}}
	rows, err := db.Raw(`SELECT p.name, b.value FROM packages p JOIN affected_package_handles h ON h.package_id = p.id JOIN blobs b ON b.id = h.blob_id
		WHERE p.ecosystem = ? COLLATE NOCASE AND b.value LIKE '%"go_imports"%'`, string(syftpkg.GoModulePkg)).Rows()
	if err != nil {
		return nil, fmt.Errorf("read the imports of Go advisories: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var module, value string
		if err := rows.Scan(&module, &value); err != nil {
			return nil, fmt.Errorf("read the imports of Go advisories: %w", err)
		}
		var blob v6.PackageBlob
		if err := json.Unmarshal([]byte(value), &blob); err != nil {
			return nil, fmt.Errorf("read the record of the Go module %s: %w", module, err)
		}
		if blob.Qualifiers == nil {
			continue
		}
		for _, named := range blob.Qualifiers.GoImports {
			out.add(fold(module), named.Path, slices.Values(named.Symbols))
		}
	}
	return out, rows.Err()
}

func (i *Imports) add(module, path string, symbols func(func(string) bool)) {
	paths := i.modules[module]
	if paths == nil {
		paths = importPaths{}
		i.modules[module] = paths
	}
	if paths[path] == nil {
		paths[path] = map[string]struct{}{}
	}
	for symbol := range symbols {
		paths[path][symbol] = struct{}{}
	}
}

// With returns what either names. Nil names nothing.
func (i *Imports) With(other *Imports) *Imports {
	out := &Imports{modules: map[string]importPaths{}}
	for _, each := range []*Imports{i, other} {
		if each == nil {
			continue
		}
		for module, paths := range each.modules {
			for path, symbols := range paths {
				out.add(module, path, maps.Keys(symbols))
			}
		}
	}
	return out
}

// Beyond returns the modules, in lower case and ascending, for which these imports name something that other does not.
func (i *Imports) Beyond(other *Imports) []string {
	var out []string
	for module, paths := range i.modules {
		var known importPaths
		if other != nil {
			known = other.modules[module]
		}
		for path, symbols := range paths {
			before, found := known[path]
			if !found || slices.ContainsFunc(slices.Collect(maps.Keys(symbols)), func(s string) bool { _, has := before[s]; return !has }) {
				out = append(out, module)
				break
			}
		}
	}
	slices.Sort(out)
	return out
}

// reduce returns the part of the symbol table of a module that influences matches, sorted: nil if none does.
func (i *Imports) reduce(module string, table map[string][]string) map[string][]string {
	if i == nil || len(table) == 0 || len(i.modules[fold(module)]) == 0 {
		return nil
	}
	out := map[string][]string{}
	for path, named := range i.modules[fold(module)] {
		symbols, found := table[path]
		if !found {
			continue
		}
		kept := []string{}
		for _, symbol := range symbols {
			if _, relevant := named[symbol]; relevant {
				kept = append(kept, symbol)
			}
		}
		slices.Sort(kept)
		out[path] = slices.Compact(kept)
	}
	if len(out) == 0 {
		out[evidenceOfOthers] = []string{}
	}
	return out
}
