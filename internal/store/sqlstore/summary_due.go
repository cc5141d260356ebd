package sqlstore

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// dueSum is a finding of a package that is due, with the earliest of its dates.
type dueSum struct {
	finding  *dueFinding
	at       int64
	by       int
	overdue  bool
	images   int
	severity model.Severity
	names    findingNames
}

// due adds the findings that are overdue, and those that are due within so many microseconds.
func (z *summarizer) due(now, within int64, summary *store.Summary) error {
	r, err := z.s.dueReader(z.tx, z.chosen.in)
	if err != nil || len(r.policies) == 0 {
		return err
	}
	dates, err := z.dates(r, now+within)
	if err != nil {
		return err
	}
	sums := map[int64]*dueSum{}
	for place, date := range dates {
		one := sums[place.finding]
		if one == nil {
			one = &dueSum{finding: date.finding, at: date.at, by: date.by, severity: date.finding.severity}
			sums[place.finding] = one
		}
		if date.at < one.at || date.at == one.at && date.by < one.by {
			one.at, one.by = date.at, date.by
		}
		one.images++
		one.overdue = one.overdue || date.at <= now
		if date.at <= now {
			summary.Overdue.Counts.Add(one.severity)
		} else {
			summary.DueSoon.Counts.Add(one.severity)
		}
	}
	all := slices.Collect(maps.Values(sums))
	overdue := slices.DeleteFunc(slices.Clone(all), func(one *dueSum) bool { return !one.overdue })
	soon := slices.DeleteFunc(all, func(one *dueSum) bool { return one.overdue })
	worst := func(a, b *dueSum) int {
		return cmp.Or(cmp.Compare(b.severity, a.severity), cmp.Compare(a.at, b.at), a.compareNames(b))
	}
	earliest := func(a, b *dueSum) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.severity, a.severity), a.compareNames(b))
	}
	if summary.Overdue.First, err = z.first(r, overdue, worst); err != nil {
		return err
	}
	summary.DueSoon.First, err = z.first(r, soon, earliest)
	return err
}

// compareNames orders findings by their names, which are read of the first of them only, and then by when they were stored.
func (d *dueSum) compareNames(o *dueSum) int {
	return cmp.Or(strings.Compare(d.names.VulnerabilityID, o.names.VulnerabilityID), strings.Compare(d.names.Name, o.names.Name),
		strings.Compare(d.names.Version, o.names.Version), cmp.Compare(d.finding.id, o.finding.id))
}

// first returns the first findings of an order, with what they are about.
func (z *summarizer) first(r *dueReader, sums []*dueSum, order func(a, b *dueSum) int) ([]store.DueFinding, error) {
	slices.SortFunc(sums, order)
	sums = sums[:min(len(sums), z.limit)]
	ids := make([]int64, len(sums))
	for i := range sums {
		ids[i] = sums[i].finding.id
	}
	names, err := namesOfFindings(z.tx, ids)
	if err != nil {
		return nil, err
	}
	for _, one := range sums {
		one.names = names[one.finding.id]
	}
	slices.SortFunc(sums, order)
	list := make([]store.DueFinding, len(sums))
	for i, one := range sums {
		list[i] = store.DueFinding{
			VulnerabilityID: one.names.VulnerabilityID, Severity: one.severity, Package: one.names.Name, Version: one.names.Version,
			DueAt: fromMicros(one.at), Policy: r.policies[one.by].Name, Images: one.images,
		}
		if err := fromJSON(one.names.FixVersions, &list[i].Fixes); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// imageFinding is a finding in an image.
type imageFinding struct{ image, finding int64 }

// dueDate is when a finding is due, and the place of the policy that says so.
type dueDate struct {
	finding *dueFinding
	at      int64
	by      int
}

// dates reads until when findings in images are due, those before a time, each once in each image: on the earliest date of the workloads that are chosen.
func (z *summarizer) dates(r *dueReader, before int64) (map[imageFinding]dueDate, error) {
	var images []int64
	owned := map[store.Workload]bool{}
	byWorkload := z.chosen.Where != (store.Where{})
	if byWorkload {
		seen := map[int64]bool{}
		err := eachRow(z.uses().Distinct("u.image_pk, u.namespace, u.kind, u.name"), func(scan func(...any) error) error {
			var image int64
			var w store.Workload
			err := scan(&image, &w.Namespace, &w.Kind, &w.Name)
			seen[image], owned[w] = true, true
			return err
		})
		if err != nil || len(seen) == 0 {
			return nil, err
		}
		images = slices.Sorted(maps.Keys(seen))
	}
	targets, err := r.targets(images, byWorkload)
	if err != nil {
		return nil, err
	}
	dates := map[imageFinding]dueDate{}
	err = r.each(images, targets, func(t *dueTarget, f *dueFinding, at int64, by int) {
		if at > before || byWorkload && !owned[t.workload] {
			return
		}
		place := imageFinding{t.image, f.id}
		if known, found := dates[place]; !found || at < known.at || at == known.at && by < known.by {
			dates[place] = dueDate{f, at, by}
		}
	})
	return dates, err
}

// findingNames is what a finding is about.
type findingNames struct {
	ID                                          int64
	VulnerabilityID, Name, Version, FixVersions string
}

func namesOfFindings(tx *gorm.DB, ids []int64) (map[int64]findingNames, error) {
	names := map[int64]findingNames{}
	err := inParts(ids, func(part []int64) error {
		var rows []findingNames
		err := tx.Raw(`SELECT f.id, v.vulnerability_id, p.name, p.version, f.fix_versions FROM findings f
			JOIN vulnerabilities v ON v.id = f.vulnerability_pk JOIN packages p ON p.id = f.package_pk WHERE f.id IN ?`, part).Scan(&rows).Error
		for _, row := range rows {
			names[row.ID] = row
		}
		return err
	})
	return names, err
}
