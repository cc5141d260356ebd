package model

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// MaxImageIDLength bounds an image ID in bytes; the longest that a runtime can report is a repository
// name of 255 bytes, a digest of at most 135 and separators.
const MaxImageIDLength = 512

var (
	platformPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,31}$`)
	hostPattern     = regexp.MustCompile(`^([a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?$`)
	pathPattern     = regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)
	importPattern   = regexp.MustCompile(`^docker\.io/library/import-[0-9]{4}-[0-9]{2}-[0-9]{2}$`)
)

// MaxRepositoryLength bounds a repository in bytes, with its registry.
const MaxRepositoryLength = 255

// MaxFallbacks bounds the repositories that a scan of an image tries besides that of the image ID.
const MaxFallbacks = 4

// dockerHub is the registry of references that name none.
const dockerHub = "docker.io"

// ImageSource is how an image was read for its SBOM, "" when that is not known.
type ImageSource string

// The sources.
const (
	// SourceRegistry: the scan pulled the image from its registry.
	SourceRegistry ImageSource = "Registry"
	// SourceImageVolume: the kubelet mounted the image for the scan.
	SourceImageVolume ImageSource = "ImageVolume"
)

// Platform names what an image was built for, as in the OCI image specification.
type Platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	Variant      string `json:"variant,omitempty"`
}

// String returns "os/architecture" or "os/architecture/variant", and "" for the zero value.
func (p Platform) String() string {
	if p == (Platform{}) {
		return ""
	}
	s := p.OS + "/" + p.Architecture
	if p.Variant != "" {
		s += "/" + p.Variant
	}
	return s
}

// ParsePlatform reads what String writes.
func ParsePlatform(s string) (Platform, error) {
	parts := strings.Split(s, "/")
	if len(parts) < 2 || len(parts) > 3 {
		return Platform{}, fmt.Errorf("platform %q is not of the form os/architecture[/variant]", s)
	}
	for _, part := range parts {
		if !platformPattern.MatchString(part) {
			return Platform{}, fmt.Errorf("platform %q: %q is not a valid part", s, part)
		}
	}
	p := Platform{OS: parts[0], Architecture: parts[1]}
	if len(parts) == 3 {
		p.Variant = parts[2]
	}
	return p, nil
}

// ImageKey identifies what is cataloged: the image that a container runtime reported, for one platform.
type ImageKey struct {
	// ImageID is status.containerStatuses[].imageID without a runtime's scheme such as "docker-pullable://":
	// "repository@digest", or a bare digest where the runtime knows no repository.
	ImageID  string
	Platform Platform
}

// String returns "imageID (platform)", for logs.
func (k ImageKey) String() string { return k.ImageID + " (" + k.Platform.String() + ")" }

// NormalizeImageID removes the scheme that some runtimes put in front of an image ID.
func NormalizeImageID(id string) string {
	if _, rest, found := strings.Cut(id, "://"); found {
		return rest
	}
	return id
}

// Repository is the part of the image ID in front of the digest, "" when there is none.
func (k ImageKey) Repository() string {
	repository, _, found := strings.Cut(k.ImageID, "@")
	if !found {
		return ""
	}
	return repository
}

// Registry is the host, with its port if there is one, of the registry that the repository is in: "docker.io" where none is named,
// and "" without a repository.
func (k ImageKey) Registry() string {
	repository := k.Repository()
	if repository == "" {
		return ""
	}
	host, _ := splitRepository(repository)
	return host
}

// splitRepository returns the registry of a repository in lower case, and the rest of it.
func splitRepository(repository string) (host, path string) {
	host, path, nested := strings.Cut(repository, "/")
	if !nested || host != "localhost" && !strings.ContainsAny(host, ".:") {
		return dockerHub, repository
	}
	switch host = strings.ToLower(host); host {
	case "index.docker.io", "registry-1.docker.io":
		return dockerHub, path
	}
	return host, path
}

// RepositoryOf returns the repository of an image reference in full, such as "docker.io/library/debian" for "debian:12", "" for what
// names none.
func RepositoryOf(reference string) string {
	name, _, _ := strings.Cut(reference, "@")
	if colon := strings.LastIndexByte(name, ':'); colon > strings.LastIndexByte(name, '/') {
		name = name[:colon]
	}
	host, path := splitRepository(name)
	if host == dockerHub && !strings.Contains(path, "/") {
		path = "library/" + path
	}
	repository := host + "/" + path
	if isDigest(reference) || len(repository) > MaxRepositoryLength || !hostPattern.MatchString(host) || !pathPattern.MatchString(path) {
		return ""
	}
	return repository
}

// Imported reports whether the repository is one that containerd makes up for an image that somebody loads into a node. No registry has it.
func (k ImageKey) Imported() bool { return importPattern.MatchString(RepositoryOf(k.Repository())) }

// Digest is the digest in the image ID, "" when there is none.
func (k ImageKey) Digest() string {
	id := k.ImageID
	if _, digest, found := strings.Cut(id, "@"); found {
		id = digest
	}
	if isDigest(id) {
		return id
	}
	return ""
}

// isDigest reports whether a text is a digest with SHA-256 or SHA-512. Each reconcile asks that of each container.
func isDigest(text string) bool {
	hash, sha256 := strings.CutPrefix(text, "sha256:")
	size := 64
	if !sha256 {
		var sha512 bool
		if hash, sha512 = strings.CutPrefix(text, "sha512:"); !sha512 {
			return false
		}
		size = 128
	}
	return len(hash) == size && strings.Trim(hash, "0123456789abcdef") == ""
}

// Pullable reports whether a registry can be asked for the image: repository and digest are known.
func (k ImageKey) Pullable() bool { return k.Repository() != "" && k.Digest() != "" }

// Validate checks the bounds of an image ID that comes from outside.
func (k ImageKey) Validate() error {
	switch {
	case k.ImageID == "":
		return errors.New("the image ID is empty")
	case len(k.ImageID) > MaxImageIDLength:
		return fmt.Errorf("the image ID has %d bytes, more than the limit of %d", len(k.ImageID), MaxImageIDLength)
	}
	for _, r := range k.ImageID {
		if r <= ' ' || r > '~' {
			return fmt.Errorf("the image ID holds the character %q; only printable ASCII without spaces is allowed", r)
		}
	}
	return nil
}
