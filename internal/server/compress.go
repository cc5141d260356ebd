package server

import (
	"fmt"
	"net/http"

	"github.com/klauspost/compress/gzhttp"
)

// minCompressed is the size from which on answers are compressed, in bytes.
const minCompressed = 1 << 10

// newCompression returns what compresses answers with zstd or gzip for clients that take it. What is compressed already is left
// as it is.
func newCompression() (func(http.Handler) http.HandlerFunc, error) {
	wrap, err := gzhttp.NewWrapper(gzhttp.MinSize(minCompressed))
	if err != nil {
		return nil, fmt.Errorf("set up compression: %w", err)
	}
	return wrap, nil
}
