package sqlstore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// The bases of images are found among the layers that several images have, which are far fewer than all layers of all images. They are a tree: on a layer are the
// layers that are next in images. Whose base a layer is follows from what is on it, and seldom from the applications of single images.

// maxSharedLayers is the most shared layers among which bases are found here, and up to ten times as many applications of images on them are read. With more, the database
// finds bases, which takes longer. Tests have fewer, and read in both ways.
var maxSharedLayers = 50_000

// fewSharedLayers is how many shared layers are asked for first. Tests have fewer.
var fewSharedLayers = 1000

// layerOf refers to a layer by an image that has it.
type layerOf struct{ ImagePk, Position int64 }

// sharedLayer is a layer, with all below it, that several images have.
type sharedLayer struct {
	at layer
	// first is one of the images, images is how many they are, and ends how many of them have no layers on it.
	first        int64
	images, ends int

	below *sharedLayer
	on    []*sharedLayer
	// listed says that it is the highest one of a listed image, underListed that it or one below it is.
	listed, underListed bool
	parting             parting
	// witnesses are up to three images with layers on it that differ in what is next there and in their application.
	witnesses []witness
	// applications are how many of the images each application has, and ending how many of those that end here, by application. They are read if they are needed.
	applications, ending map[string]int
	// open are the applications of images for which no base was found on it or above.
	open map[string]bool
}

// witness is an image on a layer: the next one, nil unless several images have it, and the application.
type witness struct {
	next        *sharedLayer
	application string
}

// parting says which images with layers on a shared one part there with others, as basesIn has it.
type parting int

const (
	partsNone parting = iota
	partsAll
	// partsSome depends on the applications.
	partsSome
)

// layerTree are the shared layers of some images.
type layerTree struct {
	tx    *gorm.DB
	among amongImages
	all   []*sharedLayer
	at    map[layer]*sharedLayer
}

// readBases reads the bases of the images among which are those that are visible, each once.
func readBases(tx *gorm.DB, in store.Namespaces, known knownBases, among amongImages) ([]layerOf, error) {
	bases, enough, err := (&layerTree{tx: tx, among: among}).read(known, maxSharedLayers)
	if err != nil || enough {
		return bases, err
	}
	err = basesIn(tx, in, known).Scan(&bases).Error
	return bases, err
}

// amongImages adds to rows the condition that a column is one of some images.
type amongImages func(rows *gorm.DB, column string) *gorm.DB

// read reads the bases, each once. It reports false if there are more than most shared layers, or more than ten times as many images on them to be read.
func (t *layerTree) read(known knownBases, most int) (bases []layerOf, enough bool, err error) {
	if err := t.readShared(most); err != nil || len(t.all) > most {
		return nil, false, err
	}
	images := map[int64]bool{}
	for _, l := range t.all {
		images[l.first] = true
	}
	if err := t.follow(slices.Sorted(maps.Keys(images))); err != nil {
		return nil, false, err
	}
	if err := t.readEnds(images); err != nil {
		return nil, false, err
	}
	if err := t.mark(known); err != nil {
		return nil, false, err
	}
	if enough, err = t.readApplications(10 * most); err != nil || !enough {
		return nil, false, err
	}
	for _, l := range t.all {
		if l.findOpen() {
			bases = append(bases, layerOf{l.first, l.at.Position})
		}
	}
	return bases, true, nil
}

// readShared reads the shared layers, the highest ones first, and one more than the bound if there are more. PostgreSQL takes them from an index in order if few are asked for, and
// otherwise counts all layers in a table, which takes twice as long. If there are more, some are read twice.
func (t *layerTree) readShared(most int) error {
	for _, limit := range []int{min(most, fewSharedLayers), most} {
		t.all, t.at = nil, map[layer]*sharedLayer{}
		err := eachRow(t.shared().Limit(limit+1), func(scan func(...any) error) error {
			l := &sharedLayer{}
			err := scan(&l.at.ChainID, &l.at.Position, &l.first, &l.images)
			t.all, t.at[l.at] = append(t.all, l), l
			return err
		})
		if err != nil {
			return err
		}
		if len(t.all) <= limit {
			break
		}
	}
	slices.SortFunc(t.all, func(a, b *sharedLayer) int { return cmp.Compare(b.at.Position, a.at.Position) })
	return nil
}

// shared selects the layers that several of the images have, with one of the images. SQLite takes any if it is not told which, a quarter faster.
func (t *layerTree) shared() *gorm.DB {
	first := "MIN(l.image_pk)"
	if t.tx.Name() == sqldb.TypeSQLite {
		first = "l.image_pk"
	}
	return t.among(t.tx.Table("image_layers AS l"), "l.image_pk").Select("l.chain_id, l.position, " + first + ", COUNT(*)").
		Group("l.chain_id, l.position").Having("COUNT(*) > 1")
}

// follow reads the layers of images in order, to tell what is below shared ones, and what is on them in these images.
func (t *layerTree) follow(images []int64) error {
	return inParts(images, func(part []int64) error {
		var image int64
		var last *sharedLayer // Of the same image.
		return eachRow(t.tx.Table("image_layers AS l").Select("l.image_pk, l.chain_id, l.position, l.application").Where("l.image_pk IN ?", part).Order("l.image_pk, l.position"),
			func(scan func(...any) error) error {
				var id int64
				var at layer
				var application string
				if err := scan(&id, &at.ChainID, &at.Position, &application); err != nil {
					return err
				}
				l := t.at[at]
				if id == image && last != nil {
					if l != nil && l.below == nil {
						l.below = last
						last.on = append(last.on, l)
					}
					last.note(witness{l, application})
				}
				image, last = id, l
				return nil
			})
	})
}

// readEnds reads how many images end on layers, and what is on them in another image than in those that were followed, unless several images have each layer that is next.
func (t *layerTree) readEnds(followed map[int64]bool) error {
	chains, last := map[string]bool{}, map[int64]bool{}
	for _, l := range t.all {
		if l.single() > 0 {
			chains[l.at.ChainID] = true
		}
	}
	err := inParts(slices.Sorted(maps.Keys(chains)), func(part []string) error {
		return eachRow(t.ends(part), func(scan func(...any) error) error {
			var at layer
			var image int64
			var ends int
			if err := scan(&at.ChainID, &at.Position, &image, &ends); err != nil {
				return err
			}
			if l := t.at[at]; l != nil {
				l.ends = ends
				last[image] = !followed[image]
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	maps.DeleteFunc(last, func(_ int64, unknown bool) bool { return !unknown })
	return t.follow(slices.Sorted(maps.Keys(last)))
}

// ends selects one of the images with layers that have these chain IDs, and how many of the images end on them.
func (t *layerTree) ends(chains []string) *gorm.DB {
	return t.among(t.tx.Table("image_layers AS l"), "l.image_pk").Where("l.chain_id IN ?", chains).
		Select("l.chain_id, l.position, MAX(l.image_pk), SUM(l.is_top)").Group("l.chain_id, l.position")
}

// mark marks the highest layers of listed images, and finds out at which layers images part.
func (t *layerTree) mark(known knownBases) error {
	var tops []layer
	if known.images != "" {
		err := t.tx.Table("image_layers AS g").Where("g.is_top = 1 AND g.image_pk IN (" + known.images + ")").Distinct("g.chain_id, g.position").Scan(&tops).Error
		if err != nil {
			return err
		}
	}
	for _, top := range tops {
		if l := t.at[top]; l != nil {
			l.listed = true
		}
	}
	for _, l := range slices.Backward(t.all) {
		l.underListed = l.listed || l.below != nil && l.below.underListed
		l.parting = l.parts()
	}
	return nil
}

// single is how many images have a layer on it that no others have.
func (l *sharedLayer) single() int {
	single := l.images - l.ends
	for _, on := range l.on {
		single -= on.images
	}
	return single
}

// parts says which images part at the layer. Those on a listed one have their base at a listed one, whatever they part with above it.
func (l *sharedLayer) parts() parting {
	switch nexts := l.single() + len(l.on); {
	case l.listed:
		return partsAll
	case l.underListed:
		return partsNone
	case l.ends > 0:
		return partsAll
	case nexts < 2:
		return partsNone
	case l.witnessed():
		return partsAll
	}
	return partsSome
}

// note notes an image on the layer if it differs from the witnesses.
func (l *sharedLayer) note(w witness) {
	same := func(o witness) bool { return o.application == w.application || o.next != nil && o.next == w.next }
	if len(l.witnesses) < 3 && !slices.ContainsFunc(l.witnesses, same) {
		l.witnesses = append(l.witnesses, w)
	}
}

// witnessed reports whether the witnesses show that each image on the layer parts there with one of them. It does if it has another next layer and another application. Of
// three images that differ from each other in both, each image differs from one at least in both; of two, if no others have their next layers.
func (l *sharedLayer) witnessed() bool {
	single := 0
	for _, w := range l.witnesses {
		if w.next == nil {
			single++
		}
	}
	return len(l.witnesses) == 3 || single == 2
}

// readApplications reads the applications of the images on the layers at which only some part. It reports false if these are too many.
func (t *layerTree) readApplications(most int) (bool, error) {
	images, chains := 0, map[string]bool{}
	for _, l := range slices.Backward(t.all) {
		if l.parting == partsSome || l.below != nil && l.below.applications != nil {
			l.applications, l.ending = map[string]int{}, map[string]int{}
			images += l.images
			chains[l.at.ChainID] = true
		}
	}
	if images > most {
		return false, nil
	}
	return true, inParts(slices.Sorted(maps.Keys(chains)), func(part []string) error {
		rows := t.among(t.tx.Table("image_layers AS l"), "l.image_pk").Where("l.chain_id IN ?", part)
		return eachRow(rows.Select("l.chain_id, l.position, l.is_top, l.application"), func(scan func(...any) error) error {
			var at layer
			var isTop int
			var application string
			if err := scan(&at.ChainID, &at.Position, &isTop, &application); err != nil {
				return err
			}
			if l := t.at[at]; l != nil && l.applications != nil {
				l.applications[application]++
				l.ending[application] += isTop
			}
			return nil
		})
	})
}

// findOpen finds out what is open, after that is known of all layers on it, and reports whether it is the base of an image.
func (l *sharedLayer) findOpen() (isBase bool) {
	l.open = map[string]bool{}
	add := func(next *sharedLayer, application string) {
		if l.partsWith(next, application) {
			isBase = true
		} else {
			l.open[application] = true
		}
	}
	single := l.single()
	if l.applications == nil { // Nothing depends on which they are.
		if l.ends > 0 {
			l.open[""] = true
		}
		if single > 0 {
			add(nil, "")
		}
	}
	for application, images := range l.applications {
		if l.ending[application] > 0 {
			l.open[application] = true
		}
		images -= l.ending[application]
		for _, on := range l.on {
			images -= on.applications[application]
		}
		if images > 0 {
			add(nil, application)
		}
	}
	for _, on := range l.on {
		for application := range on.open {
			add(on, application)
		}
		on.open = nil
	}
	return isBase
}

// partsWith reports whether images of an application with a layer on it, nil for one that no others have, part there with another one: with one that has both another layer on
// it and another application.
func (l *sharedLayer) partsWith(next *sharedLayer, application string) bool {
	if l.parting != partsSome {
		return l.parting == partsAll
	}
	others := l.images - l.applications[application]
	if next != nil {
		others -= next.images - next.applications[application]
	}
	return others > 0
}

// inLayers is the condition that row d of image_layers is one of the layers.
func inLayers(layers []layerOf) string {
	images, both := make([]int64, len(layers)), make([]int64, len(layers))
	for i, l := range layers {
		images[i], both[i] = l.ImagePk, l.ImagePk*maxPositions+l.Position
	}
	slices.Sort(images)
	return fmt.Sprintf("d.image_pk IN (%s) AND d.image_pk * %d + d.position IN (%s)", numberList(slices.Compact(images)).SQL, maxPositions, numberList(both).SQL)
}

// maxPositions is more than an image has layers.
const maxPositions = 1 << 16
