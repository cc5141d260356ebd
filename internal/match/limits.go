package match

import (
	"errors"
	"fmt"
	"io"
)

// ErrLimit is wrapped by every error of Decode that refuses an SBOM because it exceeds a bound; the message names the
// bound.
var ErrLimit = errors.New("the SBOM exceeds a limit")

// ErrFormat is wrapped by every error of Decode that refuses an SBOM because it is not a document of the format that it should be of.
var ErrFormat = errors.New("the SBOM cannot be read")

// DecodeLimits bounds what Decode accepts. A field that is zero or less means its default, never "unlimited".
type DecodeLimits struct {
	// Bytes is the size of the whole document. Default 128 MiB; the largest seen in practice is 17 MB for an image
	// of 1 GB with 719 packages.
	Bytes int64
	// Packages is the number of packages. Default 100,000.
	Packages int
	// Relationships is the number of relationships between packages. Default 1,000,000.
	Relationships int
	// Files is the number of file records. Default 1,000,000.
	Files int
	// Values is the number of JSON values of every kind in the whole document, which bounds the memory that small
	// elements can cost. Default 5,000,000.
	Values int
	// StringBytes is the size of one string as it is written in the document. Default 1 MiB.
	StringBytes int
	// Depth is the nesting of arrays and objects. Default 64.
	Depth int
	// ContextBytes is the size of what all packages have as owners and as namesakes, as far as both take part in matching.
	// Default 64 MiB; some 100 KB are usual.
	ContextBytes int
}

// DefaultDecodeLimits returns the defaults that DecodeLimits names.
func DefaultDecodeLimits() DecodeLimits {
	return DecodeLimits{
		Bytes:         128 << 20,
		Packages:      100_000,
		Relationships: 1_000_000,
		Files:         1_000_000,
		Values:        5_000_000,
		StringBytes:   1 << 20,
		Depth:         64,
		ContextBytes:  64 << 20,
	}
}

func (l DecodeLimits) withDefaults() DecodeLimits {
	d := DefaultDecodeLimits()
	if l.Bytes <= 0 {
		l.Bytes = d.Bytes
	}
	for _, f := range []struct {
		value    *int
		fallback int
	}{
		{&l.Packages, d.Packages},
		{&l.Relationships, d.Relationships},
		{&l.Files, d.Files},
		{&l.Values, d.Values},
		{&l.StringBytes, d.StringBytes},
		{&l.Depth, d.Depth},
		{&l.ContextBytes, d.ContextBytes},
	} {
		if *f.value <= 0 {
			*f.value = f.fallback
		}
	}
	return l
}

// readBounded reads all of r, or refuses it as soon as it is longer than the limit.
func readBounded(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read the SBOM: %w", err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%w: it is larger than %d bytes", ErrLimit, limit)
	}
	return data, nil
}
