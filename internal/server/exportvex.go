package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/report"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vex"
)

// vexFormats are the formats that state decisions instead of findings.
var vexFormats = map[report.Format]vex.Format{
	report.FormatOpenVEX:      vex.FormatOpenVEX,
	report.FormatCycloneDXVEX: vex.FormatCycloneDX,
}

// exportVEX is a document with the decisions about the findings of one image that a query keeps.
func (s *Server) exportVEX(ctx context.Context, query store.FindingQuery, format report.Format) (*export, error) {
	return &export{s: s, r: requestOf(ctx), format: format, name: "decisions", write: func(ctx context.Context, w io.Writer) error {
		release, err := s.exportSlot(ctx)
		if err != nil {
			return err
		}
		document, err := s.steadily(ctx, query.Image, func(image store.Image) ([]byte, error) {
			if image.State != store.StateScanned {
				return nil, store.ErrNotFound
			}
			query.Image = image.Key
			return s.writtenVEX(ctx, format, func(yield func(vex.Image) error) error { return s.decided(ctx, query, yield) })
		})
		release()
		if err != nil {
			return err
		}
		_, err = w.Write(document)
		return err
	}}, nil
}

// exportImagesVEX is a document with the decisions about the findings of some images. Its size is bounded, so it is made whole before it is sent.
func (s *Server) exportImagesVEX(ctx context.Context, images []store.Image, format report.Format) (*export, error) {
	return s.streamed(ctx, format, "decisions", func(ctx context.Context, w io.Writer) error {
		release, err := s.exportSlot(ctx)
		if err != nil {
			return err
		}
		document, err := s.writtenVEX(ctx, format, func(yield func(vex.Image) error) error {
			return s.eachImage(ctx, images, func(in report.Input) error {
				return s.decided(ctx, store.FindingQuery{Image: model.ImageKey{ImageID: in.ImageID, Platform: in.Platform}}, yield)
			})
		})
		release()
		if err != nil {
			return err
		}
		_, err = w.Write(document)
		return err
	})
}

// decided gives an image with all its findings. The document is about those that the query keeps.
func (s *Server) decided(ctx context.Context, query store.FindingQuery, yield func(vex.Image) error) error {
	all := store.FindingQuery{Image: query.Image, Suppressed: true, Sort: store.SortFindingPackage}
	image := vex.Image{Key: query.Image, Findings: func(yield func(model.Finding) error) error { return s.eachFinding(ctx, all, yield) }}
	query.Suppressed, query.Sort, query.Page = true, all.Sort, store.Page{}
	if !reflect.DeepEqual(query, all) {
		type name struct{ id, namespace, fingerprint string }
		nameOf := func(f *model.Finding) name {
			return name{f.Vulnerability.ID, f.Vulnerability.Namespace, f.Package.Fingerprint}
		}
		kept := map[name]bool{}
		if err := s.eachFinding(ctx, query, func(f model.Finding) error {
			if len(f.Decisions) > 0 {
				kept[nameOf(&f)] = true
			}
			return nil
		}); err != nil {
			return err
		}
		image.Chosen = func(f *model.Finding) bool { return kept[nameOf(f)] }
	}
	return yield(image)
}

// writtenVEX writes a document into the memory of the answer.
func (s *Server) writtenVEX(ctx context.Context, format report.Format, images func(yield func(vex.Image) error) error) ([]byte, error) {
	author := "scanner-operator"
	if s.config.Cluster != "" {
		author += " of the cluster " + s.config.Cluster
	}
	out := &memoryWriter{memory: memoryOf(ctx)}
	err := vex.Write(out, vexFormats[format], vex.Export{Author: author, Images: images})
	switch {
	case errors.Is(err, vex.ErrNoDecision):
		return nil, problem.New(http.StatusNotFound, "no decision that a VEX document can express applies to the selected findings")
	case errors.Is(err, vex.ErrLimit):
		return nil, problem.BadRequest("%v", err)
	}
	return out.buffer.Bytes(), err
}
