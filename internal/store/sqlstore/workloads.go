package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// maxWorkloads bounds the workloads that one statement names, each by three values.
const maxWorkloads = sqldb.MaxVariables / 5

var workloadSorts = map[store.WorkloadSort][]sqldb.SortKey{
	store.SortWorkloadName:     {{Column: "l.name"}, {Column: "l.namespace"}, {Column: "l.kind"}},
	store.SortWorkloadSeverity: append(slices.Clone(worstFirst), sqldb.SortKey{Column: "l.namespace"}, sqldb.SortKey{Column: "l.kind"}, sqldb.SortKey{Column: "l.name"}),
}

// workloadToken is what a page token of workloads belongs to.
type workloadToken struct {
	List         string
	Where        store.Where
	Text         string
	MinSeverity  model.Severity
	KEV, Fixable bool
	Overdue      bool
	Base         string
	Sort         store.WorkloadSort
}

// workloadEntry is a workload with what its images sum up to.
type workloadEntry struct {
	Workload            store.Workload `gorm:"embedded"`
	ImageCount, Scanned int
	Counts              countsRow `gorm:"embedded"`
}

func (r *workloadEntry) value(column string) string {
	if value, found := r.Counts.value(column); found {
		return value
	}
	switch column {
	case "l.namespace":
		return r.Workload.Namespace
	case "l.kind":
		return r.Workload.Kind
	default:
		return r.Workload.Name
	}
}

// ListWorkloads implements store.Search.
func (s *Store) ListWorkloads(ctx context.Context, in store.Namespaces, query store.WorkloadQuery) (store.WorkloadPage, error) {
	const what = "list workloads"
	if query.Sort == "" {
		query.Sort = store.SortWorkloadName
	}
	keys, known := workloadSorts[query.Sort]
	if !known {
		return store.WorkloadPage{}, fmt.Errorf("%s: unknown sort order %q", what, query.Sort)
	}
	token := workloadToken{"workloads", query.Where, query.Text, query.MinSeverity, query.KEV, query.Fixable, query.Overdue, query.Base, query.Sort}
	var page store.WorkloadPage
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		page = store.WorkloadPage{}
		entries, err := s.runningWorkloads(tx, place{query.Where, in}, query)
		if err != nil {
			return err
		}
		var rows []workloadEntry
		rows, page.NextToken, page.Total, err = readCounted(tx, entries, keys, query.Page, token, (*workloadEntry).value)
		if err != nil {
			return err
		}
		page.Workloads = make([]store.WorkloadSummary, len(rows))
		summaries := make(map[store.Workload]*store.WorkloadSummary, len(rows))
		for i := range rows {
			row := &rows[i]
			page.Workloads[i] = store.WorkloadSummary{
				Workload: row.Workload, ImageCount: row.ImageCount, Scanned: row.Scanned, Counts: row.Counts.counts(),
			}
			summaries[row.Workload] = &page.Workloads[i]
		}
		for part := range slices.Chunk(rows, maxWorkloads) {
			if err := readRunning(tx, in, part, summaries); err != nil {
				return err
			}
		}
		if err := s.addOverdueWorkloads(tx, in, page.Workloads); err != nil {
			return err
		}
		return setOwners(tx, workloadsIn(page.Workloads, func(w *store.WorkloadSummary) *store.Workload { return &w.Workload }))
	})
	if err != nil {
		return store.WorkloadPage{}, err
	}
	return page, nil
}

// runningWorkloads selects a workloadEntry for each workload that the query matches, with the totalColumn.
func (s *Store) runningWorkloads(tx *gorm.DB, chosen place, query store.WorkloadQuery) (*gorm.DB, error) {
	running := contains(uses(tx.Table("image_uses AS u"), chosen), s.db.Dialect(), query.Text, "u.name")
	if query.Base != "" {
		others := tx.Table("image_uses AS o").Select("1").Joins("JOIN image_layers b ON b.image_pk = o.image_pk").
			Where("o.namespace = u.namespace AND o.kind = u.kind AND o.name = u.name")
		running = running.Where("EXISTS (?)", onBase(others, query.Base, query.BaseLayers))
	}
	current, err := currentNumber(tx)
	if err != nil {
		return nil, err
	}
	placed, err := somePlaced(tx)
	if err != nil {
		return nil, err
	}
	count := "i.%[1]s"
	sums := tx.Table("(?) AS d", running.Distinct("u.namespace, u.kind, u.name, u.image_pk")).Joins("JOIN images i ON i.id = d.image_pk")
	if placed {
		whole, some := elsewhereByWorkload(tx, chosen)
		sums = sums.Joins("LEFT JOIN (?) y ON y.image_pk = d.image_pk AND y.namespace = d.namespace", whole).
			Joins("LEFT JOIN (?) z ON z.image_pk = d.image_pk AND z.namespace = d.namespace AND z.kind = d.kind AND z.name = d.name", some)
		count = "i.%[1]s - COALESCE(y.%[1]s, 0) - COALESCE(z.%[1]s, 0)"
	}
	sums = sums.Group("d.namespace, d.kind, d.name")
	columns := "d.namespace, d.kind, d.name, COUNT(*) AS image_count, SUM(CASE WHEN i.matched_at > 0 THEN 1 ELSE 0 END) AS scanned, " + perCount("SUM("+count+") AS %[1]s")
	if query.MinSeverity == model.SeverityUnknown && !query.KEV && !query.Fixable && !query.Overdue {
		return sums.Select(columns + ", " + totalColumn), nil
	}
	entries := tx.Table("(?) AS s", sums.Select(columns)).Select("s.*, " + totalColumn)
	if query.MinSeverity > model.SeverityUnknown {
		entries = entries.Where(orWorse("s.%[1]s", query.MinSeverity))
	}
	if query.KEV {
		entries = entries.Where("s.kev > 0")
	}
	if query.Fixable {
		entries = entries.Where("s.fixable > 0")
	}
	if query.Overdue {
		entries = entries.Joins("JOIN (?) o ON o.namespace = s.namespace AND o.kind = s.kind AND o.name = s.name",
			s.overduePlaces(tx, chosen.in, current, placed).Distinct("u.namespace, u.kind, u.name"))
	}
	return entries, nil
}

// presencesOfUses joins uses u with the presences p of the same image in the same workload.
const presencesOfUses = "LEFT JOIN image_presences p ON p.namespace = u.namespace AND p.name = u.name AND p.kind = u.kind AND p.image_pk = u.image_pk"

// readRunning adds to summaries what the workloads run and since when.
func readRunning(tx *gorm.DB, in store.Namespaces, rows []workloadEntry, summaries map[store.Workload]*store.WorkloadSummary) error {
	condition := strings.TrimSuffix(strings.Repeat("u.namespace = ? AND u.name = ? AND u.kind = ? OR ", len(rows)), " OR ")
	values := make([]any, 0, 3*len(rows))
	for i := range rows {
		w := &rows[i].Workload
		values = append(values, w.Namespace, w.Name, w.Kind)
	}
	used := tx.Table("image_uses AS u").Where("("+condition+")", values...).Session(&gorm.Session{})
	distinct := used.Distinct("u.namespace, u.kind, u.name, u.image_pk")

	numbered := tx.Table("(?) AS d", distinct).Joins("JOIN images i ON i.id = d.image_pk").Select("d.namespace, d.kind, d.name, i.image_id, i.platform, " +
		"ROW_NUMBER() OVER (PARTITION BY d.namespace, d.kind, d.name ORDER BY i.image_id, i.platform) AS place")
	var images []struct {
		Workload          store.Workload `gorm:"embedded"`
		ImageID, Platform string
	}
	err := tx.Table("(?) AS r", numbered).Select("r.namespace, r.kind, r.name, r.image_id, r.platform").Where("r.place <= ?", store.MaxReach).
		Order("r.image_id, r.platform").Scan(&images).Error
	if err != nil {
		return err
	}
	for _, row := range images {
		key, err := keyOf(row.ImageID, row.Platform)
		if err != nil {
			return err
		}
		summaries[row.Workload].Images = append(summaries[row.Workload].Images, key)
	}

	var rest []struct {
		Workload   store.Workload `gorm:"embedded"`
		Containers int
		Since      int64
	}
	since := "p.since"
	with := used.Joins(presencesOfUses)
	if !in.All() {
		with = used.Joins("JOIN (?) n ON n.image_pk = u.image_pk", visibleSince(tx, in)).Joins(presencesOfUses + " AND p.until_time > n.since")
		since = "CASE WHEN p.since > n.since THEN p.since ELSE n.since END"
	}
	err = with.Select("u.namespace, u.kind, u.name, COUNT(DISTINCT u.container) AS containers, COALESCE(MIN(" + since + "), 0) AS since").
		Group("u.namespace, u.kind, u.name").Scan(&rest).Error
	for _, row := range rest {
		summary := summaries[row.Workload]
		summary.Containers, summary.Since = row.Containers, fromMicros(row.Since)
	}
	return err
}
