package matching

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

// Run matches until ctx ends: when an SBOM came in, when the database changed, when somebody asked for it. It implements
// manager.Runnable; one replica at a time runs it.
func (a *Matcher) Run(ctx context.Context) error {
	r := &runner{Matcher: a}
	defer r.close()
	for {
		wait := retryAfter
		if err := errors.Join(r.pass(ctx), r.recordDay(ctx)); err != nil && ctx.Err() == nil {
			a.log.Error(err, "Matching failed, retrying")
			wait = storeRetry
		}
		wait = r.images.wait(r.retries.wait(wait, r.clock.Now()), r.clock.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-a.library.Changed():
		case <-a.wake:
		case <-a.clock.After(wait):
		}
	}
}

// runner is the state of Run. One goroutine uses it.
type runner struct {
	*Matcher
	// current and next are the open databases of the two result sets. They are the same when only the engine differs.
	current, next *match.Database
	// waiting and unread are up to where newImages has come, zero when it begins with the first image.
	waiting, unread model.ImageKey
	// pruned, recorded and refreshed are when prune, recordDay and refreshFixes last did something, reread when readAgain last came to its end.
	pruned, recorded, refreshed, reread time.Time
	// recataloged is the last image that readRecataloged read, when there may be others behind it.
	recataloged model.ImageKey
	// retried is when retryFailed last matched all packages that failed, or when it was first called. retries has those that are matched again before the next
	// time, images those that were passed over.
	retried time.Time
	retries retries[int64]
	images  retries[model.ImageKey]
}

// pass does all that there is to do. A pass that is interrupted is taken up by the next one.
func (r *runner) pass(ctx context.Context) error {
	begin := r.clock.Now()
	current, found, err := r.firstResultSet(ctx)
	if err != nil {
		return err
	}
	if !found {
		r.report(r.lacking(nil))
		return nil
	}
	r.Matcher.use(current)
	r.current = r.exchange(r.current, r.next, current.Build.ID)
	r.report(r.lacking(&current))
	if err := r.saveLifecycles(ctx, r.current); err != nil {
		return err
	}
	if err := r.refreshFixes(ctx); err != nil {
		return err
	}
	if err := r.readAgain(ctx, current); err != nil {
		return err
	}
	if err := r.readRecataloged(ctx, current); err != nil {
		return err
	}
	if err := r.readSymbols(ctx, current); err != nil {
		return err
	}
	if err := r.retryFailed(ctx, current); err != nil {
		return err
	}
	for more := true; more; {
		if more, err = r.newImages(ctx, current); err != nil {
			return err
		}
		if target, found := r.target(current); found && target.Build.ID != current.Build.ID {
			break // The new database goes on with new images between its batches.
		}
	}
	if err := r.rematch(ctx, current); err != nil {
		return err
	}
	r.images.forget(begin)
	if err := r.prune(ctx); err != nil {
		return err
	}
	if err := r.matchNewerTags(ctx); err != nil {
		return err
	}
	return r.compareNewerTags(ctx)
}

// firstResultSet returns the current result set, which is begun when there is a database but no result set yet.
func (r *runner) firstResultSet(ctx context.Context) (store.ResultSet, bool, error) {
	current, found, err := r.store.CurrentResultSet(ctx)
	if err != nil {
		return store.ResultSet{}, false, fmt.Errorf("read the current result set: %w", err)
	}
	if found {
		return current, true, nil
	}
	target, installed := r.library.Current()
	if !installed {
		return store.ResultSet{}, false, nil
	}
	current, err = r.store.StartResultSet(ctx, target.Build, match.Engine(), true)
	if err != nil {
		return store.ResultSet{}, false, fmt.Errorf("start the first result set: %w", err)
	}
	r.log.Info("Vulnerability database in use", "build", current.Build.ID, "built", current.Build.Built, "source", current.Build.Source)
	return current, true, nil
}

// exchange returns the database of a build in place of the one that was open; other is one that stays open. It is nil when the
// database is not there or cannot be opened: what needs it waits for the next result set.
func (r *runner) exchange(before, other *match.Database, buildID string) *match.Database {
	switch {
	case before != nil && before.Build().ID == buildID:
		return before
	case before != other:
		r.release(before)
	}
	if other != nil && other.Build().ID == buildID {
		return other
	}
	installed, found := r.library.Installed(buildID)
	if !found {
		return nil
	}
	database, err := match.Open(installed)
	if err != nil {
		r.log.Error(err, "Cannot open a vulnerability database", "build", buildID)
		return nil
	}
	return database
}

func (r *runner) close() {
	r.release(r.next)
	if r.current != r.next {
		r.release(r.current)
	}
	r.current, r.next = nil, nil
}

func (r *runner) release(database *match.Database) {
	if database == nil {
		return
	}
	if err := database.Close(); err != nil {
		r.log.Error(err, "Cannot close a vulnerability database")
	}
}

// errMatch is wrapped by errors of the vulnerability database.
var errMatch = errors.New("match packages")

// matchBatch matches packages and saves the answers under a result set.
func (r *runner) matchBatch(ctx context.Context, database *match.Database, resultSet int64, packages []store.StoredPackage) (err error) {
	ctx, end := r.trace(ctx, "match packages", attribute.Int("scanner.packages", len(packages)))
	defer end(&err)
	answers, err := matchAll(ctx, database, packages)
	if err != nil {
		return err
	}
	for i := range packages {
		p := &packages[i]
		if failure := answers[p.ID].Failure; failure != "" {
			r.log.Info("Cannot match a package", "name", p.Name, "version", p.Version, "type", p.Type, "reason", failure)
		}
	}
	if err := r.saveAnswers(ctx, resultSet, answers, false); err != nil {
		return fmt.Errorf("save match results: %w", err)
	}
	for id, answer := range answers {
		if answer.Failure != "" {
			r.retries.failed(id, firstRetry, r.clock.Now())
		}
	}
	r.observer.PackagesMatched(len(packages))
	return nil
}

// matchAll returns the answers by package ID.
func matchAll(ctx context.Context, database *match.Database, packages []store.StoredPackage) (map[int64]model.PackageAnswer, error) {
	batch := make([]model.Package, len(packages))
	for i := range packages {
		batch[i] = packages[i].Package
	}
	found, err := database.MatchPackages(ctx, batch)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errMatch, err)
	}
	answers := make(map[int64]model.PackageAnswer, len(packages))
	for i := range packages {
		answers[packages[i].ID] = found[packages[i].Fingerprint]
	}
	return answers, nil
}

// saveAnswers saves the answers one by one if they cannot be saved together; one that cannot be saved at all becomes a failure. failed: the
// store has failures of all of them.
func (r *runner) saveAnswers(ctx context.Context, resultSet int64, answers map[int64]model.PackageAnswer, failed bool) error {
	err := r.store.SaveAnswers(ctx, resultSet, answers)
	if !isOfOneRow(ctx, err) {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(answers)) {
		err := r.store.SaveAnswers(ctx, resultSet, map[int64]model.PackageAnswer{id: answers[id]})
		if isOfOneRow(ctx, err) {
			r.log.Error(err, "Cannot save the result of a package", "package", id)
			answers[id] = model.PackageAnswer{Failure: truncate.Text("save the result: "+err.Error(), maxFailure)}
			if failed {
				continue
			}
			err = r.store.SaveAnswers(ctx, resultSet, map[int64]model.PackageAnswer{id: answers[id]})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isOfOneRow says that the store refused a value: the work goes on without it. Other errors end a pass: a database is not available, the
// result set is not the current one any more, or ctx ended.
func isOfOneRow(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, errMatch)
}

// prune removes what nothing needs any more, now and then.
func (r *runner) prune(ctx context.Context) error {
	now := r.clock.Now()
	if now.Sub(r.pruned) < pruneInterval {
		return nil
	}
	if err := errors.Join(r.store.PruneDecisions(ctx, now.Add(-r.DecisionRetention)), r.store.Prune(ctx, now.Add(-r.Retention))); err != nil {
		return fmt.Errorf("delete expired data: %w", err)
	}
	r.pruned = now
	return nil
}

// refreshFixes computes again what fixes are ordered by and what counts in some places only, after the start and then hourly: during a rollout, a replica of a previous version may have
// changed findings without it.
func (r *runner) refreshFixes(ctx context.Context) error {
	now := r.clock.Now()
	if now.Sub(r.refreshed) < rereadInterval {
		return nil
	}
	if err := r.store.RefreshFixes(ctx); err != nil {
		return fmt.Errorf("compute fixes again: %w", err)
	}
	r.refreshed = now
	return nil
}

// recordDay keeps the sums of the day, now and then.
func (r *runner) recordDay(ctx context.Context) error {
	now := r.clock.Now()
	if now.Sub(r.recorded) < recordInterval {
		return nil
	}
	if err := r.store.RecordDay(ctx); err != nil {
		return fmt.Errorf("record the daily totals: %w", err)
	}
	r.recorded = now
	return nil
}

// superseded tells that another database than this is to be matched with by now.
func (r *runner) superseded(current store.ResultSet, target vulndb.Installed) bool {
	now, found := r.target(current)
	return found && now.Build.ID != target.Build.ID
}

// isGone tells that the image was removed or has another SBOM by now, so that there is nothing left to do for it.
func isGone(err error) bool { return errors.Is(err, store.ErrNotFound) }
