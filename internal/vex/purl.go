package vex

import (
	"fmt"
	"strings"

	"github.com/package-url/packageurl-go"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// maxIdentifier bounds a PURL, a CPE or another identifier in bytes.
const maxIdentifier = 2048

// typeOCI is the PURL type of container images.
const typeOCI = "oci"

// schemePURL begins package URLs.
const schemePURL = "pkg:"

// PURL is a package URL (https://github.com/package-url/purl-spec), normalized as its type asks for.
type PURL struct {
	Type       string            `json:"type"`
	Namespace  string            `json:"namespace,omitempty"`
	Name       string            `json:"name"`
	Version    string            `json:"version,omitempty"`
	Subpath    string            `json:"subpath,omitempty"`
	Qualifiers map[string]string `json:"qualifiers,omitempty"`
}

// ParsePURL reads a package URL of at most 2048 bytes.
func ParsePURL(text string) (PURL, error) {
	if len(text) > maxIdentifier {
		return PURL{}, fmt.Errorf("the PURL has %d bytes, more than the limit of %d", len(text), maxIdentifier)
	}
	p, err := packageurl.FromString(text)
	if err != nil {
		return PURL{}, fmt.Errorf("the PURL %.100q is invalid: %w", text, err)
	}
	// Some write a slash in a name as %2F, such as Syft for packages of Gentoo, and some write it as it is.
	path := strings.Trim(p.Namespace+"/"+p.Name, "/")
	last := strings.LastIndexByte(path, '/')
	purl := PURL{Type: p.Type, Namespace: path[:max(last, 0)], Name: path[last+1:], Version: p.Version, Subpath: p.Subpath}
	if len(p.Qualifiers) > 0 {
		purl.Qualifiers = p.Qualifiers.Map()
	}
	return purl, nil
}

// Contains reports whether a more specific PURL is meant: type, namespace and name are equal, and version, subpath and each qualifier are
// those of this one, if it has them.
func (p *PURL) Contains(other *PURL) bool {
	if p.Type != other.Type || p.Namespace != other.Namespace || p.Name != other.Name ||
		p.Version != "" && p.Version != other.Version || p.Subpath != "" && p.Subpath != other.Subpath {
		return false
	}
	for key, value := range p.Qualifiers {
		if found, ok := other.Qualifiers[key]; !ok || found != value {
			return false
		}
	}
	return true
}

// names reports whether the PURL, of type oci, identifies an image. The version is a digest of the image, the name is the last part of a
// repository, and repository_url is this repository, with or without its last part.
func (p *PURL) names(i *image) bool {
	if p.Type != typeOCI || p.Namespace != "" || p.Version != "" && !i.digests[p.Version] {
		return false
	}
	for key, value := range p.Qualifiers {
		switch key {
		case "repository_url":
		case "arch":
			if value != i.architecture {
				return false
			}
		case "tag":
			if !i.tags[value] {
				return false
			}
		default:
			return false
		}
	}
	if len(i.repositories) == 0 { // an archive: its digest says all
		return p.Version != "" && p.Qualifiers["repository_url"] == ""
	}
	for repository := range i.repositories {
		name := repository[strings.LastIndexByte(repository, '/')+1:]
		if strings.EqualFold(p.Name, name) && inRepository(p.Qualifiers["repository_url"], repository, name) {
			return true
		}
	}
	return false
}

func inRepository(url, repository, name string) bool {
	if url == "" {
		return true
	}
	if _, rest, found := strings.Cut(url, "://"); found {
		url = rest
	}
	url = strings.TrimSuffix(url, "/")
	return model.RepositoryOf(url) == repository || model.RepositoryOf(url+"/"+name) == repository
}
