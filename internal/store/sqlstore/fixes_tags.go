package sqlstore

import (
	"fmt"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// tagRow is a row of tag_fixes with the image.
type tagRow struct {
	Sums                       tagSums `gorm:"embedded"`
	ImagePk                    int64
	Lookup, ImageID, Platform  string
	OpenedRisk, OpenedFindings int64
}

// pays reports whether the newer tag closes more than it opens, by risk, or by number if the risk stays the same.
func (r *tagRow) pays() bool {
	return r.Sums.RiskMicros > r.OpenedRisk || r.Sums.RiskMicros == r.OpenedRisk && r.Sums.Findings > r.OpenedFindings
}

func (r *tagRow) entry() fixEntry {
	return fixEntry{ImageID: r.ImageID, Platform: r.Platform, Fix: imageFix{
		ImagePk: r.ImagePk, Action: fixTag, PackagePk: r.Sums.ID, Fingerprint: r.Lookup, RiskMicros: r.Sums.RiskMicros, Kev: r.Sums.Kev, Findings: r.Sums.Findings,
	}}
}

const tagRowColumns = "x.id, x.image_pk, x.lookup, i.image_id, i.platform, x.opened_risk, x.opened_findings"

// allTags selects the rows x of tag_fixes, with their images i. There are at most store.MaxTagLookups for each scope.
func (r *fixReader) allTags() *gorm.DB {
	return r.tx.Table("tag_fixes AS x").Joins("JOIN tag_lookups l ON l.id = x.lookup AND l.unwanted_since = 0").
		Joins("JOIN images i ON i.id = x.image_pk AND i.matched_at > 0").Where("x.result_set = ?", r.current)
}

// tags selects those of the image that the query asks for, if it does.
func (r *fixReader) tags() *gorm.DB {
	rows := r.allTags()
	if r.query.ImageID != "" {
		rows = equals(rows, "i.image_id", r.query.ImageID)
	}
	return rows
}

// visibleTags keeps the rows that the query chooses: those of lookups that are visible where something runs the image.
func (r *fixReader) visibleTags(rows []tagRow) ([]tagRow, error) {
	ids, visible := make([]int64, len(rows)), make(map[int64]bool, len(rows))
	for i := range rows {
		ids[i] = rows[i].Sums.ID
	}
	err := inParts(ids, func(part []int64) error {
		var found []int64
		query := r.tagUses()
		if r.query.ImageID != "" && r.chosen.Where == (store.Where{}) { // It need not run.
			query = within(r.tx.Table("tag_fixes AS x").Joins("CROSS JOIN tag_lookup_places p").Where("p.lookup = x.lookup"), "p.namespace", r.chosen.in)
		}
		err := query.Where("x.id IN ?", part).Distinct("x.id").Scan(&found).Error
		for _, id := range found {
			visible[id] = true
		}
		return err
	})
	return slices.DeleteFunc(rows, func(row tagRow) bool { return !visible[row.Sums.ID] }), err
}

// usedThere is the condition that the image of row x is used in a namespace p that sees the lookup. An image has few uses, and a namespace many.
const usedThere = "u.image_pk = x.image_pk AND p.lookup = x.lookup AND p.namespace = u.namespace"

// tagUses selects what runs the images of rows x of tag_fixes where the lookups are visible.
func (r *fixReader) tagUses() *gorm.DB {
	return uses(r.tx.Table("tag_fixes AS x").Joins("CROSS JOIN image_uses u").Joins("CROSS JOIN tag_lookup_places p").Where(usedThere), r.chosen)
}

// tagWorkloads reads which workloads run the images of rows of tag_fixes where the lookups are visible.
func (r *fixReader) tagWorkloads(ids []int64) (map[int64]running, error) {
	var rows []struct {
		ID       int64
		Workload store.Workload `gorm:"embedded"`
		Total    int
	}
	distinct := r.tagUses().Where("x.id IN ?", ids).Distinct("x.id, u.namespace, u.kind, u.name")
	numbered := r.tx.Table("(?) AS d", distinct).Select("d.*, COUNT(*) OVER (PARTITION BY d.id) AS total, " +
		"ROW_NUMBER() OVER (PARTITION BY d.id ORDER BY d.namespace, d.kind, d.name) AS place")
	err := r.tx.Table("(?) AS r", numbered).Select("r.id, r.namespace, r.kind, r.name, r.total").
		Where("r.place <= ?", store.MaxReach).Order("r.id, r.place").Scan(&rows).Error
	workloads := make(map[int64]running, len(ids))
	for _, row := range rows {
		workloads[row.ID] = running{append(workloads[row.ID].first, row.Workload), row.Total}
	}
	return workloads, err
}

// tagEntries reads the entries of newer tags, in no order.
func (r *fixReader) tagEntries() ([]fixEntry, error) {
	if r.query.Kind != "" && r.query.Kind != store.FixNewerTag {
		return nil, nil
	}
	var rows []tagRow
	live := make(map[int64]bool, len(r.live))
	for _, id := range r.live {
		live[id] = true
	}
	if r.query.ImageID == "" {
		if err := r.tags().Select(tagRowColumns + ", x.risk_micros, x.kev, x.findings").Scan(&rows).Error; err != nil {
			return nil, err
		}
		rows = slices.DeleteFunc(rows, func(row tagRow) bool { return live[row.ImagePk] || r.among != nil && !r.among[row.ImagePk] })
		var err error
		if rows, err = r.visibleTags(rows); err != nil {
			return nil, err
		}
	}
	err := inParts(r.live, func(part []int64) error {
		counted, err := r.countLiveTags(part)
		rows = append(rows, counted...)
		return err
	})
	if err != nil {
		return nil, err
	}
	var entries []fixEntry
	for i := range rows {
		if row := &rows[i]; row.pays() && r.keeps(fixTag, row.Sums.Kev) {
			entries = append(entries, row.entry())
		}
	}
	return r.overdueTags(entries)
}

// overdueTags counts the overdue findings of entries that are newer tags, if the query is about them, and leaves out those without.
func (r *fixReader) overdueTags(entries []fixEntry) ([]fixEntry, error) {
	if !r.query.Overdue {
		return entries, nil
	}
	images := make([]int64, len(entries))
	for i := range entries {
		images[i] = entries[i].Fix.ImagePk
	}
	counter, err := r.closedCounter(rowsOfTags(entries, fixTag), distinctIDs(images))
	if err != nil || counter == nil {
		return nil, err
	}
	for i := range entries {
		fix := &entries[i].Fix
		entries[i].Overdue = counter.count(fix.Action, fix.PackagePk, fix.ImagePk)
	}
	return slices.DeleteFunc(entries, func(e fixEntry) bool { return e.Overdue == 0 }), nil
}

// countLiveTags reads the rows of newer tags of live images, with what they close for who asks.
func (r *fixReader) countLiveTags(images []int64) ([]tagRow, error) {
	var rows []tagRow
	if err := r.tags().Where("x.image_pk IN ?", images).Select(tagRowColumns).Order("x.id").Scan(&rows).Error; err != nil {
		return nil, err
	}
	rows, err := r.visibleTags(rows)
	if err != nil {
		return nil, err
	}
	ids, places := make([]int64, len(rows)), make(map[int64]int, len(rows))
	for i := range rows {
		ids[i], places[rows[i].Sums.ID] = rows[i].Sums.ID, i
	}
	err = eachClosed(r.tx, r.s.db.Dialect(), r.hide, r.current, ids, func(fix int64, closed map[int64]*tagClosed) {
		for _, one := range closed {
			rows[places[fix]].Sums.add(one)
		}
	})
	return rows, err
}

// rowsOfTags are the rows of tag_fixes of those entries with one of some actions, in order.
func rowsOfTags(entries []fixEntry, actions ...int64) []int64 {
	var ids []int64
	for i := range entries {
		if fix := &entries[i].Fix; slices.Contains(actions, fix.Action) {
			ids = append(ids, fix.PackagePk)
		}
	}
	return distinctIDs(ids)
}

// tagPairs adds the packages with findings that newer tags close, of images and of their bases.
func (r *fixReader) tagPairs(entries []fixEntry, pairs map[fixPlace][]fixPair) error {
	places := map[fixPlace]bool{}
	images, children := map[int64]int64{}, map[int64][]int64{}
	for i := range entries {
		switch fix := &entries[i].Fix; fix.Action {
		case fixTag:
			images[fix.PackagePk] = fix.ImagePk
		case fixBase:
			children[fix.PackagePk] = append(children[fix.PackagePk], fix.ImagePk)
		}
	}
	var packages []int64
	add := func(place fixPlace, id int64, one *tagClosed) {
		pair := fixPair{ImagePk: place.image, Action: place.action, PackagePk: id, RiskMicros: one.risk}
		pair.Counts.add(one.counts)
		pairs[place] = append(pairs[place], pair)
		places[place], packages = true, append(packages, id)
	}
	err := eachClosed(r.tx, r.s.db.Dialect(), r.hide, r.current, rowsOfTags(entries, fixTag), func(fix int64, closed map[int64]*tagClosed) {
		for id, one := range closed {
			add(fixPlace{images[fix], fixTag, fix}, id, one)
		}
	})
	if err != nil {
		return err
	}
	err = r.eachBaseClosed(children, func(fix, image, id int64, one *tagClosed) { add(fixPlace{image, fixBase, fix}, id, one) })
	if err != nil {
		return err
	}
	fingerprints := map[int64]string{}
	err = inParts(distinctIDs(packages), func(part []int64) error {
		var rows []struct {
			ID          int64
			Fingerprint string
		}
		err := r.tx.Raw("SELECT id, fingerprint FROM packages WHERE id IN ?", part).Scan(&rows).Error
		for _, row := range rows {
			fingerprints[row.ID] = row.Fingerprint
		}
		return err
	})
	for place := range places {
		for i := range pairs[place] {
			pairs[place][i].Fingerprint = fingerprints[pairs[place][i].PackagePk]
		}
	}
	return err
}

// tagDetail is what is said of a newer tag only. The workloads and owners are those of its image.
type tagDetail struct {
	fix     store.FixTag
	image   model.ImageKey
	running running
	owners  []string
}

// tagDetails reads what is said of those entries that are newer tags, of images and of their bases, by their rows.
func (r *fixReader) tagDetails(entries []fixEntry) (map[int64]*tagDetail, error) {
	details := map[int64]*tagDetail{}
	err := inParts(rowsOfTags(entries, fixTag, fixBase), func(part []int64) error {
		var rows []struct {
			ID                                  int64
			ImageID, Platform                   string
			Lookup, Opened, Repository, FromTag string
			Tag, Kind, Digest                   string
		}
		err := r.tx.Raw(`SELECT x.id, i.image_id, i.platform, x.lookup, x.opened, l.repository, l.tag AS from_tag, n.tag, n.kind, n.digest FROM tag_fixes x
			JOIN images i ON i.id = x.image_pk JOIN tag_lookups l ON l.id = x.lookup JOIN newer_tags n ON n.lookup = x.lookup AND n.position = x.position WHERE x.id IN ?`, part).Scan(&rows).Error
		if err != nil {
			return err
		}
		workloads, err := r.tagWorkloads(part)
		if err != nil {
			return err
		}
		owners, err := ownersBy(r.tx, r.tagUses(), "x.id", part)
		if err != nil {
			return err
		}
		for i := range rows {
			row := &rows[i]
			var opened openedByTag
			if err := fromJSON(row.Opened, &opened); err != nil {
				return fmt.Errorf("what a newer tag opens in the database: %w", err)
			}
			image, err := keyOf(row.ImageID, row.Platform)
			if err != nil {
				return err
			}
			details[row.ID] = &tagDetail{store.FixTag{
				Lookup: row.Lookup, Repository: row.Repository, From: row.FromTag, Tag: row.Tag, Kind: row.Kind, Digest: row.Digest,
				Opened: opened.Counts, OpenedFindings: opened.Worst,
			}, image, workloads[row.ID], owners[row.ID]}
		}
		return nil
	})
	return details, err
}
