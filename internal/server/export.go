package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/report"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	// maxExportImages bounds the images of one document. It must not exceed store.MaxPageSize.
	maxExportImages = 1000
	// maxExportRows bounds the rows of a list as CSV.
	maxExportRows = 100_000
	// exportTimeout bounds a document that is written while it is read.
	exportTimeout = 10 * time.Minute
)

// export is an answer in another format than JSON.
type export struct {
	s      *Server
	r      *http.Request
	format report.Format
	// name of the file that a browser makes of it, without extension.
	name string
	// deadline is when the whole document must have been written, zero for one that is written at once.
	deadline time.Time
	// write writes the document. What it returns before it has written anything is told as a problem; afterwards the answer is cut off.
	write func(ctx context.Context, w io.Writer) error
}

// answer writes the document.
func (e *export) answer(w http.ResponseWriter) error {
	ctx := e.r.Context()
	if !e.deadline.IsZero() {
		bounded, cancel := context.WithDeadline(ctx, e.deadline)
		defer cancel()
		ctx = bounded
	}
	out := &exportWriter{w: w, e: e}
	if err := e.write(ctx, out); err != nil && !errors.Is(err, errHeadersOnly) {
		return err
	}
	out.begin()
	return nil
}

// The operations that have exports.

// VisitListImagesResponse writes the answer.
func (e *export) VisitListImagesResponse(w http.ResponseWriter) error { return e.answer(w) }

// VisitGetImageResponse writes the answer.
func (e *export) VisitGetImageResponse(w http.ResponseWriter) error { return e.answer(w) }

// VisitListFindingsResponse writes the answer.
func (e *export) VisitListFindingsResponse(w http.ResponseWriter) error { return e.answer(w) }

// VisitGetSBOMResponse writes the answer.
func (e *export) VisitGetSBOMResponse(w http.ResponseWriter) error { return e.answer(w) }

// VisitListVulnerabilitiesResponse writes the answer.
func (e *export) VisitListVulnerabilitiesResponse(w http.ResponseWriter) error { return e.answer(w) }

// VisitListAffectedResponse writes the answer.
func (e *export) VisitListAffectedResponse(w http.ResponseWriter) error { return e.answer(w) }

// VisitListExposuresResponse writes the answer.
func (e *export) VisitListExposuresResponse(w http.ResponseWriter) error { return e.answer(w) }

// VisitListDecisionsResponse writes the answer.
func (e *export) VisitListDecisionsResponse(w http.ResponseWriter) error { return e.answer(w) }

// VisitListPackagesResponse writes the answer.
func (e *export) VisitListPackagesResponse(w http.ResponseWriter) error { return e.answer(w) }

// VisitListFixesResponse writes the answer.
func (e *export) VisitListFixesResponse(w http.ResponseWriter) error { return e.answer(w) }

// VisitListWorkloadsResponse writes the answer.
func (e *export) VisitListWorkloadsResponse(w http.ResponseWriter) error { return e.answer(w) }

// VisitListBasesResponse writes the answer.
func (e *export) VisitListBasesResponse(w http.ResponseWriter) error { return e.answer(w) }

// VisitListOwnersResponse writes the answer.
func (e *export) VisitListOwnersResponse(w http.ResponseWriter) error { return e.answer(w) }

// VisitListNamespacesResponse writes the answer.
func (e *export) VisitListNamespacesResponse(w http.ResponseWriter) error { return e.answer(w) }

// VisitListCoverageResponse writes the answer.
func (e *export) VisitListCoverageResponse(w http.ResponseWriter) error { return e.answer(w) }

// errHeadersOnly ends an export to somebody who wants no body.
var errHeadersOnly = errors.New("the request is for headers only")

// exportWriter begins the answer with the first byte of the document, and gives every part of it the whole time of an answer, as far
// as the deadline of the document allows.
type exportWriter struct {
	w     http.ResponseWriter
	e     *export
	begun bool
}

func (o *exportWriter) begin() {
	if o.begun {
		return
	}
	o.begun = true
	m := medias[o.e.format]
	contentType := m.mediaType
	if o.e.format == report.FormatCSV {
		contentType += "; charset=utf-8; header=present"
	}
	h := o.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Disposition", `attachment; filename="`+o.e.name+m.extension+`"`)
	o.w.WriteHeader(http.StatusOK)
}

// Write writes a part of the document.
func (o *exportWriter) Write(data []byte) (int, error) {
	o.begin()
	if o.e.r.Method == http.MethodHead {
		return 0, errHeadersOnly
	}
	patience := o.e.s.limits.WriteTimeout
	if !o.e.deadline.IsZero() {
		patience = min(patience, time.Until(o.e.deadline))
	}
	extendDeadlines(o.w, patience)
	return o.w.Write(data)
}

// streamed makes an export that is written while it is read. It counts as an expensive request and has to end in time, since a client
// that takes it slowly holds up nobody else: it has no slot.
func (s *Server) streamed(ctx context.Context, format report.Format, name string, write func(context.Context, io.Writer) error) (*export, error) {
	r := requestOf(ctx)
	// The request has been counted as a plain one.
	if err := s.guard.Charge(r, expensiveCost-1); err != nil {
		return nil, err
	}
	return &export{s: s, r: r, format: format, name: name, deadline: time.Now().Add(exportTimeout), write: write}, nil
}

// exportImage is a document with the packages and findings of one image.
func (s *Server) exportImage(ctx context.Context, key model.ImageKey, format report.Format) (*export, error) {
	return s.exportFindings(ctx, store.FindingQuery{Image: key, Sort: store.SortFindingPackage}, format)
}

// exportFindings is a document with the packages of one image and those of its findings that a query keeps.
func (s *Server) exportFindings(ctx context.Context, query store.FindingQuery, format report.Format) (*export, error) {
	if query.Closed && format != report.FormatCSV {
		return nil, problem.BadRequest("format %q does not support closed findings; use json or csv", format)
	}
	if vexFormats[format] != "" {
		return s.exportVEX(ctx, query, format)
	}
	if query.Suppressed && format == report.FormatSPDX {
		return nil, problem.BadRequest("format %q does not support suppressed findings; use json, csv, sarif or cyclonedx-json", format)
	}
	return s.exportOne(ctx, query.Image, format, "findings", func(ctx context.Context, image store.Image) (report.Input, error) {
		if image.State != store.StateScanned {
			return report.Input{}, store.ErrNotFound
		}
		query.Image = image.Key
		in := s.input(ctx, image)
		in.History, in.Decisions = true, query.Suppressed
		in.Findings = func(yield func(model.Finding) error) error { return s.eachFinding(ctx, query, yield) }
		return in, nil
	})
}

// exportSBOM is a document with the packages of one image.
func (s *Server) exportSBOM(ctx context.Context, key model.ImageKey, format report.Format) (*export, error) {
	return s.exportOne(ctx, key, format, "sbom", func(ctx context.Context, image store.Image) (report.Input, error) {
		if image.State != store.StateScanned && image.State != store.StateCataloged {
			return report.Input{}, store.ErrNotFound
		}
		in := s.input(ctx, image)
		in.Findings = nil
		in.Build = nil
		return in, nil
	})
}

// exportOne is a document about one image. It is written whole before it is sent, so that it can be written again when the image
// changes meanwhile.
func (s *Server) exportOne(ctx context.Context, key model.ImageKey, format report.Format, name string,
	input func(context.Context, store.Image) (report.Input, error),
) (*export, error) {
	return &export{s: s, r: requestOf(ctx), format: format, name: name, write: func(ctx context.Context, w io.Writer) error {
		written, err := s.exported(ctx, key, format, input)
		if err != nil {
			return err
		}
		_, err = w.Write(written)
		return err
	}}, nil
}

// exported makes a document about one image while a slot is held.
func (s *Server) exported(ctx context.Context, key model.ImageKey, format report.Format,
	input func(context.Context, store.Image) (report.Input, error),
) ([]byte, error) {
	release, err := s.exportSlot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	return s.steadily(ctx, key, func(image store.Image) ([]byte, error) {
		in, err := input(ctx, image)
		if err != nil {
			return nil, err
		}
		return written(ctx, format, in)
	})
}

// exportImages is one document about all scanned images that a query keeps.
func (s *Server) exportImages(ctx context.Context, query store.ImageQuery, format report.Format) (*export, error) {
	if len(query.States) > 0 && !slices.Contains(query.States, store.StateScanned) {
		return nil, problem.BadRequest("format %q exports findings, which only images in the state Scanned have; remove the parameter state or use state=Scanned", format)
	}
	query.States, query.Page = []store.State{store.StateScanned}, store.Page{Size: maxExportImages}
	images, err := s.store.ListImages(ctx, visible(ctx), query)
	if err != nil {
		return nil, err
	}
	if images.NextToken != "" || images.Total > maxExportImages {
		return nil, problem.BadRequest("the filters select %d scanned images, which exceeds the limit of %d per export; filter by namespace, workload or text",
			images.Total, maxExportImages)
	}
	if vexFormats[format] != "" {
		return s.exportImagesVEX(ctx, images.Images, format)
	}
	return s.streamed(ctx, format, "images", func(ctx context.Context, w io.Writer) error {
		return report.WriteSet(w, format, report.Set{
			Name: "images", ToolVersion: s.config.Version, CreatedAt: s.clock(),
			Images: func(yield func(report.Input) error) error { return s.eachImage(ctx, images.Images, yield) },
		})
	})
}

// eachImage gives images one after another as they were when they were listed. One that has changed since ends it.
func (s *Server) eachImage(ctx context.Context, images []store.Image, yield func(report.Input) error) error {
	for _, image := range images {
		if err := s.stillVisible(ctx); err != nil {
			return err
		}
		if err := yield(s.input(ctx, image)); err != nil {
			return err
		}
		after, err := s.store.Image(ctx, visible(ctx), image.Key)
		switch {
		case errors.Is(err, store.ErrNotFound), err == nil && fingerprint(after) != fingerprint(image):
			return problem.Unavailable(errChanged, "an image changed during the export; try again")
		case err != nil:
			return err
		}
	}
	return nil
}

// csvList is a list that is written as CSV, page by page.
type csvList[T any] struct {
	name    string
	columns []string
	// page reads a page, the token of the next one, and how many rows there are on all.
	page func(ctx context.Context, page store.Page) (rows []T, next string, total int, err error)
	row  func(T) []string
}

// csvExport is a list as CSV. The first page is read before the answer begins.
func csvExport[T any](ctx context.Context, s *Server, list csvList[T]) (*export, error) {
	rows, next, total, err := list.page(ctx, store.Page{Size: store.MaxPageSize})
	switch {
	case err != nil:
		return nil, err
	case total > maxExportRows:
		return nil, problem.BadRequest("the filters select %d rows, which exceeds the limit of %d for csv; use more specific filters", total, maxExportRows)
	}
	return s.streamed(ctx, report.FormatCSV, list.name, func(ctx context.Context, w io.Writer) error {
		out := report.NewCSV(w, list.columns...)
		for written := 0; ; {
			for _, row := range rows {
				if err := out.Row(list.row(row)...); err != nil {
					return err
				}
			}
			if err := out.Flush(); err != nil {
				return err
			}
			// Rows may come to be while pages are read.
			if written += len(rows); next == "" || written >= maxExportRows {
				return nil
			}
			if err := s.stillVisible(ctx); err != nil {
				return err
			}
			if rows, next, _, err = list.page(ctx, store.Page{Token: next, Size: store.MaxPageSize}); err != nil {
				return err
			}
		}
	})
}

var countColumns = []string{"critical", "high", "medium", "low", "negligible", "unknown", "kev", "fixable"}

// countCells are the cells of countColumns.
func countCells(c store.Counts) []string {
	var cells []string
	for _, n := range []int{c.Critical, c.High, c.Medium, c.Low, c.Negligible, c.Unknown, c.KEV, c.Fixable} {
		cells = append(cells, strconv.Itoa(n))
	}
	return cells
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}

func timeCell(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// workloadsCell names workloads as kubectl does, with their namespaces.
func workloadsCell(list []store.Workload) string {
	names := make([]string, len(list))
	for i, w := range list {
		names[i] = w.Namespace + "/" + strings.ToLower(w.Kind) + "/" + w.Name
	}
	return strings.Join(names, " ")
}
