package sqlstore

import (
	"context"
	"fmt"
	"math"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

const (
	// stillOpen is until_gen of what no generation has ended.
	stillOpen = math.MaxInt64
	// generationDiscarded is the state of a generation of which something may be left over. It is not shown.
	generationDiscarded store.GenerationState = "Discarded"
)

// generationRow is a row of generations.
type generationRow struct {
	Number                         int64
	BuildID, SchemaVersion, Source string
	Built                          int64
	Engine, PreviousBuild, State   string
	FullMatch                      int64
	StartedAt, CurrentSince        int64
	Queued, Matched                int
	Opened, Closed, Changed        int
	Images, OpenedCritical, NewKev int
}

const generationColumns = `g.number, g.build_id, g.schema_version, g.source, g.built, g.engine, g.previous_build, g.state, g.full_match,
	g.started_at, g.current_since, g.queued, g.matched, g.opened, g.closed, g.changed, g.images, g.opened_critical, g.new_kev`

func (r *generationRow) build() vuln.DatabaseBuild {
	return vuln.DatabaseBuild{
		ID: r.BuildID, SchemaVersion: r.SchemaVersion, Built: fromMicros(r.Built), Source: vuln.DatabaseSource(r.Source),
	}
}

func (r *generationRow) counts() store.ChangeCounts {
	return store.ChangeCounts{
		Opened: r.Opened, Closed: r.Closed, Changed: r.Changed, Images: r.Images, OpenedCritical: r.OpenedCritical, NewKEV: r.NewKev,
	}
}

func (r *generationRow) generation() store.Generation {
	return store.Generation{
		Number: r.Number, Build: r.build(), Engine: r.Engine, PreviousBuild: r.PreviousBuild, Full: r.FullMatch != 0,
		State: store.GenerationState(r.State), StartedAt: fromMicros(r.StartedAt), CurrentSince: fromMicros(r.CurrentSince),
		Queued: r.Queued, Matched: r.Matched, Changes: r.counts(),
	}
}

// event tells that the generation became current.
func (r *generationRow) event(tx *txn) error {
	changes := r.counts()
	return tx.event(store.EventDatabaseUpdated, "", "", store.DatabaseEvent{
		DatabaseBuild: r.build(), PreviousBuild: r.PreviousBuild, Changes: changes,
		Omitted: max(0, changes.Opened+changes.Closed+changes.Changed-store.MaxFindingEvents),
	})
}

// liveGenerations returns the generation that is visible and the one that is being prepared, nil where there is none.
func liveGenerations(tx *gorm.DB) (current, next *generationRow, err error) {
	var rows []generationRow
	err = tx.Raw("SELECT "+generationColumns+" FROM generations g WHERE g.state IN ?", []string{
		string(store.GenerationCurrent), string(store.GenerationPreparing), string(store.GenerationMatching),
	}).Scan(&rows).Error
	if err != nil {
		return nil, nil, err
	}
	for i := range rows {
		if rows[i].State == string(store.GenerationCurrent) {
			current = &rows[i]
		} else {
			next = &rows[i]
		}
	}
	return current, next, nil
}

// currentNumber is the number of the visible generation; 0, under which nothing is visible, when there is none.
func currentNumber(tx *gorm.DB) (int64, error) {
	var number int64
	err := tx.Raw("SELECT COALESCE(MAX(number), 0) FROM generations WHERE state = ?", string(store.GenerationCurrent)).Scan(&number).Error
	return number, err
}

// isNext is ErrNotFound unless the generation of that number is being prepared.
func isNext(tx *gorm.DB, number int64) error {
	_, next, err := liveGenerations(tx)
	if err != nil {
		return err
	}
	if next == nil || next.Number != number {
		return fmt.Errorf("generation %d is not being prepared: %w", number, store.ErrNotFound)
	}
	return nil
}

// CurrentGeneration implements store.Generations.
func (s *Store) CurrentGeneration(ctx context.Context) (store.Generation, bool, error) {
	return s.liveGeneration(ctx, func(current, _ *generationRow) *generationRow { return current })
}

// NextGeneration implements store.Generations.
func (s *Store) NextGeneration(ctx context.Context) (store.Generation, bool, error) {
	return s.liveGeneration(ctx, func(_, next *generationRow) *generationRow { return next })
}

func (s *Store) liveGeneration(ctx context.Context, choose func(current, next *generationRow) *generationRow) (store.Generation, bool, error) {
	var row *generationRow
	err := s.read(ctx, "read a generation", func(tx *gorm.DB) error {
		current, next, err := liveGenerations(tx)
		row = choose(current, next)
		return err
	})
	if err != nil || row == nil {
		return store.Generation{}, false, err
	}
	return row.generation(), true, nil
}

// ListGenerations implements store.Generations. limit is cut to store.MaxKeys.
func (s *Store) ListGenerations(ctx context.Context, limit int) ([]store.Generation, error) {
	if limit <= 0 {
		return nil, nil
	}
	limit = min(limit, store.MaxKeys)
	var generations []store.Generation
	err := s.read(ctx, "list generations", func(tx *gorm.DB) error {
		var rows []generationRow
		err := tx.Raw("SELECT "+generationColumns+" FROM generations g WHERE g.state <> ? ORDER BY g.number DESC LIMIT ?",
			string(generationDiscarded), limit).Scan(&rows).Error
		generations = make([]store.Generation, len(rows))
		for i := range rows {
			generations[i] = rows[i].generation()
		}
		return err
	})
	return generations, err
}

// StartGeneration implements store.Generations.
func (s *Store) StartGeneration(ctx context.Context, build vuln.DatabaseBuild, engine string, full bool) (store.Generation, error) {
	const what = "start a generation"
	if err := checkIdentifier("the ID of the database build", build.ID); err != nil {
		return store.Generation{}, fmt.Errorf("%s: %w", what, err)
	}
	if err := s.discardNext(ctx, what); err != nil {
		return store.Generation{}, err
	}
	var started *generationRow
	err := s.write(ctx, what, func(tx *txn) error {
		current, next, err := liveGenerations(tx.DB)
		if err != nil {
			return err
		}
		if next != nil {
			return fmt.Errorf("generation %d was started at the same time; one process at a time may do that", next.Number)
		}
		row := generationRow{
			BuildID: build.ID, SchemaVersion: clean(build.SchemaVersion), Source: clean(string(build.Source)), Built: micros(build.Built),
			Engine: clean(engine), FullMatch: boolean(full), StartedAt: tx.now, State: string(store.GenerationPreparing),
		}
		if current == nil {
			row.State, row.CurrentSince = string(store.GenerationCurrent), tx.now
		} else {
			row.PreviousBuild = current.BuildID
		}
		if started, err = insertGeneration(tx, &row); err != nil || current != nil {
			return err
		}
		return started.event(tx)
	})
	if err != nil {
		return store.Generation{}, err
	}
	return started.generation(), nil
}

// insertGeneration returns the row with its number.
func insertGeneration(tx *txn, row *generationRow) (*generationRow, error) {
	err := tx.insert("generations", []string{
		"build_id", "schema_version", "built", "source", "engine", "previous_build", "full_match", "state", "started_at", "current_since",
		"queued", "matched", "opened", "closed", "changed", "images", "opened_critical", "new_kev",
	}, []any{
		row.BuildID, row.SchemaVersion, row.Built, row.Source, row.Engine, row.PreviousBuild, row.FullMatch, row.State, row.StartedAt,
		row.CurrentSince, 0, 0, 0, 0, 0, 0, 0, 0,
	}, "")
	if err != nil {
		return nil, err
	}
	var rows []generationRow
	err = tx.Raw("SELECT " + generationColumns + " FROM generations g ORDER BY g.number DESC LIMIT 1").Scan(&rows).Error
	if err != nil || len(rows) == 0 {
		return nil, fmt.Errorf("read the generation that was started: %w", err)
	}
	return &rows[0], nil
}

// discardNext removes the unfinished generation and all that is left of those that were discarded before. From the first step
// on nobody takes it up again; what is left of it when a later step fails is invisible, and goes with the next call.
func (s *Store) discardNext(ctx context.Context, what string) error {
	var numbers []int64
	err := s.write(ctx, what, func(tx *txn) error {
		numbers = nil
		err := tx.exec("UPDATE generations SET state = ? WHERE state IN ?", string(generationDiscarded),
			[]string{string(store.GenerationPreparing), string(store.GenerationMatching)})
		if err != nil {
			return err
		}
		return tx.Raw("SELECT number FROM generations WHERE state = ?", string(generationDiscarded)).Scan(&numbers).Error
	})
	if err != nil {
		return err
	}
	for _, number := range numbers {
		if err := s.discard(ctx, what, number); err != nil {
			return err
		}
	}
	return nil
}

// discard removes what a generation wrote and opens again what it had ended.
func (s *Store) discard(ctx context.Context, what string, number int64) error {
	reopen := fmt.Sprintf(" SET until_gen = %d", int64(stillOpen))
	for _, step := range []sweep{
		{action: "DELETE FROM findings", table: "findings", column: "package_pk", condition: "from_gen = ?", values: []any{number}},
		{action: "UPDATE findings" + reopen, table: "findings", column: "package_pk", condition: "until_gen = ?", values: []any{number}},
		{action: "DELETE FROM package_answers", table: "package_answers", column: "package_pk", condition: "from_gen = ?", values: []any{number}},
		{action: "UPDATE package_answers" + reopen, table: "package_answers", column: "package_pk", condition: "until_gen = ?", values: []any{number}},
		{action: "DELETE FROM vulnerabilities", table: "vulnerabilities", column: "id", condition: "from_gen = ?", values: []any{number}},
		{action: "DELETE FROM rematch_queue", table: "rematch_queue", column: "package_pk", condition: "1 = 1"},
		{action: "DELETE FROM staged_scores", table: "staged_scores", column: "vulnerability_pk", condition: "1 = 1"},
	} {
		if err := s.sweep(ctx, what, step); err != nil {
			return err
		}
	}
	return s.write(ctx, what, func(tx *txn) error {
		return tx.exec("DELETE FROM generations WHERE number = ? AND state = ?", number, string(generationDiscarded))
	})
}

// StartMatching implements store.Generations. It may be said again.
func (s *Store) StartMatching(ctx context.Context, generation int64) error {
	return s.write(ctx, "start to match", func(tx *txn) error {
		if err := isNext(tx.DB, generation); err != nil {
			return err
		}
		return tx.exec("UPDATE generations SET state = ? WHERE number = ?", string(store.GenerationMatching), generation)
	})
}
