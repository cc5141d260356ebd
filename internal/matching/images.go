package matching

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.opentelemetry.io/otel/attribute"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// waiting is an image whose packages are all answered once those that it waits for are.
type waiting struct {
	key        model.ImageKey
	sbomDigest string
}

// newImages answers for the packages of up to batchImages images that have no complete answer yet, and reports whether there
// may be more. It goes on where the last call ended, and begins anew after the last image: one that has to wait blocks no other.
func (r *runner) newImages(ctx context.Context, current store.ResultSet) (more bool, err error) {
	if r.unread, err = r.readSymbolsBehind(ctx, current, true, r.unread); err != nil {
		return false, err
	}
	keys, err := r.store.WaitingImages(ctx, r.waiting, batchImages)
	if err != nil {
		return false, fmt.Errorf("list the images to match: %w", err)
	}
	r.waiting = model.ImageKey{}
	if len(keys) == batchImages {
		r.waiting = keys[len(keys)-1]
	}
	if len(keys) > 0 {
		var end func(*error)
		ctx, end = r.trace(ctx, "match new images", attribute.Int("scanner.images", len(keys)))
		defer end(&err)
	}
	var images []waiting
	missing := map[int64]store.StoredPackage{}
	for _, key := range keys {
		digest, packages, err := r.store.UnansweredPackages(ctx, key)
		if isGone(err) || r.passedOver(ctx, key, err) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("list the packages of %s: %w", key, err)
		}
		if len(packages) > 0 && r.current == nil {
			continue // Its database is not there any more: the next result set answers.
		}
		images = append(images, waiting{key, digest})
		for _, p := range packages {
			missing[p.ID] = p
		}
		if len(missing) >= batchPackages {
			r.waiting = key
			break
		}
	}
	if err := r.answer(ctx, current, missing); err != nil {
		return false, err
	}
	if len(images) > 0 {
		if err := r.saveLifecycles(ctx, r.current); err != nil {
			return false, err
		}
	}
	more = r.waiting != (model.ImageKey{}) || r.unread != (model.ImageKey{})
	for _, image := range images {
		err := r.store.FinishImage(ctx, image.key, image.sbomDigest)
		if err != nil && !isGone(err) && !r.passedOver(ctx, image.key, err) {
			return false, fmt.Errorf("save the results of image %s: %w", image.key, err)
		}
		more = more || err == nil
	}
	return more, nil
}

// answer matches packages under the current result set.
func (r *runner) answer(ctx context.Context, current store.ResultSet, missing map[int64]store.StoredPackage) error {
	packages := make([]store.StoredPackage, 0, len(missing))
	for _, p := range missing {
		packages = append(packages, p)
	}
	for batch := range slices.Chunk(packages, batchPackages) {
		if err := r.matchBatch(ctx, r.current, current.Number, batch); err != nil {
			return err
		}
	}
	return nil
}

// readAgain reads stored SBOMs that were read by other rules or libraries, first those of images that were never matched, since packages of
// other rules cannot be; new images are matched between the others. Their findings stay visible until the packages that the new rules see are
// answered. It does nothing without a current database, nor before rereadInterval has passed: what cannot be read is tried again then, and
// what a replica with another version saved meanwhile is found.
func (r *runner) readAgain(ctx context.Context, current store.ResultSet) error {
	now := r.clock.Now()
	if r.current == nil || now.Sub(r.reread) < rereadInterval {
		return nil
	}
	complete := true
	for _, unmatched := range []bool{true, false} {
		done, err := r.readAll(ctx, current, unmatched)
		if err != nil {
			return err
		}
		complete = complete && done
	}
	if complete {
		r.reread = now
	}
	return nil
}

// readAll reports false when an SBOM has to wait.
func (r *runner) readAll(ctx context.Context, current store.ResultSet, unmatched bool) (bool, error) {
	complete := true
	for after := (model.ImageKey{}); ; {
		keys, err := r.store.OutdatedCatalogs(ctx, match.Stamp(), unmatched, after, batchImages)
		if err != nil {
			return false, fmt.Errorf("list the SBOMs to reparse: %w", err)
		}
		if len(keys) == 0 {
			return complete, nil
		}
		for _, key := range keys {
			done, err := r.readOne(ctx, current, key)
			if err != nil && !r.passedOver(ctx, key, err) {
				return false, fmt.Errorf("reparse the SBOM of %s: %w", key, err)
			}
			// One that was passed over does not have to wait: it is tried again with all others, after rereadInterval.
			complete = complete && (done || err != nil)
		}
		after = keys[len(keys)-1]
		if unmatched {
			continue
		}
		if _, err := r.newImages(ctx, current); err != nil {
			return false, err
		}
	}
}

// readRecataloged reads the SBOMs of images that were cataloged again. Their findings stay visible until the packages that these SBOMs list
// are answered.
func (r *runner) readRecataloged(ctx context.Context, current store.ResultSet) error {
	if r.current == nil {
		return nil
	}
	keys, err := r.store.RecatalogedImages(ctx, r.recataloged, batchImages)
	if err != nil {
		return fmt.Errorf("list the images that were cataloged again: %w", err)
	}
	// Images whose SBOM cannot be read stay in the list, and must not keep those behind them from being read.
	r.recataloged = model.ImageKey{}
	if len(keys) == batchImages {
		r.recataloged = keys[len(keys)-1]
	}
	for _, key := range keys {
		if _, err := r.readOne(ctx, current, key); err != nil && !r.passedOver(ctx, key, err) {
			return fmt.Errorf("read the new SBOM of %s: %w", key, err)
		}
	}
	return nil
}

// passedOver logs an error that concerns one image only, and has the next pass come soon. It reports false for other errors.
func (r *runner) passedOver(ctx context.Context, key model.ImageKey, err error) bool {
	if !isOfOneRow(ctx, err) || errors.Is(err, ErrBusy) {
		return false
	}
	r.log.Error(err, "Cannot match an image", "image", key.ImageID, "platform", key.Platform.String())
	r.images.passedOver(key, r.clock.Now())
	return true
}

// readOne reports false when the SBOM has to wait for a database or for memory.
func (r *runner) readOne(ctx context.Context, current store.ResultSet, key model.ImageKey) (bool, error) {
	sbom, err := r.store.SBOM(ctx, store.AllNamespaces(), key)
	if isGone(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	catalog, err := r.readSBOM(ctx, sbom, r.imports())
	if ctx.Err() != nil {
		return false, err
	}
	if errors.Is(err, ErrBusy) {
		return false, nil // Uploads need the memory. The next pass tries again.
	}
	if err != nil {
		// It was accepted once. What it held stays as it is; a later version may read it.
		r.log.Error(err, "Cannot reparse a stored SBOM", "image", key.ImageID, "platform", key.Platform.String())
		return true, nil
	}
	return r.replace(ctx, current, key, sbom.SHA256, catalog)
}

// replace makes a catalog that of an image once its packages are answered. It reports false when they have to wait for a database.
func (r *runner) replace(ctx context.Context, current store.ResultSet, key model.ImageKey, sbomDigest string, catalog model.Catalog) (bool, error) {
	unanswered, err := r.store.StorePackages(ctx, catalog.Packages)
	if err != nil {
		return false, err
	}
	if len(unanswered) > 0 && r.current == nil {
		return false, nil
	}
	missing := make(map[int64]store.StoredPackage, len(unanswered))
	for _, p := range unanswered {
		missing[p.ID] = p
	}
	if err := r.answer(ctx, current, missing); err != nil {
		return false, err
	}
	if err := r.store.ReplaceCatalog(ctx, key, sbomDigest, catalog); err != nil && !isGone(err) {
		return false, err
	}
	return true, nil
}

// readSBOM decodes an SBOM as it is stored.
func (a *Matcher) readSBOM(ctx context.Context, sbom store.SBOM, imports *match.Imports) (catalog model.Catalog, err error) {
	err = a.decompressed(ctx, sbom.MediaType, sbom.Content, func(document io.Reader) error {
		decoded, err := match.DecodeAs(sbom.MediaType, document, match.DefaultDecodeLimits(), imports)
		if err != nil {
			return fmt.Errorf("decode the SBOM: %w", err)
		}
		catalog = decoded.Catalog()
		return nil
	})
	return catalog, err
}
