package matching

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

// scope says what a new result set has to look at.
type scope struct {
	// full: every package and every score.
	full bool
	// difference of the databases; nil together with full, or when the database is the same.
	difference *vulndb.Difference
}

func (s scope) touches(p store.AnsweredPackage) bool {
	return s.full || p.Failed || s.difference != nil && s.difference.Touches(p.SearchKeys)
}

func (s scope) touchesScores(v store.StoredVulnerability) bool {
	return s.full || s.difference != nil && s.difference.ScoresTouched(v.CVEs)
}

// rematch brings the findings to the database of target, when they are not, or somebody asked for it. It returns early
// when yet another database arrives.
func (r *runner) rematch(ctx context.Context, current store.ResultSet) (err error) {
	target, found := r.target(current)
	full, requested := r.library.RematchRequest()
	full = full || current.Engine != match.Engine()
	if !found || target.Build.ID == current.Build.ID && !full && !requested {
		return nil
	}
	if r.next = r.exchange(r.next, r.current, target.Build.ID); r.next == nil {
		return nil // It was logged. The findings of the last good database stay.
	}
	began := r.clock.Now()
	ctx, end := r.trace(ctx, "re-match", attribute.String("scanner.database.build", target.Build.ID), attribute.Bool("scanner.rematch.full", full))
	defer end(&err)
	next, scope, err := r.begin(ctx, current, target, full)
	if err != nil {
		return err
	}
	if finished, err := r.matchQueue(ctx, current, next, target); err != nil || !finished {
		return err
	}
	if err := r.stageScores(ctx, next, scope); err != nil {
		return err
	}
	// Before the event that tells of the new database.
	if err := r.saveLifecycles(ctx, r.next); err != nil {
		return err
	}
	if next, err = r.switchTo(ctx, next); err != nil {
		return err
	}
	r.switched(next, requested)
	r.observer.Rematched(next, r.clock.Since(began))
	r.log.Info("Vulnerability database in use", "build", next.Build.ID, "built", next.Build.Built, "source", next.Build.Source,
		"full", next.Full, "matched", next.Matched, "opened", next.Changes.Opened, "closed", next.Changes.Closed,
		"changed", next.Changes.Changed, "images", next.Changes.Images)
	r.Wake() // New images may have come meanwhile.
	return nil
}

// switchTo makes a result set the current one.
func (r *runner) switchTo(ctx context.Context, next store.ResultSet) (current store.ResultSet, err error) {
	ctx, end := r.trace(ctx, "switch result set")
	defer end(&err)
	if current, err = r.store.Switch(ctx, next.Number); err != nil {
		return store.ResultSet{}, fmt.Errorf("switch to result set %d: %w", next.Number, err)
	}
	return current, nil
}

// switched makes the database of the new result set the current one.
func (r *runner) switched(next store.ResultSet, requested bool) {
	if r.current != r.next {
		r.release(r.current)
	}
	r.current, r.next = r.next, nil
	r.recorded = time.Time{} // The sums of the day are others now.
	r.Matcher.use(next)
	if requested {
		if err := r.library.ClearRematchRequest(); err != nil {
			r.log.Error(err, "Cannot delete a completed re-match request; it will run again")
		}
	}
}

// begin starts the next result set, or takes up the one that was interrupted, and queues the packages to match.
func (r *runner) begin(ctx context.Context, current store.ResultSet, target vulndb.Installed, full bool) (store.ResultSet, scope, error) {
	next, found, err := r.store.NextResultSet(ctx)
	if err != nil {
		return store.ResultSet{}, scope{}, fmt.Errorf("read the next result set: %w", err)
	}
	resumed := found && next.Build.ID == target.Build.ID && next.Engine == match.Engine() && (next.Full || !full)
	s := scope{full: full || resumed && next.Full}
	switch {
	case s.full:
	case resumed && next.State == store.ResultSetMatching:
		// The packages are queued. Looking at every score costs less than comparing the databases again.
		return next, scope{full: true}, nil
	case target.Build.ID != current.Build.ID:
		if s, err = r.compare(ctx, current, target); err != nil {
			return store.ResultSet{}, scope{}, err
		}
	}
	if !resumed || s.full && !next.Full {
		if next, err = r.store.StartResultSet(ctx, target.Build, match.Engine(), s.full); err != nil {
			return store.ResultSet{}, scope{}, fmt.Errorf("start a result set: %w", err)
		}
	}
	if next.State == store.ResultSetMatching {
		return next, s, nil
	}
	if err := r.widen(ctx, current); err != nil {
		return store.ResultSet{}, scope{}, err
	}
	return next, s, r.queue(ctx, next, s)
}

// compare finds out what the new database can touch; everything when that cannot be found out.
func (r *runner) compare(ctx context.Context, current store.ResultSet, target vulndb.Installed) (_ scope, err error) {
	ctx, end := r.trace(ctx, "compare vulnerability databases")
	defer end(&err)
	before, found := r.library.Installed(current.Build.ID)
	if !found {
		r.log.Info("Matching all packages: the previous vulnerability database is missing", "build", current.Build.ID)
		return scope{full: true}, nil
	}
	difference, err := vulndb.Compare(ctx, before, target)
	if ctx.Err() != nil {
		return scope{}, ctx.Err()
	}
	if err != nil {
		r.log.Error(err, "Matching all packages: cannot compare the vulnerability databases")
		return scope{full: true}, nil
	}
	if reason, all := difference.Full(); all {
		r.log.Info("Matching all packages", "reason", reason)
		return scope{full: true}, nil
	}
	r.log.Info("Compared vulnerability databases", "from", before.Build.ID, "to", target.Build.ID,
		"keys", difference.Keys(), "cves", difference.CVEs())
	return scope{difference: difference}, nil
}

// queue passes over all packages and queues those that have to be matched again.
func (r *runner) queue(ctx context.Context, next store.ResultSet, s scope) error {
	seen, queued := 0, 0
	for after := int64(0); ; {
		packages, err := r.store.AnsweredPackages(ctx, after, pageSize)
		if err != nil {
			return fmt.Errorf("list the packages: %w", err)
		}
		if len(packages) == 0 {
			break
		}
		var ids []int64
		for _, p := range packages {
			if s.touches(p) {
				ids = append(ids, p.ID)
			}
		}
		if len(ids) > 0 {
			if err := r.store.QueuePackages(ctx, next.Number, ids); err != nil {
				return fmt.Errorf("queue packages: %w", err)
			}
		}
		seen, queued, after = seen+len(packages), queued+len(ids), packages[len(packages)-1].ID
	}
	if err := r.store.StartMatching(ctx, next.Number); err != nil {
		return fmt.Errorf("start matching: %w", err)
	}
	r.log.Info("Matching affected packages", "resultSet", next.Number, "packages", queued, "of", seen)
	return nil
}

// matchQueue matches what is queued, and new images in between. It reports false when another database has arrived.
func (r *runner) matchQueue(ctx context.Context, current, next store.ResultSet, target vulndb.Installed) (bool, error) {
	for {
		if r.superseded(current, target) {
			r.Wake()
			return false, nil
		}
		packages, err := r.store.QueuedPackages(ctx, next.Number, batchPackages)
		if err != nil {
			return false, fmt.Errorf("read the queue: %w", err)
		}
		if len(packages) == 0 {
			return true, nil
		}
		if err := r.matchBatch(ctx, r.next, next.Number, packages); err != nil {
			return false, err
		}
		if _, err := r.newImages(ctx, current); err != nil {
			return false, err
		}
	}
}

// stageScores keeps the scores of vulnerabilities that are others in the new database.
func (r *runner) stageScores(ctx context.Context, next store.ResultSet, s scope) error {
	for after := int64(0); ; {
		page, err := r.store.Vulnerabilities(ctx, after, pageSize)
		if err != nil {
			return fmt.Errorf("list the vulnerabilities: %w", err)
		}
		if len(page) == 0 {
			return nil
		}
		after = page[len(page)-1].ID
		var touched []store.StoredVulnerability
		for _, v := range page {
			if s.touchesScores(v) {
				touched = append(touched, v)
			}
		}
		if err := r.stage(ctx, next, touched); err != nil {
			return err
		}
	}
}

func (r *runner) stage(ctx context.Context, next store.ResultSet, touched []store.StoredVulnerability) error {
	if len(touched) == 0 {
		return nil
	}
	scores := make([]model.Vulnerability, len(touched))
	for i := range touched {
		scores[i] = touched[i].Vulnerability
	}
	if err := r.next.Scores(ctx, scores); err != nil {
		return fmt.Errorf("read scores: %w", err)
	}
	for i := range touched {
		touched[i].Vulnerability = scores[i]
	}
	if err := r.store.StageScores(ctx, next.Number, touched); err != nil {
		return fmt.Errorf("save scores: %w", err)
	}
	return nil
}
