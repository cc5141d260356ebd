package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/report"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// An image has a result when it was scanned, or when a report about it was uploaded. What we found ourselves comes first: an
// uploaded report is given only for as long as the image is not scanned.

// result is one scan result. The report is written as it is, byte for byte.
type result struct {
	imageID string
	report  []byte
}

// writeTo writes the result as a JSON object.
func (r result) writeTo(w io.Writer) error {
	id, err := json.Marshal(r.imageID)
	if err != nil {
		return err
	}
	for _, part := range [][]byte{[]byte(`{"imageId":`), id, []byte(`,"report":`), bytes.TrimSpace(r.report), []byte(`}`)} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// answer writes the result as a whole answer.
func (r result) answer(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	if err := r.writeTo(w); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// VisitGetScanResultResponse writes the answer.
func (r result) VisitGetScanResultResponse(w http.ResponseWriter) error { return r.answer(w) }

// VisitPutScanResultResponse writes the answer.
func (r result) VisitPutScanResultResponse(w http.ResponseWriter) error { return r.answer(w) }

// GetScanResult answers the result of one image.
func (o operations) GetScanResult(ctx context.Context, request api.GetScanResultRequestObject) (api.GetScanResultResponseObject, error) {
	key, err := imageKey(request.ImageId, nil)
	if err != nil {
		return nil, err
	}
	return o.s.result(ctx, key.ImageID)
}

// ListScanResults answers all results.
func (o operations) ListScanResults(ctx context.Context, _ api.ListScanResultsRequestObject) (api.ListScanResultsResponseObject, error) {
	// The first page is read before the answer begins, so that a store that cannot be reached is told as such.
	first, err := o.s.store.ListImages(ctx, visible(ctx), resultsQuery(""))
	if err != nil {
		return nil, err
	}
	return resultList{o.s, requestOf(ctx), first}, nil
}

// resultsQuery lists all images by ID. Images that wait for their scan may have an uploaded report, so that no state is left out.
func resultsQuery(token string) store.ImageQuery {
	return store.ImageQuery{Sort: store.SortImageID, Page: store.Page{Token: token, Size: store.MaxPageSize}}
}

// resultList writes all results, one at a time.
type resultList struct {
	s     *Server
	r     *http.Request
	first store.ImagePage
}

// VisitListScanResultsResponse writes the answer. An error in the middle cuts it off.
func (l resultList) VisitListScanResultsResponse(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	separator, last := "[", ""
	for page := l.first; ; {
		for _, image := range page.Images {
			if image.Key.ImageID == last || (image.State != store.StateScanned && !image.HasReport) {
				continue
			}
			// A slow client can take a minute for each result.
			if err := l.s.stillVisible(l.r.Context()); err != nil {
				return err
			}
			last = image.Key.ImageID
			found, err := l.s.result(l.r.Context(), last)
			if errors.Is(err, store.ErrNotFound) {
				continue // removed since the page was read
			}
			if err != nil {
				return err
			}
			// Every result has the whole time of an answer.
			extendDeadlines(w, l.s.limits.WriteTimeout)
			if _, err := io.WriteString(w, separator); err != nil {
				return err
			}
			if err := found.writeTo(w); err != nil {
				return err
			}
			memoryOf(l.r.Context()).release()
			separator = ","
		}
		if page.NextToken == "" {
			break
		}
		next, err := l.s.store.ListImages(l.r.Context(), visible(l.r.Context()), resultsQuery(page.NextToken))
		if err != nil {
			return err
		}
		page = next
	}
	if separator == "[" {
		separator = "[]"
	} else {
		separator = "]"
	}
	_, err := io.WriteString(w, separator+"\n")
	return err
}

// DeleteScanResult forgets an image.
func (o operations) DeleteScanResult(ctx context.Context, request api.DeleteScanResultRequestObject) (api.DeleteScanResultResponseObject, error) {
	key, err := imageKey(request.ImageId, nil)
	if err != nil {
		return nil, err
	}
	may, err := o.s.mayChange(ctx, auth.VerbDelete, key.ImageID)
	if err != nil {
		return nil, err
	}
	if err := o.s.store.DeleteImage(ctx, visible(ctx), may, key.ImageID); err != nil {
		return nil, otherNamespaces(err, auth.VerbDelete)
	}
	return api.DeleteScanResult204Response{}, nil
}

// ScanImage requests another scan of an image.
func (o operations) ScanImage(ctx context.Context, request api.ScanImageRequestObject) (api.ScanImageResponseObject, error) {
	key, err := imageKey(request.ImageId, nil)
	if err != nil {
		return nil, err
	}
	may, err := o.s.mayChange(ctx, auth.VerbUpdate, key.ImageID)
	if err != nil {
		return nil, err
	}
	err = o.s.store.RequestScan(ctx, visible(ctx), may, key.ImageID)
	if errors.Is(err, store.ErrNotScanned) {
		return nil, problem.New(http.StatusConflict, "no container runs the image, or there is an external report about it: the operator does not scan it")
	}
	if err != nil {
		return nil, otherNamespaces(err, auth.VerbUpdate)
	}
	return api.ScanImage202Response{}, nil
}

// readBody reads a bounded body whole. Its announced length is believed only when a good part of it has arrived.
func readBody(body io.Reader, length int64) ([]byte, error) {
	const trusted = 1 << 20
	var buffer bytes.Buffer
	buffer.Grow(int(min(max(length, 0), trusted)) + bytes.MinRead)
	if _, err := io.CopyN(&buffer, body, trusted); err == nil && length > trusted {
		buffer.Grow(int(length) - trusted + bytes.MinRead)
	} else if err != nil && !errors.Is(err, io.EOF) {
		return nil, bodyError(err)
	}
	if _, err := buffer.ReadFrom(body); err != nil {
		return nil, bodyError(err)
	}
	return buffer.Bytes(), nil
}

// bodyError tells a body that broke off from a failure of ours.
func bodyError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return problem.BadRequest("the request body is shorter than its Content-Length")
	}
	return fmt.Errorf("read the body: %w", err)
}

// result returns the result of an image, or store.ErrNotFound.
func (s *Server) result(ctx context.Context, imageID string) (result, error) {
	document, err := s.steadily(ctx, model.ImageKey{ImageID: imageID}, func(image store.Image) ([]byte, error) {
		release, err := s.reportSlot(ctx)
		if err != nil {
			return nil, err
		}
		defer release()
		if image.State != store.StateScanned || image.FromReport {
			uploaded, err := s.store.Report(ctx, visible(ctx), imageID)
			if err != nil {
				return nil, err
			}
			return uploaded, memoryOf(ctx).take(int64(len(uploaded)))
		}
		return written(ctx, report.FormatCycloneDX, s.input(ctx, image))
	})
	return result{imageID, document}, err
}

// errChanged says that an image changed while its report was written.
var errChanged = errors.New("the image changed")

// steadily calls write with an image, and again when the image changed meanwhile: nothing is answered that is a mixture of two states.
func (s *Server) steadily(ctx context.Context, key model.ImageKey, write func(store.Image) ([]byte, error)) ([]byte, error) {
	// Twice in a row takes a busy image indeed.
	const attempts = 4
	for range attempts {
		image, err := s.store.Image(ctx, visible(ctx), key)
		if err != nil {
			return nil, err
		}
		memoryOf(ctx).release()
		document, err := write(image)
		after, readErr := s.store.Image(ctx, visible(ctx), image.Key)
		switch {
		case errors.Is(readErr, store.ErrNotFound):
			return nil, readErr
		case readErr == nil && fingerprint(after) != fingerprint(image):
			continue
		case err != nil:
			return nil, err
		default:
			return document, readErr
		}
	}
	return nil, problem.Unavailable(errChanged, "the image changed repeatedly while its report was generated; try again")
}

// written writes a report into the memory of the answer.
func written(ctx context.Context, format report.Format, in report.Input) ([]byte, error) {
	out := &memoryWriter{memory: memoryOf(ctx)}
	err := report.Write(out, format, in)
	return out.buffer.Bytes(), err
}

// input is what reports are made of: an image with all its findings.
func (s *Server) input(ctx context.Context, image store.Image) report.Input {
	return report.Input{
		ImageID: image.Key.ImageID, Platform: image.Key.Platform, Distro: image.Distro, Lifecycle: image.Lifecycle, Created: image.Created,
		SBOMSHA256: image.SBOMSHA256, Source: image.Source, Unreadable: image.Unreadable, Build: image.Database, MatchedAt: image.MatchedAt, ToolVersion: s.config.Version, Owners: image.Owners,
		Packages: func(yield func(model.HeldPackage) error) error {
			return s.store.Packages(ctx, visible(ctx), image.Key, yield)
		},
		Findings: func(yield func(model.Finding) error) error {
			return s.eachFinding(ctx, store.FindingQuery{Image: image.Key, Sort: store.SortFindingPackage}, yield)
		},
	}
}

// content tells apart the states of an image between which its report differs.
type content struct {
	state       store.State
	sbom, build string
	matched     time.Time
	// counts differ when an exception begins or ends.
	counts store.Counts
}

func fingerprint(image store.Image) content {
	c := content{state: image.State, sbom: image.SBOMSHA256, matched: image.MatchedAt.UTC(), counts: image.Counts}
	if image.Database != nil {
		c.build = image.Database.ID
	}
	return c
}

// eachFinding reads the findings of an image page by page.
func (s *Server) eachFinding(ctx context.Context, query store.FindingQuery, yield func(model.Finding) error) error {
	query.Page = store.Page{Size: store.MaxPageSize}
	for {
		findings, err := s.store.Findings(ctx, visible(ctx), query)
		if err != nil {
			return err
		}
		for _, f := range findings.Findings {
			if err := yield(f); err != nil {
				return err
			}
		}
		if findings.NextToken == "" {
			return nil
		}
		query.Token = findings.NextToken
	}
}
