package sqlstore

import (
	"context"
	"fmt"
	"math"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

const (
	// stillOpen is until_gen of what no result set has ended.
	stillOpen = math.MaxInt64
	// resultSetDiscarded is the state of a result set of which something may be left over. It is not shown.
	resultSetDiscarded store.ResultSetState = "Discarded"
)

// resultSetRow is a row of the table generations: the schema has kept the earlier name of result sets, also in the columns
// generation, from_gen, until_gen and opened_gen.
type resultSetRow struct {
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

const resultSetColumns = `g.number, g.build_id, g.schema_version, g.source, g.built, g.engine, g.previous_build, g.state, g.full_match,
	g.started_at, g.current_since, g.queued, g.matched, g.opened, g.closed, g.changed, g.images, g.opened_critical, g.new_kev`

func (r *resultSetRow) build() model.DatabaseBuild {
	return model.DatabaseBuild{
		ID: r.BuildID, SchemaVersion: r.SchemaVersion, Built: fromMicros(r.Built), Source: model.DatabaseSource(r.Source),
	}
}

func (r *resultSetRow) counts() store.ChangeCounts {
	return store.ChangeCounts{
		Opened: r.Opened, Closed: r.Closed, Changed: r.Changed, Images: r.Images, OpenedCritical: r.OpenedCritical, NewKEV: r.NewKev,
	}
}

func (r *resultSetRow) resultSet() store.ResultSet {
	return store.ResultSet{
		Number: r.Number, Build: r.build(), Engine: r.Engine, PreviousBuild: r.PreviousBuild, Full: r.FullMatch != 0,
		State: store.ResultSetState(r.State), StartedAt: fromMicros(r.StartedAt), CurrentSince: fromMicros(r.CurrentSince),
		Queued: r.Queued, Matched: r.Matched, Changes: r.counts(),
	}
}

// event tells that the result set became current.
func (r *resultSetRow) event(tx *txn) error {
	changes := r.counts()
	return tx.event(store.EventDatabaseUpdated, "", "", store.DatabaseEvent{
		DatabaseBuild: r.build(), PreviousBuild: r.PreviousBuild, Changes: changes,
		Omitted: max(0, changes.Opened+changes.Closed+changes.Changed-store.MaxFindingEvents),
	})
}

// liveResultSets returns the result set that is visible and the one that is being prepared, nil where there is none.
func liveResultSets(tx *gorm.DB) (current, next *resultSetRow, err error) {
	var rows []resultSetRow
	err = tx.Raw("SELECT "+resultSetColumns+" FROM generations g WHERE g.state IN ?", []string{
		string(store.ResultSetCurrent), string(store.ResultSetPreparing), string(store.ResultSetMatching),
	}).Scan(&rows).Error
	if err != nil {
		return nil, nil, err
	}
	for i := range rows {
		if rows[i].State == string(store.ResultSetCurrent) {
			current = &rows[i]
		} else {
			next = &rows[i]
		}
	}
	return current, next, nil
}

// currentNumber is the number of the visible result set; 0, under which nothing is visible, when there is none.
func currentNumber(tx *gorm.DB) (int64, error) {
	var number int64
	err := tx.Raw("SELECT COALESCE(MAX(number), 0) FROM generations WHERE state = ?", string(store.ResultSetCurrent)).Scan(&number).Error
	return number, err
}

// isNext is ErrNotFound unless the result set of that number is being prepared.
func isNext(tx *gorm.DB, number int64) error {
	_, next, err := liveResultSets(tx)
	if err != nil {
		return err
	}
	if next == nil || next.Number != number {
		return fmt.Errorf("result set %d is not being prepared: %w", number, store.ErrNotFound)
	}
	return nil
}

// CurrentResultSet implements store.ResultSets.
func (s *Store) CurrentResultSet(ctx context.Context) (store.ResultSet, bool, error) {
	return s.liveResultSet(ctx, func(current, _ *resultSetRow) *resultSetRow { return current })
}

// NextResultSet implements store.ResultSets.
func (s *Store) NextResultSet(ctx context.Context) (store.ResultSet, bool, error) {
	return s.liveResultSet(ctx, func(_, next *resultSetRow) *resultSetRow { return next })
}

func (s *Store) liveResultSet(ctx context.Context, choose func(current, next *resultSetRow) *resultSetRow) (store.ResultSet, bool, error) {
	var row *resultSetRow
	err := s.read(ctx, "read a result set", func(tx *gorm.DB) error {
		current, next, err := liveResultSets(tx)
		row = choose(current, next)
		return err
	})
	if err != nil || row == nil {
		return store.ResultSet{}, false, err
	}
	return row.resultSet(), true, nil
}

// ListResultSets implements store.Reader. limit is cut to store.MaxKeys.
func (s *Store) ListResultSets(ctx context.Context, in store.Namespaces, limit int) ([]store.ResultSet, error) {
	if limit <= 0 {
		return nil, nil
	}
	limit = min(limit, store.MaxKeys)
	var resultSets []store.ResultSet
	err := s.read(ctx, "list result sets", func(tx *gorm.DB) error {
		var rows []resultSetRow
		err := tx.Raw("SELECT "+resultSetColumns+" FROM generations g WHERE g.state <> ? ORDER BY g.number DESC LIMIT ?",
			string(resultSetDiscarded), limit).Scan(&rows).Error
		if err == nil {
			err = s.limitResultSets(tx, in, rows)
		}
		resultSets = make([]store.ResultSet, len(rows))
		for i := range rows {
			resultSets[i] = rows[i].resultSet()
		}
		return err
	})
	return resultSets, err
}

// ShownResultSet implements store.Reader.
func (s *Store) ShownResultSet(ctx context.Context, in store.Namespaces) (store.ResultSet, bool, error) {
	var shown []resultSetRow
	err := s.read(ctx, "read the result set that is shown", func(tx *gorm.DB) error {
		shown = nil
		current, _, err := liveResultSets(tx)
		if err != nil || current == nil {
			return err
		}
		shown = []resultSetRow{*current}
		return s.limitResultSets(tx, in, shown)
	})
	if err != nil || len(shown) == 0 {
		return store.ResultSet{}, false, err
	}
	return shown[0].resultSet(), true, nil
}

// limitResultSets counts in result sets what they changed in images that are visible in some namespaces.
func (s *Store) limitResultSets(tx *gorm.DB, in store.Namespaces, rows []resultSetRow) error {
	if in.All() || len(rows) == 0 {
		return nil
	}
	numbers := make([]int64, len(rows))
	byNumber := make(map[int64]*resultSetRow, len(rows))
	some := false
	for i := range rows {
		row := &rows[i]
		some = some || row.Opened+row.Closed+row.Changed > 0
		row.Queued, row.Matched = 0, 0
		row.Opened, row.Closed, row.Changed, row.Images, row.OpenedCritical, row.NewKev = 0, 0, 0, 0, 0, 0
		numbers[i], byNumber[row.Number] = row.Number, row
	}
	if !some {
		return nil
	}
	view, err := s.changesIn(tx, in)
	if err != nil {
		return err
	}
	return inParts(numbers, func(part []int64) error {
		all := tx.Table("finding_changes AS c").Where("c.generation IN ?", part).Session(&gorm.Session{})
		var exploited []int64
		packages := map[int64]*numberSet{}
		err := view.eachGroup(tx, []int{kindOpened, kindClosed, kindChanged}, part, func(g *changeGroup) {
			row := byNumber[g.resultSet]
			if g.newlyKEV != kevUnread {
				row.NewKev += int(g.newlyKEV) * g.changes
			}
			switch g.kind {
			case kindOpened:
				row.Opened += g.changes
				if model.Severity(g.severity) == model.SeverityCritical {
					row.OpenedCritical += g.changes
				}
			case kindClosed:
				row.Closed += g.changes
			default:
				row.Changed += g.changes
				if g.newlyKEV == kevUnread {
					exploited = append(exploited, g.resultSet)
				}
			}
			if g.packages == nil && g.partly == 0 {
				packages = nil
			}
			if packages == nil || g.partly == 1 {
				return
			}
			if packages[g.resultSet] == nil {
				packages[g.resultSet] = &numberSet{}
			}
			for _, id := range g.packages {
				packages[g.resultSet].add(id)
			}
		})
		if err != nil {
			return err
		}
		err = inParts(distinctIDs(exploited), func(part []int64) error {
			became := view.keep(all).Where("c.generation IN ? AND c.kind = ? AND "+newlyKEV+" = 1", part, kindChanged)
			return eachRow(became.Select("c.generation, COUNT(*)").Group("c.generation"), func(scan func(...any) error) error {
				var number int64
				var changes int
				if err := scan(&number, &changes); err != nil {
					return err
				}
				byNumber[number].NewKev += changes
				return nil
			})
		})
		if err != nil {
			return err
		}
		images, err := view.images(all, packages)
		for number, count := range images {
			byNumber[number].Images = count
		}
		return err
	})
}

// StartResultSet implements store.ResultSets.
func (s *Store) StartResultSet(ctx context.Context, build model.DatabaseBuild, engine string, full bool) (store.ResultSet, error) {
	const what = "start a result set"
	if err := checkIdentifier("the ID of the database build", build.ID); err != nil {
		return store.ResultSet{}, fmt.Errorf("%s: %w", what, err)
	}
	if err := s.discardNext(ctx, what); err != nil {
		return store.ResultSet{}, err
	}
	var started *resultSetRow
	err := s.write(ctx, what, func(tx *txn) error {
		current, next, err := liveResultSets(tx.DB)
		if err != nil {
			return err
		}
		if next != nil {
			return fmt.Errorf("result set %d was started at the same time by another process", next.Number)
		}
		row := resultSetRow{
			BuildID: build.ID, SchemaVersion: sqldb.Clean(build.SchemaVersion), Source: sqldb.Clean(string(build.Source)), Built: micros(build.Built),
			Engine: sqldb.Clean(engine), FullMatch: boolean(full), StartedAt: tx.now, State: string(store.ResultSetPreparing),
		}
		if current == nil {
			row.State, row.CurrentSince = string(store.ResultSetCurrent), tx.now
		} else {
			row.PreviousBuild = current.BuildID
		}
		if started, err = insertResultSet(tx, &row); err != nil || current != nil {
			return err
		}
		return started.event(tx)
	})
	if err != nil {
		return store.ResultSet{}, err
	}
	return started.resultSet(), nil
}

// insertResultSet returns the row with its number.
func insertResultSet(tx *txn, row *resultSetRow) (*resultSetRow, error) {
	err := tx.Insert("generations", []string{
		"build_id", "schema_version", "built", "source", "engine", "previous_build", "full_match", "state", "started_at", "current_since",
		"queued", "matched", "opened", "closed", "changed", "images", "opened_critical", "new_kev",
	}, []any{
		row.BuildID, row.SchemaVersion, row.Built, row.Source, row.Engine, row.PreviousBuild, row.FullMatch, row.State, row.StartedAt,
		row.CurrentSince, 0, 0, 0, 0, 0, 0, 0, 0,
	}, "")
	if err != nil {
		return nil, err
	}
	var rows []resultSetRow
	err = tx.Raw("SELECT " + resultSetColumns + " FROM generations g ORDER BY g.number DESC LIMIT 1").Scan(&rows).Error
	if err != nil || len(rows) == 0 {
		return nil, fmt.Errorf("read the new result set: %w", err)
	}
	return &rows[0], nil
}

// discardNext removes the unfinished result set and all that is left of those that were discarded before. From the first step
// on nobody takes it up again; what is left of it when a later step fails is invisible, and goes with the next call.
func (s *Store) discardNext(ctx context.Context, what string) error {
	var numbers []int64
	err := s.write(ctx, what, func(tx *txn) error {
		numbers = nil
		err := tx.Execute("UPDATE generations SET state = ? WHERE state IN ?", string(resultSetDiscarded),
			[]string{string(store.ResultSetPreparing), string(store.ResultSetMatching)})
		if err != nil {
			return err
		}
		return tx.Raw("SELECT number FROM generations WHERE state = ?", string(resultSetDiscarded)).Scan(&numbers).Error
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

// discard removes what a result set wrote and opens again what it had ended.
func (s *Store) discard(ctx context.Context, what string, number int64) error {
	reopen := fmt.Sprintf(" SET until_gen = %d", int64(stillOpen))
	for _, step := range []batchChange{
		{action: "DELETE FROM findings", table: "findings", column: "package_pk", condition: "from_gen = ?", values: []any{number}},
		{action: "UPDATE findings" + reopen, table: "findings", column: "package_pk", condition: "until_gen = ?", values: []any{number}},
		{action: "DELETE FROM package_answers", table: "package_answers", column: "package_pk", condition: "from_gen = ?", values: []any{number}},
		{action: "UPDATE package_answers" + reopen, table: "package_answers", column: "package_pk", condition: "until_gen = ?", values: []any{number}},
		{action: "DELETE FROM vulnerabilities", table: "vulnerabilities", column: "id", condition: "from_gen = ?", values: []any{number}},
		{action: "DELETE FROM rematch_queue", table: "rematch_queue", column: "package_pk", condition: "1 = 1"},
		{action: "DELETE FROM staged_scores", table: "staged_scores", column: "vulnerability_pk", condition: "1 = 1"},
	} {
		if err := s.inBatches(ctx, what, step); err != nil {
			return err
		}
	}
	return s.write(ctx, what, func(tx *txn) error {
		return tx.Execute("DELETE FROM generations WHERE number = ? AND state = ?", number, string(resultSetDiscarded))
	})
}

// StartMatching implements store.ResultSets. It may be said again.
func (s *Store) StartMatching(ctx context.Context, resultSet int64) error {
	return s.write(ctx, "start matching", func(tx *txn) error {
		if err := isNext(tx.DB, resultSet); err != nil {
			return err
		}
		return tx.Execute("UPDATE generations SET state = ? WHERE number = ?", string(store.ResultSetMatching), resultSet)
	})
}
