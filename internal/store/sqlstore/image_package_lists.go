package sqlstore

import (
	"cmp"
	"iter"
	"maps"
	"math/bits"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// image_package_lists has what an image holds as one text, so that the packages of some hundred images are some hundred rows. A row refers to one of the rows of
// image_packages, and all of an image are deleted before others take their place: a list is gone whenever a process of any version changes what it follows from.
// Images without a list are read from image_packages.

// savePackageList writes the list of an image without one, as packageAndExcluded has it.
func savePackageList(tx *txn, image int64, list []int64) error {
	if len(list) == 0 {
		return nil
	}
	slices.Sort(list)
	return tx.Insert("image_package_lists", []string{"image_pk", "package_pk", "packages"}, []any{image, list[0] / 2, sqldb.JoinNumbers(list)}, "")
}

// savePackageLists writes the lists of images without one, whose packages a process of an earlier version has written.
func (t *txn) savePackageLists(images []int64) error {
	held := t.Table("image_packages AS ip").Where("ip.image_pk IN ? AND NOT EXISTS (SELECT 1 FROM image_package_lists l WHERE l.image_pk = ip.image_pk)", images)
	return t.Execute("INSERT INTO image_package_lists (image_pk, package_pk, packages) ?",
		held.Select("ip.image_pk, MIN(ip.package_pk), "+t.Dialect.List(packageAndExcluded)).Group("ip.image_pk"))
}

// packageAndExcluded is a package in a list, and whether the image excludes it.
const packageAndExcluded = "ip.package_pk * 2 + ip.excluded"

// included are the packages of a list, as packageAndExcluded has them, that an image does not exclude. It changes the list.
func included(list []int64) []int64 {
	kept := list[:0]
	for _, one := range list {
		if one%2 == 0 {
			kept = append(kept, one/2)
		}
	}
	return kept
}

// eachPackageList calls visit for images that hold packages with a packageAndExcluded for each of these.
func eachPackageList(tx *gorm.DB, d sqldb.Dialect, images []int64, visit func(image int64, list []int64)) error {
	return eachPackageText(tx, d, images, func(image int64, text string) error {
		list, err := numbersOf(text)
		if err == nil {
			visit(image, list)
		}
		return err
	})
}

// eachPackageText is eachPackageList with the lists as texts.
func eachPackageText(tx *gorm.DB, d sqldb.Dialect, images []int64, visit func(image int64, text string) error) error {
	if len(images) == 0 {
		return nil
	}
	without := make(map[int64]bool, len(images))
	for _, image := range images {
		without[image] = true
	}
	read := func(rows *gorm.DB) error {
		return eachRow(rows, func(scan func(...any) error) error {
			var image int64
			var text string
			if err := scan(&image, &text); err != nil || !without[image] {
				return err
			}
			delete(without, image)
			return visit(image, text)
		})
	}
	lists := tx.Table("image_package_lists").Select("image_pk, packages").Session(&gorm.Session{})
	var err error
	if first, last := slices.Min(images), slices.Max(images); last-first < 2*int64(len(images)) {
		err = read(lists.Where("image_pk BETWEEN ? AND ?", first, last))
	} else {
		err = inParts(images, func(part []int64) error { return read(lists.Where("image_pk IN ?", part)) })
	}
	if err != nil {
		return err
	}
	return inParts(slices.Sorted(maps.Keys(without)), func(part []int64) error {
		held := tx.Table("image_packages AS ip").Where("ip.image_pk IN ?", part)
		var visited error
		err := eachList(held, d, "ip.image_pk", packageAndExcluded, func(image int64, list []int64) {
			if visited == nil {
				visited = visit(image, sqldb.JoinNumbers(list))
			}
		})
		return cmp.Or(err, visited)
	})
}

// someImages are images that a query chooses.
type someImages struct {
	// ids are all of them, in order. matchedAt is when they were matched, 0 of those that are not.
	ids       []int64
	matchedAt map[int64]int64
	// rows is how many rows of what selected them each has: of visible images, in how many of the namespaces it is visible.
	rows map[int64]int
}

// readImages reads the images that are selected as c.image_pk, nil if these are too many.
func readImages(tx, chosen *gorm.DB) (*someImages, error) {
	rows := map[int64]int{}
	err := eachRow(chosen.Select("c.image_pk, COUNT(*)").Group("c.image_pk").Limit(allUses+1), func(scan func(...any) error) error {
		var id int64
		var count int
		err := scan(&id, &count)
		rows[id] = count
		return err
	})
	if err != nil || len(rows) > allUses {
		return nil, err
	}
	ids := slices.Sorted(maps.Keys(rows))
	images := &someImages{ids: ids, rows: rows, matchedAt: make(map[int64]int64, len(ids))}
	return images, inParts(ids, func(part []int64) error {
		return eachRow(tx.Table("images AS i").Select("i.id, i.matched_at").Where("i.id IN ?", part), func(scan func(...any) error) error {
			var id, at int64
			err := scan(&id, &at)
			images.matchedAt[id] = at
			return err
		})
	})
}

// places is how many of the namespaces the images are visible in, if all visible ones were chosen; nil if that is not known.
func (s *someImages) places(chosen place) map[int64]int {
	if s == nil || chosen.Where != (store.Where{}) {
		return nil
	}
	return s.rows
}

// all are the images, nil if they are not known.
func (s *someImages) all() []int64 {
	if s == nil {
		return nil
	}
	return s.ids
}

// isMatched reports whether an image is one of these and matched.
func (s *someImages) isMatched(id int64) bool { return s.matchedAt[id] > 0 }

// matched are those that are matched.
func (s *someImages) matched() []int64 {
	return slices.DeleteFunc(slices.Clone(s.ids), func(id int64) bool { return !s.isMatched(id) })
}

// keptNumbers is how many numbers of packages heldSets keep by image.
const keptNumbers = 500_000

// heldSets are the packages that some images hold.
type heldSets struct {
	// held has all packages, counted those that an image holds in which they count.
	held, counted numberSet
	// lists has what each image holds, as eachPackageList has it; nil if that is too much.
	lists map[int64][]int64
	// counts reports whether the packages of an image count.
	counts func(image int64) bool
}

// holders lists the images that hold each of some packages and in which these count, of those that any such image holds. lists has to be known.
func (h *heldSets) holders(packages iter.Seq[int64]) map[int64][]int64 {
	return holdersIn(h.lists, packages, h.counts)
}

// holdersIn lists the images that hold each of some packages and do not exclude it, in no order, of lists as eachPackageList has them. Those that do not count are left out; nil
// counts all.
func holdersIn(lists map[int64][]int64, packages iter.Seq[int64], counts func(image int64) bool) map[int64][]int64 {
	var asked numberSet
	for id := range packages {
		asked.add(id)
	}
	holders := map[int64][]int64{}
	for image, list := range lists {
		if counts != nil && !counts(image) {
			continue
		}
		for _, one := range list {
			if one%2 == 0 && asked.has(one/2) {
				holders[one/2] = append(holders[one/2], image)
			}
		}
	}
	return holders
}

// readHeld reads which packages images hold. counts is that of the sets.
func (s *Store) readHeld(tx *gorm.DB, images []int64, counts func(image int64) bool) (*heldSets, error) {
	h, number := &heldSets{lists: make(map[int64][]int64, len(images)), counts: counts}, 0
	err := eachPackageList(tx, s.db.Dialect(), images, func(image int64, list []int64) {
		count := counts(image)
		for _, one := range list {
			h.held.add(one / 2)
			if count && one%2 == 0 {
				h.counted.add(one / 2)
			}
		}
		if number += len(list); number > s.keptNumbers {
			h.lists = nil
		} else {
			h.lists[image] = list
		}
	})
	return h, err
}

// numberSet is a set of numbers from 0 on, of which many are close to each other.
type numberSet struct {
	blocks map[int64]*[blockWords]uint64
	last   *[blockWords]uint64
	at     int64
	number int
}

// blockWords is the number of words of a block of a numberSet.
const blockWords = 8

// add adds a number.
func (s *numberSet) add(n int64) {
	block := s.block(n)
	if block == nil {
		if s.blocks == nil {
			s.blocks = map[int64]*[blockWords]uint64{}
		}
		block = new([blockWords]uint64)
		s.at, s.last = n/(64*blockWords), block
		s.blocks[s.at] = block
	}
	word, bit := &block[n/64%blockWords], uint64(1)<<(n%64)
	if *word&bit == 0 {
		*word |= bit
		s.number++
	}
}

// has reports whether a number is in the set.
func (s *numberSet) has(n int64) bool {
	block := s.block(n)
	return block != nil && block[n/64%blockWords]>>(n%64)&1 == 1
}

// block is that of a number, nil if there is none.
func (s *numberSet) block(n int64) *[blockWords]uint64 {
	if at := n / (64 * blockWords); s.last == nil || s.at != at {
		s.at, s.last = at, s.blocks[at]
	}
	return s.last
}

// sorted lists the numbers that are chosen, in order; nil chooses all.
func (s *numberSet) sorted(chosen func(n int64) bool) []int64 {
	var list []int64
	for at, block := range s.blocks {
		for i, word := range block {
			for ; word != 0; word &= word - 1 {
				if n := (at*blockWords+int64(i))*64 + int64(bits.TrailingZeros64(word)); chosen == nil || chosen(n) {
					list = append(list, n)
				}
			}
		}
	}
	slices.Sort(list)
	return list
}
