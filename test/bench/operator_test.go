package bench

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/matching"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

// imageKey names an image of the fleet.
func imageKey(index int) model.ImageKey {
	sum := sha256.Sum256(fmt.Append(nil, index))
	return model.ImageKey{
		ImageID:  fmt.Sprintf("registry.example/app-%d@sha256:%s", index, hex.EncodeToString(sum[:])),
		Platform: model.Platform{OS: "linux", Architecture: "amd64"},
	}
}

// operator is the part of the operator that is measured.
type operator struct {
	*matching.Matcher
	*counter
	store *observedStore
}

func (p phase) newOperator(ctx context.Context, log logr.Logger) (operator, error) {
	s, err := sqlstore.Open(ctx, sqlstore.Config{DSN: p.Store, Log: log, Clock: clock.RealClock{}})
	if err != nil {
		return operator{}, err
	}
	o := operator{counter: &counter{}, store: &observedStore{Store: s, pruned: make(chan struct{})}}
	o.Matcher = matching.New(o.store, &library{builds: p.Builds, full: p.Full}, o.counter, clock.RealClock{}, log)
	return o, nil
}

func (p phase) ingest(ctx context.Context) (_ figures, err error) {
	o, err := p.newOperator(ctx, logr.Discard())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.store.Close()) }()
	keys := make([]model.ImageKey, p.Images)
	for i := range keys {
		keys[i] = imageKey(i)
	}
	for some := range slices.Chunk(keys, store.MaxKeys) {
		if _, err := o.store.WantImages(ctx, some); err != nil {
			return nil, err
		}
	}
	return figures{}, p.each(ctx, func(index int) error {
		file, err := os.Open(p.sbomFile(index))
		if err != nil {
			return err
		}
		return errors.Join(o.IngestSBOM(ctx, keys[index], store.Delivery{}, file), file.Close())
	})
}

func (p phase) match(ctx context.Context) (_ figures, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o, err := p.newOperator(ctx, failingLogger(cancel))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.store.Close()) }()
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	select {
	case <-o.store.pruned:
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), <-ended)
	}
	cancel(nil)
	if err := <-ended; err != nil {
		return nil, err
	}
	return p.check(context.WithoutCancel(ctx), o)
}

// check makes sure that there is nothing left to do.
func (p phase) check(ctx context.Context, o operator) (figures, error) {
	waiting, err := o.store.WaitingImages(ctx, model.ImageKey{}, 1)
	if err != nil {
		return nil, err
	}
	unread, err := o.store.UnreadSymbols(ctx, false, model.ImageKey{}, 1)
	if err != nil {
		return nil, err
	}
	waiting = append(waiting, unread...)
	current, _, err := o.store.CurrentResultSet(ctx)
	if err != nil {
		return nil, err
	}
	if want := p.Builds[len(p.Builds)-1].Build.ID; len(waiting) > 0 || current.Build.ID != want {
		return nil, fmt.Errorf("the matching ended with images that wait (%v), or with the build %s, not %s", waiting, current.Build.ID, want)
	}
	return figures{
		"matched": float64(o.packages), "opened": float64(current.Changes.Opened), "closed": float64(current.Changes.Closed),
		"changed": float64(current.Changes.Changed),
	}, nil
}

// count returns the number of findings of an image.
func (p phase) count(ctx context.Context) (_ figures, err error) {
	o, err := p.newOperator(ctx, logr.Discard())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.store.Close()) }()
	findings := 0
	for query := (store.ImageQuery{Page: store.Page{Size: store.MaxPageSize}}); ; {
		page, err := o.store.ListImages(ctx, store.AllNamespaces(), query)
		if err != nil {
			return nil, err
		}
		for _, image := range page.Images {
			findings += image.Counts.Total()
		}
		if query.Token = page.NextToken; query.Token == "" {
			return figures{"findings/image": float64(findings) / float64(p.Images)}, nil
		}
	}
}

// failingLogger logs to standard error, and ends the phase with the first error.
func failingLogger(cancel context.CancelCauseFunc) logr.Logger {
	return funcr.New(func(_, args string) {
		fmt.Fprintln(os.Stderr, args)
		// Only what is not an error has a level.
		if !strings.HasPrefix(args, `"level"=`) {
			cancel(errors.New(args))
		}
	}, funcr.Options{})
}

// observedStore signals that Run is idle: its work ends with a Prune.
type observedStore struct {
	*sqlstore.Store
	pruned chan struct{}
}

func (s *observedStore) Prune(ctx context.Context, before time.Time) error {
	if err := s.Store.Prune(ctx, before); err != nil {
		return err
	}
	close(s.pruned)
	return nil
}

// counter counts the packages that were matched.
type counter struct{ packages int }

func (c *counter) PackagesMatched(n int) { c.packages += n }

func (c *counter) Rematched(store.ResultSet, time.Duration) {}

// library holds databases that do not change.
type library struct {
	builds []vulndb.Installed // the last one is current
	full   bool
}

func (l *library) Current() (vulndb.Installed, bool) { return l.builds[len(l.builds)-1], true }

func (l *library) Installed(buildID string) (vulndb.Installed, bool) {
	for _, build := range l.builds {
		if build.Build.ID == buildID {
			return build, true
		}
	}
	return vulndb.Installed{}, false
}

func (l *library) Changed() <-chan struct{} { return nil }

func (l *library) RematchRequest() (full, pending bool) { return l.full, l.full }

func (l *library) ClearRematchRequest() error {
	l.full = false
	return nil
}
