package vulndb

import (
	"math/bits"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// digests holds, for each key, a digest of the records behind it in each of two databases. The order of the records under
// a key counts, as it does for Grype: the first of two records about one vulnerability gives its description. What number a
// record has does not count.
type digests struct {
	index     map[model.SearchKey]uint32
	pairs     [][2]uint64
	redirects []redirect
}

// redirect says that a query for one key is answered with the records of another one.
type redirect struct{ from, to uint32 }

// nowhere is the place of what no key leads to: what a row that does not exist would be found by.
const nowhere uint32 = 0

func newDigests() *digests {
	return &digests{index: map[model.SearchKey]uint32{}, pairs: make([][2]uint64, nowhere+1)}
}

// at is the place of a key.
func (d *digests) at(key model.SearchKey) uint32 {
	place, known := d.index[key]
	if !known {
		place = uint32(len(d.pairs))
		d.index[key] = place
		d.pairs = append(d.pairs, [2]uint64{})
	}
	return place
}

// add notes a record of the database of a side at a place.
func (d *digests) add(side int, place uint32, record uint64) {
	d.pairs[place][side] = mix(d.pairs[place][side], record)
}

// collect adds the keys whose digests differ to a set, and with them those that redirect to them. It returns how many there are
// besides the key that stands for all.
func (d *digests) collect(into map[model.SearchKey]struct{}, all model.SearchKey) int {
	changed := func(place uint32) bool { return d.pairs[place][0] != d.pairs[place][1] }
	// One step is enough: Grype follows one name to another, but not further.
	redirected := map[uint32]bool{}
	for _, l := range d.redirects {
		if changed(l.to) {
			redirected[l.from] = true
		}
	}
	count := 0
	for key, place := range d.index {
		if !changed(place) && !redirected[place] {
			continue
		}
		into[key] = struct{}{}
		if key != all {
			count++
		}
	}
	return count
}

// mix adds a value to a digest; the order of values counts. For a fixed digest different values give different results,
// and the other way round.
func mix(digest, value uint64) uint64 {
	const odd = 0x9E3779B97F4A7C15
	return (bits.RotateLeft64(digest, 29) ^ value) * odd
}

func mixAll(values ...uint64) uint64 {
	digest := uint64(len(values))
	for _, v := range values {
		digest = mix(digest, v)
	}
	return digest
}

// hashFields is the digest of some columns of a row.
func hashFields(row []field) uint64 {
	digest := uint64(len(row))
	for i := range row {
		digest = mix(digest, row[i].hash())
	}
	return digest
}

// byID holds a value for each row of a table. Builders of databases number rows one after the other, and such rows take no
// more than their value. Others are kept in a map, so that no number asks for memory that its row is not worth.
type byID[T any] struct {
	dense  []T
	others map[int64]T
}

func (t *byID[T]) set(id int64, value T) {
	// Numbers may be left out, but not more than a few at once.
	const gap = 1024
	next := int64(len(t.dense))
	if id < 0 || id > next+gap {
		if t.others == nil {
			t.others = map[int64]T{}
		}
		t.others[id] = value
		return
	}
	for ; next <= id; next++ {
		var none T
		t.dense = append(t.dense, none)
	}
	t.dense[id] = value
}

// get is the value of a row, zero when there is no such row.
func (t *byID[T]) get(id int64) (value T) {
	if id < 0 || id >= int64(len(t.dense)) {
		return t.others[id]
	}
	return t.dense[id]
}
