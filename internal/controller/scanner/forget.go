package scanner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	// defaultRetention is how long results are kept where no Scanner says it.
	defaultRetention = 30 * 24 * time.Hour
	// unusedRetention is how long an image is kept that nothing was recorded to run: a Scanner records it before its containers.
	unusedRetention = time.Hour
	// DefaultMaxRetention is Forgetter.MaxRetention where a user chooses no other.
	DefaultMaxRetention = 365 * 24 * time.Hour
)

// Forgetter deletes the records of Scanners that were deleted while no operator ran, and the results of images that have not run for
// longer than the retention of each Scanner that covered them. It runs on the leader.
type Forgetter struct {
	Client client.Reader
	Store  ForgetterStore
	// MaxRetention bounds the retention of each Scanner.
	MaxRetention time.Duration
	Interval     time.Duration
	Clock        clock.WithTicker
	Log          logr.Logger
}

// ForgetterStore is what the Forgetter needs of the store.
type ForgetterStore interface {
	Scopes(ctx context.Context) ([]string, error)
	ForgetScope(ctx context.Context, scope string) error
	ExpireUses(ctx context.Context, scope string, before time.Time) error
	ForgetImages(ctx context.Context, before time.Time, limit int) ([]model.ImageKey, error)
}

// Start removes until ctx ends. It implements manager.Runnable.
func (f *Forgetter) Start(ctx context.Context) error {
	ticker := f.Clock.NewTicker(f.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		if err := f.forget(ctx); err != nil && ctx.Err() == nil {
			f.Log.Error(err, "Failed to delete the results of images that do not run")
		}
	}
}

func (f *Forgetter) forget(ctx context.Context) error {
	// Read first: the Scanner of a scope that is recorded after this is not missed in the list.
	scopes, err := f.Store.Scopes(ctx)
	if err != nil {
		return err
	}
	var scanners scannerv1.ScannerList
	if err := f.Client.List(ctx, &scanners); err != nil {
		return fmt.Errorf("list Scanners: %w", err)
	}
	return errors.Join(f.forgetUses(ctx, scopes, scanners.Items), f.forgetImages(ctx, f.Clock.Now().Add(-unusedRetention)))
}

// forgetUses ends what scopes without a Scanner are said to run, and lets each scope keep its images for the retention of its Scanner. A scope that fails
// concerns no other.
func (f *Forgetter) forgetUses(ctx context.Context, scopes []string, scanners []scannerv1.Scanner) error {
	exist := make(map[string]*scannerv1.Scanner, len(scanners))
	for i := range scanners {
		exist[scopeOf(client.ObjectKeyFromObject(&scanners[i]))] = &scanners[i]
	}
	now := f.Clock.Now()
	var failed error
	for _, scope := range scopes {
		scanner, exists := exist[scope]
		if exists {
			if err := f.Store.ExpireUses(ctx, scope, now.Add(-f.retention(scanner))); err != nil {
				failed = errors.Join(failed, fmt.Errorf("expire the images of the scope %s: %w", scope, err))
			}
		} else if err := f.Store.ForgetScope(ctx, scope); err != nil {
			failed = errors.Join(failed, fmt.Errorf("delete the scope %s: %w", scope, err))
		} else {
			f.Log.Info("Deleted the records of a deleted Scanner", "scope", scope)
		}
		if endsReconcile(ctx, failed) {
			return failed
		}
	}
	if err := f.Store.ExpireUses(ctx, "", now.Add(-min(defaultRetention, f.MaxRetention))); err != nil {
		failed = errors.Join(failed, fmt.Errorf("expire the images of deleted Scanners: %w", err))
	}
	return failed
}

// maxScope is how long the name of a scope may be in the store.
const maxScope = 255

// scopeOf names the scope of a Scanner in the store. The longest names of Scanners do not fit.
func scopeOf(scanner types.NamespacedName) string {
	name := scanner.String()
	if len(name) <= maxScope {
		return name
	}
	digest := sha256.Sum256([]byte(name))
	return name[:maxScope-hex.EncodedLen(len(digest))] + hex.EncodeToString(digest[:])
}

// forgetImages removes in short transactions, one after the other.
func (f *Forgetter) forgetImages(ctx context.Context, before time.Time) error {
	for {
		keys, err := f.Store.ForgetImages(ctx, before, store.MaxForget)
		if err != nil {
			return err
		}
		for _, key := range keys {
			f.Log.Info("Deleted the results of an image that does not run any more", "image", key.ImageID, "platform", key.Platform.String())
		}
		if len(keys) < store.MaxForget {
			return nil
		}
	}
}

// retention is how long the results of the images of a Scanner are kept.
func (f *Forgetter) retention(scanner *scannerv1.Scanner) time.Duration {
	asked := defaultRetention
	if scanner.Spec.Retention != nil {
		asked = scanner.Spec.Retention.Duration
	}
	return min(asked, f.MaxRetention)
}
