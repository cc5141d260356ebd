package sqlstore

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// What counts in a rollout is what counts in its workload, also when that runs the image no more.

// rolloutPlaces knows which reaches with places have the workloads of rollouts.
type rolloutPlaces struct {
	placer *placer
	// touched are the images of which a reach has a place.
	touched map[int64]bool
}

// readRolloutPlaces returns nil if no decision has places. images are those of rollouts in these namespaces.
func readRolloutPlaces(tx *gorm.DB, namespaces []string, images []int64) (*rolloutPlaces, error) {
	if some, err := somePlaced(tx); err != nil || !some {
		return nil, err
	}
	slices.Sort(namespaces)
	slices.Sort(images)
	p := &rolloutPlaces{touched: map[int64]bool{}}
	var err error
	if p.placer, err = readPlacer(tx, nil, append([]string{}, slices.Compact(namespaces)...)); err != nil {
		return nil, err
	}
	return p, inParts(slices.Compact(images), func(part []int64) error {
		var found []int64
		err := tx.Raw("SELECT DISTINCT image_pk FROM reached_namespaces WHERE image_pk IN ?", part).Scan(&found).Error
		for _, id := range found {
			p.touched[id] = true
		}
		return err
	})
}

// at lists the reaches that have a workload, of an image that it runs or ran, as a list in a statement; "" if there are none.
func (p *rolloutPlaces) at(imageID string, w store.Workload) string {
	has := newPlacements()
	p.placer.place(has, 0, imageID, []store.Workload{w})
	var reaches []string
	for _, row := range slices.SortedFunc(maps.Keys(has.images), imageReach.compare) {
		reaches = append(reaches, strconv.FormatInt(row.Reach, 10))
	}
	return strings.Join(reaches, ",")
}

// openInWorkload is the condition that findings are open in the image of ip and in a workload. reaches are those with places that have the workload, by image;
// the values are those of shown.
func openInWorkload(reaches map[int64]string) string {
	var condition strings.Builder
	condition.WriteString(shown + " AND NOT EXISTS (SELECT 1 FROM finding_suppressions fs WHERE fs.finding_id = f.id AND (fs.reach = 0")
	for _, image := range slices.Sorted(maps.Keys(reaches)) {
		if reaches[image] != "" {
			fmt.Fprintf(&condition, " OR (ip.image_pk = %d AND fs.reach IN (%s))", image, reaches[image])
		}
	}
	condition.WriteString(` OR (NOT EXISTS (SELECT 1 FROM placed_reaches q WHERE q.reach = fs.reach)
		AND EXISTS (SELECT 1 FROM reached x WHERE x.reach = fs.reach AND x.image_pk = ip.image_pk))))`)
	return condition.String()
}

// placeRollouts makes the counts of rollouts those in their workloads.
func placeRollouts(tx *gorm.DB, rows []*rolloutRow) error {
	var namespaces []string
	var images []int64
	for _, row := range rows {
		namespaces = append(namespaces, row.Namespace)
		images = append(images, row.From.ID, row.To.ID)
	}
	p, err := readRolloutPlaces(tx, namespaces, images)
	if err != nil || p == nil {
		return err
	}
	current, err := currentNumber(tx)
	if err != nil {
		return err
	}
	for _, row := range rows {
		w := store.Workload{Namespace: row.Namespace, Kind: row.Kind, Name: row.Workload}
		for imageID, side := range map[string]*sideState{row.FromImage: &row.From, row.ToImage: &row.To} {
			if side.MatchedAt == 0 {
				continue
			}
			reaches := p.at(imageID, w)
			if reaches == "" && !p.touched[side.ID] {
				continue
			}
			condition := "ip.image_pk = ? AND ip.excluded = 0 AND f.package_pk = ip.package_pk AND " + openInWorkload(map[int64]string{side.ID: reaches})
			if side.Counts, err = countWhere(tx, condition, side.ID, current, current); err != nil {
				return err
			}
		}
	}
	return nil
}
