package sqlstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// sumRow is a row of daily_sums of one day.
type sumRow struct {
	Day, Cluster, Namespace string
	Images, Scanned         int
	Counts                  countsRow `gorm:"embedded"`
}

// sumColumns are the columns of sumRow.
var sumColumns = append([]string{"day", "cluster", "namespace", "images", "scanned"}, countColumns...)

func (r *sumRow) values() []any {
	return append([]any{r.Day, r.Cluster, r.Namespace, r.Images, r.Scanned}, countValues(r.Counts.counts())...)
}

// sumsOfImages are the columns of sumRow that sum up images i.
var sumsOfImages = func() string {
	columns := []string{"COUNT(*) AS images", "COALESCE(SUM(CASE WHEN i.matched_at > 0 THEN 1 ELSE 0 END), 0) AS scanned"}
	for _, column := range countColumns {
		columns = append(columns, fmt.Sprintf("COALESCE(SUM(CASE WHEN i.matched_at > 0 THEN i.%[1]s ELSE 0 END), 0) AS %[1]s", column))
	}
	return strings.Join(columns, ", ")
}()

// RecordDay implements store.History.
func (s *Store) RecordDay(ctx context.Context) error {
	const what = "record the daily totals"
	today := dayOf(s.clock.Now())
	var stale []string
	var fresh []sumRow
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		var err error
		stale, fresh, err = s.compareDay(tx, today)
		return err
	})
	if err != nil || len(stale)+len(fresh) == 0 {
		return err
	}
	return s.write(ctx, what, func(tx *txn) error {
		stale, fresh, err := s.compareDay(tx.DB, today)
		if err != nil {
			return err
		}
		for part := range slices.Chunk(stale, sqldb.MaxIn) {
			if err := tx.Execute("DELETE FROM daily_sums WHERE day = ? AND namespace IN ?", today, part); err != nil {
				return err
			}
		}
		var values []any
		for i := range fresh {
			values = append(values, fresh[i].values()...)
		}
		return tx.Insert("daily_sums", sumColumns, values, "")
	})
}

// compareDay finds the namespaces whose rows of today are not right, and the rows to be written.
func (s *Store) compareDay(tx *gorm.DB, today string) (stale []string, fresh []sumRow, err error) {
	sums, err := sumsOfToday(tx)
	if err != nil {
		return nil, nil, err
	}
	wanted := make(map[string]sumRow, len(sums))
	for _, row := range sums {
		row.Day, row.Cluster = today, s.cluster
		wanted[row.Namespace] = row
	}
	var rows []sumRow
	if err := s.sumsOfDay(tx, today).Scan(&rows).Error; err != nil {
		return nil, nil, err
	}
	for _, row := range rows {
		if wanted[row.Namespace] == row {
			delete(wanted, row.Namespace)
		} else {
			stale = append(stale, row.Namespace)
		}
	}
	for _, row := range wanted {
		fresh = append(fresh, row)
	}
	return stale, fresh, nil
}

// sumsOfDay selects the sums of all namespaces on a day.
func (s *Store) sumsOfDay(tx *gorm.DB, day string) *gorm.DB {
	sums := tx.Table("daily_sums AS s").Where("s.day = ?", day).Select("s.*")
	if s.db.Dialect().Type() == sqldb.TypeMySQL { // Its only key begins with the namespace.
		sums = tx.Table("(SELECT DISTINCT namespace FROM daily_sums) AS n STRAIGHT_JOIN daily_sums AS s ON s.namespace = n.namespace AND s.day = ?", day).Select("s.*")
	}
	return sums
}

// deleteSums deletes the sums of the days before one, of each namespace: with MySQL, a condition of the day alone would lock all sums.
func deleteSums(tx *txn, before string) error {
	var names []string
	if err := tx.Raw("SELECT DISTINCT namespace FROM daily_sums").Scan(&names).Error; err != nil {
		return err
	}
	for part := range slices.Chunk(names, sqldb.MaxIn) {
		if err := tx.Execute("DELETE FROM daily_sums WHERE namespace IN ? AND day < ?", part, before); err != nil {
			return err
		}
	}
	return nil
}

// sumsOfToday sums up what runs now, in the whole cluster and in each namespace.
func sumsOfToday(tx *gorm.DB) ([]sumRow, error) {
	var cluster, namespaces []sumRow
	placed, err := somePlaced(tx)
	if err != nil {
		return nil, err
	}
	err = tx.Raw("SELECT " + sumsOfImages + " FROM images i WHERE EXISTS (SELECT 1 FROM image_uses u WHERE u.image_pk = i.id)").Scan(&cluster).Error
	if err != nil {
		return nil, err
	}
	err = tx.Raw("SELECT u.namespace, " + sumsOfImages + ` FROM (SELECT DISTINCT namespace, image_pk FROM image_uses WHERE namespace <> '') u
		JOIN images i ON i.id = u.image_pk GROUP BY u.namespace`).Scan(&namespaces).Error
	if err != nil || !placed {
		return append(cluster, namespaces...), err
	}
	var elsewhere []sumRow
	running := hidden(tx.Table("("+closedByNamespace+") AS y"), "y.namespace").Where("EXISTS (SELECT 1 FROM image_uses u WHERE u.image_pk = y.image_pk AND u.namespace = y.namespace)")
	if err := running.Scan(&elsewhere).Error; err != nil {
		return nil, err
	}
	for i := range namespaces {
		for j := range elsewhere {
			if namespaces[i].Namespace == elsewhere[j].Namespace {
				namespaces[i].Counts.add((&countsRow{}).since(&elsewhere[j].Counts))
			}
		}
	}
	return append(cluster, namespaces...), nil
}

// dayOf is how a day of UTC is stored.
func dayOf(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// Trend implements store.History.
func (s *Store) Trend(ctx context.Context, in store.Namespaces, query store.TrendQuery) ([]store.TrendDay, error) {
	const what = "read the trend"
	from, to := query.From.UTC().Truncate(24*time.Hour), query.To.UTC().Truncate(24*time.Hour)
	if days := int(to.Sub(from)/(24*time.Hour)) + 1; days > store.MaxTrendDays {
		return nil, fmt.Errorf("%s: %d days, the maximum is %d", what, days, store.MaxTrendDays)
	}
	var days []store.TrendDay
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		days = []store.TrendDay{}
		var rows []sumRow
		sums := s.sumsOf(tx, in, query.Namespace, dayOf(from), dayOf(to))
		if err := sums.Order("s.day").Scan(&rows).Error; err != nil {
			return err
		}
		view, err := s.changesIn(tx, in.In(query.Namespace))
		if err != nil {
			return err
		}
		changes, err := changesByDay(tx, view, from, to.AddDate(0, 0, 1))
		if err != nil {
			return err
		}
		// A result set of the same build is another match.
		databases, err := countByDay(tx.Table("generations AS g").Where("g.build_id <> g.previous_build"), "g.current_since", from, to)
		if err != nil {
			return err
		}
		rollouts, err := countByDay(filterRollouts(within(tx.Table("rollouts AS r"), "r.namespace", in), store.RolloutQuery{Namespace: query.Namespace}), "r.at", from, to)
		if err != nil {
			return err
		}
		for i := range rows {
			row := &rows[i]
			day, err := time.Parse(time.DateOnly, row.Day)
			if err != nil {
				return fmt.Errorf("a day in the database: %w", err)
			}
			one := store.TrendDay{
				Day: day, Images: row.Images, Scanned: row.Scanned, Counts: row.Counts.counts(), Databases: databases[row.Day], Rollouts: rollouts[row.Day],
			}
			if changed := changes[row.Day]; changed != nil {
				one.Opened, one.Closed = changed[kindOpened], changed[kindClosed]
			}
			days = append(days, one)
		}
		return nil
	})
	return days, err
}

// sumsOf selects the sums s of a namespace on some days, or of all that are visible: of the cluster as a whole, or of each of some namespaces.
func (s *Store) sumsOf(tx *gorm.DB, in store.Namespaces, namespace, from, to string) *gorm.DB {
	visible, condition := in.In(namespace), "s.namespace = ''"
	if !visible.All() {
		condition = isWithin("s.namespace", visible)
	}
	sums := tx.Table("daily_sums AS s").Where("s.day >= ? AND s.day <= ?", from, to).Where(condition)
	if in.All() || namespace != "" {
		return sums.Select("s.*")
	}
	sum := "SUM(s.%[1]s) AS %[1]s"
	if s.db.Dialect().Type() == sqldb.TypeMySQL {
		sum = "CAST(SUM(s.%[1]s + 0e0) AS SIGNED) AS %[1]s" // Sums of integers are decimals, which take longer.
	}
	return sums.Group("s.day").Select("s.day, " + fmt.Sprintf(sum, "images") + ", " + fmt.Sprintf(sum, "scanned") + ", " + perCount(sum))
}

// countByDay counts rows by the day of a column with microseconds, on the days from to to.
func countByDay(rows *gorm.DB, column string, from, to time.Time) (map[string]int, error) {
	var counted []struct {
		Day    int64
		Amount int
	}
	day := fmt.Sprintf("%[1]s - %[1]s %% %[2]d", column, (24 * time.Hour).Microseconds())
	err := rows.Where(column+" >= ? AND "+column+" < ?", micros(from), micros(to.AddDate(0, 0, 1))).
		Select(day + " AS day, COUNT(*) AS amount").Group(day).Scan(&counted).Error
	if err != nil {
		return nil, err
	}
	days := make(map[string]int, len(counted))
	for _, c := range counted {
		days[dayOf(fromMicros(c.Day))] = c.Amount
	}
	return days, nil
}

// changesByDay counts the findings that result sets opened and closed, by the day on which these became current.
func changesByDay(tx *gorm.DB, view *changeView, from, before time.Time) (map[string]*[2]model.SeverityCounts, error) {
	days := map[string]*[2]model.SeverityCounts{}
	times, _, err := readResultSets(tx)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(times, func(_, since int64) bool { return since < micros(from) || since >= micros(before) })
	return days, view.eachGroup(tx, []int{kindOpened, kindClosed}, slices.Sorted(maps.Keys(times)), func(g *changeGroup) {
		day := dayOf(fromMicros(times[g.resultSet]))
		if days[day] == nil {
			days[day] = &[2]model.SeverityCounts{}
		}
		for range g.changes {
			days[day][g.kind].Add(model.Severity(g.severity))
		}
	})
}
