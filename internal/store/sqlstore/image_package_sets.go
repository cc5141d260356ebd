package sqlstore

import (
	"database/sql"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/bits"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// image_package_sets has what an image holds as one value, so that the packages of some hundred images are some hundred rows. A row refers to one of the rows of
// image_packages, and all of an image are deleted before others take their place: a set is gone whenever a process of any version changes what it follows from.
// Images without a set are read from image_packages.

// packageSetColumns are the columns of image_package_sets.
var packageSetColumns = []string{"image_pk", "package_pk", "packages"}

// savePackageSet writes the set of an image without one, of a list as packageAndExcluded has it. It sorts the list.
func savePackageSet(tx *txn, image int64, list []int64) error {
	return tx.Insert("image_package_sets", packageSetColumns, packageSetValues(image, list), "")
}

// packageSetValues are the values of the set of an image, none if it holds nothing. It sorts the list.
func packageSetValues(image int64, list []int64) []any {
	if len(list) == 0 {
		return nil
	}
	slices.Sort(list)
	return []any{image, list[0] / 2, packNumbers(list)}
}

// savePackageSets writes the sets of images without one, whose packages a process of an earlier version has written.
func (t *txn) savePackageSets(images []int64) error {
	held := t.Table("image_packages AS ip").Where("ip.image_pk IN ? AND NOT EXISTS (SELECT 1 FROM image_package_sets s WHERE s.image_pk = ip.image_pk)", images)
	var values []any
	err := eachList(held, t.Dialect, "ip.image_pk", packageAndExcluded, func(image int64, list []int64) {
		values = append(values, packageSetValues(image, list)...)
	})
	if err != nil {
		return err
	}
	return t.Insert("image_package_sets", packageSetColumns, values, "")
}

// packNumbers encodes numbers from 0 on in ascending order: each as its difference to the previous one, as a varint.
func packNumbers(sorted []int64) []byte {
	packed := make([]byte, 0, 2*len(sorted))
	last := int64(0)
	for _, n := range sorted {
		packed = binary.AppendUvarint(packed, uint64(n-last)) //nolint:gosec // It is not negative.
		last = n
	}
	return packed
}

// unpackNumbers appends the numbers that packNumbers encoded to a list.
func unpackNumbers(list []int64, packed []byte) ([]int64, error) {
	last := int64(0)
	for len(packed) > 0 {
		difference, size := uint64(packed[0]), 1
		if difference >= 0x80 {
			difference, size = binary.Uvarint(packed)
		}
		if size <= 0 || difference > uint64(math.MaxInt64-last) { //nolint:gosec // It is not negative.
			return list, fmt.Errorf("a set in the database is damaged after %d numbers, at %x", len(list), packed[:min(len(packed), binary.MaxVarintLen64)])
		}
		last += int64(difference) //nolint:gosec // It is less than the bound.
		list, packed = append(list, last), packed[size:]
	}
	return list, nil
}

// packageAndExcluded is a package in a list, and whether the image excludes it.
const packageAndExcluded = "ip.package_pk * 2 + ip.excluded"

// included are the packages of a list, as packageAndExcluded has them, that an image does not exclude.
func included(list []int64) []int64 {
	kept := make([]int64, 0, len(list))
	for _, one := range list {
		if one%2 == 0 {
			kept = append(kept, one/2)
		}
	}
	return kept
}

// eachPackageList calls visit for images that hold packages with a packageAndExcluded for each of these. The list may not be kept.
func eachPackageList(tx *gorm.DB, d sqldb.Dialect, images []int64, visit func(image int64, list []int64)) error {
	if len(images) == 0 {
		return nil
	}
	without := make(map[int64]bool, len(images))
	for _, image := range images {
		without[image] = true
	}
	var list []int64
	read := func(rows *gorm.DB) error {
		return eachRow(rows, func(scan func(...any) error) error {
			var image int64
			var packed sql.RawBytes
			if err := scan(&image, &packed); err != nil || !without[image] {
				return err
			}
			delete(without, image)
			var err error
			if list, err = unpackNumbers(list[:0], packed); err != nil {
				return fmt.Errorf("what image %d holds: %w", image, err)
			}
			visit(image, list)
			return nil
		})
	}
	sets := tx.Table("image_package_sets").Select("image_pk, packages").Session(&gorm.Session{})
	var err error
	if first, last := slices.Min(images), slices.Max(images); last-first < 2*int64(len(images)) {
		err = read(sets.Where("image_pk BETWEEN ? AND ?", first, last))
	} else {
		err = inParts(images, func(part []int64) error { return read(sets.Where("image_pk IN ?", part)) })
	}
	if err != nil {
		return err
	}
	return inParts(slices.Sorted(maps.Keys(without)), func(part []int64) error {
		return eachList(tx.Table("image_packages AS ip").Where("ip.image_pk IN ?", part), d, "ip.image_pk", packageAndExcluded, visit)
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
			h.lists[image] = slices.Clone(list)
		}
	})
	return h, err
}

// numberSet is a set of numbers from 0 on, of which many are close to each other.
type numberSet struct {
	blocks map[int64]*numberBlock
	last   *numberBlock
	at     int64
	number int
	// row has the blocks from the first one on, nil where there is none, if find can use it.
	row   []*numberBlock
	first int64
}

// numberBlock has the numbers of a range.
type numberBlock struct {
	words [blockWords]uint64
	// before is how many numbers of the set are less than those of the block; arrange counts them.
	before int
}

// blockWords is the number of words of a block of a numberSet.
const blockWords = 8

// add adds a number.
func (s *numberSet) add(n int64) {
	block := s.block(n)
	if block == nil {
		if s.blocks == nil {
			s.blocks = map[int64]*numberBlock{}
		}
		block = new(numberBlock)
		s.at, s.last = n/(64*blockWords), block
		s.blocks[s.at] = block
	}
	word, bit := &block.words[n/64%blockWords], uint64(1)<<(n%64)
	if *word&bit == 0 {
		*word |= bit
		s.number++
	}
}

// addIncluded adds the packages of a list, as packageAndExcluded has them, that an image does not exclude.
func (s *numberSet) addIncluded(list []int64) {
	for _, one := range list {
		if one%2 == 0 {
			s.add(one / 2)
		}
	}
}

// has reports whether a number is in the set.
func (s *numberSet) has(n int64) bool {
	block := s.block(n)
	return block != nil && block.words[n/64%blockWords]>>(n%64)&1 == 1
}

// maxBlockRow bounds the blocks from the first to the last one of a set that arrange puts in a row.
const maxBlockRow = 1 << 16

// arrange lets find know the order of the numbers, until others are added.
func (s *numberSet) arrange() {
	before, order := 0, slices.Sorted(maps.Keys(s.blocks))
	s.row = nil
	if len(order) > 0 {
		s.first = order[0]
		if last := order[len(order)-1]; last-s.first < maxBlockRow {
			s.row = make([]*numberBlock, last-s.first+1)
		}
	}
	for _, at := range order {
		block := s.blocks[at]
		block.before = before
		for _, word := range block.words {
			before += bits.OnesCount64(word)
		}
		if s.row != nil {
			s.row[at-s.first] = block
		}
	}
}

// find reports whether a number is in the set, and how many numbers of the set are less than it if it is.
func (s *numberSet) find(n int64) (place int, found bool) {
	var block *numberBlock
	if s.row == nil {
		block = s.block(n)
	} else if i := n/(64*blockWords) - s.first; i >= 0 && i < int64(len(s.row)) {
		block = s.row[i]
	}
	at, bit := n/64%blockWords, uint64(1)<<(n%64)
	if block == nil || block.words[at]&bit == 0 {
		return 0, false
	}
	place = block.before + bits.OnesCount64(block.words[at]&(bit-1))
	for _, word := range block.words[:at] {
		place += bits.OnesCount64(word)
	}
	return place, true
}

// block is that of a number, nil if there is none.
func (s *numberSet) block(n int64) *numberBlock {
	if at := n / (64 * blockWords); s.last == nil || s.at != at {
		s.at, s.last = at, s.blocks[at]
	}
	return s.last
}

// sorted lists the numbers that are chosen, in order; nil chooses all.
func (s *numberSet) sorted(chosen func(n int64) bool) []int64 {
	var list []int64
	for at, block := range s.blocks {
		for i, word := range block.words {
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
