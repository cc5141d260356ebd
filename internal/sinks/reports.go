package sinks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/report"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	// maxDocument bounds an encoded report, in bytes.
	maxDocument = 64 << 20
	// steadyAttempts is how often a report is written again because an image changed meanwhile.
	steadyAttempts = 4
)

// errTooLarge says that an encoded report is larger than maxDocument.
var errTooLarge = fmt.Errorf("%w: the report has more than %d MiB; use templates that put fewer images into one", ErrRefused, maxDocument>>20)

// Reader is what reports are made from.
type Reader interface {
	Image(ctx context.Context, in store.Namespaces, key model.ImageKey) (store.Image, error)
	Packages(ctx context.Context, in store.Namespaces, key model.ImageKey, yield func(model.HeldPackage) error) error
	Findings(ctx context.Context, in store.Namespaces, query store.FindingQuery) (store.FindingPage, error)
}

// reports makes reports about the images of a target.
type reports struct {
	reader  Reader
	version string
	in      store.Namespaces
	keys    []model.ImageKey
	// uses are the workloads of which the findings of each image are reported.
	uses map[model.ImageKey][]store.Workload
	name string
}

// bounded is a buffer that does not grow beyond a bound.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(data []byte) (int, error) {
	if b.Len()+len(data) > maxDocument {
		return 0, errTooLarge
	}
	return b.Buffer.Write(data)
}

// errChanged says that the images changed each time that a report was written.
var errChanged = errors.New("the images changed repeatedly while their report was written; it is written again later")

// steadily gives the images to write, and does so again if one changed meanwhile: no report is a mixture of two states.
func (r *reports) steadily(ctx context.Context, write func(images []store.Image) error) error {
	for range steadyAttempts {
		before, err := r.images(ctx)
		if err != nil {
			return err
		}
		err = write(before)
		after, readErr := r.images(ctx)
		switch {
		case readErr != nil:
			return readErr
		case !same(before, after):
			continue
		default:
			return err
		}
	}
	return errChanged
}

func (r *reports) images(ctx context.Context) ([]store.Image, error) {
	images := make([]store.Image, len(r.keys))
	for i, key := range r.keys {
		var err error
		if images[i], err = r.reader.Image(ctx, r.in, key); err != nil {
			return nil, err
		}
	}
	return images, nil
}

// same reports whether reports about images do not differ.
func same(a, b []store.Image) bool {
	for i := range a {
		if a[i].State != b[i].State || a[i].SBOMSHA256 != b[i].SBOMSHA256 || a[i].Counts != b[i].Counts || !a[i].MatchedAt.Equal(b[i].MatchedAt) {
			return false
		}
	}
	return true
}

// bom writes the packages of the images as CycloneDX. It depends on the SBOMs alone.
func (r *reports) bom(ctx context.Context) ([]byte, error) {
	return r.write(ctx, report.FormatCycloneDX, func(image *store.Image, in *report.Input) {
		in.Build, in.MatchedAt = nil, image.CatalogedAt
		in.Findings = func(func(model.Finding) error) error { return nil }
	})
}

// full writes packages and findings of the images. Suppressed findings are in CycloneDX and SARIF, with the decisions about them, and in no other format.
func (r *reports) full(ctx context.Context, format report.Format) ([]byte, error) {
	return r.write(ctx, format, func(image *store.Image, in *report.Input) {
		in.Findings = func(yield func(model.Finding) error) error {
			return r.each(ctx, image.Key, format == report.FormatCycloneDX || format == report.FormatSARIF, yield)
		}
	})
}

// each reads the findings of an image page by page.
func (r *reports) each(ctx context.Context, key model.ImageKey, suppressed bool, yield func(model.Finding) error) error {
	query := store.FindingQuery{Image: key, Suppressed: suppressed, Workloads: r.uses[key], Sort: store.SortFindingPackage, Page: store.Page{Size: store.MaxPageSize}}
	for {
		page, err := r.reader.Findings(ctx, r.in, query)
		if err != nil {
			return err
		}
		for i := range page.Findings {
			if err := yield(page.Findings[i]); err != nil {
				return err
			}
		}
		if page.NextToken == "" {
			return nil
		}
		query.Token = page.NextToken
	}
}

// write writes a report about one image, or about several ones in one document.
func (r *reports) write(ctx context.Context, format report.Format, adapt func(*store.Image, *report.Input)) ([]byte, error) {
	var out []byte
	err := r.steadily(ctx, func(images []store.Image) error {
		var buffer bounded
		input := func(image *store.Image) report.Input {
			in := report.Input{
				ImageID: image.Key.ImageID, Platform: image.Key.Platform, Distro: image.Distro, Lifecycle: image.Lifecycle, Created: image.Created,
				SBOMSHA256: image.SBOMSHA256, Source: image.Source, Unreadable: image.Unreadable, Build: image.Database, MatchedAt: image.MatchedAt, ToolVersion: r.version,
				Packages: func(yield func(model.HeldPackage) error) error { return r.reader.Packages(ctx, r.in, image.Key, yield) },
			}
			adapt(image, &in)
			return in
		}
		var err error
		if len(images) == 1 {
			err = report.Write(&buffer, format, input(&images[0]))
		} else {
			// The time is that of the images, so that the same content gives the same document.
			var at time.Time
			for i := range images {
				if in := input(&images[i]); in.MatchedAt.After(at) {
					at = in.MatchedAt
				}
			}
			err = report.WriteSet(&buffer, format, report.Set{
				Name: r.name, ToolVersion: r.version, CreatedAt: at,
				Images: func(yield func(report.Input) error) error {
					for i := range images {
						if err := yield(input(&images[i])); err != nil {
							return err
						}
					}
					return nil
				},
			})
		}
		out = buffer.Bytes()
		return err
	})
	return out, err
}
