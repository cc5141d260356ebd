package matching

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

const (
	// shareInterval is how often replicas look for a database that another one imported; after failures it doubles up to maxShareInterval.
	shareInterval    = 10 * time.Second
	maxShareInterval = 10 * time.Minute
	// shareTimeout bounds one transfer to or from the store.
	shareTimeout = 30 * time.Minute
)

// SharedStore is what a Sharer needs of the store.
type SharedStore interface {
	CurrentResultSet(ctx context.Context) (store.ResultSet, bool, error)
	store.SharedDatabases
}

// SharedLibrary is what a Sharer needs of the installed vulnerability databases.
type SharedLibrary interface {
	Refresh()
	Current() (vulndb.Installed, bool)
	ImportShared(ctx context.Context, shared vulndb.Installed, size int64, load func(w io.Writer) error) (vulndb.Installed, error)
}

// Sharer brings the vulnerability database that was imported on one replica to the others, by way of the store: whoever imported it may be
// gone when another one leads. It runs on every replica. Databases that can be downloaded are not shared.
type Sharer struct {
	Store   SharedStore
	Library SharedLibrary
	Clock   clock.Clock
	Log     logr.Logger

	mu sync.Mutex
}

// Run shares until ctx ends. It implements manager.Runnable.
func (s *Sharer) Run(ctx context.Context) error {
	wait := shareInterval
	for {
		if err := s.Sync(ctx); err == nil {
			wait = shareInterval
		} else if ctx.Err() == nil {
			wait = min(2*wait, maxShareInterval)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.Clock.After(wait):
		}
	}
}

// Sync takes the shared database if it replaces that of this replica, or shares that of this replica if it was imported and replaces the
// shared one. It logs the error that it returns.
func (s *Sharer) Sync(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, shareTimeout)
	defer cancel()
	err := s.sync(ctx)
	if err != nil && !errors.Is(err, context.Canceled) {
		s.Log.Error(err, "Cannot share vulnerability databases with other replicas, retrying")
	}
	return err
}

func (s *Sharer) sync(ctx context.Context) error {
	current, matched, err := s.Store.CurrentResultSet(ctx)
	if err != nil {
		return fmt.Errorf("read the current result set: %w", err)
	}
	// useful says that a build may still be matched with.
	useful := func(build vulndb.Installed) bool {
		return !matched || build.Build.ID == current.Build.ID || follows(build, current)
	}
	row, shared, err := s.Store.SharedDatabase(ctx)
	if err != nil {
		return err
	}
	theirs := vulndb.Installed{Build: row.Build, InstalledAt: row.InstalledAt, AllowOlder: row.AllowOlder}
	if shared && !useful(theirs) {
		if err := s.Store.DeleteSharedDatabase(ctx, row.ID); err != nil {
			return err
		}
		shared = false
	}
	s.Library.Refresh()
	ours, installed := s.Library.Current()
	switch {
	case shared && (!installed || theirs.Replaces(ours)):
		_, err := s.Library.ImportShared(ctx, theirs, row.Size, func(w io.Writer) error { return s.Store.LoadSharedDatabase(ctx, row.ID, w) })
		return err
	case installed && ours.Build.Source == model.DatabaseSourceImported && useful(ours) && (!shared || ours.Replaces(theirs)):
		return s.share(ctx, ours)
	}
	return nil
}

func (s *Sharer) share(ctx context.Context, build vulndb.Installed) error {
	archive, w := io.Pipe()
	var group sync.WaitGroup
	group.Go(func() { _ = w.CloseWithError(build.Export(ctx, w)) })
	err := s.Store.SaveSharedDatabase(ctx, store.SharedDatabase{
		Build: build.Build, InstalledAt: build.InstalledAt, AllowOlder: build.AllowOlder,
	}, archive)
	_ = archive.Close()
	group.Wait()
	if err != nil {
		return err
	}
	s.Log.Info("Shared an imported vulnerability database with the other replicas", "build", build.Build.ID, "built", build.Build.Built)
	return nil
}
