package matching

import (
	"context"
	"errors"
	"fmt"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// imports are those of all databases that are open, nil when none is.
func (r *runner) imports() *match.Imports {
	var all *match.Imports
	for _, database := range []*match.Database{r.current, r.next} {
		if database != nil {
			all = all.With(database.Imports())
		}
	}
	return all
}

// readSymbols reads SBOMs again whose symbol tables were left out when they were received, since only the databases tell which symbols
// influence matches. Findings of other images stay visible meanwhile.
func (r *runner) readSymbols(ctx context.Context, current store.ResultSet) error {
	for after := (model.ImageKey{}); ; {
		var err error
		if after, err = r.readSymbolsBehind(ctx, current, false, after); err != nil || after == (model.ImageKey{}) {
			return err
		}
		if _, err := r.newImages(ctx, current); err != nil {
			return err
		}
	}
}

// readSymbolsBehind does so for up to batchImages images behind a key: of all, or of those that were never matched. It returns the last one,
// zero when there are no more. It does nothing without a current database: its findings of the packages could not be told.
func (r *runner) readSymbolsBehind(ctx context.Context, current store.ResultSet, unmatched bool, after model.ImageKey) (model.ImageKey, error) {
	if r.current == nil {
		return model.ImageKey{}, nil
	}
	keys, err := r.store.UnreadSymbols(ctx, unmatched, after, batchImages)
	if err != nil {
		return after, fmt.Errorf("list the images with symbol tables: %w", err)
	}
	for _, key := range keys {
		if err := r.readSymbolsOf(ctx, current, key); err != nil && !r.passedOver(ctx, key, err) {
			return after, fmt.Errorf("read the symbol tables of %s: %w", key, err)
		}
	}
	if len(keys) < batchImages {
		return model.ImageKey{}, nil
	}
	return keys[len(keys)-1], nil
}

func (r *runner) readSymbolsOf(ctx context.Context, current store.ResultSet, key model.ImageKey) error {
	sbom, err := r.store.SBOM(ctx, store.AllNamespaces(), key)
	if isGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	catalog, err := r.readSBOM(ctx, sbom, r.imports())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, ErrBusy) {
		return nil // Uploads need the memory. The next pass tries again.
	}
	if err == nil {
		_, err = r.replace(ctx, current, key, sbom.SHA256, catalog)
		return err
	}
	r.log.Error(err, "Cannot read symbol tables, matching without them", "image", key.ImageID, "platform", key.Platform.String())
	if err := r.store.SkipSymbols(ctx, key, sbom.SHA256); err != nil && !isGone(err) {
		return err
	}
	return nil
}

// widen prepares images for a database whose advisories name other imports than those of the current one: their packages get the
// symbols that either names, so that both can be matched.
func (r *runner) widen(ctx context.Context, current store.ResultSet) error {
	var known *match.Imports
	if r.current != nil {
		known = r.current.Imports()
	}
	modules := r.next.Imports().Beyond(known)
	if len(modules) == 0 {
		return nil
	}
	if err := r.store.RereadSymbols(ctx, modules); err != nil {
		return fmt.Errorf("list the images with symbol tables: %w", err)
	}
	r.log.Info("Reading symbol tables again", "modules", len(modules))
	return r.readSymbols(ctx, current)
}
