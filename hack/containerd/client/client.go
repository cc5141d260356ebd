// Package client has the part of the interface of github.com/containerd/containerd that Stereoscope compiles against, and connects to nothing.
// Stereoscope reads images from containerd where the name of a source says so. The operator reads images from registries, archives and volumes
// only. docs/decisions/0113-size-of-the-program-again.md has the figures.
package client

import (
	"context"
	"errors"
	"io"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/images/archive"
	"github.com/containerd/containerd/v2/core/remotes"
)

// ErrUnavailable is what everything here ends with.
var ErrUnavailable = errors.New("this build of Stereoscope reads no images from containerd")

// Client is never made.
type Client struct{}

// Opt is an option of New.
type Opt struct{}

// RemoteOpt is an option of Pull.
type RemoteOpt struct{}

// Image is one that containerd has. There is none.
type Image interface {
	Name() string
	Target() ocispec.Descriptor
	Size(ctx context.Context) (int64, error)
	Metadata() images.Image
}

// New returns ErrUnavailable.
func New(string, ...Opt) (*Client, error) { return nil, ErrUnavailable }

// WithPlatform does nothing.
func WithPlatform(string) RemoteOpt { return RemoteOpt{} }

// WithImageHandler does nothing.
func WithImageHandler(images.Handler) RemoteOpt { return RemoteOpt{} }

// WithResolver does nothing.
func WithResolver(remotes.Resolver) RemoteOpt { return RemoteOpt{} }

// Close returns nil.
func (*Client) Close() error { return nil }

// GetImage returns ErrUnavailable.
func (*Client) GetImage(context.Context, string) (Image, error) { return nil, ErrUnavailable }

// Pull returns ErrUnavailable.
func (*Client) Pull(context.Context, string, ...RemoteOpt) (Image, error) { return nil, ErrUnavailable }

// Export returns ErrUnavailable.
func (*Client) Export(context.Context, io.Writer, ...archive.ExportOpt) error { return ErrUnavailable }

// ContentStore returns nil.
func (*Client) ContentStore() content.Store { return nil }

// ImageService returns nil.
func (*Client) ImageService() images.Store { return nil }
