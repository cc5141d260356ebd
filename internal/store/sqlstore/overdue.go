package sqlstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// overdueImage is what changes about the overdue findings of an image, in the cluster or in a namespace.
type overdueImage struct {
	imagePlace
	name imageName
	// reported are the keys of findings that earlier events reported, in ascending order; fresh are those that are reported now, and ahead those of reported
	// that are due later again.
	reported, fresh, ahead []uint64
	counts                 model.SeverityCounts
	earliest               int64
	policies               policySet
}

// overdueEvent is an event about overdue findings.
type overdueEvent struct {
	kind  store.EventKind
	image imageName
	data  any
}

// overdueReport is what to report of overdue findings.
type overdueReport struct {
	reader  *dueReader
	changes map[imagePlace]*overdueImage
	events  []overdueEvent
	next    int64
}

// RecordOverdue implements store.Policies. What is overdue is computed without the writer's lock, since that reads what all images hold.
func (s *Store) RecordOverdue(ctx context.Context) (time.Time, error) {
	report, err := s.readOverdue(ctx)
	if err == nil && len(report.changes) > 0 {
		err = s.writeOverdue(ctx, report)
	}
	return fromMicros(report.next), err
}

// whatOverdue is what errors call the report of overdue findings.
const whatOverdue = "report overdue findings"

// readOverdue computes what to report.
func (s *Store) readOverdue(ctx context.Context) (report overdueReport, err error) {
	err = s.read(ctx, whatOverdue, func(tx *gorm.DB) error {
		report = overdueReport{}
		var err error
		if report.reader, err = s.dueReader(tx, store.AllNamespaces()); err != nil {
			return err
		}
		if report.changes, report.next, err = report.reader.overdue(s.now()); err != nil {
			return err
		}
		report.events, err = report.reader.overdueEvents(report.changes)
		return err
	})
	return report, err
}

// writeOverdue writes the events of a report. Images that are not visible any more where it would be reported, and those that
// another replica reported meanwhile, are left out: the next report has what is left of them.
func (s *Store) writeOverdue(ctx context.Context, report overdueReport) error {
	return s.write(ctx, whatOverdue, func(tx *txn) error {
		images := changedImages(report.changes)
		reported, err := reportedFindings(tx.DB, images)
		if err != nil {
			return err
		}
		visible, err := placesOfImages(tx.DB, images)
		if err != nil {
			return err
		}
		changes, events := maps.Clone(report.changes), report.events
		maps.DeleteFunc(changes, func(at imagePlace, one *overdueImage) bool {
			return !visible[at] || !slices.Equal(reported[at], one.reported)
		})
		if len(changes) < len(report.changes) {
			reader := *report.reader
			reader.tx = tx.DB
			if events, err = reader.overdueEvents(changes); err != nil {
				return err
			}
		}
		for _, e := range events {
			if err := tx.event(e.kind, e.image.imageID, e.image.platform, e.data); err != nil {
				return err
			}
		}
		return tx.markReported(changes)
	})
}

// changedImages are the images of changes, in order.
func changedImages(changes map[imagePlace]*overdueImage) []int64 {
	images := make([]int64, 0, len(changes))
	for at := range changes {
		images = append(images, at.image)
	}
	slices.Sort(images)
	return slices.Compact(images)
}

// overdue returns what changes by image and place: findings that are overdue and open and that no event has reported, and those that events have reported and
// that are due later now, because a policy has changed. It also returns the next date. A date that had passed when its policy began to apply is left out.
func (r *dueReader) overdue(now int64) (changes map[imagePlace]*overdueImage, next int64, err error) {
	var begun []int64
	if err := r.tx.Raw("SELECT since FROM policies WHERE applies = 1 ORDER BY name").Scan(&begun).Error; err != nil {
		return nil, 0, err
	}
	reported, err := reportedFindings(r.tx, nil)
	if err != nil {
		return nil, 0, err
	}
	targets, err := r.targets(nil, false)
	if err != nil {
		return nil, 0, err
	}
	if err := r.addNamespaces(targets); err != nil {
		return nil, 0, err
	}
	changes = map[imagePlace]*overdueImage{}
	change := func(at imagePlace) *overdueImage {
		one := changes[at]
		if one == nil {
			one = &overdueImage{imagePlace: at, reported: reported[at]}
			changes[at] = one
		}
		return one
	}
	still := map[imagePlace][]uint64{} // The keys of findings that events have reported and that are overdue.
	err = r.each(nil, targets, func(t *dueTarget, f *dueFinding, at int64, by int) {
		_, known := slices.BinarySearch(reported[t.imagePlace], f.key)
		if at > now && (next == 0 || at < next) {
			next = at
		}
		switch {
		case known && at > now:
			one := change(t.imagePlace)
			one.ahead = append(one.ahead, f.key)
		case known:
			still[t.imagePlace] = append(still[t.imagePlace], f.key)
		case at <= now && at > begun[by]:
			one := change(t.imagePlace)
			if len(one.fresh) == 0 || at < one.earliest {
				one.earliest = at
			}
			one.fresh = append(one.fresh, f.key)
			one.counts.Add(f.severity)
			one.policies.add(by)
		}
	})
	for at, one := range changes {
		// Several records of a vulnerability may have the same key.
		one.ahead = slices.DeleteFunc(one.ahead, func(key uint64) bool { return slices.Contains(still[at], key) })
		if len(one.ahead)+len(one.fresh) == 0 {
			delete(changes, at)
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

// keySize is the number of bytes of a key in overdue_told and overdue_told_namespaces.
const keySize = 8

// reportedFindings reads the keys of the findings that events have reported, by image and place; nil stands for all images.
func reportedFindings(tx *gorm.DB, images []int64) (map[imagePlace][]uint64, error) {
	reported := map[imagePlace][]uint64{}
	read := func(rows *gorm.DB, namespace string) error {
		return eachRow(rows.Select("o.image_pk, "+namespace+" AS namespace, o.findings"), func(scan func(...any) error) error {
			var at imagePlace
			var content []byte
			err := scan(&at.image, &at.workload.Namespace, &content)
			for ; len(content) >= keySize; content = content[keySize:] {
				reported[at] = append(reported[at], binary.BigEndian.Uint64(content))
			}
			return err
		})
	}
	err := eachPart(images, func(part []int64) error {
		if err := read(of(tx.Table("overdue_told AS o"), "o.image_pk", part), "''"); err != nil {
			return err
		}
		return read(of(tx.Table("overdue_told_namespaces AS o"), "o.image_pk", part), "o.namespace")
	})
	return reported, err
}

// markReported notes the findings that events have reported.
func (t *txn) markReported(changes map[imagePlace]*overdueImage) error {
	byNamespace := map[string][]int64{}
	for at := range changes {
		byNamespace[at.workload.Namespace] = append(byNamespace[at.workload.Namespace], at.image)
	}
	var everywhere, inNamespaces []any
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		images := byNamespace[namespace]
		slices.Sort(images)
		err := inParts(images, func(part []int64) error {
			if namespace == "" {
				return t.Execute("DELETE FROM overdue_told WHERE image_pk IN ?", part)
			}
			return t.Execute("DELETE FROM overdue_told_namespaces WHERE namespace = ? AND image_pk IN ?", namespace, part)
		})
		if err != nil {
			return err
		}
		for _, image := range images {
			content := changes[imagePlace{image, namespacePlace(namespace)}].content()
			switch {
			case len(content) == 0:
			case namespace == "":
				everywhere = append(everywhere, image, content)
			default:
				inNamespaces = append(inNamespaces, namespace, image, content)
			}
		}
	}
	if err := t.Insert("overdue_told", []string{"image_pk", "findings"}, everywhere, ""); err != nil {
		return err
	}
	return t.Insert("overdue_told_namespaces", []string{"namespace", "image_pk", "findings"}, inNamespaces, "")
}

// content has the keys of all findings that events have reported, as they are stored.
func (o *overdueImage) content() []byte {
	slices.Sort(o.ahead)
	keys := slices.DeleteFunc(slices.Concat(o.reported, o.fresh), func(key uint64) bool {
		_, later := slices.BinarySearch(o.ahead, key)
		return later
	})
	slices.Sort(keys)
	var content []byte
	for _, key := range slices.Compact(keys) {
		content = binary.BigEndian.AppendUint64(content, key)
	}
	return content
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
