// Package getter has the part of the interface of github.com/hashicorp/go-getter v1 that Grype and Syft compile against,
// and downloads nothing. The operator downloads vulnerability databases itself (internal/vulndb) and gives Syft local
// files only, so nothing calls it; what it replaces brings 383 packages of three cloud providers into the binary.
// docs/decisions/0025-cold-start.md has the figures.
package getter

import (
	"errors"
	"io"
	"net/http"
	"os"
)

// ErrUnavailable is what every download ends with.
var ErrUnavailable = errors.New("this build of Grype and Syft downloads nothing: give it a local file")

// Client is what Grype and Syft fill in for a download. Its fields are those of the replaced module.
type Client struct {
	Src, Dst string
	Dir      bool
	Getters  map[string]Getter
	Options  []ClientOption
}

// Get returns ErrUnavailable.
func (*Client) Get() error { return ErrUnavailable }

// ClientOption is a setting of a Client.
type ClientOption func(*Client) error

// Getter is a protocol that a Client could use.
type Getter interface{ getter() }

type protocol struct{}

func (protocol) getter() {}

// The protocols that Grype and Syft name.
type (
	FileGetter struct{ protocol }
	GitGetter  struct{ protocol }
	GCSGetter  struct{ protocol }
	HgGetter   struct{ protocol }
	S3Getter   struct{ protocol }
	HttpGetter struct { //nolint:revive // the name that the replaced module has
		protocol

		Client *http.Client
		Header http.Header
	}
)

// Decompressor unpacks what was downloaded.
type Decompressor interface {
	Decompress(dst, src string, dir bool, umask os.FileMode) error
}

// Decompressors is empty: no name of a file stands for an archive that can be downloaded.
var Decompressors = map[string]Decompressor{}

// LimitedDecompressors returns an empty map; Grype adds its own decompressors to it.
func LimitedDecompressors(int, int64) map[string]Decompressor { return map[string]Decompressor{} }

// WithDecompressors returns an option that changes nothing.
func WithDecompressors(map[string]Decompressor) ClientOption { return nothing }

// ProgressTracker is told how a download goes on.
type ProgressTracker interface {
	TrackProgress(src string, currentSize, totalSize int64, stream io.ReadCloser) io.ReadCloser
}

// WithProgress returns an option that changes nothing.
func WithProgress(ProgressTracker) func(*Client) error { return nothing }

func nothing(*Client) error { return nil }
