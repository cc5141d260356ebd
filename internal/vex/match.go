package vex

import (
	"path"
	"slices"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// image is an image in the form in which components are compared with it.
type image struct {
	references   map[string]bool
	repositories map[string]bool
	tags         map[string]bool
	digests      map[string]bool
	architecture string
	cpe          *CPE
}

func newImage(names model.ImageNames) *image {
	i := &image{
		references: map[string]bool{}, repositories: map[string]bool{}, tags: map[string]bool{}, digests: map[string]bool{},
		architecture: names.Architecture,
	}
	for _, digest := range names.Digests {
		i.digests[digest] = true
	}
	for _, reference := range names.References {
		i.references[fullReference(reference)] = true
		if repository := model.RepositoryOf(reference); repository != "" {
			i.repositories[repository] = true
		}
		name, digest, _ := strings.Cut(reference, "@")
		if digest != "" {
			i.digests[digest] = true
		}
		if colon := strings.LastIndexByte(name, ':'); colon > strings.LastIndexByte(name, '/') {
			i.tags[name[colon+1:]] = true
		}
	}
	if cpe, err := ParseCPE(names.CPE); err == nil {
		i.cpe = &cpe
	}
	return i
}

// fullReference names the repository of an image reference in full, and leaves anything else unchanged.
func fullReference(reference string) string {
	repository := model.RepositoryOf(reference)
	if repository == "" {
		return reference
	}
	name, digest, found := strings.Cut(reference, "@")
	if found {
		return repository + "@" + digest
	}
	return repository + strings.TrimPrefix(path.Base(name), path.Base(repository)) // the tag
}

// subject is a package with a vulnerability in the form in which statements are compared with it.
type subject struct {
	// ids are those of the vulnerability, as of key.
	ids           []string
	purl          *PURL
	cpes          []CPE
	kind, version string
}

// key is the form in which IDs of vulnerabilities are compared: they have no case.
func key(id string) string { return strings.ToUpper(strings.TrimSpace(id)) }

// newSubject reads a finding. A record of a database that combines several CVEs, as advisories of distributions do, is known by its own ID
// only: a statement about one of these CVEs says nothing about the others.
func newSubject(f *model.Finding) *subject {
	s := &subject{ids: []string{key(f.Vulnerability.ID)}, kind: f.Package.Type, version: f.Package.Version}
	ids, cves := map[string]bool{s.ids[0]: true}, map[string]bool{}
	for _, list := range [][]string{{f.Vulnerability.ID}, f.Vulnerability.Aliases, f.Vulnerability.CVEs} {
		for _, id := range list {
			ids[key(id)] = true
			if strings.HasPrefix(key(id), "CVE-") {
				cves[key(id)] = true
			}
		}
	}
	if len(cves) <= 1 {
		for id := range ids {
			if id != s.ids[0] {
				s.ids = append(s.ids, id)
			}
		}
	}
	if purl, err := ParsePURL(f.Package.PURL); err == nil {
		s.purl = &purl
	}
	for _, text := range f.Package.CPEs {
		if cpe, err := ParseCPE(text); err == nil {
			s.cpes = append(s.cpes, cpe)
		}
	}
	return s
}

// precision says how exactly a statement identifies what it matches.
type precision int

const (
	noMatch precision = iota
	// anyVersion: all versions of a package or an image.
	anyVersion
	// someVersions: a range of versions.
	someVersions
	// oneVersion: a version, or a digest of an image.
	oneVersion
)

// matches says how exactly one of the products identifies a package with the vulnerability in an image: as a package of the image, or, whatever
// the image, as the product itself. That the vulnerability is the same has been checked.
func (s *Statement) matches(i *image, p *subject, versions Versions) precision {
	best := noMatch
	for n := 0; n < len(s.Products) && best < oneVersion; n++ {
		product := &s.Products[n]
		best = max(best, product.matchesPackage(p, versions))
		inImage := product.matchesImage(i)
		if len(product.Subcomponents) == 0 {
			best = max(best, inImage)
			continue
		}
		if inImage == noMatch && !product.matchesDistribution(i) {
			continue
		}
		for c := range product.Subcomponents {
			best = max(best, product.Subcomponents[c].matchesPackage(p, versions))
		}
	}
	return best
}

func (c *Component) matchesImage(i *image) precision {
	best := noMatch
	if c.Versions != nil && !c.Versions.lists(i) {
		return noMatch
	}
	for _, digest := range c.Digests {
		if i.digests[digest] {
			return oneVersion
		}
	}
	for _, reference := range c.References {
		if i.references[fullReference(reference)] {
			return oneVersion
		}
	}
	for n := range c.PURLs {
		if !c.PURLs[n].names(i) {
			continue
		}
		if c.PURLs[n].Version != "" {
			return oneVersion
		}
		best = anyVersion
	}
	return best
}

// matchesDistribution reports whether the component is the distribution of the image. That is less than the image: packages that are not of the
// distribution may be in it, too.
func (c *Component) matchesDistribution(i *image) bool {
	return i.cpe != nil && slices.ContainsFunc(c.CPEs, func(cpe CPE) bool { return cpe.Contains(i.cpe) })
}

func (c *Component) matchesPackage(p *subject, versions Versions) precision {
	best := noMatch
	for n := range c.PURLs {
		if purl := &c.PURLs[n]; p.purl != nil && purl.Type != typeOCI && purl.Contains(p.purl) {
			best = max(best, c.inVersions(purl.Version != "", p, versions))
		}
	}
	for n := range c.CPEs {
		for m := range p.cpes {
			if c.CPEs[n].Contains(&p.cpes[m]) {
				best = max(best, c.inVersions(c.CPEs[n].Version != "", p, versions))
				break
			}
		}
	}
	return best
}

// inVersions applies the range to what an identifier matches; exact says that the identifier has a version.
func (c *Component) inVersions(exact bool, p *subject, versions Versions) precision {
	switch {
	case c.Versions != nil && !c.Versions.Contains(versions, p.kind, p.version):
		return noMatch
	case exact || c.Versions != nil && c.Versions.single():
		return oneVersion
	case c.Versions != nil:
		return someVersions
	default:
		return anyVersion
	}
}
