package scanner

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// defaultRetention is how long results are kept when no Scanner says it.
const defaultRetention = 30 * 24 * time.Hour

// Forgetter removes the results of images that nothing has run for longer than every Scanner wants them. It runs on the leader.
type Forgetter struct {
	Client   client.Reader
	Store    store.Scans
	Interval time.Duration
	Clock    clock.WithTicker
	Log      logr.Logger
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
			f.Log.Error(err, "Cannot remove the results of images that nothing runs")
		}
	}
}

// forget removes in short transactions, one after the other.
func (f *Forgetter) forget(ctx context.Context) error {
	var scanners scannerv1.ScannerList
	if err := f.Client.List(ctx, &scanners); err != nil {
		return fmt.Errorf("list Scanners: %w", err)
	}
	before := f.Clock.Now().Add(-retention(scanners.Items))
	for {
		keys, err := f.Store.ForgetImages(ctx, before, store.MaxForget)
		if err != nil {
			return err
		}
		for _, key := range keys {
			f.Log.Info("Removed the results of an image that nothing runs any more", "image", key.ImageID, "platform", key.Platform.String())
		}
		if len(keys) < store.MaxForget {
			return nil
		}
	}
}

// retention is the longest that any Scanner asks for.
func retention(scanners []scannerv1.Scanner) time.Duration {
	longest := time.Duration(0)
	for i := range scanners {
		asked := defaultRetention
		if r := scanners[i].Spec.Retention; r != nil {
			asked = r.Duration
		}
		longest = max(longest, asked)
	}
	if longest == 0 {
		return defaultRetention
	}
	return longest
}
