package scanner

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Recatalog says which images are cataloged again: those that run and that another cataloger cataloged, or one that is not known.
type Recatalog struct {
	// PerHour is the maximum number of images in an hour, of all Scanners. With 0, no image is cataloged again.
	PerHour int
	// Cataloger is the one of this program, in the form of store.Image.
	Cataloger string
	// pausedUntil is when the next image may be begun, after the limit per hour was reached.
	pausedUntil time.Time
}

// recatalogPause is the time until the limit per hour is read again after it was reached.
const recatalogPause = time.Minute

// cataloged reports whether an image has an SBOM.
func cataloged(image *store.Image) bool {
	return image.State == store.StateCataloged || image.State == store.StateScanned
}

// wants reports whether an image is to be cataloged again. It is once for each cataloger: the scan Jobs may run another version than the
// operator.
func (r Recatalog) wants(image *store.Image) bool {
	return cataloged(image) && !image.FromReport && image.Cataloger != r.Cataloger && (image.Recatalog.Open || image.Recatalog.Cataloger != r.Cataloger)
}

// requested reports whether somebody asked for another scan of an image that has an SBOM.
func requested(image *store.Image) bool {
	return cataloged(image) && image.Recatalog.Open && image.Recatalog.Cataloger == store.AnyCataloger
}

// take counts scans of an image that begin, or that do not after all.
func (p *plan) take(key model.ImageKey, count int) {
	if key == p.again {
		p.recataloging += count
		return
	}
	p.running += count
}

// awaited reports whether an image of any Scanner waits for a slot of one of the limits. What has a slot of another registry keeps nobody waiting.
func (p *plan) awaited(v *observed, free *limited, limits []limit) bool {
	return p.waiting.waitsFor(limits) || v.queues.othersWait(free.scanner, limits)
}

// catalogAgain starts the next attempt to replace an SBOM: one at a time, and none while any image waits for a slot that it needs.
func (p *plan) catalogAgain(scanner *scannerv1.Scanner, v *observed, settings Recatalog, free *limited, now time.Time) {
	if p.recataloging > 0 || p.awaited(v, free, []limit{free.scanner, limitOperator}) {
		return
	}
	for _, key := range dueAgain(v, settings, now, &p.next) {
		if p.awaited(v, free, v.limitsAnywhere(key)) {
			continue
		}
		namespace, volume, w := choose(scanner, v, key, free, false)
		if w.why != "" {
			continue
		}
		p.again = key
		p.take(key, 1)
		p.start = append(p.start, request(scanner, v, key, namespace, volume))
		return
	}
}

// limitsAnywhere lists the limits of registries and nodes of the next attempt at an image, wherever it is made.
func (v *observed) limitsAnywhere(key model.ImageKey) []limit {
	var limits []limit
	namespaces, _ := v.places(key)
	for _, namespace := range namespaces {
		limits = append(limits, limitsOf(&scanjob.Request{Key: key, Volume: v.volume(key, namespace)})...)
	}
	return limits
}

// dueAgain lists the images to be cataloged again now, those with the fewest failed attempts first, and shortens next to the time when another
// will be due. While the limit per hour is reached, only attempts at images that were begun continue.
func dueAgain(v *observed, settings Recatalog, now time.Time, next *time.Duration) []model.ImageKey {
	var keys []model.ImageKey
	for _, key := range v.wanted() {
		image, known := v.images[key]
		incomplete := v.incomplete(key)
		if !known || !incomplete && !requested(&image) && (settings.PerHour == 0 || !settings.wants(&image)) {
			continue
		}
		if attempt, started := v.attempts[v.attemptName(key)]; started && !attempt.Done {
			continue
		}
		from := image.NextAttempt
		if !image.Recatalog.Open && !incomplete {
			from = settings.pausedUntil
		}
		if wait := from.Sub(now); wait > 0 {
			*next = min(*next, wait)
			continue
		}
		keys = append(keys, key)
	}
	slices.SortStableFunc(keys, func(a, b model.ImageKey) int { return cmp.Compare(v.images[a].Attempts, v.images[b].Attempts) })
	return keys
}

// incomplete reports whether an image was read from an image volume in part, and may be read from its registry.
func (v *observed) incomplete(key model.ImageKey) bool {
	image := v.images[key]
	return v.reads.source() != scannerv1.SourceImageVolume && cataloged(&image) && image.Partial() && image.Source == model.SourceImageVolume && key.Pullable()
}

// beginAgain records that an attempt may replace an SBOM. It returns false when too many have begun within the last hour.
func (r *Reconciler) beginAgain(ctx context.Context, v *observed, start scanjob.Request) (bool, error) {
	if image := v.images[start.Key]; requested(&image) {
		return true, nil
	}
	if v.incomplete(start.Key) {
		began, err := r.Store.RetryPartial(ctx, start.Key, start.Attempt)
		if err != nil {
			return false, fmt.Errorf("record that an image is read from its registry: %w", err)
		}
		image := v.images[start.Key]
		image.Recatalog.Open = began
		v.images[start.Key] = image
		return began, nil
	}
	began, err := r.Store.BeginRecatalog(ctx, start.Key, start.Attempt, r.Recatalog.Cataloger, r.Recatalog.PerHour)
	if err != nil {
		return false, fmt.Errorf("record that an image is cataloged again: %w", err)
	}
	if !began {
		r.recatalogPausedUntil.Store(r.Clock.Now().Add(recatalogPause).UnixNano())
	} else {
		image := v.images[start.Key]
		image.Recatalog = store.Recatalog{Cataloger: r.Recatalog.Cataloger, Open: true}
		v.images[start.Key] = image
	}
	return began, nil
}
