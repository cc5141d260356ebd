package server_test

import (
	"context"
	"io"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// ignorant keeps nothing of what is no SBOM.
type ignorant struct{}

func (ignorant) IngestReport(context.Context, string, server.UploadedReport) error { return nil }

func (ignorant) IngestNewerTags(context.Context, store.Delivery, io.Reader) error { return nil }

// slowIngester tells when it is entered and waits to be let go.
type slowIngester struct {
	ignorant
	entered, leave chan struct{}
}

func (i *slowIngester) IngestSBOM(ctx context.Context, _ model.ImageKey, _ store.Delivery, _ io.Reader) error {
	close(i.entered)
	select {
	case <-i.leave:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gate tells each time it is entered, and lets nobody go until it is left.
type gate struct {
	ignorant
	entered, leave chan struct{}
}

func (g *gate) IngestSBOM(ctx context.Context, _ model.ImageKey, _ store.Delivery, _ io.Reader) error {
	g.entered <- struct{}{}
	select {
	case <-g.leave:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
