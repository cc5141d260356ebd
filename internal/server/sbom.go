package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/report"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// sbomNames are the names of the files that browsers make of SBOMs, by media type.
var sbomNames = map[string]string{
	"application/vnd.syft+json":      "sbom.syft.json",
	"application/vnd.cyclonedx+json": "sbom.cdx.json",
	"application/vnd.cyclonedx+xml":  "sbom.cdx.xml",
}

// GetSBOM answers the SBOM as it is stored when the client understands zstd, and decompresses it on the way otherwise; or
// writes the packages in another format.
func (o operations) GetSBOM(ctx context.Context, request api.GetSBOMRequestObject) (api.GetSBOMResponseObject, error) {
	key, err := imageKey(request.ImageId, request.Params.Platform)
	if err != nil {
		return nil, err
	}
	if request.Params.Format != nil {
		format, err := formatOf(requestOf(ctx), request.Params.Format, report.FormatCycloneDX, report.FormatSPDX)
		if err != nil {
			return nil, err
		}
		return o.s.exportSBOM(ctx, key, format)
	}
	release, err := o.s.exportSlot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	sbom, err := o.s.store.SBOM(ctx, visible(ctx), key)
	if err != nil {
		return nil, err
	}
	answer := sbomAnswer{sbom, acceptsZstd(requestOf(ctx).Header)}
	size := int64(len(sbom.Content))
	if !answer.zstd {
		size += min(sbom.Size, maxWindow)
	}
	return answer, memoryOf(ctx).take(size)
}

// maxWindow bounds what decompressing an SBOM takes of memory, beside what is compressed.
const maxWindow = 32 << 20

// sbomAnswer writes a stored SBOM.
type sbomAnswer struct {
	sbom store.SBOM
	zstd bool
}

// VisitGetSBOMResponse writes the answer.
func (a sbomAnswer) VisitGetSBOMResponse(w http.ResponseWriter) error {
	h := w.Header()
	name := sbomNames[a.sbom.MediaType]
	if name == "" {
		name = "sbom"
	}
	h.Set("Content-Type", a.sbom.MediaType)
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	h.Set("Vary", "Accept-Encoding")
	if a.zstd {
		h.Set("Content-Encoding", "zstd")
		h.Set("Content-Length", strconv.Itoa(len(a.sbom.Content)))
		w.WriteHeader(http.StatusOK)
		_, err := w.Write(a.sbom.Content)
		return err
	}
	decoder, err := zstd.NewReader(bytes.NewReader(a.sbom.Content), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true))
	if err != nil {
		return fmt.Errorf("decompress an SBOM: %w", err)
	}
	defer decoder.Close()
	h.Set("Content-Length", strconv.FormatInt(a.sbom.Size, 10))
	w.WriteHeader(http.StatusOK)
	if _, err := io.CopyN(w, decoder, a.sbom.Size); err != nil {
		return fmt.Errorf("decompress an SBOM: %w", err)
	}
	return nil
}

// acceptsZstd reports whether the client takes zstd.
func acceptsZstd(h http.Header) bool {
	for coding := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		name, quality, _ := strings.Cut(coding, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "zstd") {
			continue
		}
		weight, found := strings.CutPrefix(strings.TrimSpace(quality), "q=")
		if !found {
			return true
		}
		q, err := strconv.ParseFloat(weight, 64)
		return err == nil && q > 0
	}
	return false
}

// PutSBOM hands the SBOM of one image on to the ingester.
func (o operations) PutSBOM(ctx context.Context, request api.PutSBOMRequestObject) (api.PutSBOMResponseObject, error) {
	key, err := imageKey(request.ImageId, request.Params.Platform)
	if err != nil {
		return nil, err
	}
	unreadable := value(request.Params.Unreadable)
	if unreadable < 0 || unreadable > store.MaxUnreadable {
		return nil, problem.BadRequest("unreadable is not in the range 0 to %d", store.MaxUnreadable)
	}
	var p parameters
	layersUnknown := p.text("layersUnknown", request.Params.LayersUnknown, model.MaxLayersUnknown)
	if p.err != nil {
		return nil, p.err
	}
	r := requestOf(ctx)
	delivery, err := o.s.guard.AuthorizeUpload(r, key)
	if err != nil {
		return nil, err
	}
	delivery.Unreadable, delivery.LayersUnknown = unreadable, layersUnknown
	keepConnection(ctx)
	admitChange(ctx)
	release, err := o.s.uploadSlot(ctx, r.ContentLength, o.s.limits.SBOMBody)
	if err != nil {
		return nil, err
	}
	defer release()
	switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); encoding {
	case "zstd":
		err = o.s.config.Ingest.IngestSBOM(ctx, key, delivery, request.Body)
	case "", "identity":
		compressed, failed := newCompressor(request.Body)
		if failed != nil {
			return nil, failed
		}
		err = o.s.config.Ingest.IngestSBOM(ctx, key, delivery, compressed)
	default:
		err = problem.New(http.StatusUnsupportedMediaType, "Content-Encoding %.40q is not supported; use zstd or identity", encoding)
	}
	if err != nil {
		return nil, err
	}
	return api.PutSBOM204Response{}, nil
}

// compressor gives what it reads compressed.
type compressor struct {
	body    io.Reader
	encoder *zstd.Encoder
	chunk   []byte
	out     bytes.Buffer
	err     error
}

func newCompressor(body io.Reader) (*compressor, error) {
	c := &compressor{body: body, chunk: make([]byte, 64<<10)}
	encoder, err := zstd.NewWriter(&c.out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return nil, fmt.Errorf("compress an SBOM: %w", err)
	}
	c.encoder = encoder
	return c, nil
}

// Read reads on until there is something compressed to give.
func (c *compressor) Read(p []byte) (int, error) {
	for c.out.Len() == 0 && c.err == nil {
		n, err := c.body.Read(c.chunk)
		if _, failed := c.encoder.Write(c.chunk[:n]); failed != nil {
			c.err = failed
			break
		}
		if errors.Is(err, io.EOF) {
			if err = c.encoder.Close(); err == nil {
				err = io.EOF
			}
		}
		c.err = err
	}
	if c.out.Len() > 0 {
		return c.out.Read(p)
	}
	return 0, c.err
}
