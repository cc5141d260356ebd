package sqlstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/decision"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// A decision about some images has a reach above 0, which it shares with others about the same images. reached has the images of each reach: those
// that were known when a decision with the reach began to apply, and those that became known since. An image never changes its ID, so nothing else
// changes it. A reach with places has those images of which it has all places, and follows what runs: see placements.

// reachSpec says where a decision applies.
type reachSpec struct {
	// Images are patterns as of decision.ParseImagePattern.
	Images []string `json:"images,omitempty"`
	// Places is the store.DecisionPlaces.Selector, Members the reaches whose places this one has.
	Places  string `json:"places,omitempty"`
	Members string `json:"members,omitempty"`
}

// newReach is the reach of a decision.
type newReach struct {
	digest, spec string
	images       []int64
	// placed says that it has places, and placesDigest tells these apart. A whole namespace is a namespacePlace.
	placed       bool
	places       []store.Workload
	placesDigest string
	// placements are what it has of images if it does not exist yet.
	placements *placements
}

// storedReach is a row of reaches.
type storedReach struct {
	ID           int64
	Digest, Spec string
}

// readReach reads the reach of a decision, nil if it applies everywhere.
func readReach(d *store.Decision) (*newReach, error) {
	if len(d.Images) == 0 && d.Places == nil {
		return nil, nil
	}
	if len(d.Images) > store.MaxDecisionImages {
		return nil, fmt.Errorf("it has %d image patterns, the maximum is %d", len(d.Images), store.MaxDecisionImages)
	}
	images := slices.Compact(slices.Sorted(slices.Values(d.Images)))
	if _, err := decision.NewImageMatcher(images); err != nil {
		return nil, err
	}
	spec := reachSpec{Images: images}
	if d.Places != nil {
		spec.Places = d.Places.Selector
	}
	content, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	reach := &newReach{digest: contentDigest(string(content)), spec: string(content)}
	if d.Places != nil {
		reach.placed = true
		reach.places, reach.placesDigest, err = readPlaces(d.Places)
	}
	return reach, err
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
	if err := matchPlaces(tx, wanted); err != nil {
		return nil, err
	}
	digests := slices.DeleteFunc(slices.Sorted(maps.Keys(wanted)), func(digest string) bool { return wanted[digest].placed })
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

// matchPlaces looks up what new reaches with places have.
func matchPlaces(tx *gorm.DB, wanted map[string]*newReach) error {
	var placed []*newReach
	for _, digest := range slices.Sorted(maps.Keys(wanted)) {
		if reach := wanted[digest]; reach.placed {
			placed = append(placed, reach)
		}
	}
	if len(placed) == 0 {
		return nil
	}
	reaches := make([]*placedReach, len(placed))
	for i, reach := range placed {
		reaches[i] = &placedReach{id: int64(i), members: []int64{int64(i)}}
		var spec reachSpec
		if err := fromJSON(reach.spec, &spec); err != nil {
			return err
		}
		if len(spec.Images) > 0 {
			var err error
			if reaches[i].images, err = decision.NewImageMatcher(spec.Images); err != nil {
				return err
			}
		}
	}
	p := newPlacer(reaches)
	for i, reach := range placed {
		reach.placements = newPlacements()
		for _, at := range reach.places {
			p.add(int64(i), at)
		}
	}
	running, err := readRunningPlaces(tx, nil)
	if err != nil {
		return err
	}
	all := p.placeAll(running)
	for row := range all.images {
		placed[row.Reach].placements.images[row] = true
	}
	for row := range all.namespaces {
		placed[row.Reach].placements.namespaces[row] = true
	}
	for row := range all.workloads {
		placed[row.Reach].placements.workloads[row] = true
	}
	return nil
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
func (p *decisionPlan) boundReaches(tx *gorm.DB, bounds matchBounds) error {
	added, err := matchReaches(tx, p.begin)
	if err != nil || len(added) == 0 {
		return err
	}
	var reached int
	// Reaches that join others have their own bound, see boundJoined: they take no room from decisions that begin.
	const single = " x WHERE NOT EXISTS (SELECT 1 FROM placed_reaches q WHERE q.reach = x.reach AND q.members <> ''))"
	err = tx.Raw("SELECT (SELECT COUNT(*) FROM reached" + single + " + (SELECT COUNT(*) FROM reached_namespaces" + single +
		" + (SELECT COUNT(*) FROM reached_workloads" + single).Scan(&reached).Error
	if err != nil {
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
		if added[digest].placed {
			images = added[digest].placements.rows()
		}
		if !counted[digest] {
			counted[digest] = true
			if refused[digest] = reached+images > bounds.images; !refused[digest] {
				reached += images
			}
		}
		switch {
		case refused[digest] && n.reach.placed:
			p.refuse(n, store.DecisionProblem{Reason: store.DecisionTooBroad, Message: fmt.Sprintf(
				"%d images run where it applies, each counted in each namespace and workload; the maximum for all decisions is %d; select fewer places",
				images, bounds.images)})
		case refused[digest]:
			p.refuse(n, store.DecisionProblem{Reason: store.DecisionTooBroad, Message: fmt.Sprintf(
				"its image patterns match %d images; the maximum for all decisions with image patterns is %d; use patterns that match fewer images, or the same ones",
				images, bounds.images)})
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
	if err := t.Insert("reached", []string{"reach", "image_pk"}, rows, ""); err != nil {
		return err
	}
	return t.keepPlaces(plan, used)
}

// keepPlaces writes the places of new reaches, and of those that have others now.
func (t *txn) keepPlaces(plan *decisionPlan, used map[string]*newReach) error {
	changed, added := map[int64]*newReach{}, newPlacements()
	for digest, reach := range used {
		if reach != nil && reach.placed {
			changed[plan.numbers[digest]] = reach
			reach.placements.addTo(added, plan.numbers[digest])
		}
	}
	var elsewhere []int64
	for id, reach := range plan.moved {
		changed[id] = reach
		elsewhere = append(elsewhere, id)
	}
	if len(changed) == 0 {
		return nil
	}
	ids := slices.Sorted(maps.Keys(changed))
	err := inParts(elsewhere, func(part []int64) error {
		return errors.Join(t.Execute("DELETE FROM reach_places WHERE reach IN ?", part), t.Execute("DELETE FROM placed_reaches WHERE reach IN ?", part))
	})
	if err != nil {
		return err
	}
	var reaches, places []any
	for _, id := range ids {
		reaches = append(reaches, id, "", changed[id].placesDigest)
		for _, at := range changed[id].places {
			places = append(places, id, at.Namespace, at.Kind, at.Name)
		}
	}
	if err := t.Insert("placed_reaches", []string{"reach", "members", "digest"}, reaches, ""); err != nil {
		return err
	}
	if err := t.Insert("reach_places", []string{"reach", "namespace", "kind", "name"}, places, ""); err != nil {
		return err
	}
	if err := t.replacePlacements(newPlacements(), added); err != nil {
		return err
	}
	if len(elsewhere) > 0 {
		var joined []struct {
			Reach   int64
			Members string
		}
		if err := t.Raw("SELECT reach, members FROM placed_reaches WHERE members <> '' ORDER BY reach").Scan(&joined).Error; err != nil {
			return err
		}
		for _, row := range joined {
			members, err := numbersOf(row.Members)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(members, func(id int64) bool { return plan.moved[id] != nil }) {
				elsewhere = append(elsewhere, row.Reach)
			}
		}
	}
	return inParts(elsewhere, func(part []int64) error { return t.placeReaches(part, nil) })
}

// placedReaches are the reaches of decisions that have places.
func placedReaches(tx *gorm.DB) (map[int64]bool, error) {
	placed := map[int64]bool{}
	err := eachRow(tx.Table("placed_reaches AS q").Select("q.reach").Where("q.members = ''"), func(scan func(...any) error) error {
		var id int64
		err := scan(&id)
		placed[id] = true
		return err
	})
	return placed, err
}

// joinReaches makes one reach of each of these lists of reaches with places, in order and separated by commas, and returns their numbers.
func (t *txn) joinReaches(lists []string) (map[string]int64, error) {
	slices.Sort(lists)
	specs, digests := map[string]string{}, map[string]string{}
	for _, list := range slices.Compact(lists) {
		content, err := json.Marshal(reachSpec{Members: list})
		if err != nil {
			return nil, err
		}
		specs[list], digests[list] = string(content), contentDigest(string(content))
	}
	known, err := knownReaches(t.DB, slices.Sorted(maps.Values(digests)))
	if err != nil {
		return nil, err
	}
	var missing []string
	var values []any
	for _, list := range slices.Sorted(maps.Keys(specs)) {
		if known[digests[list]] == 0 {
			missing = append(missing, list)
			values = append(values, digests[list], specs[list])
		}
	}
	if len(missing) > 0 {
		if err := t.Insert("reaches", []string{"digest", "spec"}, values, ""); err != nil {
			return nil, err
		}
		if known, err = knownReaches(t.DB, slices.Sorted(maps.Values(digests))); err != nil {
			return nil, err
		}
		var joined []any
		var ids []int64
		for _, list := range missing {
			joined = append(joined, known[digests[list]], list, "")
			ids = append(ids, known[digests[list]])
		}
		if err := t.Insert("placed_reaches", []string{"reach", "members", "digest"}, joined, ""); err != nil {
			return nil, err
		}
		err := inParts(ids, func(part []int64) error { return t.placeReaches(part, nil) })
		if err != nil {
			return nil, err
		}
	}
	numbers := make(map[string]int64, len(specs))
	for list := range specs {
		numbers[list] = known[digests[list]]
	}
	return numbers, nil
}

// joinedReaches has the reaches that others join.
type joinedReaches map[int64][]int64

// readJoinedReaches reads the reaches that join others.
func readJoinedReaches(tx *gorm.DB) (joinedReaches, error) {
	joined := joinedReaches{}
	err := eachRow(tx.Table("placed_reaches AS q").Select("q.reach, q.members").Where("q.members <> ''"), func(scan func(...any) error) error {
		var reach int64
		var members string
		err := scan(&reach, &members)
		if err == nil {
			joined[reach], err = numbersOf(members)
		}
		return err
	})
	return joined, err
}

// split returns the reaches of a set, each once: those that are joined in place of those that join them.
func (j joinedReaches) split(set reachSet) ([]int64, error) {
	numbers, err := numbersOf(string(set))
	var all []int64
	for _, reach := range numbers {
		if members := j[reach]; members != nil {
			all = append(all, members...)
		} else {
			all = append(all, reach)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), err
}

// reachImages notes in which reaches images are that have just become known.
func (t *txn) reachImages(imageIDs []string) error {
	var reaches []storedReach
	if err := t.Raw("SELECT id, spec FROM reaches WHERE id NOT IN (SELECT q.reach FROM placed_reaches q) ORDER BY id").Scan(&reaches).Error; err != nil || len(reaches) == 0 {
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

// dropReaches deletes the reaches of which no decision is any more, and in which no finding was suppressed that was closed lately.
func (t *txn) dropReaches() error {
	var unused []int64
	err := t.Raw(`SELECT r.id FROM reaches r LEFT JOIN placed_reaches q ON q.reach = r.id WHERE r.id NOT IN (SELECT d.reach FROM decisions d WHERE d.until_time = ?)
		AND (COALESCE(q.members, '') = '' OR NOT EXISTS (SELECT 1 FROM finding_suppressions fs WHERE fs.reach = r.id))
		AND NOT EXISTS (SELECT 1 FROM closed_suppressions cs WHERE cs.reach = r.id)`, int64(stillOpen)).Scan(&unused).Error
	if err != nil {
		return err
	}
	return inParts(unused, func(part []int64) error { return t.Execute("DELETE FROM reaches WHERE id IN ?", part) })
}
