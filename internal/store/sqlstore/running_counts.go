package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// runningGroups is what runs now, in groups: the namespaces, or the owners.
type runningGroups struct {
	// groups are the groups of workloads.
	groups map[store.Workload]string
	// workloads counts the workloads of each group that run an image.
	workloads map[groupImage]int
}

// groupImage is an image in a group.
type groupImage struct {
	group string
	image int64
}

// readRunningGroups reads what runs; group says in which group a workload is.
func readRunningGroups(tx *gorm.DB, group func(store.Workload) string) (*runningGroups, error) {
	r := &runningGroups{groups: map[store.Workload]string{}, workloads: map[groupImage]int{}}
	rows := tx.Table("image_uses AS u").Joins("LEFT " + ownersOfUses).Distinct("u.image_pk, u.namespace, u.kind, u.name, COALESCE(w.owner, '') AS owner")
	return r, eachRow(rows, func(scan func(...any) error) error {
		var image int64
		var w store.Workload
		err := scan(&image, &w.Namespace, &w.Kind, &w.Name, &w.Owner)
		in := group(w)
		w.Owner = ""
		r.groups[w] = in
		r.workloads[groupImage{in, image}]++
		return err
	})
}

// criticalFixableSum counts the Critical findings f with a fix, of vulnerabilities v.
var criticalFixableSum = fmt.Sprintf("SUM(CASE WHEN v.severity = %d AND f.fixable = 1 THEN 1 ELSE 0 END) AS critical_fixable", model.SeverityCritical)

// runningCounts are store.RunningCounts that can be added up.
type runningCounts struct {
	counts          countsDelta
	criticalFixable int
}

func (c runningCounts) plus(o runningCounts) runningCounts {
	c.counts.plus(&o.counts)
	c.criticalFixable += o.criticalFixable
	return c
}

func (c runningCounts) minus(o runningCounts) runningCounts {
	return runningCounts{c.counts.minus(o.counts), c.criticalFixable - o.criticalFixable}
}

// compare orders counts by the findings that are known to be exploited, then by the worst findings.
func (c runningCounts) compare(o runningCounts) int {
	const kev = 6 // countColumns begins with the severities, worst first.
	return cmp.Or(cmp.Compare(c.counts[kev], o.counts[kev]), slices.Compare(c.counts[:kev], o.counts[:kev]))
}

// runningCountsRow holds the columns of runningCounts.
type runningCountsRow struct {
	Reach, ImagePk  int64
	Counts          countsRow `gorm:"embedded"`
	CriticalFixable int
}

func (r *runningCountsRow) counts() runningCounts {
	return runningCounts{r.Counts.since(&countsRow{}), r.CriticalFixable}
}

// isRunning is the condition that something runs an image, of which it is a column.
func isRunning(image string) string {
	return "EXISTS (SELECT 1 FROM image_uses u WHERE u.image_pk = " + image + ")"
}

// runningImages counts the findings of the matched images that run, without those that are suppressed in all places of the image.
func runningImages(tx *gorm.DB, current int64) (map[int64]runningCounts, error) {
	counts := map[int64]runningCounts{}
	var rows []runningCountsRow
	err := tx.Table("images AS i").Where("i.matched_at > 0 AND " + isRunning("i.id")).Select("i.id AS image_pk, " + perCount("i.%[1]s")).Scan(&rows).Error
	if err != nil {
		return nil, err
	}
	for i := range rows {
		counts[rows[i].ImagePk] = rows[i].counts()
	}
	// The tables in this order: few vulnerabilities are Critical.
	critical := tx.Table("vulnerabilities AS v").Joins("CROSS JOIN findings f").Joins("CROSS JOIN image_packages ip").
		Where("v.severity = ? AND f.vulnerability_pk = v.id AND f.fixable = 1 AND ip.package_pk = f.package_pk AND ip.excluded = 0", int64(model.SeverityCritical)).
		Where(open, current, current).Where(isRunning("ip.image_pk")).Select("ip.image_pk, COUNT(*) AS critical_fixable").Group("ip.image_pk")
	rows = nil
	if err := critical.Scan(&rows).Error; err != nil {
		return nil, err
	}
	for _, row := range rows {
		if one, matched := counts[row.ImagePk]; matched {
			one.criticalFixable = row.CriticalFixable
			counts[row.ImagePk] = one
		}
	}
	return counts, nil
}

// countsByGroup counts the findings of what runs, by group.
func (r *runningGroups) countsByGroup(tx *gorm.DB) (map[string]runningCounts, error) {
	current, err := currentNumber(tx)
	if err != nil {
		return nil, err
	}
	images, err := runningImages(tx, current)
	if err != nil {
		return nil, err
	}
	elsewhere, err := r.countsElsewhere(tx, current)
	if err != nil {
		return nil, err
	}
	sums := map[string]runningCounts{}
	for in := range r.workloads {
		sums[in.group] = sums[in.group].plus(images[in.image]).minus(elsewhere[in])
	}
	return sums, nil
}

// countsElsewhere counts the findings of images that count in other groups only: decisions suppress them in all workloads of the group that run the image.
func (r *runningGroups) countsElsewhere(tx *gorm.DB, current int64) (map[groupImage]runningCounts, error) {
	if placed, err := somePlaced(tx); err != nil || !placed {
		return nil, err
	}
	var rows []runningCountsRow
	err := suppressedFor(tx.Table("(SELECT DISTINCT y.reach, y.image_pk FROM reached_namespaces y) AS y").Joins("CROSS JOIN finding_suppressions hs").
		Where("hs.reach = y.reach AND ip.image_pk = y.image_pk"), current).
		Select("y.reach, y.image_pk, " + severitySums() + ", " + criticalFixableSum).Group("y.reach, y.image_pk").Scan(&rows).Error
	if err != nil {
		return nil, err
	}
	suppressed := make(map[imageReach]runningCounts, len(rows))
	for i := range rows {
		suppressed[imageReach{rows[i].Reach, rows[i].ImagePk}] = rows[i].counts()
	}
	type reached struct {
		reach int64
		groupImage
	}
	workloads := map[reached]int{}
	err = eachRow(closedByWorkload(tx), func(scan func(...any) error) error {
		var of imageReach
		var w store.Workload
		err := scan(&of.Reach, &of.ImagePk, &w.Namespace, &w.Kind, &w.Name)
		if _, some := suppressed[of]; some {
			workloads[reached{of.Reach, groupImage{r.groups[w], of.ImagePk}}]++
		}
		return err
	})
	elsewhere := map[groupImage]runningCounts{}
	for at, n := range workloads {
		if n == r.workloads[at.groupImage] {
			elsewhere[at.groupImage] = elsewhere[at.groupImage].plus(suppressed[imageReach{at.reach, at.image}])
		}
	}
	return elsewhere, err
}

// named converts counts and adds up those of the groups that are not named.
func named(counts map[string]runningCounts, names map[string]bool) map[string]store.RunningCounts {
	sums := make(map[string]runningCounts, len(names)+1)
	for group, more := range counts {
		if !names[group] {
			group = store.Other
		}
		sums[group] = sums[group].plus(more)
	}
	converted := make(map[string]store.RunningCounts, len(sums))
	for group, sum := range sums {
		var row countsRow
		row.add(sum.counts)
		converted[group] = store.RunningCounts{Counts: row.counts(), CriticalFixable: sum.criticalFixable}
	}
	return converted
}

// FindingsByNamespace implements store.RunningCounter.
func (s *Store) FindingsByNamespace(ctx context.Context, limit int) (map[string]store.RunningCounts, error) {
	return s.findingsBy(ctx, "namespace", func(w store.Workload) string { return w.Namespace }, func(_ *runningGroups, counts map[string]runningCounts) map[string]bool {
		delete(counts, "") // Nothing of the cluster.
		worst := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(counts[b].compare(counts[a]), cmp.Compare(a, b)) })
		names := map[string]bool{}
		for _, namespace := range worst[:min(limit, len(worst))] {
			names[namespace] = true
		}
		return names
	})
}

// FindingsByOwner implements store.RunningCounter.
func (s *Store) FindingsByOwner(ctx context.Context, limit int) (map[string]store.RunningCounts, error) {
	return s.findingsBy(ctx, "owner", func(w store.Workload) string { return w.Owner }, func(r *runningGroups, _ map[string]runningCounts) map[string]bool {
		names := fairest(r.groups, limit)
		names[""] = true
		return names
	})
}

// findingsBy counts the findings of what runs by group, of which names chooses those that are named.
func (s *Store) findingsBy(
	ctx context.Context, what string, group func(store.Workload) string, names func(*runningGroups, map[string]runningCounts) map[string]bool,
) (map[string]store.RunningCounts, error) {
	var counts map[string]store.RunningCounts
	err := s.read(ctx, "count findings by "+what, func(tx *gorm.DB) error {
		r, err := readRunningGroups(tx, group)
		if err != nil {
			return err
		}
		all, err := r.countsByGroup(tx)
		if err != nil {
			return err
		}
		counts = named(all, names(r, all))
		return nil
	})
	return counts, err
}

// ownerIn is how many workloads of a namespace an owner has.
type ownerIn struct {
	namespace, owner string
	workloads        int
}

// fairest chooses owners of workloads as FindingsByOwner describes.
func fairest(owned map[store.Workload]string, limit int) map[string]bool {
	workloads := map[ownerIn]int{}
	for w, owner := range owned {
		if owner != "" {
			workloads[ownerIn{namespace: w.Namespace, owner: owner}]++
		}
	}
	owners := make([]ownerIn, 0, len(workloads))
	for one, n := range workloads {
		one.workloads = n
		owners = append(owners, one)
	}
	slices.SortFunc(owners, func(a, b ownerIn) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(b.workloads, a.workloads), cmp.Compare(a.owner, b.owner))
	})
	best := map[string]int{} // The best place of each owner in a namespace.
	place := 0
	for i, owner := range owners {
		if place++; i == 0 || owners[i-1].namespace != owner.namespace {
			place = 0
		}
		if before, found := best[owner.owner]; !found || place < before {
			best[owner.owner] = place
		}
	}
	ordered := slices.SortedFunc(maps.Keys(best), func(a, b string) int { return cmp.Or(cmp.Compare(best[a], best[b]), cmp.Compare(a, b)) })
	names := map[string]bool{}
	for _, owner := range ordered[:min(limit, len(ordered))] {
		names[owner] = true
	}
	return names
}
