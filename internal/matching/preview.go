package matching

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

// ErrNotInstalled is returned by Previewer when this replica does not have the vulnerability database that the visible findings come from. The leader downloads
// them, and only imported ones are shared.
var ErrNotInstalled = errors.New("this replica of the operator does not have the vulnerability database that the findings come from; the leader has it")

// previewIdle is how long a Previewer keeps the vulnerability database open after its last use.
const previewIdle = 5 * time.Minute

// Previewer matches packages in versions that no image has, with the vulnerability database that the visible findings come from. It saves nothing, and works
// on replicas that have the database. One request is answered at a time; the others wait.
type Previewer struct {
	store   PreviewStore
	library PreviewLibrary

	// turn is held while open and idle are used.
	turn *semaphore.Weighted
	open *match.Database
	idle *time.Timer
	// keep is how long the database stays open after its last use.
	keep time.Duration
}

// PreviewStore tells which database the visible findings come from.
type PreviewStore interface {
	CurrentResultSet(ctx context.Context) (store.ResultSet, bool, error)
}

// PreviewLibrary holds the installed vulnerability databases.
type PreviewLibrary interface {
	Installed(buildID string) (vulndb.Installed, bool)
}

// NewPreviewer returns a Previewer that reads the databases of a library.
func NewPreviewer(s PreviewStore, library PreviewLibrary) *Previewer {
	return &Previewer{store: s, library: library, turn: semaphore.NewWeighted(1), keep: previewIdle}
}

// MatchVersions finds the vulnerabilities that packages would have in other versions, versions[i] being that of packages[i]. A package of which that cannot be
// said has a Failure. The error is ErrNotInstalled, or says that the store or the database cannot be read or that ctx ended.
func (p *Previewer) MatchVersions(ctx context.Context, packages []model.Package, versions []string) ([]model.PackageAnswer, model.DatabaseBuild, error) {
	if err := p.turn.Acquire(ctx, 1); err != nil {
		return nil, model.DatabaseBuild{}, err
	}
	defer p.turn.Release(1)
	if err := p.openCurrent(ctx); err != nil {
		return nil, model.DatabaseBuild{}, err
	}
	answers := make([]model.PackageAnswer, len(packages))
	fingerprints := make([]string, len(packages))
	var others []model.Package
	for i := range packages {
		other, err := match.InVersion(&packages[i], versions[i])
		if err != nil {
			answers[i].Failure = err.Error()
			continue
		}
		fingerprints[i] = other.Fingerprint
		others = append(others, other)
	}
	found, err := p.open.MatchPackages(ctx, others)
	if err != nil {
		return nil, model.DatabaseBuild{}, err
	}
	for i, fingerprint := range fingerprints {
		if fingerprint != "" {
			answers[i] = found[fingerprint]
		}
	}
	return answers, p.open.Build(), nil
}

// openCurrent opens the database of the visible findings, unless it is open, and has it closed when it was not used for a while.
func (p *Previewer) openCurrent(ctx context.Context) error {
	current, found, err := p.store.CurrentResultSet(ctx)
	if err != nil {
		return fmt.Errorf("read the vulnerability database in use: %w", err)
	}
	if !found {
		return ErrNotInstalled
	}
	if p.open == nil || p.open.Build().ID != current.Build.ID {
		installed, found := p.library.Installed(current.Build.ID)
		if !found {
			return ErrNotInstalled
		}
		if err := p.closeOpen(); err != nil {
			return err
		}
		if p.open, err = match.Open(installed); err != nil {
			return err
		}
	}
	if p.idle == nil {
		p.idle = time.AfterFunc(p.keep, p.closeIdle)
	} else {
		p.idle.Reset(p.keep)
	}
	return nil
}

// closeIdle closes the database, or tries again later if it is in use.
func (p *Previewer) closeIdle() {
	if !p.turn.TryAcquire(1) {
		time.AfterFunc(p.keep, p.closeIdle)
		return
	}
	defer p.turn.Release(1)
	_ = p.closeOpen() // Its files were only read.
}

func (p *Previewer) closeOpen() error {
	if p.open == nil {
		return nil
	}
	err := p.open.Close()
	p.open = nil
	return err
}
