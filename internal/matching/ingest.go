package matching

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	// MediaTypeSyft is the media type of the SBOMs that are taken in.
	MediaTypeSyft = match.MediaTypeSyft
	// maxWindow bounds the memory that a zstd frame can ask for.
	maxWindow = 32 << 20
)

// ErrRefused says that an SBOM is not acceptable: it is malformed or exceeds a bound. Sending it again does not help.
var ErrRefused = errors.New("SBOM refused")

// IngestSBOM keeps a Syft JSON document, compressed with zstd, as the SBOM of an image. When it returns nil the SBOM is durable; matching follows on its own. Errors: ErrRefused, ErrBusy, store.ErrNotFound when
// nobody wants the image, store.ErrAttemptClosed when the Job may not deliver it (any more), and those of the store.
func (a *Matcher) IngestSBOM(ctx context.Context, key model.ImageKey, delivery store.Delivery, body io.Reader) (err error) {
	ctx, end := a.trace(ctx, "ingest SBOM", imageAttributes(key)...)
	defer end(&err)
	// The compressed bytes are kept as they came; the caller bounds them.
	compressed, err := io.ReadAll(body)
	if err != nil {
		return fmt.Errorf("read the SBOM: %w", err)
	}
	return a.decompressed(ctx, MediaTypeSyft, compressed, func(document io.Reader) error {
		sbom, catalog, err := decode(document)
		if err != nil {
			return err
		}
		sbom.Content, sbom.Delivery = compressed, delivery
		return a.save(ctx, key, sbom, catalog)
	})
}

// decompressed calls use with a document that is compressed with zstd, while the memory is reserved that decoding it takes.
func (a *Matcher) decompressed(ctx context.Context, mediaType string, content []byte, use func(document io.Reader) error) error {
	decoder, err := zstd.NewReader(bytes.NewReader(content), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("decompress the SBOM: %w", err)
	}
	defer decoder.Close()
	document, err := weigh(mediaType, decoder)
	if err != nil {
		return fmt.Errorf("%w: decompress it: %w", ErrRefused, err)
	}
	release, err := a.reserve(ctx, document)
	if err != nil {
		return err
	}
	defer release()
	if err := decoder.Reset(bytes.NewReader(content)); err != nil {
		return fmt.Errorf("decompress the SBOM: %w", err)
	}
	return use(decoder)
}

// IngestFile does the same with an uncompressed document in a file, of a scan in a namespace that pulled the image from its registry, and of no Job.
func (a *Matcher) IngestFile(ctx context.Context, key model.ImageKey, namespace, path string) (err error) {
	ctx, end := a.trace(ctx, "ingest SBOM", imageAttributes(key)...)
	defer end(&err)
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read the SBOM: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	document, err := weigh(MediaTypeSyft, file)
	if err != nil {
		return fmt.Errorf("read the SBOM: %w", err)
	}
	release, err := a.reserve(ctx, document)
	if err != nil {
		return err
	}
	defer release()
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read the SBOM: %w", err)
	}
	var compressed bytes.Buffer
	encoder, err := zstd.NewWriter(&compressed, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("compress the SBOM: %w", err)
	}
	sbom, catalog, err := decode(io.TeeReader(file, encoder))
	if err != nil {
		return err
	}
	if err := encoder.Close(); err != nil {
		return fmt.Errorf("compress the SBOM: %w", err)
	}
	sbom.Content, sbom.ScannedIn, sbom.Source = compressed.Bytes(), namespace, model.SourceRegistry
	return a.save(ctx, key, sbom, catalog)
}

// IngestReport keeps a CycloneDX report about an image, as it is in content, and takes the components of document for the packages
// of the image, which are matched like any others. The document is of one of the media types of CycloneDX that match knows. may
// has the namespaces that the report may touch: see store.Reader. Errors are those of IngestSBOM, and store.ErrOtherNamespaces.
func (a *Matcher) IngestReport(ctx context.Context, may store.Namespaces, imageID string, report store.Report, mediaType string, document []byte) error {
	weight, err := weigh(mediaType, bytes.NewReader(document))
	if err != nil {
		return fmt.Errorf("read the report: %w", err)
	}
	release, err := a.reserve(ctx, weight)
	if err != nil {
		return err
	}
	defer release()
	decoded, err := match.DecodeAs(mediaType, bytes.NewReader(document), match.DefaultDecodeLimits(), nil)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if catalog := decoded.Catalog(); len(catalog.Packages) > 0 {
		compressed, err := zstdOf(document)
		if err != nil {
			return err
		}
		digest := sha256.Sum256(document)
		report.Catalog = &catalog
		report.SBOM = &store.SBOM{
			MediaType: mediaType, Content: compressed, SHA256: hex.EncodeToString(digest[:]), Size: int64(len(document)),
		}
	}
	if err := a.store.SaveReport(ctx, may, imageID, report); err != nil {
		return fmt.Errorf("save the report: %w", err)
	}
	a.Wake()
	return nil
}

func zstdOf(document []byte) ([]byte, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("compress the SBOM: %w", err)
	}
	compressed := encoder.EncodeAll(document, nil)
	return compressed, encoder.Close()
}

func (a *Matcher) save(ctx context.Context, key model.ImageKey, sbom store.SBOM, catalog model.Catalog) error {
	if err := a.store.SaveSBOM(ctx, key, sbom, catalog); err != nil {
		return fmt.Errorf("save the SBOM: %w", err)
	}
	a.Wake()
	return nil
}

// decode reads an uncompressed document to its end, within the bounds of match.
func decode(r io.Reader) (store.SBOM, model.Catalog, error) {
	hash := sha256.New()
	var size countingWriter
	whole := io.TeeReader(r, io.MultiWriter(hash, &size))
	decoded, err := match.Decode(whole, match.DefaultDecodeLimits(), nil)
	if err != nil {
		return store.SBOM{}, model.Catalog{}, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return store.SBOM{
		MediaType: MediaTypeSyft, SHA256: hex.EncodeToString(hash.Sum(nil)), Size: int64(size),
	}, decoded.Catalog(), nil
}

type countingWriter int64

func (c *countingWriter) Write(p []byte) (int, error) {
	*c += countingWriter(len(p))
	return len(p), nil
}
