package catalog

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"hash/maphash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

const (
	// layerAttempts bounds the attempts to fetch a layer whose transfer is interrupted.
	layerAttempts = 3
	// maxZstdWindow bounds the memory of the zstd decoder; what current tools write needs 8 MiB.
	maxZstdWindow = 128 << 20
	// maxPathBytes bounds names and link targets of a layer's entries, as Linux does.
	maxPathBytes = 4096
	// layersFolder is where decompressed layers are, named by diff ID. Stereoscope looks for its own copies under
	// these names in the folder that it is given, so that a layer is on disk once.
	layersFolder = "layers"
)

// fetchLayers brings all layers into the scratch folder, decompressed, verified and within the limits.
func fetchLayers(ctx context.Context, img *resolved, request Request, limits Limits, scratch string, stats *Stats) error {
	folder := filepath.Join(scratch, layersFolder)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("create a directory for the layers: %w", err)
	}
	entryCounter := newEntryCounter(limits)
	for i, l := range img.layers {
		target := filepath.Join(folder, l.diffID.String())
		if _, err := os.Stat(target); err == nil {
			// The same layer twice costs nothing to fetch but counts again, since Stereoscope reads it again.
			if err := entryCounter.count(ctx, target); err != nil {
				return layerError(ctx, i, err)
			}
			continue
		}
		if err := fetchLayer(ctx, l, target, request, limits, stats); err != nil {
			// Another registry may deliver it.
			return layerError(ctx, i, errors.Join(err, removed(target)))
		}
		if err := entryCounter.count(ctx, target); err != nil {
			return layerError(ctx, i, err)
		}
	}
	stats.Files = entryCounter.files
	return nil
}

// removed removes a file that may not exist.
func removed(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove an incomplete layer: %w", err)
	}
	return nil
}

func layerError(ctx context.Context, index int, err error) error {
	failure := typed(ctx, err, model.ReasonCatalogFailed)
	return &Error{Reason: failure.Reason, Err: fmt.Errorf("layer %d: %w", index+1, failure.Err)}
}

func fetchLayer(ctx context.Context, l layer, target string, request Request, limits Limits, stats *Stats) error {
	var err error
	for attempt := range layerAttempts {
		var size int64
		size, err = fetchLayerOnce(ctx, l, target, limits.DecompressedBytes-stats.DecompressedBytes, limits.DecompressedBytes)
		if err == nil {
			stats.DecompressedBytes += size
			return nil
		}
		// Only an interrupted transfer is retried.
		if _, broken := errors.AsType[*transferError](err); !broken || ctx.Err() != nil {
			return err
		}
		if sleepErr := request.sleep(ctx, 200*time.Millisecond<<attempt); sleepErr != nil {
			return err
		}
	}
	return failf(model.ReasonRegistryUnavailable, "%w (%d attempts)", err, layerAttempts)
}

// transferError is a failure of reading from the registry, in contrast to one of the content.
type transferError struct{ err error }

func (e *transferError) Error() string { return "the transfer was interrupted: " + e.err.Error() }
func (e *transferError) Unwrap() error { return e.err }

// fetchLayerOnce streams a layer through both digests into target and returns its decompressed size.
func fetchLayerOnce(ctx context.Context, l layer, target string, left, limit int64) (int64, error) {
	body, err := l.open(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = body.Close() }()
	incoming, err := newVerifyingReader(ctx, body, l.descriptor)
	if err != nil {
		return 0, err
	}
	content, _, err := decompress(incoming)
	if err != nil {
		return 0, incoming.orOwn(err)
	}
	defer content.Close()
	file, err := os.OpenFile(target, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	diffID := sha256.New()
	bounded := &boundedReader{ctx: ctx, reader: content, left: left, limit: limit}
	size, err := io.Copy(io.MultiWriter(file, diffID), bounded)
	if err != nil {
		return 0, incoming.orOwn(err)
	}
	// Bytes after the end of the compressed stream belong to the digest too.
	if _, err := io.Copy(io.Discard, incoming); err != nil {
		return 0, incoming.orOwn(err)
	}
	if err := incoming.check(); err != nil {
		return 0, err
	}
	if got := fmt.Sprintf("%x", diffID.Sum(nil)); got != l.diffID.Hex {
		return 0, failf(model.ReasonCatalogFailed, "its content has the diff ID sha256:%s instead of %s", got, l.diffID)
	}
	return size, file.Close()
}

// verifyingReader reads no more than the stated size and computes the digest.
type verifyingReader struct {
	ctx    context.Context //nolint:containedctx // io.Reader has no context parameter
	reader io.Reader
	want   v1.Descriptor
	hasher hash.Hash
	read   int64
	err    error
}

func newVerifyingReader(ctx context.Context, reader io.Reader, want v1.Descriptor) (*verifyingReader, error) {
	r := &verifyingReader{ctx: ctx, reader: reader, want: want}
	if want.Digest != (v1.Hash{}) {
		hasher, err := v1.Hasher(want.Digest.Algorithm)
		if err != nil {
			return nil, failf(model.ReasonNotPullable, "its digest has the algorithm %q, which is not supported", quoteText(want.Digest.Algorithm, 40))
		}
		r.hasher = hasher
	}
	return r, nil
}

func (r *verifyingReader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	if r.ctx.Err() != nil {
		r.err = context.Cause(r.ctx)
		return 0, r.err
	}
	n, err := r.reader.Read(p)
	r.read += int64(n)
	if r.hasher != nil {
		_, _ = r.hasher.Write(p[:n])
	}
	switch {
	case r.read > r.want.Size:
		r.err = failf(model.ReasonCatalogFailed, "it is larger than the size of %d bytes in the manifest", r.want.Size)
		return 0, r.err
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF) && r.read == r.want.Size:
		r.err = io.EOF
	case errors.Is(err, io.EOF):
		r.err = &transferError{fmt.Errorf("received %d of %d bytes", r.read, r.want.Size)}
	default:
		r.err = &transferError{withoutURL(err)}
	}
	return n, r.err
}

// orOwn prefers the failure of the transfer to what a decoder made of it.
func (r *verifyingReader) orOwn(err error) error {
	if r.err != nil && !errors.Is(r.err, io.EOF) {
		return r.err
	}
	return err
}

func (r *verifyingReader) check() error {
	if r.hasher == nil {
		return nil
	}
	if got := fmt.Sprintf("%x", r.hasher.Sum(nil)); got != r.want.Digest.Hex {
		return failf(model.ReasonCatalogFailed, "it has the digest %s:%s instead of %s; it was modified in transit or in the registry",
			r.want.Digest.Algorithm, got, r.want.Digest)
	}
	return nil
}

// boundedReader fails, rather than ends, when more than left bytes come.
type boundedReader struct {
	ctx         context.Context //nolint:containedctx // io.Reader has no context parameter
	reader      io.Reader
	left, limit int64
}

func (r *boundedReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	n, err := r.reader.Read(p)
	if r.left -= int64(n); r.left < 0 {
		return 0, tooManyBytes(r.limit)
	}
	return n, err
}

func tooManyBytes(limit int64) error {
	return failf(model.ReasonImageTooLarge, "the image exceeds the limit of %d bytes after decompression", limit)
}

// decompress recognises gzip and zstd by their first bytes, whatever the media type says.
func decompress(reader io.Reader) (content io.ReadCloser, compressed bool, err error) {
	buffered := bufio.NewReaderSize(reader, 64<<10)
	magic, err := buffered.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		content, err = gzip.NewReader(buffered)
		if err != nil {
			return nil, false, fmt.Errorf("decompress gzip: %w", err)
		}
		return content, true, nil
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		decoder, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, false, fmt.Errorf("decompress zstd: %w", err)
		}
		return decoder.IOReadCloser(), true, nil
	}
	return io.NopCloser(buffered), false, nil
}

// entryCounter counts what Stereoscope will keep in memory for the layers.
type entryCounter struct {
	limits Limits
	files  int64
	bytes  int64
	seed   maphash.Seed
	// folders holds the hashes of the paths of folders seen, so that each counts once.
	folders map[uint64]struct{}
}

func newEntryCounter(limits Limits) *entryCounter {
	return &entryCounter{limits: limits, seed: maphash.MakeSeed(), folders: map[uint64]struct{}{}}
}

// count reads the headers of a layer; the content is skipped.
func (c *entryCounter) count(ctx context.Context, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	reader := tar.NewReader(f)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return failf(model.ReasonCatalogFailed, "it is not a readable tar archive: %w", err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := c.add(header); err != nil {
			return err
		}
	}
}

func (c *entryCounter) add(header *tar.Header) error {
	if len(header.Name) > maxPathBytes || len(header.Linkname) > maxPathBytes {
		return failf(model.ReasonCatalogFailed, "an entry has a name of %d bytes, more than the limit of %d", max(len(header.Name), len(header.Linkname)), maxPathBytes)
	}
	c.files++
	name := strings.Trim(header.Name, "/")
	for c.files <= c.limits.Files {
		end := strings.LastIndexByte(name, '/')
		if end < 0 {
			break
		}
		name = strings.TrimRight(name[:end], "/")
		key := maphash.String(c.seed, name)
		if _, seen := c.folders[key]; seen {
			break
		}
		c.folders[key] = struct{}{}
		c.files++
	}
	if c.files > c.limits.Files {
		return failf(model.ReasonImageTooLarge, "the image exceeds the limit of %d files", c.limits.Files)
	}
	// A sparse file states more than the archive holds.
	if header.Size > c.limits.DecompressedBytes || c.bytes+header.Size > c.limits.DecompressedBytes {
		return tooManyBytes(c.limits.DecompressedBytes)
	}
	c.bytes += header.Size
	return nil
}
