package sqlstore

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/decision"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// A decision about some images has a reach above 0, which it shares with others about the same images. reached has the images of each reach: those
// that were known when a decision with the reach began to apply, and those that became known since. An image never changes its ID, so nothing else
// changes it.

// reachSpec says where a decision applies.
type reachSpec struct {
	// Images are patterns as of decision.ParseImagePattern.
	Images []string `json:"images,omitempty"`
}

// newReach is a reach that does not exist yet.
type newReach struct {
	digest, spec string
	images       []int64
}

// storedReach is a row of reaches.
type storedReach struct {
	ID           int64
	Digest, Spec string
}

// readReach reads the reach of a decision, nil if it applies everywhere.
func readReach(d *store.Decision) (*newReach, error) {
	if len(d.Images) == 0 {
		return nil, nil
	}
	if len(d.Images) > store.MaxDecisionImages {
		return nil, fmt.Errorf("it has %d image patterns, the maximum is %d", len(d.Images), store.MaxDecisionImages)
	}
	images := slices.Compact(slices.Sorted(slices.Values(d.Images)))
	if _, err := decision.NewImageMatcher(images); err != nil {
		return nil, err
	}
	content, err := json.Marshal(reachSpec{Images: images})
	if err != nil {
		return nil, err
	}
	return &newReach{digest: contentDigest(string(content)), spec: string(content)}, nil
}

// imageIndex makes the index of the image patterns of reaches, given as they are stored.
func imageIndex(specs []string) (*decision.ImageIndex, error) {
	matchers := make([]*decision.ImageMatcher, len(specs))
	for i, content := range specs {
		var spec reachSpec
		if err := fromJSON(content, &spec); err != nil {
			return nil, err
		}
		var err error
		if matchers[i], err = decision.NewImageMatcher(spec.Images); err != nil {
			return nil, err
		}
	}
	return decision.NewImageIndex(matchers), nil
}

// matchReaches looks up the images of the reaches of new decisions that do not exist yet, by digest.
func matchReaches(tx *gorm.DB, decisions []*newDecision) (map[string]*newReach, error) {
	wanted := map[string]*newReach{}
	for _, n := range decisions {
		if n.reach != nil && !n.over {
			wanted[n.reach.digest] = n.reach
		}
	}
	known, err := knownReaches(tx, slices.Sorted(maps.Keys(wanted)))
	if err != nil {
		return nil, err
	}
	for digest := range known {
		delete(wanted, digest)
	}
	if len(wanted) == 0 {
		return wanted, nil
	}
	digests := slices.Sorted(maps.Keys(wanted))
	specs := make([]string, len(digests))
	for i, digest := range digests {
		specs[i], wanted[digest].images = wanted[digest].spec, nil
	}
	index, err := imageIndex(specs)
	if err != nil {
		return nil, err
	}
	err = eachRow(tx.Table("images AS i").Select("i.id, i.image_id").Order("i.id"), func(scan func(...any) error) error {
		var id int64
		var imageID string
		if err := scan(&id, &imageID); err != nil {
			return err
		}
		for _, i := range index.Matching(imageID) {
			reach := wanted[digests[i]]
			reach.images = append(reach.images, id)
		}
		return nil
	})
	return wanted, err
}

// knownReaches returns the numbers of reaches by digest.
func knownReaches(tx *gorm.DB, digests []string) (map[string]int64, error) {
	known := make(map[string]int64, len(digests))
	err := inParts(digests, func(part []string) error {
		var rows []storedReach
		err := tx.Raw("SELECT id, digest FROM reaches WHERE digest IN ?", part).Scan(&rows).Error
		for _, row := range rows {
			known[row.Digest] = row.ID
		}
		return err
	})
	return known, err
}

// boundReaches leaves out the decisions whose reach there is no room for.
func (p *decisionPlan) boundReaches(tx *gorm.DB) error {
	added, err := matchReaches(tx, p.begin)
	if err != nil || len(added) == 0 {
		return err
	}
	var reached int
	if err := tx.Raw("SELECT COUNT(*) FROM reached").Scan(&reached).Error; err != nil {
		return err
	}
	refused := map[string]bool{}
	counted := map[string]bool{}
	p.begin = slices.DeleteFunc(p.begin, func(n *newDecision) bool {
		if n.over || n.reach == nil || added[n.reach.digest] == nil {
			return false
		}
		digest := n.reach.digest
		images := len(added[digest].images)
		if !counted[digest] {
			counted[digest] = true
			if refused[digest] = reached+images > store.MaxReachedImages; !refused[digest] {
				reached += images
			}
		}
		if refused[digest] {
			p.problems[n.row.object()] = store.DecisionProblem{Reason: store.DecisionTooBroad, Message: fmt.Sprintf(
				"its image patterns match %d images; the maximum for all decisions with image patterns is %d; use patterns that match fewer images, or the same ones",
				images, store.MaxReachedImages)}
		}
		return refused[digest]
	})
	p.reaches = added
	return nil
}

// keepReaches writes the reaches of new decisions, and notes their numbers.
func (t *txn) keepReaches(plan *decisionPlan) error {
	used := map[string]*newReach{}
	for _, n := range plan.begin {
		if n.reach != nil && !n.over {
			used[n.reach.digest] = plan.reaches[n.reach.digest]
		}
	}
	digests := slices.Sorted(maps.Keys(used))
	var values []any
	for _, digest := range digests {
		if reach := used[digest]; reach != nil {
			values = append(values, reach.digest, reach.spec)
		}
	}
	if err := t.Insert("reaches", []string{"digest", "spec"}, values, ""); err != nil {
		return err
	}
	known, err := knownReaches(t.DB, digests)
	if err != nil {
		return err
	}
	var rows []any
	for _, digest := range digests {
		if reach := used[digest]; reach != nil {
			for _, image := range reach.images {
				rows = append(rows, known[digest], image)
			}
		}
	}
	plan.numbers = known
	return t.Insert("reached", []string{"reach", "image_pk"}, rows, "")
}

// reachImages notes in which reaches images are that have just become known.
func (t *txn) reachImages(imageIDs []string) error {
	var reaches []storedReach
	if err := t.Raw("SELECT id, spec FROM reaches ORDER BY id").Scan(&reaches).Error; err != nil || len(reaches) == 0 {
		return err
	}
	specs := make([]string, len(reaches))
	for i := range reaches {
		specs[i] = reaches[i].Spec
	}
	index, err := imageIndex(specs)
	if err != nil {
		return err
	}
	slices.Sort(imageIDs)
	var values []any
	err = inParts(slices.Compact(imageIDs), func(part []string) error {
		var images []imageRow
		err := t.Raw("SELECT id, image_id FROM images WHERE image_id IN ? ORDER BY id", part).Scan(&images).Error
		for i := range images {
			for _, reach := range index.Matching(images[i].ImageID) {
				values = append(values, reaches[reach].ID, images[i].ID)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	return t.Insert("reached", []string{"reach", "image_pk"}, values, t.Dialect.IgnoreConflict("reach", "image_pk"))
}

// dropReaches deletes the reaches of which no decision is any more.
func (t *txn) dropReaches() error {
	var unused []int64
	err := t.Raw("SELECT r.id FROM reaches r WHERE r.id NOT IN (SELECT d.reach FROM decisions d WHERE d.until_time = ?)", int64(stillOpen)).Scan(&unused).Error
	if err != nil {
		return err
	}
	return inParts(unused, func(part []int64) error { return t.Execute("DELETE FROM reaches WHERE id IN ?", part) })
}
