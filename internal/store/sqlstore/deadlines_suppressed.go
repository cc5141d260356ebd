package sqlstore

import (
	"maps"
	"slices"

	"gorm.io/gorm"
)

// partlySuppressed is what decisions about some images suppress: by finding the reaches, and by reach the images. It is not their product, which has no
// bound.
type partlySuppressed struct {
	covers
	reaches map[int64][]int64
	// workloads has, by reach, the images and the workloads that are places of it.
	workloads map[int64]map[imagePlace]bool
}

// has reports whether a finding does not count in a target.
func (p *partlySuppressed) has(finding int64, t *dueTarget) bool {
	return slices.ContainsFunc(p.reaches[finding], func(reach int64) bool { return p.reached[reach][t.image] || p.workloads[reach][t.imagePlace] })
}

// readWorkloads reads the workloads that reaches with places have of images; nil stands for all images.
func (p *partlySuppressed) readWorkloads(tx *gorm.DB, images []int64) error {
	if some, err := somePlaced(tx); err != nil || !some {
		return err
	}
	return eachPart(images, func(part []int64) error {
		return eachRow(of(closedByWorkload(tx), "y.image_pk", part), func(scan func(...any) error) error {
			var reach int64
			var at imagePlace
			err := scan(&reach, &at.image, &at.workload.Namespace, &at.workload.Kind, &at.workload.Name)
			if p.reached[reach] != nil {
				if p.workloads[reach] == nil {
					p.workloads[reach] = map[imagePlace]bool{}
				}
				p.workloads[reach][at] = true
			}
			return err
		})
	})
}

// suppressedThere reads which findings that policies select are suppressed by decisions about some images; nil stands for all images.
func (r *dueReader) suppressedThere(images []int64) (*partlySuppressed, error) {
	view, err := seenIn(r.tx, r.in)
	if err != nil {
		return nil, err
	}
	p := &partlySuppressed{covers: covers{view: view, reached: map[int64]map[int64]bool{}}, reaches: map[int64][]int64{}, workloads: map[int64]map[imagePlace]bool{}}
	rows := r.tx.Table("finding_suppressions AS fs").
		Where("fs.reach > 0 AND EXISTS (SELECT 1 FROM policy_findings pf WHERE pf.finding_id = fs.finding_id)").Select("fs.finding_id, fs.reach")
	err = eachRow(rows, func(scan func(...any) error) error {
		var finding, reach int64
		err := scan(&finding, &reach)
		p.reaches[finding] = append(p.reaches[finding], reach)
		p.reached[reach] = map[int64]bool{}
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := p.readWorkloads(r.tx, images); err != nil {
		return nil, err
	}
	if images == nil {
		if err := p.readNamespaces(r.tx); err != nil {
			return nil, err
		}
		return p, p.read(r.tx, slices.Sorted(maps.Keys(p.reached)))
	}
	return p, p.readSome(r.tx, images)
}
