package sqlstore

import (
	"fmt"
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/decision"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// listedBases is the list of base images of the administrator. The zero value is an empty list.
type listedBases struct {
	patterns []string
	// each has a matcher for each pattern, any is the one of all patterns, nil for an empty list.
	each []*decision.ImageMatcher
	any  *decision.ImageMatcher
}

func newListedBases(patterns []string) (listedBases, error) {
	var l listedBases
	if len(patterns) == 0 {
		return l, nil
	}
	if len(patterns) > store.MaxListedBases {
		return l, fmt.Errorf("the list of base images has %d entries: use at most %d", len(patterns), store.MaxListedBases)
	}
	for _, pattern := range patterns {
		matcher, err := decision.NewImageMatcher([]string{pattern})
		if err != nil {
			return listedBases{}, fmt.Errorf("the list of base images: %w", err)
		}
		l.patterns, l.each = append(l.patterns, pattern), append(l.each, matcher)
	}
	var err error
	l.any, err = decision.NewImageMatcher(patterns)
	return l, err
}

// of reads the listed base of an image: the highest of its layers, but for its highest one, that is the highest of a visible image in the list. It is nil if
// there is none.
func (l *listedBases) of(tx *gorm.DB, in store.Namespaces, image int64) (*foundBase, error) {
	if l.any == nil {
		return nil, nil
	}
	below := tx.Table("image_layers AS l").Joins("CROSS JOIN image_layers b").Joins("CROSS JOIN images k").Joins("LEFT JOIN sbom_creations a ON a.image_pk = k.id").
		Where("l.image_pk = ? AND l.is_top = 0 AND b.chain_id = l.chain_id AND b.position = l.position AND b.is_top = 1 AND k.id = b.image_pk", image)
	below = visibleOnly(tx, below, "k.id", in).Select("l.position, l.chain_id, k.id, k.image_id, k.platform").
		Order("l.position DESC, " + createdOrLast + ", k.image_id, k.platform")
	var found *foundBase
	err := eachRow(below, func(scan func(...any) error) error {
		row := foundBase{Listed: true}
		if err := scan(&row.Position, &row.ChainID, &row.ImagePk, &row.ImageID, &row.Platform); err != nil {
			return err
		}
		if candidate := decision.ImageOf(row.ImageID); !l.any.Matches(&candidate) {
			return nil
		}
		found = &row
		return errEnough
	})
	return found, err
}

// knownBases is what the list of base images comes to among visible images.
type knownBases struct {
	entries []store.ListedBase
	// images are the numbers of the images in the list that others were built on, for a condition with IN; "" if there is none. They are too many to be
	// given as values.
	images string
}

// known reads which visible images are in the list.
func (l *listedBases) known(tx *gorm.DB, in store.Namespaces) (knownBases, error) {
	if l.any == nil {
		return knownBases{}, nil
	}
	known := knownBases{entries: make([]store.ListedBase, len(l.patterns))}
	for i, pattern := range l.patterns {
		known.entries[i].Pattern = pattern
	}
	index, matching := decision.NewImageIndex(l.each), map[int64][]int{}
	err := eachRow(visibleOnly(tx, tx.Table("images AS k").Select("k.id, k.image_id"), "k.id", in), func(scan func(...any) error) error {
		var id int64
		var imageID string
		if err := scan(&id, &imageID); err != nil {
			return err
		}
		if patterns := index.Matching(imageID); len(patterns) > 0 {
			matching[id] = patterns
		}
		return nil
	})
	if err != nil {
		return knownBases{}, err
	}
	const builtOn = "CASE WHEN EXISTS (SELECT 1 FROM image_layers x WHERE x.chain_id = t.chain_id AND x.position = t.position AND x.is_top = 0) THEN 1 ELSE 0 END"
	var numbers []int64
	err = inParts(slices.Sorted(maps.Keys(matching)), func(part []int64) error {
		tops := tx.Table("image_layers AS t").Where("t.is_top = 1 AND t.image_pk IN ?", part).Select("t.image_pk, " + builtOn)
		return eachRow(tops, func(scan func(...any) error) error {
			var id int64
			var isBase bool
			if err := scan(&id, &isBase); err != nil {
				return err
			}
			for _, i := range matching[id] {
				known.entries[i].Images++
			}
			if isBase {
				numbers = append(numbers, id)
			}
			return nil
		})
	})
	slices.Sort(numbers)
	known.images = sqldb.JoinNumbers(numbers)
	if !in.All() { // The others can name what the user may not see.
		known.entries = slices.DeleteFunc(known.entries, func(entry store.ListedBase) bool { return entry.Images == 0 })
	}
	return known, err
}
