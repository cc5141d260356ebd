// Package remotes has the types of containerd's connections to registries that Stereoscope compiles against. There is no connection.
package remotes

import (
	"context"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Resolver finds images in registries.
type Resolver any

// MakeRefKey returns the digest.
func MakeRefKey(_ context.Context, desc ocispec.Descriptor) string { return desc.Digest.String() }
