package sqlstore

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/decision"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// A decision about some places has a reach with places. A place of an image is a workload that runs it, or a namespace where it is visible and nothing
// runs it. A finding that several such decisions suppress is suppressed in one reach that has the places of all of them, so that it has at most one
// reach with places. reached has the images of which such a reach has all places: there the finding counts for nobody. reached_namespaces and
// reached_workloads have where it does not count besides.

// placedReach is a reach with places.
type placedReach struct {
	id int64
	// members are the reaches whose places it has, only itself for that of a decision.
	members []int64
	// images is nil for all images.
	images *decision.ImageMatcher
}

// about reports whether its image patterns match an image.
func (r *placedReach) about(imageID string) bool {
	if r.images == nil {
		return true
	}
	image := decision.ImageOf(imageID)
	return r.images.Matches(&image)
}

// namespaceReach is a row of reached_namespaces.
type namespaceReach struct {
	Reach, ImagePk int64
	Namespace      string
	Partly         int64
}

// workloadReach is a row of reached_workloads.
type workloadReach struct {
	Reach, ImagePk        int64
	Namespace, Kind, Name string
}

// imageReach is a row of reached.
type imageReach struct{ Reach, ImagePk int64 }

// placements are the places that reaches have of images.
type placements struct {
	images     map[imageReach]bool
	namespaces map[namespaceReach]bool
	workloads  map[workloadReach]bool
}

func newPlacements() *placements {
	return &placements{images: map[imageReach]bool{}, namespaces: map[namespaceReach]bool{}, workloads: map[workloadReach]bool{}}
}

// rows counts the rows that they are.
func (p *placements) rows() int { return len(p.images) + len(p.namespaces) + len(p.workloads) }

// addTo adds the rows to others, as those of a reach.
func (p *placements) addTo(others *placements, reach int64) {
	for row := range p.images {
		row.Reach = reach
		others.images[row] = true
	}
	for row := range p.namespaces {
		row.Reach = reach
		others.namespaces[row] = true
	}
	for row := range p.workloads {
		row.Reach = reach
		others.workloads[row] = true
	}
}

// runningPlaces are places of images.
type runningPlaces struct {
	imageIDs map[int64]string
	places   map[int64][]store.Workload
}

// imageNamespace is a namespace of an image.
type imageNamespace struct {
	image     int64
	namespace string
}

// readRunningPlaces reads the places of images; nil stands for all images.
func readRunningPlaces(tx *gorm.DB, images []int64) (*runningPlaces, error) {
	r := &runningPlaces{imageIDs: map[int64]string{}, places: map[int64][]store.Workload{}}
	err := eachPart(images, func(part []int64) error {
		// Where a workload runs the image is not asked of each row: an image that runs everywhere has hundreds.
		running := map[imageNamespace]bool{}
		used := of(tx.Table("image_uses AS u"), "u.image_pk", part).Distinct("u.image_pk, u.namespace, u.kind, u.name")
		err := eachRow(used, func(scan func(...any) error) error {
			var image int64
			var w store.Workload
			err := scan(&image, &w.Namespace, &w.Kind, &w.Name)
			r.places[image] = append(r.places[image], w)
			running[imageNamespace{image, w.Namespace}] = true
			return err
		})
		if err != nil {
			return err
		}
		err = eachRow(of(tx.Table("image_namespaces AS m"), "m.image_pk", part).Select("m.image_pk, m.namespace"), func(scan func(...any) error) error {
			var at imageNamespace
			err := scan(&at.image, &at.namespace)
			if !running[at] {
				r.places[at.image] = append(r.places[at.image], namespacePlace(at.namespace))
			}
			return err
		})
		if err != nil {
			return err
		}
		return eachRow(of(tx.Table("images AS i"), "i.id", part).Select("i.id, i.image_id"), func(scan func(...any) error) error {
			var id int64
			var imageID string
			err := scan(&id, &imageID)
			r.imageIDs[id] = imageID
			return err
		})
	})
	return r, err
}

// placer finds the places that reaches have.
type placer struct {
	reaches map[int64]*placedReach
	// whole and single are the reaches of decisions that name a namespace or a workload.
	whole  map[string][]int64
	single map[store.Workload][]int64
	// in has the reaches that have the places of one of a decision.
	in map[int64][]int64
}

// newPlacer makes the placer of reaches, with those whose places they have.
func newPlacer(reaches []*placedReach) *placer {
	p := &placer{reaches: map[int64]*placedReach{}, whole: map[string][]int64{}, single: map[store.Workload][]int64{}, in: map[int64][]int64{}}
	for _, r := range reaches {
		p.reaches[r.id] = r
		for _, member := range r.members {
			p.in[member] = append(p.in[member], r.id)
		}
	}
	return p
}

// add notes a place of the reach of a decision.
func (p *placer) add(reach int64, at store.Workload) {
	if at == namespacePlace(at.Namespace) {
		p.whole[at.Namespace] = append(p.whole[at.Namespace], reach)
	} else {
		p.single[at] = append(p.single[at], reach)
	}
}

// has reports whether the reach of a decision has a place.
func (p *placer) has(reach int64, at store.Workload) bool {
	return slices.Contains(p.whole[at.Namespace], reach) || slices.Contains(p.single[at], reach)
}

// place adds to placements what the reaches have of an image.
func (p *placer) place(into *placements, image int64, imageID string, places []store.Workload) {
	about, covered, total := map[int64]bool{}, map[int64][]int{}, map[string]int{} // By reach, and by namespace.
	for i, at := range places {
		total[at.Namespace]++
		for _, member := range slices.Concat(p.whole[at.Namespace], p.single[at]) {
			matches, known := about[member]
			if !known {
				matches = p.reaches[member].about(imageID)
				about[member] = matches
			}
			if !matches {
				continue
			}
			for _, reach := range p.in[member] {
				if has := covered[reach]; len(has) == 0 || has[len(has)-1] != i { // Several of its members can have the place.
					covered[reach] = append(has, i)
				}
			}
		}
	}
	for reach, has := range covered {
		count := map[string]int{}
		for _, i := range has {
			count[places[i].Namespace]++
		}
		if len(has) == len(places) {
			into.images[imageReach{reach, image}] = true
		}
		for namespace, n := range count {
			into.namespaces[namespaceReach{reach, image, namespace, boolean(n < total[namespace])}] = true
		}
		for _, i := range has {
			if at := places[i]; count[at.Namespace] < total[at.Namespace] {
				into.workloads[workloadReach{reach, image, at.Namespace, at.Kind, at.Name}] = true
			}
		}
	}
}

// placeAll is what the reaches have of all these images.
func (p *placer) placeAll(running *runningPlaces) *placements {
	all := newPlacements()
	for image, places := range running.places {
		p.place(all, image, running.imageIDs[image], places)
	}
	return all
}

// somePlaced reports whether a decision applies to some places only.
func somePlaced(tx *gorm.DB) (bool, error) {
	var found []int64
	err := tx.Raw("SELECT q.reach FROM placed_reaches q LIMIT 1").Scan(&found).Error
	return len(found) > 0, err
}

// readPlacer makes the placer of reaches, nil for all of them, as far as they name places in these namespaces, nil for all.
func readPlacer(tx *gorm.DB, reaches []int64, namespaces []string) (*placer, error) {
	var all []*placedReach
	members := map[int64]bool{}
	read := func(part []int64) error {
		var rows []struct {
			ID            int64
			Members, Spec string
		}
		err := of(tx.Table("placed_reaches AS q").Joins("JOIN reaches r ON r.id = q.reach"), "r.id", part).Select("r.id, q.members, r.spec").Order("r.id").Scan(&rows).Error
		if err != nil {
			return err
		}
		for _, row := range rows {
			r := &placedReach{id: row.ID, members: []int64{row.ID}}
			if row.Members != "" {
				if r.members, err = numbersOf(row.Members); err != nil {
					return err
				}
			}
			var spec reachSpec
			if err := fromJSON(row.Spec, &spec); err != nil {
				return err
			}
			if len(spec.Images) > 0 {
				if r.images, err = decision.NewImageMatcher(spec.Images); err != nil {
					return err
				}
			}
			for _, member := range r.members {
				members[member] = true
			}
			all = append(all, r)
		}
		return nil
	}
	if err := eachPart(reaches, read); err != nil {
		return nil, err
	}
	wanted := len(all)
	if reaches != nil {
		known := map[int64]bool{}
		for _, r := range all {
			known[r.id] = true
		}
		missing := slices.DeleteFunc(slices.Sorted(maps.Keys(members)), func(id int64) bool { return known[id] })
		if err := inParts(missing, read); err != nil {
			return nil, err
		}
	}
	p := newPlacer(all[:wanted])
	for _, r := range all[wanted:] {
		p.reaches[r.id] = r
	}
	add := func(rows *gorm.DB) error {
		return eachRow(rows.Select("a.reach, a.namespace, a.kind, a.name"), func(scan func(...any) error) error {
			var reach int64
			var at store.Workload
			err := scan(&reach, &at.Namespace, &at.Kind, &at.Name)
			if members[reach] {
				p.add(reach, at)
			}
			return err
		})
	}
	switch {
	case namespaces != nil:
		return p, inParts(namespaces, func(part []string) error { return add(tx.Table("reach_places AS a").Where("a.namespace IN ?", part)) })
	case reaches != nil:
		return p, inParts(slices.Sorted(maps.Keys(members)), func(part []int64) error { return add(tx.Table("reach_places AS a").Where("a.reach IN ?", part)) })
	default:
		return p, add(tx.Table("reach_places AS a"))
	}
}

// numbersOf reads numbers that are separated by commas.
func numbersOf(text string) ([]int64, error) {
	numbers := make([]int64, 0, strings.Count(text, ",")+1)
	err := eachNumber(text, func(n int64) { numbers = append(numbers, n) })
	return numbers, err
}

// eachNumber calls visit with the numbers that numbersOf reads. There may be millions.
func eachNumber(text string, visit func(n int64)) error {
	for start := 0; start <= len(text); {
		number, end := int64(0), start
		for ; end < len(text) && end-start < 18 && '0' <= text[end] && text[end] <= '9'; end++ {
			number = 10*number + int64(text[end]-'0')
		}
		if end == start || end < len(text) && text[end] != ',' {
			one, _, _ := strings.Cut(text[start:], ",")
			var err error
			if number, err = strconv.ParseInt(one, 10, 64); err != nil {
				return err
			}
			end = start + len(one)
		}
		visit(number)
		start = end + 1
	}
	return nil
}

// placeMoved notes what the reaches have of the images that were given to moved.
func (t *txn) placeMoved() error {
	if len(t.movedImages) == 0 {
		return nil
	}
	if some, err := somePlaced(t.DB); err != nil || !some {
		return err
	}
	return inParts(slices.Sorted(maps.Keys(t.movedImages)), func(part []int64) error { return t.placeReaches(nil, part) })
}

// placeReaches makes reached, reached_namespaces and reached_workloads what reaches have of images, and counts what follows; nil stands for all reaches
// with places, or all images.
func (t *txn) placeReaches(reaches, images []int64) error {
	running, err := readRunningPlaces(t.DB, images)
	if err != nil {
		return err
	}
	var namespaces []string
	if images != nil {
		names := map[string]bool{}
		for _, places := range running.places {
			for _, at := range places {
				names[at.Namespace] = true
			}
		}
		namespaces = append([]string{}, slices.Sorted(maps.Keys(names))...)
	}
	p, err := readPlacer(t.DB, reaches, namespaces)
	if err != nil {
		return err
	}
	before, err := readPlacements(t.DB, reaches, images)
	if err != nil {
		return err
	}
	return t.replacePlacements(before, p.placeAll(running))
}

// readPlacements reads what reaches with places have of images; nil stands for all of them.
func readPlacements(tx *gorm.DB, reaches, images []int64) (*placements, error) {
	p := newPlacements()
	err := eachPart(reaches, func(some []int64) error {
		return eachPart(images, func(part []int64) error {
			chosen := func(table string) *gorm.DB {
				return of(of(tx.Table(table+" AS x"), "x.reach", some), "x.image_pk", part)
			}
			var whole []imageReach
			err := chosen("reached").Joins("JOIN placed_reaches q ON q.reach = x.reach").Select("x.reach, x.image_pk").Scan(&whole).Error
			if err != nil {
				return err
			}
			var namespaces []namespaceReach
			if err := chosen("reached_namespaces").Select("x.reach, x.image_pk, x.namespace, x.partly").Scan(&namespaces).Error; err != nil {
				return err
			}
			var workloads []workloadReach
			if err := chosen("reached_workloads").Select("x.reach, x.image_pk, x.namespace, x.kind, x.name").Scan(&workloads).Error; err != nil {
				return err
			}
			for _, row := range whole {
				p.images[row] = true
			}
			for _, row := range namespaces {
				p.namespaces[row] = true
			}
			for _, row := range workloads {
				p.workloads[row] = true
			}
			return nil
		})
	})
	return p, err
}

// without are the rows of one map that another one does not have, in an order.
func without[T comparable](rows, others map[T]bool, compare func(a, b T) int) []T {
	var all []T
	for row := range rows {
		if !others[row] {
			all = append(all, row)
		}
	}
	slices.SortFunc(all, compare)
	return all
}

func (r namespaceReach) compare(o namespaceReach) int {
	return cmp.Or(cmp.Compare(r.Reach, o.Reach), cmp.Compare(r.ImagePk, o.ImagePk), cmp.Compare(r.Namespace, o.Namespace))
}

func (r workloadReach) compare(o workloadReach) int {
	return cmp.Or(cmp.Compare(r.Reach, o.Reach), cmp.Compare(r.ImagePk, o.ImagePk), cmp.Compare(r.Namespace, o.Namespace),
		cmp.Compare(r.Kind, o.Kind), cmp.Compare(r.Name, o.Name))
}

func (r imageReach) compare(o imageReach) int {
	return cmp.Or(cmp.Compare(r.Reach, o.Reach), cmp.Compare(r.ImagePk, o.ImagePk))
}

// replacePlacements writes what differs. Where a reach gets or loses the last place of an image, its findings are counted again.
func (t *txn) replacePlacements(before, after *placements) error {
	for _, row := range without(before.workloads, after.workloads, workloadReach.compare) {
		err := t.Execute("DELETE FROM reached_workloads WHERE reach = ? AND image_pk = ? AND namespace = ? AND kind = ? AND name = ?",
			row.Reach, row.ImagePk, row.Namespace, row.Kind, row.Name)
		if err != nil {
			return err
		}
	}
	for _, row := range without(before.namespaces, after.namespaces, namespaceReach.compare) {
		err := t.Execute("DELETE FROM reached_namespaces WHERE reach = ? AND image_pk = ? AND namespace = ?", row.Reach, row.ImagePk, row.Namespace)
		if err != nil {
			return err
		}
	}
	var values []any
	for _, row := range without(after.namespaces, before.namespaces, namespaceReach.compare) {
		values = append(values, row.Reach, row.ImagePk, row.Namespace, row.Partly)
	}
	if err := t.Insert("reached_namespaces", []string{"reach", "image_pk", "namespace", "partly"}, values, ""); err != nil {
		return err
	}
	values = nil
	for _, row := range without(after.workloads, before.workloads, workloadReach.compare) {
		values = append(values, row.Reach, row.ImagePk, row.Namespace, row.Kind, row.Name)
	}
	if err := t.Insert("reached_workloads", []string{"reach", "image_pk", "namespace", "kind", "name"}, values, ""); err != nil {
		return err
	}
	if err := t.replaceElsewhere(before.elsewhere(), after.elsewhere()); err != nil {
		return err
	}
	lost, gained := without(before.images, after.images, imageReach.compare), without(after.images, before.images, imageReach.compare)
	changed := slices.Concat(lost, gained)
	for _, row := range slices.Concat(without(before.namespaces, after.namespaces, namespaceReach.compare), without(after.namespaces, before.namespaces, namespaceReach.compare)) {
		changed = append(changed, imageReach{row.Reach, row.ImagePk})
	}
	if len(lost)+len(gained) == 0 {
		return t.recountReached(changed)
	}
	err := t.recounting(slices.Concat(lost, gained), func() error {
		for _, row := range lost {
			if err := t.Execute("DELETE FROM reached WHERE reach = ? AND image_pk = ?", row.Reach, row.ImagePk); err != nil {
				return err
			}
		}
		var values []any
		for _, row := range gained {
			values = append(values, row.Reach, row.ImagePk)
		}
		return t.Insert("reached", []string{"reach", "image_pk"}, values, "")
	})
	if err != nil {
		return err
	}
	return t.recountReached(changed)
}
