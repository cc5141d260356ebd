package match

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/anchore/grype/grype/pkg"
	"github.com/anchore/syft/syft/artifact"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// unit is a package in its context: what is matched, and what a fingerprint stands for. Without a context it has the form
// of the package alone, so that images share it.
type unit struct {
	projection
	// Owners are the packages that own files of this one and take part in matching. What the distribution fixed in an owner
	// is not reported of what it owns.
	Owners []json.RawMessage `json:"owners,omitempty"`
	// Namesakes are other packages of the image with the same type, name and version. What is known not to affect one of
	// them is not reported of any.
	Namesakes []json.RawMessage `json:"namesakes,omitempty"`
}

// canonical returns the unit's matching input and its fingerprint.
func (u *unit) canonical() (json.RawMessage, string, error) {
	data, err := json.Marshal(u)
	if err != nil {
		return nil, "", fmt.Errorf("encode the matching input of package %q: %w", u.Name, err)
	}
	return data, fingerprint(data), nil
}

// contexts computes the context of each package of an image: the packages that influence its matching.
type contexts struct {
	packages []pkg.Package
	imports  *Imports
	byID     map[pkg.ID]int
	// owners and namesakes are the canonical forms that packages have as such, by index.
	owners, namesakes []json.RawMessage
	byName            map[name][]namesake
	// bytes may still be spent on contexts.
	bytes int
}

type name struct{ kind, name string }

type namesake struct {
	version   string
	canonical json.RawMessage
}

func newContexts(packages []pkg.Package, imports *Imports, maxBytes int) (*contexts, error) {
	s := &contexts{
		packages:  packages,
		imports:   imports,
		byID:      make(map[pkg.ID]int, len(packages)),
		owners:    make([]json.RawMessage, len(packages)),
		namesakes: make([]json.RawMessage, len(packages)),
		byName:    make(map[name][]namesake, len(packages)),
		bytes:     maxBytes,
	}
	seen := make(map[string]struct{}, len(packages))
	for i := range packages {
		p := &packages[i]
		s.byID[p.ID] = i
		in := project(p, imports)
		var err error
		if s.owners[i], _, err = (&unit{projection: in}).canonical(); err != nil {
			return nil, err
		}
		s.namesakes[i] = s.owners[i]
		if withoutSymbols(&in) {
			if s.namesakes[i], _, err = (&unit{projection: in}).canonical(); err != nil {
				return nil, err
			}
		}
		if _, twice := seen[string(s.namesakes[i])]; !twice {
			seen[string(s.namesakes[i])] = struct{}{}
			key := name{in.Type, in.Name}
			s.byName[key] = append(s.byName[key], namesake{in.Version, s.namesakes[i]})
		}
	}
	return s, nil
}

// withoutSymbols leaves out the symbols of a Go binary, and says whether there were any. All binaries of an image that hold a
// module are namesakes of each other, each with symbols of its own. They would decide only where a database
// told for which symbols a module is not affected; the reader refuses to answer then.
func withoutSymbols(in *projection) bool {
	if in.Go == nil || in.Go.Symbols == nil {
		return false
	}
	in.Go = &goProjection{Main: in.Go.Main}
	return true
}

// unit returns a package that takes part in matching in its context.
func (s *contexts) unit(i int) (*unit, error) {
	u := &unit{projection: project(&s.packages[i], s.imports)}
	for _, owner := range s.packages[i].RelatedPackages[artifact.OwnershipByFileOverlapRelationship] {
		if owner == nil {
			continue
		}
		if j, ok := s.byID[owner.ID]; ok && j != i {
			if err := s.add(&u.Owners, s.owners[j]); err != nil {
				return nil, err
			}
		}
	}
	for _, other := range s.byName[name{u.Type, u.Name}] {
		// Grype's rules take no version for any version.
		if other.version != u.Version && other.version != "" || string(other.canonical) == string(s.namesakes[i]) {
			continue
		}
		if err := s.add(&u.Namesakes, other.canonical); err != nil {
			return nil, err
		}
	}
	u.Owners, u.Namesakes = distinct(u.Owners), distinct(u.Namesakes)
	return u, nil
}

func (s *contexts) add(to *[]json.RawMessage, canonical json.RawMessage) error {
	s.bytes -= len(canonical)
	if s.bytes < 0 {
		return fmt.Errorf("%w: too many of its packages own files of each other or have the same name and version", ErrLimit)
	}
	*to = append(*to, canonical)
	return nil
}

func distinct(list []json.RawMessage) []json.RawMessage {
	slices.SortFunc(list, slices.Compare[json.RawMessage])
	return slices.CompactFunc(list, slices.Equal[json.RawMessage])
}

// restoredUnit is what Grype gets to see of a unit.
type restoredUnit struct {
	subject pkg.Package
	// context are owners and namesakes. A package's ID is the fingerprint of its own form, so equal ones have equal IDs.
	context []pkg.Package
}

// restoreUnit rebuilds from a MatchInput what matchers read. The subject's ID is its fingerprint.
func restoreUnit(p model.Package) (restoredUnit, error) {
	var in unit
	if err := json.Unmarshal(p.MatchInput, &in); err != nil {
		return restoredUnit{}, fmt.Errorf("decode the matching input: %w", err)
	}
	subject, err := in.restore(p.Fingerprint)
	if err != nil {
		return restoredUnit{}, err
	}
	owners, err := restoreAll(in.Owners)
	if err != nil {
		return restoredUnit{}, err
	}
	namesakes, err := restoreAll(in.Namesakes)
	if err != nil {
		return restoredUnit{}, err
	}
	if len(owners) > 0 {
		related := make([]*pkg.Package, len(owners))
		for i := range owners {
			related[i] = &owners[i]
		}
		subject.RelatedPackages = map[artifact.RelationshipType][]*pkg.Package{
			artifact.OwnershipByFileOverlapRelationship: related,
		}
	}
	return restoredUnit{subject: subject, context: slices.Concat(owners, namesakes)}, nil
}

func restoreAll(list []json.RawMessage) ([]pkg.Package, error) {
	out := make([]pkg.Package, 0, len(list))
	for _, canonical := range list {
		var in projection
		if err := json.Unmarshal(canonical, &in); err != nil {
			return nil, fmt.Errorf("decode a related package in the matching input: %w", err)
		}
		p, err := in.restore(fingerprint(canonical))
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}
