package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// passedDates are the dates of an image that have passed and were not told.
type passedDates struct {
	image    imageName
	counts   model.SeverityCounts
	earliest int64
	policies policySet
}

// RecordOverdue implements store.Policies. The dates are computed without the writer's lock, since that reads what all images hold; they are told if
// nobody told them meanwhile.
func (s *Store) RecordOverdue(ctx context.Context) (time.Time, error) {
	const what = "report overdue findings"
	var told, now, next int64
	var events []store.OverdueEvent
	var images []imageName
	err := s.read(ctx, what, func(tx *gorm.DB) (err error) {
		events, images, next = nil, nil, 0
		if now, err = s.now(), toldUntil(tx, &told); err != nil {
			return err
		}
		events, images, next, err = s.passed(tx, told, now)
		return err
	})
	if err != nil || len(events) == 0 {
		return fromMicros(next), err
	}
	err = s.write(ctx, what, func(tx *txn) error {
		var since int64
		if err := toldUntil(tx.DB, &since); err != nil || since != told {
			return err
		}
		for i := range events {
			if err := tx.event(store.EventFindingOverdue, images[i].imageID, images[i].platform, events[i]); err != nil {
				return err
			}
		}
		return tx.setTold(now)
	})
	return fromMicros(next), err
}

func toldUntil(tx *gorm.DB, told *int64) error {
	return tx.Raw("SELECT COALESCE(MAX(told_until), 0) FROM deadlines_told").Scan(told).Error
}

// passed returns events about the dates after told and until now, those of the images with the worst findings first, and the next date. A date that had
// passed when its policy began to apply is left out.
func (s *Store) passed(tx *gorm.DB, told, now int64) (events []store.OverdueEvent, images []imageName, next int64, err error) {
	r, err := s.dueReader(tx, store.AllNamespaces())
	if err != nil {
		return nil, nil, 0, err
	}
	var begun []int64
	if err := tx.Raw("SELECT since FROM policies WHERE applies = 1 ORDER BY name").Scan(&begun).Error; err != nil {
		return nil, nil, 0, err
	}
	targets, err := r.targets(nil, false)
	if err != nil {
		return nil, nil, 0, err
	}
	dates := map[int64]*passedDates{}
	err = r.each(nil, targets, func(t *dueTarget, f *dueFinding, at int64, by int) {
		switch {
		case at > now:
			if next == 0 || at < next {
				next = at
			}
		case at > max(told, begun[by]):
			one := dates[t.image]
			if one == nil {
				one = &passedDates{earliest: at}
				dates[t.image] = one
			}
			one.counts.Add(f.severity)
			one.policies.add(by)
			one.earliest = min(one.earliest, at)
		}
	})
	if err != nil || len(dates) == 0 {
		return nil, nil, next, err
	}
	events, images, err = r.overdueEvents(dates)
	return events, images, next, err
}

// overdueEvents makes events of dates: as many as are permitted, and the number of the other images.
func (r *dueReader) overdueEvents(dates map[int64]*passedDates) (events []store.OverdueEvent, images []imageName, err error) {
	var rows []struct {
		ID                int64
		ImageID, Platform string
	}
	ids := make([]int64, 0, len(dates))
	for id := range dates {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	err = inParts(ids, func(part []int64) error {
		more := rows[:0:0]
		err := r.tx.Raw("SELECT id, image_id, platform FROM images WHERE id IN ?", part).Scan(&more).Error
		rows = append(rows, more...)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	all := make([]*passedDates, len(rows))
	for i, row := range rows {
		all[i] = dates[row.ID]
		all[i].image = imageName{row.ImageID, row.Platform}
	}
	slices.SortFunc(all, func(a, b *passedDates) int {
		return cmp.Or(cmp.Compare(b.counts.Critical, a.counts.Critical), cmp.Compare(b.counts.High, a.counts.High), cmp.Compare(b.counts.Medium, a.counts.Medium),
			cmp.Compare(b.counts.Low, a.counts.Low), strings.Compare(a.image.imageID, b.image.imageID), strings.Compare(a.image.platform, b.image.platform))
	})
	for _, one := range all[:min(len(all), store.MaxOverdueEvents)] {
		at := fromMicros(one.earliest)
		event := store.OverdueEvent{Findings: one.counts, DueAt: &at}
		for place := range r.policies {
			if one.policies.has(place) {
				event.Policies = append(event.Policies, r.policies[place].Name)
			}
		}
		events, images = append(events, event), append(images, one.image)
	}
	if omitted := len(all) - len(events); omitted > 0 {
		events, images = append(events, store.OverdueEvent{Omitted: omitted}), append(images, imageName{})
	}
	return events, images, nil
}

// overdueOf counts the overdue findings of images, by image, or by image and workload.
func (s *Store) overdueOf(tx *gorm.DB, in store.Namespaces, images []int64, workloads bool) (map[imagePlace]int, error) {
	counts := map[imagePlace]int{}
	r, err := s.dueReader(tx, in)
	if err != nil || len(r.policies) == 0 || len(images) == 0 {
		return counts, err
	}
	targets, err := r.targets(images, workloads)
	if err != nil {
		return nil, err
	}
	now := s.now()
	err = r.each(images, targets, func(t *dueTarget, _ *dueFinding, at int64, _ int) {
		if at <= now {
			counts[t.imagePlace]++
		}
	})
	return counts, err
}

// addOverdue adds the numbers of overdue findings to images.
func (s *Store) addOverdue(tx *gorm.DB, in store.Namespaces, rows []imageRow, images []store.Image) error {
	ids := make([]int64, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	counts, err := s.overdueOf(tx, in, ids, false)
	for i := range images {
		images[i].Overdue = counts[imagePlace{image: rows[i].ID}]
	}
	return err
}

// addOverdueWorkloads adds the numbers of overdue findings to workloads.
func (s *Store) addOverdueWorkloads(tx *gorm.DB, in store.Namespaces, workloads []store.WorkloadSummary) error {
	if applied, err := appliedPolicies(tx); err != nil || len(applied) == 0 || len(workloads) == 0 {
		return err
	}
	index := make(map[store.Workload]int, len(workloads))
	names := make([]ownerChange, len(workloads))
	for i := range workloads {
		names[i] = workloads[i].Workload
		names[i].Owner = ""
		index[names[i]] = i
	}
	var images []int64
	for part := range slices.Chunk(names, maxWorkloads) {
		condition, values := anyOf(part)
		var more []int64
		if err := tx.Raw("SELECT DISTINCT image_pk FROM image_uses WHERE "+condition, values...).Scan(&more).Error; err != nil {
			return err
		}
		images = append(images, more...)
	}
	slices.Sort(images)
	counts, err := s.overdueOf(tx, in, slices.Compact(images), true)
	for place, count := range counts {
		if i, asked := index[place.workload]; asked {
			workloads[i].Overdue += count
		}
	}
	return err
}

// overduePlaces selects the images x with an open finding whose date has passed, where something runs them which is visible, with the uses u that
// it is for.
func (s *Store) overduePlaces(tx *gorm.DB, in store.Namespaces, current int64) *gorm.DB {
	since := "x.first_seen"
	found := tx.Table("policy_findings AS pf").Joins("CROSS JOIN policies pl").Joins("CROSS JOIN findings f").Joins("CROSS JOIN image_packages ip").Joins("CROSS JOIN images x")
	if !in.All() {
		found = found.Joins("JOIN (?) n ON n.image_pk = x.id", visibleSince(tx, in))
		since = laterOf("n.since", "x.matched_at")
	}
	found = found.Joins("CROSS JOIN image_uses u")
	passed := func(since string) string { return fmt.Sprintf("(%s) + pf.days * %d <= ?", since, dayMicros) }
	return within(found, "u.namespace", in).
		Where("pl.id = pf.policy_pk AND pl.applies = 1 AND f.id = pf.finding_id AND "+open, current, current).
		Where("ip.package_pk = f.package_pk AND ip.excluded = 0 AND x.id = ip.image_pk AND x.matched_at > 0 AND u.image_pk = x.id AND u.namespace <> ''").
		Where(passed("pf.since"), s.now()).Where(passed(since), s.now()).
		Where(`(pl.placed = 0 OR EXISTS (SELECT 1 FROM policy_places q WHERE q.policy_pk = pl.id AND q.image_pk = x.id
			AND q.namespace = u.namespace AND q.kind = u.kind AND q.name = u.name))`)
}
