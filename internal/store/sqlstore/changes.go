package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// changeOrder is that of the index finding_changes_worst.
var changeOrder = []sqldb.SortKey{
	{Column: "c.generation", Number: true, Descending: true}, {Column: "c.severity", Number: true, Descending: true},
	{Column: "c.kev", Number: true, Descending: true}, {Column: "c.kind", Number: true}, {Column: "c.id", Number: true},
}

// changeToken is what a page token of changes belongs to.
type changeToken struct {
	List        string
	Build       string
	ResultSet   int64
	Kinds       []store.ChangeKind
	MinSeverity model.Severity
	KEV         bool
	ImageID     string
	Scope       string
	Text        string
}

// changeRow is a change with its package and result set.
type changeRow struct {
	ID, PackagePk              int64
	ResultSet                  int64 `gorm:"column:generation"`
	VulnerabilityID, Namespace string
	Severity, Kev              int64
	Kind                       int
	Reasons                    string
	BeforeSide, AfterSide      string
	BuildID, PreviousBuild     string
	CurrentSince               int64
	Package                    packageRow `gorm:"embedded"`
}

const changeColumns = `c.id, c.generation, c.package_pk, c.vulnerability_id, c.namespace, c.severity, c.kev, c.kind, c.reasons,
	c.before_side, c.after_side, g.build_id, g.previous_build, g.current_since, ` + distinctColumns

// Changes implements store.ResultSets.
func (s *Store) Changes(ctx context.Context, query store.ChangeQuery) (store.ChangePage, error) {
	const what = "list changes between vulnerability databases"
	for _, kind := range query.Kinds {
		if !slices.Contains(changeKinds, kind) {
			return store.ChangePage{}, fmt.Errorf("%s: unknown kind %q", what, kind)
		}
	}
	token := changeToken{
		"changes", query.Build, query.ResultSet, query.Kinds, query.MinSeverity, query.KEV, query.ImageID, query.Scope, query.Text,
	}
	var page store.ChangePage
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		page = store.ChangePage{Changes: []store.Change{}}
		filtered := filterChanges(tx.Table("finding_changes AS c").Joins("JOIN packages p ON p.id = c.package_pk"), s.db.Dialect(), query).
			Session(&gorm.Session{})
		var total int64
		if err := filtered.Count(&total).Error; err != nil {
			return err
		}
		page.Total = int(total)
		behind, err := fromToken(filtered, query.Token, token, changeOrder)
		if err != nil {
			return err
		}
		var rows []changeRow
		err = behind.Joins("JOIN generations g ON g.number = c.generation").Select(changeColumns).
			Order(sqldb.OrderBy(changeOrder)).Limit(query.Limit() + 1).Scan(&rows).Error
		if err != nil {
			return err
		}
		if len(rows) > query.Limit() {
			rows = rows[:query.Limit()]
			if page.NextToken, err = store.EncodeToken(token, rows[len(rows)-1].sortValues()...); err != nil {
				return err
			}
		}
		page.Changes, err = changesWithReach(tx, rows)
		return err
	})
	if err != nil {
		return store.ChangePage{}, err
	}
	return page, nil
}

func filterChanges(tx *gorm.DB, d sqldb.Dialect, query store.ChangeQuery) *gorm.DB {
	tx = contains(tx, d, query.Text, "c.vulnerability_id", "p.name")
	if query.Build != "" {
		tx = tx.Where("c.generation IN (SELECT number FROM generations WHERE build_id = ?)", query.Build)
	}
	if query.ResultSet != 0 {
		tx = tx.Where("c.generation = ?", query.ResultSet)
	}
	if len(query.Kinds) > 0 {
		kinds := make([]int, len(query.Kinds))
		for i, kind := range query.Kinds {
			kinds[i] = slices.Index(changeKinds, kind)
		}
		tx = tx.Where("c.kind IN ?", kinds)
	}
	if query.MinSeverity > model.SeverityUnknown {
		tx = tx.Where("c.severity >= ?", int64(query.MinSeverity))
	}
	if query.KEV {
		tx = tx.Where("c.kev = 1")
	}
	const reaches = " EXISTS (SELECT 1 FROM image_packages ip JOIN %s WHERE ip.package_pk = c.package_pk AND ip.excluded = 0 AND %s)"
	if query.ImageID != "" {
		tx = tx.Where(fmt.Sprintf(reaches, "images i ON i.id = ip.image_pk", "i.image_id = ?"), query.ImageID)
	}
	if query.Scope != "" {
		tx = tx.Where(fmt.Sprintf(reaches, "image_uses u ON u.image_pk = ip.image_pk", "u.scope = ?"), query.Scope)
	}
	return tx
}

func (r *changeRow) sortValues() []string {
	values := make([]string, 0, len(changeOrder))
	for _, value := range []int64{r.ResultSet, r.Severity, r.Kev, int64(r.Kind), r.ID} {
		values = append(values, strconv.FormatInt(value, 10))
	}
	return values
}

func (r *changeRow) change() (store.Change, error) {
	held, err := r.Package.held()
	if err != nil {
		return store.Change{}, err
	}
	c := store.Change{
		ID: r.ID, ResultSet: r.ResultSet, Build: r.BuildID, PreviousBuild: r.PreviousBuild, At: fromMicros(r.CurrentSince),
		Kind: changeKinds[min(max(r.Kind, 0), len(changeKinds)-1)], Package: held.Package,
		VulnerabilityID: r.VulnerabilityID, Namespace: r.Namespace,
	}
	if r.Reasons != "" {
		for reason := range strings.SplitSeq(r.Reasons, ",") {
			c.Reasons = append(c.Reasons, store.ChangeReason(reason))
		}
	}
	for content, side := range map[*string]**store.ChangeSide{&r.BeforeSide: &c.Before, &r.AfterSide: &c.After} {
		if *content == "" {
			continue
		}
		if err := json.Unmarshal([]byte(*content), side); err != nil {
			return store.Change{}, fmt.Errorf("change %d in the database: %w", r.ID, err)
		}
	}
	return c, nil
}

// packageReach is which images hold a package and what runs them.
type packageReach struct {
	images    int
	imageIDs  []string
	workloads []store.Workload
}

func changesWithReach(tx *gorm.DB, rows []changeRow) ([]store.Change, error) {
	ids := make([]int64, len(rows))
	for i := range rows {
		ids[i] = rows[i].PackagePk
	}
	slices.Sort(ids)
	reached, err := reachOf(tx, slices.Compact(ids))
	if err != nil {
		return nil, err
	}
	changes := make([]store.Change, len(rows))
	for i := range rows {
		if changes[i], err = rows[i].change(); err != nil {
			return nil, err
		}
		if reach := reached[rows[i].PackagePk]; reach != nil {
			changes[i].Images, changes[i].ImageIDs, changes[i].Workloads = reach.images, slices.Clone(reach.imageIDs), slices.Clone(reach.workloads)
		}
	}
	return changes, nil
}

// reachParts is how many packages are looked up in one statement that has a part for each.
const reachParts = 100

// reachOf returns what packages reach, in a number of statements that does not follow from how many images hold them.
func reachOf(tx *gorm.DB, ids []int64) (map[int64]*packageReach, error) {
	reached := make(map[int64]*packageReach, len(ids))
	for part := range slices.Chunk(ids, reachParts) {
		for _, read := range []func(*gorm.DB, []int64, map[int64]*packageReach) error{countReach, readReachedImages, readReachedWorkloads} {
			if err := read(tx, part, reached); err != nil {
				return nil, err
			}
		}
	}
	return reached, nil
}

func countReach(tx *gorm.DB, ids []int64, reached map[int64]*packageReach) error {
	var rows []struct {
		PackagePk int64
		Images    int
	}
	err := tx.Raw("SELECT package_pk, COUNT(*) AS images FROM image_packages WHERE package_pk IN ? AND excluded = 0 GROUP BY package_pk", ids).Scan(&rows).Error
	for _, row := range rows {
		reached[row.PackagePk] = &packageReach{images: row.Images}
	}
	return err
}

func readReachedImages(tx *gorm.DB, ids []int64, reached map[int64]*packageReach) error {
	var rows []struct {
		PackagePk int64
		ImageID   string
	}
	err := eachOf(tx, ids, `SELECT ip.package_pk, i.image_id FROM image_packages ip JOIN images i ON i.id = ip.image_pk
		WHERE ip.package_pk = ? AND ip.excluded = 0 ORDER BY ip.image_pk LIMIT ?`).Scan(&rows).Error
	for _, row := range rows {
		reach := reached[row.PackagePk]
		reach.imageIDs = append(reach.imageIDs, row.ImageID)
	}
	for _, reach := range reached {
		slices.Sort(reach.imageIDs)
		reach.imageIDs = slices.Compact(reach.imageIDs) // One image ID may stand for several platforms.
	}
	return err
}

func readReachedWorkloads(tx *gorm.DB, ids []int64, reached map[int64]*packageReach) error {
	var rows []struct {
		PackagePk int64
		Workload  store.Workload `gorm:"embedded"`
	}
	err := eachOf(tx, ids, `SELECT DISTINCT ip.package_pk, u.namespace, u.kind, u.name FROM image_packages ip JOIN image_uses u ON u.image_pk = ip.image_pk
		WHERE ip.package_pk = ? AND ip.excluded = 0 ORDER BY u.namespace, u.kind, u.name LIMIT ?`).Scan(&rows).Error
	for _, row := range rows {
		reach := reached[row.PackagePk]
		reach.workloads = append(reach.workloads, row.Workload)
	}
	for _, reach := range reached {
		slices.SortFunc(reach.workloads, func(a, b store.Workload) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
		})
	}
	return err
}

// eachOf runs a statement for each package, all in one: its values are the package and store.MaxReach.
func eachOf(tx *gorm.DB, ids []int64, statement string) *gorm.DB {
	parts := make([]string, len(ids))
	values := make([]any, 0, 2*len(ids))
	for i, id := range ids {
		parts[i] = fmt.Sprintf("SELECT * FROM (%s) AS r%d", statement, i)
		values = append(values, id, store.MaxReach)
	}
	return tx.Raw(strings.Join(parts, " UNION ALL "), values...)
}
