package assess

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// Run matches images until ctx ends: when an SBOM came in, when the database changed, and from time to time what failed
// before. It implements manager.Runnable; one replica at a time runs it.
func (a *Assessor) Run(ctx context.Context) error {
	var database *match.Database
	defer func() {
		if database != nil {
			a.close(database)
		}
	}()
	for {
		database = a.use(database)
		wait := retryAfter
		if database != nil {
			if err := a.matchAll(ctx, database); err != nil && ctx.Err() == nil {
				a.log.Error(err, "Matching stopped; it goes on soon")
				wait = storeRetry
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.library.Changed():
		case <-a.wake:
		case <-a.clock.After(wait):
		}
	}
}

// use opens the current database unless it is the one that is open. When it cannot be opened, the open one stays.
func (a *Assessor) use(open *match.Database) *match.Database {
	installed, ok := a.library.Current()
	if !ok || open != nil && open.Build().ID == installed.Build.ID {
		return open
	}
	database, err := match.Open(installed)
	a.mu.Lock()
	a.opened = true
	a.mu.Unlock()
	if err != nil {
		a.log.Error(err, "Cannot open the vulnerability database", "build", installed.Build.ID)
		return open
	}
	if open != nil {
		a.close(open)
	}
	build := database.Build()
	a.mu.Lock()
	a.build = &build
	a.mu.Unlock()
	a.log.Info("Vulnerability database in use", "build", build.ID, "built", build.Built, "source", build.Source)
	return database
}

func (a *Assessor) close(database *match.Database) {
	if err := database.Close(); err != nil {
		a.log.Error(err, "Cannot close a vulnerability database")
	}
}

// matchAll matches every image that has no result of this database yet. It returns early when a newer database arrives.
func (a *Assessor) matchAll(ctx context.Context, database *match.Database) error {
	build := database.Build()
	if err := a.store.RecordDatabase(ctx, build); err != nil {
		return fmt.Errorf("record the vulnerability database: %w", err)
	}
	var after vuln.ImageKey
	for {
		keys, err := a.store.ImagesToMatch(ctx, build.ID, after, batch)
		if err != nil {
			return fmt.Errorf("list images to match: %w", err)
		}
		if len(keys) == 0 {
			return a.prune(ctx, build)
		}
		for _, key := range keys {
			if current, ok := a.library.Current(); ok && current.Build.ID != build.ID {
				a.Wake()
				return nil
			}
			if err := a.matchOne(ctx, database, key); err != nil {
				return err
			}
		}
		after = keys[len(keys)-1]
	}
}

func (a *Assessor) prune(ctx context.Context, build vuln.DatabaseBuild) error {
	if err := a.store.PruneDatabases(ctx, build.ID); err != nil {
		return fmt.Errorf("remove the findings of earlier databases: %w", err)
	}
	return nil
}

// matchOne returns an error only when the store failed; an image that cannot be matched is recorded as such.
func (a *Assessor) matchOne(ctx context.Context, database *match.Database, key vuln.ImageKey) error {
	sbom, err := a.store.SBOM(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	} else if err != nil {
		return fmt.Errorf("read an SBOM: %w", err)
	}
	result, err := matchSBOM(ctx, database, sbom)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		a.log.Error(err, "Cannot match an image", "image", key.ImageID, "platform", key.Platform.String())
		err = a.store.RecordMatchFailure(ctx, key, vuln.Outcome{Reason: vuln.ReasonMatchFailed, Message: err.Error()})
	default:
		err = a.store.SaveMatch(ctx, key, sbom.SHA256, database.Build(), result)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("keep the result of %s: %w", key, err)
	}
	return nil
}

// matchSBOM turns a panic into an error: what is matched comes from outside, and an image on which a matcher panics would end the
// manager again after every start.
func matchSBOM(ctx context.Context, database *match.Database, sbom store.SBOM) (_ vuln.MatchResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("matching panicked: %v", p)
		}
	}()
	decoder, err := zstd.NewReader(bytes.NewReader(sbom.Content), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return vuln.MatchResult{}, fmt.Errorf("decompress the SBOM: %w", err)
	}
	defer decoder.Close()
	decoded, err := match.Decode(decoder, match.DefaultDecodeLimits())
	if err != nil {
		return vuln.MatchResult{}, fmt.Errorf("decode the SBOM: %w", err)
	}
	return database.Match(ctx, decoded)
}
