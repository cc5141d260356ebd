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
	digestPattern   = regexp.MustCompile(`^sha(256:[a-f0-9]{64}|512:[a-f0-9]{128})$`)
	platformPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,31}$`)
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
	host, _, nested := strings.Cut(repository, "/")
	if !nested || host != "localhost" && !strings.ContainsAny(host, ".:") {
		return "docker.io"
	}
	switch host = strings.ToLower(host); host {
	case "index.docker.io", "registry-1.docker.io":
		return "docker.io"
	}
	return host
}

// Digest is the digest in the image ID, "" when there is none.
func (k ImageKey) Digest() string {
	id := k.ImageID
	if _, digest, found := strings.Cut(id, "@"); found {
		id = digest
	}
	if digestPattern.MatchString(id) {
		return id
	}
	return ""
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
