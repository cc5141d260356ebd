package decision

import (
	"fmt"
	"slices"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// maxImagePattern bounds an image pattern in bytes: a repository and a digest.
const maxImagePattern = model.MaxImageIDLength

// ImagePattern matches images by their repository, their digest or both, as the kubelet reports them. It never sees a tag: whoever writes a pod
// chooses the tag, and a tag can be moved.
type ImagePattern struct {
	// path has the registry and the segments of the repository; it is nil if every repository matches.
	path []segment
	// below says that all repositories below the path match, not only the path itself.
	below bool
	// digest is "" if every digest matches.
	digest string
}

// ParseImagePattern reads a pattern: a repository with its registry, such as "registry.example.com/team-a/app", a digest, or both with "@" between
// them. "*" at the end of a segment of the repository stands for any text without a slash, a last segment that is only "*" for all repositories
// below, and "*" in place of the repository for all of them. It has at most 512 bytes.
func ParseImagePattern(text string) (ImagePattern, error) {
	if len(text) > maxImagePattern {
		return ImagePattern{}, fmt.Errorf("an image pattern has %d bytes, the maximum is %d", len(text), maxImagePattern)
	}
	if isDigest(text) {
		return ImagePattern{digest: text}, nil
	}
	repository, digest, found := strings.Cut(text, "@")
	if found && !isDigest(digest) {
		return ImagePattern{}, fmt.Errorf("the image pattern %q has no digest after @, such as sha256: and 64 hexadecimal digits", text)
	}
	p := ImagePattern{digest: digest}
	if repository == "*" {
		return p, nil
	}
	segments := strings.Split(repository, "/")
	if last := segments[len(segments)-1]; strings.Contains(last, ":") {
		return ImagePattern{}, fmt.Errorf("the image pattern %q has a tag: remove %q, since a tag can be moved to another image; name one image by its digest",
			text, last[strings.IndexByte(last, ':'):])
	}
	if host := segments[0]; len(segments) < 2 || host != "localhost" && !strings.ContainsAny(host, ".:*") {
		return ImagePattern{}, fmt.Errorf("the image pattern %q does not begin with a registry, as in docker.io/library/nginx", text)
	}
	if len(segments) > maxSegments {
		return ImagePattern{}, fmt.Errorf("the image pattern %q has %d segments, the maximum is %d", text, len(segments), maxSegments)
	}
	if last := len(segments) - 1; segments[last] == "*" {
		p.below, segments = true, segments[:last]
	}
	for i, part := range segments {
		if i == 0 {
			part = strings.ToLower(part)
		}
		s, err := parseSegment(part)
		if err != nil {
			return ImagePattern{}, fmt.Errorf("image pattern %q: %w", text, err)
		}
		if part == "" || strings.Trim(s.text, "abcdefghijklmnopqrstuvwxyz0123456789._-:[]") != "" {
			return ImagePattern{}, fmt.Errorf("the image pattern %q has a segment that is empty, or has a character that repositories do not have", text)
		}
		p.path = append(p.path, s)
	}
	return p, nil
}

// isDigest reports whether a text is a digest with its algorithm.
func isDigest(text string) bool { return text != "" && model.ImageKey{ImageID: text}.Digest() == text }

// Image is what patterns see of an image.
type Image struct {
	path   []string
	digest string
}

// ImageOf is what patterns see of an image ID. An image without a repository has a digest only.
func ImageOf(imageID string) Image {
	key := model.ImageKey{ImageID: imageID}
	image := Image{digest: key.Digest()}
	if repository := model.RepositoryOf(key.Repository()); repository != "" {
		image.path = strings.Split(repository, "/")
	}
	return image
}

// Matches reports whether an image is meant.
func (p *ImagePattern) Matches(image *Image) bool {
	if p.digest != "" && p.digest != image.digest {
		return false
	}
	if p.path == nil {
		return true
	}
	if len(image.path) < len(p.path) || p.below == (len(image.path) == len(p.path)) {
		return false
	}
	for i, s := range p.path {
		if !s.matches(image.path[i]) {
			return false
		}
	}
	return true
}

// ImageMatcher tells which images are meant by patterns.
type ImageMatcher struct {
	// digests are the patterns that name a digest; the others have none.
	digests map[string][]ImagePattern
	others  []ImagePattern
}

// NewImageMatcher makes the matcher of patterns. An image is meant if one of them matches it.
func NewImageMatcher(patterns []string) (*ImageMatcher, error) {
	m := &ImageMatcher{digests: map[string][]ImagePattern{}}
	for _, text := range patterns {
		p, err := ParseImagePattern(text)
		if err != nil {
			return nil, err
		}
		if p.digest != "" {
			m.digests[p.digest] = append(m.digests[p.digest], p)
		} else {
			m.others = append(m.others, p)
		}
	}
	return m, nil
}

// Matches reports whether an image is meant.
func (m *ImageMatcher) Matches(image *Image) bool {
	for _, patterns := range [][]ImagePattern{m.digests[image.digest], m.others} {
		for i := range patterns {
			if patterns[i].Matches(image) {
				return true
			}
		}
	}
	return false
}

// ImageIndex finds those of many matchers that match an image.
type ImageIndex struct {
	// digests are the matchers with patterns that name a digest, others those with patterns that do not.
	digests map[string][]int
	others  []int
	all     []*ImageMatcher
	// known are those of others that match the images of a repository.
	known map[string][]int
}

// NewImageIndex makes the index of matchers.
func NewImageIndex(matchers []*ImageMatcher) *ImageIndex {
	x := &ImageIndex{digests: map[string][]int{}, all: matchers, known: map[string][]int{}}
	for i, m := range matchers {
		for digest := range m.digests {
			x.digests[digest] = append(x.digests[digest], i)
		}
		if len(m.others) > 0 {
			x.others = append(x.others, i)
		}
	}
	return x
}

// Matching lists the numbers of the matchers that match an image, in order and each once.
func (x *ImageIndex) Matching(imageID string) []int {
	image := ImageOf(imageID)
	repository := strings.Join(image.path, "/")
	found, known := x.known[repository]
	if !known {
		for _, i := range x.others {
			if x.all[i].Matches(&Image{path: image.path}) {
				found = append(found, i)
			}
		}
		x.known[repository] = found
	}
	found = slices.Clone(found)
	for _, i := range x.digests[image.digest] {
		if x.all[i].Matches(&image) {
			found = append(found, i)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
