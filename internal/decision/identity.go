package decision

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Identity names a package as a package URL does, without qualifiers and subpath. Its parts are not percent-encoded.
type Identity struct {
	// Type is that of the package URL, such as "deb" or "golang".
	Type string
	// Path is the namespace, split at slashes, and then the name.
	Path []string
	// Version is "" when it is not known.
	Version string
}

// urlTypes are the types of package URLs by Syft's types of packages, where these have other names.
var urlTypes = map[string]string{
	"binary": generic, "conda": generic, "linux-kernel": generic, "linux-kernel-module": generic, "dart-pub": "pub", "dotnet": "nuget",
	"erlang-otp": "otp", "homebrew": "brew", "github-action": "github", "github-action-workflow": "github", "go-module": "golang", "lua-rocks": "luarocks",
	"php-composer": "composer", "php-pear": "pear", "php-pecl": "pear", "pod": "cocoapods", "portage": "ebuild", "python": "pypi", "R-package": "cran", "rust-crate": "cargo",
}

const (
	generic = "generic"
	// stdlib is the name of the standard library of Go. Package URLs have its version without the prefix "go".
	stdlib = "stdlib"
)

// IdentityOf is the identity of a package. It follows from what all images with the package have in common, so not from the package URL, which is
// that of the image which was known first: but for Java, where matching reads the package URL too. Of a package of a distribution the namespace
// is the ID of the distribution, as Syft writes it. Names that mean the same are equal.
func IdentityOf(p *model.Package) Identity { return NamesOf(p).normalized() }

// NamesOf is the identity of a package as the package spells it.
func NamesOf(p *model.Package) Identity {
	switch p.Type {
	case "java-archive", "jenkins-plugin":
		if id, err := parseURL(p.PURL); err == nil && id.Type == "maven" {
			return id
		}
		return Identity{Type: generic, Path: strings.Split(p.Name, "/"), Version: p.Version}
	case "deb", "apk", "rpm", "alpm":
		id := Identity{Type: p.Type, Path: []string{p.Name}, Version: p.Version}
		if namespace := distribution(p.Distro); namespace != "" {
			id.Path = []string{namespace, p.Name}
		}
		return id
	default:
		id := Identity{Type: p.Type, Path: strings.Split(p.Name, "/"), Version: p.Version}
		if known, found := urlTypes[p.Type]; found {
			id.Type = known
		}
		if !isType(id.Type) {
			id.Type = generic
		}
		if p.Type == "go-module" && p.Name == stdlib {
			id.Version = strings.TrimPrefix(p.Version, "go")
		}
		return id
	}
}

// distribution is the namespace of packages of a distribution, given as "id:version".
func distribution(distro string) string {
	id, _, _ := strings.Cut(distro, ":")
	switch {
	case id == "rhel" || id == "hummingbird":
		return "redhat"
	case strings.HasPrefix(id, "opensuse"):
		return "opensuse"
	default:
		return id
	}
}

// withoutEpoch cuts the epoch off a version, which is a qualifier in package URLs of RPM packages.
func withoutEpoch(version string) string {
	epoch, rest, found := strings.Cut(version, ":")
	if !found || epoch == "" || strings.Trim(epoch, "0123456789") != "" {
		return version
	}
	return rest
}

// normalized is the identity in the spelling in which names that mean the same are equal, as https://github.com/package-url/purl-spec defines it
// for the types. The epoch of an RPM package, which is a qualifier of package URLs, is no part of the version.
func (id Identity) normalized() Identity {
	last := len(id.Path) - 1
	switch id.Type {
	case "pypi":
		id.Path[last] = strings.ReplaceAll(strings.ToLower(id.Path[last]), "_", "-")
	case "alpm", "apk", "bitbucket", "bitnami", "composer", "deb", "github", "golang":
		for i := range id.Path {
			id.Path[i] = strings.ToLower(id.Path[i])
		}
		if id.Type == "golang" && last == 0 && id.Path[0] == stdlib {
			id.Version = strings.TrimPrefix(id.Version, "go")
		}
	case "rpm":
		for i := range last {
			id.Path[i] = strings.ToLower(id.Path[i])
		}
		id.Version = withoutEpoch(id.Version)
	}
	return id
}

// Bounds of package URLs.
const (
	maxURL      = 512
	maxSegments = 16
)

// parseURL reads a package URL, and leaves out its qualifiers and subpath.
func parseURL(text string) (Identity, error) { return parseWith(text, url.PathUnescape) }

// parseWith reads a package URL whose parts are decoded by unescape.
func parseWith(text string, unescape func(string) (string, error)) (Identity, error) {
	if len(text) > 4*maxURL {
		return Identity{}, fmt.Errorf("a package URL has %d bytes, the maximum is %d", len(text), 4*maxURL)
	}
	text, _, _ = strings.Cut(text, "#")
	text, _, _ = strings.Cut(text, "?")
	rest, found := strings.CutPrefix(text, "pkg:")
	kind, path, separated := strings.Cut(strings.TrimLeft(rest, "/"), "/")
	if !found || !separated || !isType(kind) {
		return Identity{}, fmt.Errorf("%q does not begin with pkg:TYPE/", text)
	}
	segments := strings.Split(strings.Trim(path, "/"), "/")
	if len(segments) > maxSegments {
		return Identity{}, fmt.Errorf("%q has %d segments, the maximum is %d", text, len(segments), maxSegments)
	}
	id := Identity{Type: kind}
	last := len(segments) - 1
	if at := strings.LastIndexByte(segments[last], '@'); at > 0 {
		if id.Version = segments[last][at+1:]; id.Version == "" {
			return Identity{}, fmt.Errorf("%q has an empty version", text)
		}
		segments[last] = segments[last][:at]
	}
	for _, part := range append([]*string{&id.Version}, pointers(segments)...) {
		decoded, err := unescape(*part)
		if err != nil {
			return Identity{}, fmt.Errorf("%q is not percent-encoded correctly: %w", text, err)
		}
		*part = decoded
	}
	// Some write a slash in a name as %2F, such as Syft for packages of Gentoo, and some write it as it is.
	id.Path = strings.Split(strings.Join(segments, "/"), "/")
	if len(id.Path) > maxSegments {
		return Identity{}, fmt.Errorf("%q has %d segments, the maximum is %d", text, len(id.Path), maxSegments)
	}
	for _, part := range append(slices.Clone(id.Path), id.Version) {
		if !utf8.ValidString(part) || strings.ContainsFunc(part, unicode.IsControl) {
			return Identity{}, fmt.Errorf("%q has control characters or invalid UTF-8", text)
		}
	}
	if slices.Contains(id.Path, "") {
		return Identity{}, fmt.Errorf("%q has an empty segment", text)
	}
	return id.normalized(), nil
}

func pointers(segments []string) []*string {
	all := make([]*string, len(segments))
	for i := range segments {
		all[i] = &segments[i]
	}
	return all
}

// isType reports whether a text is the type of a package URL.
func isType(text string) bool {
	return text != "" && 'a' <= text[0] && text[0] <= 'z' && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789.+-") == ""
}
