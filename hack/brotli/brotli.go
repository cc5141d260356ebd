// Package brotli has the part of the interface of github.com/andybalholm/brotli that readers of archives compile against, and decompresses nothing.
// Syft reads archives with it in images only where its configuration asks for those that have no index, which that of the operator does not.
// docs/decisions/0113-size-of-the-program-again.md has the figures.
package brotli

import (
	"errors"
	"io"
)

// ErrUnavailable is what everything here ends with.
var ErrUnavailable = errors.New("this build of Syft reads no Brotli")

// DefaultCompression is the level of compression that the replaced module has by default.
const DefaultCompression = 6

// Reader decompresses nothing.
type Reader struct{}

// NewReader returns a reader that fails.
func NewReader(io.Reader) *Reader { return &Reader{} }

// Reset returns ErrUnavailable.
func (*Reader) Reset(io.Reader) error { return ErrUnavailable }

// Read returns ErrUnavailable.
func (*Reader) Read([]byte) (int, error) { return 0, ErrUnavailable }

// Writer compresses nothing.
type Writer struct{}

// NewWriterLevel returns a writer that fails.
func NewWriterLevel(io.Writer, int) *Writer { return &Writer{} }

// Write returns ErrUnavailable.
func (*Writer) Write([]byte) (int, error) { return 0, ErrUnavailable }

// Close returns ErrUnavailable.
func (*Writer) Close() error { return ErrUnavailable }
