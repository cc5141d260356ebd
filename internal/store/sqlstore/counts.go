package sqlstore

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// countsDelta is what is added to the columns of countColumns.
type countsDelta [8]int

// add counts a finding as often as times says.
func (d *countsDelta) add(severity, kev, fixable int64, times int) {
	column := len(model.Severities()) - 1 - int(severity) // countColumns begins with the severities, worst first.
	d[min(max(column, 0), len(model.Severities())-1)] += times
	d[6] += int(kev) * times
	d[7] += int(fixable) * times
}

// plus adds another one.
func (d *countsDelta) plus(o *countsDelta) {
	for i, n := range o {
		d[i] += n
	}
}

func (r *countsRow) columns() []*int {
	return []*int{&r.Critical, &r.High, &r.Medium, &r.Low, &r.Negligible, &r.Unknown, &r.Kev, &r.Fixable}
}

func (r *countsRow) add(d countsDelta) {
	for i, column := range r.columns() {
		*column += d[i]
	}
}

// since is what has to be added to other counts for these.
func (r *countsRow) since(before *countsRow) countsDelta {
	var d countsDelta
	was := before.columns()
	for i, column := range r.columns() {
		d[i] = *column - *was[i]
	}
	return d
}

// minus is what remains without another one.
func (d countsDelta) minus(o countsDelta) countsDelta {
	for i, n := range o {
		d[i] -= n
	}
	return d
}

// addToImages adds to the counts of the matched images that hold packages and do not exclude them, unless the findings are suppressed there. deltas
// are by package. The images in which they are suppressed are given to noteReachedFixes.
func (t *txn) addToImages(deltas map[int64]setDeltas) error {
	var sets []reachSet
	for _, bySet := range deltas {
		for set := range bySet {
			sets = append(sets, set)
		}
	}
	suppressed, err := readCovers(t.DB, seen{}, sets)
	if err != nil {
		return err
	}
	places, err := readReachedPlaces(t.DB, sets)
	if err != nil {
		return err
	}
	images, reached := map[int64]countsDelta{}, reachedDeltas{}
	suppressing := map[int64]bool{}
	err = inParts(slices.Sorted(maps.Keys(deltas)), func(part []int64) error {
		var matched []int64 // A list that is not empty would keep its values if there were none.
		err := t.Raw("SELECT package_pk FROM held_packages WHERE package_pk IN ? AND level = ? ORDER BY package_pk", part, heldMatched).Scan(&matched).Error
		if err != nil || len(matched) == 0 {
			return err
		}
		holders := t.Table("image_packages AS ip").Where("ip.package_pk IN ? AND ip.excluded = 0", matched)
		return eachList(holders, t.Dialect, "ip.package_pk", "ip.image_pk", func(id int64, list []int64) {
			for set, delta := range deltas[id] {
				for _, image := range list {
					reached.add(places, suppressed, set, image, &delta)
					if suppressed.has(set, image) {
						suppressing[image] = true
						continue
					}
					sum := images[image]
					sum.plus(&delta)
					images[image] = sum
				}
			}
		})
	})
	if err != nil {
		return err
	}
	t.noteReachedFixes(nil, slices.Collect(maps.Keys(suppressing)))
	if err := t.addToReached(reached); err != nil {
		return err
	}
	return inParts(slices.Sorted(maps.Keys(images)), func(part []int64) error {
		var matched []int64
		if err := t.Raw("SELECT id FROM images WHERE matched_at > 0 AND id IN ? ORDER BY id", part).Scan(&matched).Error; err != nil {
			return err
		}
		return t.addCounts(matched, images)
	})
}

// addCounts adds to the counts of images.
func (t *txn) addCounts(images []int64, deltas map[int64]countsDelta) error {
	return t.addTo("images", "id", images, deltas)
}

// addTo adds to the counts of many rows in one statement, since every one of them is a way to the server while all others
// that write wait. The numbers are ours, so they stand in its text.
func (t *txn) addTo(table, key string, rows []int64, deltas map[int64]countsDelta) error {
	var ids []int64
	cases := make([]strings.Builder, len(countColumns))
	for _, id := range rows {
		delta := deltas[id]
		if delta != (countsDelta{}) {
			ids = append(ids, id)
		}
		for column, n := range delta {
			if n != 0 {
				fmt.Fprintf(&cases[column], " WHEN %d THEN %d", id, n)
			}
		}
	}
	var assignments []string
	for column, name := range countColumns {
		if cases[column].Len() > 0 {
			assignments = append(assignments, name+" = "+name+" + CASE "+key+cases[column].String()+" ELSE 0 END")
		}
	}
	if len(assignments) == 0 {
		return nil
	}
	return t.Execute("UPDATE "+table+" SET "+strings.Join(assignments, ", ")+" WHERE "+key+" IN ?", ids)
}
