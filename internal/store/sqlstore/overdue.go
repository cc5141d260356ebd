package sqlstore

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// overdueImage is what changes about the overdue findings of an image.
type overdueImage struct {
	id    int64
	image imageName
	// told are the keys of findings that events told of before, in ascending order; fresh are those that they tell of now, and ahead those of told that
	// are due later again.
	told, fresh, ahead []uint64
	counts             model.SeverityCounts
	earliest           int64
	policies           policySet
}

// RecordOverdue implements store.Policies. What is overdue is computed without the writer's lock, since that reads what all images hold; it is told if
// nobody told of these images meanwhile.
func (s *Store) RecordOverdue(ctx context.Context) (time.Time, error) {
	const what = "report overdue findings"
	var next int64
	var changes map[int64]*overdueImage
	var events []store.OverdueEvent
	var images []imageName
	err := s.read(ctx, what, func(tx *gorm.DB) (err error) {
		events, images = nil, nil
		r, err := s.dueReader(tx, store.AllNamespaces())
		if err != nil {
			return err
		}
		if changes, next, err = r.overdue(s.now()); err != nil {
			return err
		}
		events, images, err = r.overdueEvents(changes)
		return err
	})
	if err != nil || len(changes) == 0 {
		return fromMicros(next), err
	}
	err = s.write(ctx, what, func(tx *txn) error {
		ids := slices.Sorted(maps.Keys(changes))
		told, err := toldFindings(tx.DB, ids)
		if err != nil || slices.ContainsFunc(ids, func(id int64) bool { return !slices.Equal(told[id], changes[id].told) }) {
			return err
		}
		for i := range events {
			if err := tx.event(store.EventFindingOverdue, images[i].imageID, images[i].platform, events[i]); err != nil {
				return err
			}
		}
		return tx.tell(ids, changes)
	})
	return fromMicros(next), err
}

// overdue returns what changes by image: findings that are overdue and open and that no event told of, and those that events told of and that are due
// later now, because a policy has changed. It also returns the next date. A date that had passed when its policy began to apply is left out.
func (r *dueReader) overdue(now int64) (changes map[int64]*overdueImage, next int64, err error) {
	var begun []int64
	if err := r.tx.Raw("SELECT since FROM policies WHERE applies = 1 ORDER BY name").Scan(&begun).Error; err != nil {
		return nil, 0, err
	}
	told, err := toldFindings(r.tx, nil)
	if err != nil {
		return nil, 0, err
	}
	targets, err := r.targets(nil, false)
	if err != nil {
		return nil, 0, err
	}
	changes = map[int64]*overdueImage{}
	change := func(image int64) *overdueImage {
		one := changes[image]
		if one == nil {
			one = &overdueImage{told: told[image]}
			changes[image] = one
		}
		return one
	}
	still := map[int64][]uint64{} // The keys of findings that events told of and that are overdue, by image.
	err = r.each(nil, targets, func(t *dueTarget, f *dueFinding, at int64, by int) {
		_, known := slices.BinarySearch(told[t.image], f.key)
		if at > now && (next == 0 || at < next) {
			next = at
		}
		switch {
		case known && at > now:
			one := change(t.image)
			one.ahead = append(one.ahead, f.key)
		case known:
			still[t.image] = append(still[t.image], f.key)
		case at <= now && at > begun[by]:
			one := change(t.image)
			if len(one.fresh) == 0 || at < one.earliest {
				one.earliest = at
			}
			one.fresh = append(one.fresh, f.key)
			one.counts.Add(f.severity)
			one.policies.add(by)
		}
	})
	for image, one := range changes {
		// Several records of a vulnerability may have the same key.
		one.ahead = slices.DeleteFunc(one.ahead, func(key uint64) bool { return slices.Contains(still[image], key) })
		if len(one.ahead)+len(one.fresh) == 0 {
			delete(changes, image)
		}
	}
	return changes, next, err
}

// findingKey stands for a record of a vulnerability and a package. Two of an image have the same key with a probability of 1 in 10^15.
func findingKey(packageID int64, vulnerability, namespace string) uint64 {
	hash := fnv.New64a()
	_, _ = fmt.Fprintf(hash, "%d %s %s", packageID, vulnerability, namespace)
	return hash.Sum64()
}

// keySize is the number of bytes of a key in overdue_told.
const keySize = 8

// toldFindings reads the keys of the findings that events told of, by image; nil stands for all images.
func toldFindings(tx *gorm.DB, images []int64) (map[int64][]uint64, error) {
	told := map[int64][]uint64{}
	err := eachPart(images, func(part []int64) error {
		return eachRow(of(tx.Table("overdue_told AS o"), "o.image_pk", part).Select("o.image_pk, o.findings"), func(scan func(...any) error) error {
			var image int64
			var content []byte
			err := scan(&image, &content)
			for ; len(content) >= keySize; content = content[keySize:] {
				told[image] = append(told[image], binary.BigEndian.Uint64(content))
			}
			return err
		})
	})
	return told, err
}

// tell notes the findings that events told of.
func (t *txn) tell(images []int64, changes map[int64]*overdueImage) error {
	err := inParts(images, func(part []int64) error { return t.Execute("DELETE FROM overdue_told WHERE image_pk IN ?", part) })
	if err != nil {
		return err
	}
	var values []any
	for _, image := range images {
		one := changes[image]
		slices.Sort(one.ahead)
		keys := slices.DeleteFunc(slices.Concat(one.told, one.fresh), func(key uint64) bool {
			_, later := slices.BinarySearch(one.ahead, key)
			return later
		})
		slices.Sort(keys)
		var content []byte
		for _, key := range slices.Compact(keys) {
			content = binary.BigEndian.AppendUint64(content, key)
		}
		if len(content) > 0 {
			values = append(values, image, content)
		}
	}
	return t.Insert("overdue_told", []string{"image_pk", "findings"}, values, "")
}

// overdueEvents makes events of what is overdue, those of the images with the worst findings first: as many as are permitted, and the number of the other
// images.
func (r *dueReader) overdueEvents(changes map[int64]*overdueImage) (events []store.OverdueEvent, images []imageName, err error) {
	var rows []struct {
		ID                int64
		ImageID, Platform string
	}
	var ids []int64
	for id, one := range changes {
		if len(one.fresh) > 0 {
			ids = append(ids, id)
		}
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
	all := make([]*overdueImage, len(rows))
	for i, row := range rows {
		all[i] = changes[row.ID]
		all[i].id, all[i].image = row.ID, imageName{row.ImageID, row.Platform}
	}
	slices.SortFunc(all, func(a, b *overdueImage) int {
		return cmp.Or(cmp.Compare(b.counts.Critical, a.counts.Critical), cmp.Compare(b.counts.High, a.counts.High), cmp.Compare(b.counts.Medium, a.counts.Medium),
			cmp.Compare(b.counts.Low, a.counts.Low), strings.Compare(a.image.imageID, b.image.imageID), strings.Compare(a.image.platform, b.image.platform))
	})
	told := all[:min(len(all), store.MaxOverdueEvents)]
	toldIDs := make([]int64, len(told))
	for i := range told {
		toldIDs[i] = told[i].id
	}
	owners, err := ownersOfImages(r.tx, r.in, toldIDs)
	if err != nil {
		return nil, nil, err
	}
	for _, one := range told {
		at := fromMicros(one.earliest)
		event := store.OverdueEvent{Findings: one.counts, DueAt: &at, Owners: owners[one.id]}
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
func (s *Store) overduePlaces(tx *gorm.DB, in store.Namespaces, current int64, placed bool) *gorm.DB {
	since := "x.first_seen"
	found := tx.Table("policy_findings AS pf").Joins("CROSS JOIN policies pl").Joins("CROSS JOIN findings f").Joins("CROSS JOIN image_packages ip").Joins("CROSS JOIN images x")
	if !in.All() {
		found = found.Joins("JOIN (?) n ON n.image_pk = x.id", visibleSince(tx, in))
		since = laterOf("n.since", "x.matched_at")
	}
	found = found.Joins("CROSS JOIN image_uses u")
	if placed {
		found = found.Where("NOT EXISTS (SELECT 1 FROM finding_suppressions hs JOIN reached_namespaces y ON y.reach = hs.reach" +
			" WHERE hs.finding_id = f.id AND y.image_pk = u.image_pk AND y.namespace = u.namespace AND " + hasWorkload + ")")
	}
	passed := func(since string) string { return fmt.Sprintf("(%s) + pf.days * %d <= ?", since, dayMicros) }
	return within(found, "u.namespace", in).
		Where("pl.id = pf.policy_pk AND pl.applies = 1 AND f.id = pf.finding_id AND "+open, current, current).
		Where("ip.package_pk = f.package_pk AND ip.excluded = 0 AND x.id = ip.image_pk AND x.matched_at > 0 AND u.image_pk = x.id AND u.namespace <> ''").
		Where(passed("pf.since"), s.now()).Where(passed(since), s.now()).
		Where(`(pl.placed = 0 OR EXISTS (SELECT 1 FROM policy_places q WHERE q.policy_pk = pl.id AND q.image_pk = x.id
			AND q.namespace = u.namespace AND q.kind = u.kind AND q.name = u.name))`)
}
