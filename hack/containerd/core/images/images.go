// Package images has the types of containerd's images that Stereoscope compiles against.
package images

import (
	"context"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Media types of Docker's images.
const (
	MediaTypeDockerSchema1Manifest     = "application/vnd.docker.distribution.manifest.v1+prettyjws"
	MediaTypeDockerSchema2Manifest     = "application/vnd.docker.distribution.manifest.v2+json"
	MediaTypeDockerSchema2ManifestList = "application/vnd.docker.distribution.manifest.list.v2+json"
	MediaTypeDockerSchema2Config       = "application/vnd.docker.container.image.v1+json"
)

// Image is what containerd records about an image.
type Image struct{ Target ocispec.Descriptor }

// Store is a store of images.
type Store any

// Handler is called with what is pulled.
type Handler any

// HandlerFunc is a Handler.
type HandlerFunc func(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error)
