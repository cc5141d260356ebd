package server

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/report"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// PutScanResult keeps an uploaded report. The store's event announces it.
func (o operations) PutScanResult(ctx context.Context, request api.PutScanResultRequestObject) (api.PutScanResultResponseObject, error) {
	r := requestOf(ctx)
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, problem.New(http.StatusUnsupportedMediaType, "Content-Encoding %.40q is not supported for this resource; send the body uncompressed", encoding)
	}
	if r.ContentLength > o.s.limits.ReportBody {
		return nil, &http.MaxBytesError{Limit: o.s.limits.ReportBody}
	}
	mediaType, bare := bareMediaType(r)
	switch {
	case bare && request.Params.ImageId == nil:
		return nil, problem.BadRequest("imageId is required for a body of type %s", mediaType)
	case !bare && request.Params.ImageId != nil:
		return nil, problem.BadRequest("imageId is only allowed for a body of type %s or %s",
			report.MediaTypeCycloneDXJSON, report.MediaTypeCycloneDXXML)
	}
	release, err := o.s.uploadSlot(ctx, r.ContentLength, o.s.limits.ReportBody)
	if err != nil {
		return nil, err
	}
	defer release()
	body, err := readBody(request.Body, r.ContentLength)
	if err != nil {
		return nil, err
	}
	// The answer holds the report.
	if err := memoryOf(ctx).take(int64(len(body))); err != nil {
		return nil, err
	}
	var upload report.Upload
	if bare {
		upload, err = report.ReadDocument(*request.Params.ImageId, mediaType, body, o.s.limits.Report)
	} else {
		upload, err = report.ReadUpload(body, o.s.limits.Report)
	}
	if err != nil {
		return nil, err
	}
	nameChange(ctx, upload.ImageID)
	if err := o.s.keepReport(ctx, upload, bare); err != nil {
		return nil, err
	}
	return result{upload.ImageID, upload.Report}, nil
}

// bareMediaType recognizes a CycloneDX document by its media type. Any other body is the object that names the image: early clients
// send various types, or none.
func bareMediaType(r *http.Request) (mediaType string, bare bool) {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return mediaType, err == nil && (mediaType == report.MediaTypeCycloneDXJSON || mediaType == report.MediaTypeCycloneDXXML)
}

// keepReport keeps a report with its components. A client that sends an object is not refused because of components that cannot be
// read: the vulnerabilities of its report are kept without them.
func (s *Server) keepReport(ctx context.Context, upload report.Upload, strict bool) error {
	may, err := s.mayChange(ctx, auth.VerbUpdate, upload.ImageID)
	if err != nil {
		return err
	}
	counts := store.Counts{SeverityCounts: upload.Summary.Severities, KEV: upload.Summary.KEV, Fixable: upload.Summary.Fixable}
	err = s.config.Ingest.IngestReport(ctx, upload.ImageID, UploadedReport{
		May: may, Content: upload.Report, Document: upload.Document, MediaType: upload.MediaType, Counts: counts,
	})
	refused, isRefused := errors.AsType[*problem.RefusedError](err)
	if strict || !isRefused {
		return otherNamespaces(err, auth.VerbUpdate)
	}
	s.log.Info("Cannot read the components of an uploaded report", "image", upload.ImageID, "error", refused.Detail)
	err = s.store.SaveReport(ctx, may, upload.ImageID, store.Report{Content: upload.Report, Counts: counts})
	return otherNamespaces(err, auth.VerbUpdate)
}
