package sqlstore

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// workloadReaches are the reaches with places that have some workloads of an image: all or any of these.
type workloadReaches struct{ all, any map[int64]bool }

// readWorkloadReaches reads the reaches with places that have workloads which run an image.
func readWorkloadReaches(tx *gorm.DB, image int64, workloads []store.Workload) (*workloadReaches, error) {
	r := &workloadReaches{all: map[int64]bool{}, any: map[int64]bool{}}
	counted := map[int64]int{} // How many of the workloads a reach has.
	ofImage := func(rows *gorm.DB) *gorm.DB { return rows.Where("y.image_pk = ?", image) }
	err := eachReachedPlace(tx, ofImage, func(reach, _ int64, at store.Workload) {
		for i := range workloads {
			w := &workloads[i]
			if at.Namespace == w.Namespace && (at == namespacePlace(at.Namespace) || at.Kind == w.Kind && at.Name == w.Name) {
				counted[reach]++
			}
		}
	})
	for reach, count := range counted {
		r.any[reach] = true
		r.all[reach] = count == len(workloads)
	}
	return r, err
}

// or is the rest of a condition that a reach, given by a column, has all of the workloads; nothing if r is nil.
func (r *workloadReaches) or(reach string) string {
	if r == nil {
		return ""
	}
	var numbers []string
	for _, id := range slices.Sorted(maps.Keys(r.all)) {
		if r.all[id] {
			numbers = append(numbers, strconv.FormatInt(id, 10))
		}
	}
	if len(numbers) == 0 {
		return ""
	}
	return " OR " + reach + " IN (" + strings.Join(numbers, ",") + ")"
}

// eachReachedPlace calls visit for each place of images that a reach with places has: the whole namespace as a namespacePlace, or a workload of a namespace of which
// it has some. choose chooses rows y.
func eachReachedPlace(tx *gorm.DB, choose func(*gorm.DB) *gorm.DB, visit func(reach, image int64, at store.Workload)) error {
	read := func(rows *gorm.DB, columns string) error {
		return eachRow(choose(rows).Select("y.reach, y.image_pk, y.namespace, "+columns), func(scan func(...any) error) error {
			var reach, image int64
			var at store.Workload
			err := scan(&reach, &image, &at.Namespace, &at.Kind, &at.Name)
			visit(reach, image, at)
			return err
		})
	}
	return errors.Join(read(tx.Table("reached_namespaces AS y").Where("y.partly = 0"), "'' AS kind, '' AS name"), read(tx.Table("reached_workloads AS y"), "y.kind, y.name"))
}

// limitTo makes s about some workloads of an image alone, nil for all visible places.
func (s seen) limitTo(tx *gorm.DB, image int64, workloads []store.Workload) (seen, error) {
	if workloads == nil {
		return s, nil
	}
	some, err := somePlaced(tx)
	if err != nil || !some {
		return s, err
	}
	s.placed = true
	s.workloads, err = readWorkloadReaches(tx, image, workloads)
	return s, err
}

// limitTo makes s about some workloads of an image alone.
func (s *saidOf) limitTo(image int64, workloads *workloadReaches) {
	for reach, images := range s.closed.reached {
		images[image] = images[image] || workloads.all[reach]
	}
	for _, decisions := range s.byFinding {
		for _, one := range decisions {
			if one.Placed {
				s.reached.reached[one.reach][image] = workloads.any[one.reach]
			}
		}
	}
}

// decidedIn has, for each workload of running images, a text that tells apart which reaches with places have it, of those in which findings of the image are
// suppressed. Images without any are left out.
func decidedIn(tx *gorm.DB, running map[int64]*store.RunningImage) (map[int64][]string, error) {
	reaches := map[int64]map[store.Workload][]int64{}
	suppressing := func(rows *gorm.DB) *gorm.DB {
		return rows.Joins("JOIN reached_counts c ON c.reach = y.reach AND c.image_pk = y.image_pk")
	}
	err := eachReachedPlace(tx, suppressing, func(reach, image int64, at store.Workload) {
		if running[image] == nil {
			return
		}
		if reaches[image] == nil {
			reaches[image] = map[store.Workload][]int64{}
		}
		reaches[image][at] = append(reaches[image][at], reach)
	})
	decided := make(map[int64][]string, len(reaches))
	for image, at := range reaches {
		some := false
		texts := make([]string, len(running[image].Workloads))
		for i := range running[image].Workloads {
			w := &running[image].Workloads[i]
			all := slices.Concat(at[namespacePlace(w.Namespace)], at[store.Workload{Namespace: w.Namespace, Kind: w.Kind, Name: w.Name}])
			if len(all) == 0 {
				continue
			}
			slices.Sort(all)
			numbers := make([]string, len(all))
			for i, id := range all {
				numbers[i] = strconv.FormatInt(id, 10)
			}
			texts[i], some = contentDigest(numbers...), true
		}
		if some {
			decided[image] = texts
		}
	}
	return decided, err
}

// workloadsToken tells lists of findings of different workloads apart.
func workloadsToken(workloads []store.Workload) string {
	if workloads == nil {
		return ""
	}
	texts := make([]string, 0, 3*len(workloads))
	for _, w := range workloads {
		texts = append(texts, w.Namespace, w.Kind, w.Name)
	}
	return contentDigest(texts...)
}
