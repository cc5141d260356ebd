package sqlstore

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Events about decisions of objects of the cluster are told where these match findings of visible images when the event is written. Lists show the decisions there:
// see Store.matchingDecisions.

// maxDecisionAudience is the most namespaces that the events of a transaction about single decisions name together. The other decisions are counted.
const maxDecisionAudience = 100_000

// audience has the namespaces that an event is told in, as bits by their number: thousands of decisions may match in thousands of namespaces each.
type audience []uint64

// join adds the namespaces of another one.
func (a *audience) join(other audience) {
	a.grow(len(other))
	for i, bits := range other {
		(*a)[i] |= bits
	}
}

// add adds namespaces by their numbers.
func (a *audience) add(namespaces []int) {
	for _, n := range namespaces {
		a.grow(n/64 + 1)
		(*a)[n/64] |= 1 << (n % 64)
	}
}

func (a *audience) grow(words int) {
	if missing := words - len(*a); missing > 0 {
		*a = append(*a, make([]uint64, missing)...)
	}
}

// size is how many namespaces there are.
func (a audience) size() int {
	size := 0
	for _, word := range a {
		size += bits.OnesCount64(word)
	}
	return size
}

// namespaceNumbers has the numbers of namespaces in audiences, from 0 on.
type namespaceNumbers struct {
	numbers map[string]int
	names   []string
}

func (n *namespaceNumbers) of(name string) int {
	number, known := n.numbers[name]
	if !known {
		if n.numbers == nil {
			n.numbers = map[string]int{}
		}
		number = len(n.names)
		n.numbers[name] = number
		n.names = append(n.names, name)
	}
	return number
}

// in returns the namespaces of an audience, in order.
func (n *namespaceNumbers) in(a audience) []string {
	var names []string
	for i, word := range a {
		for ; word != 0; word &= word - 1 {
			names = append(names, n.names[64*i+bits.TrailingZeros64(word)])
		}
	}
	slices.Sort(names)
	return names
}

// addressedEvent is an event about a decision, and who is told it if the object is one of the cluster.
type addressedEvent struct {
	store.DecisionEvent
	audience audience
}

// singleEvents is how many of these events can be about single decisions.
func singleEvents(told []addressedEvent) int {
	named := 0
	for i := range told[:min(len(told), store.MaxDecisionEvents)] {
		if named += told[i].audience.size(); named > maxDecisionAudience {
			return i
		}
	}
	return min(len(told), store.MaxDecisionEvents)
}

// audienceMatch is what is told of a match: a decision or several together, by number, and the reach of the decision that matches.
type audienceMatch struct {
	to    int
	reach int64
}

// audiencesOf returns in which namespaces decisions match findings of visible images, by what is told of them. matched has the findings that they match, keys what is told of
// those that are asked for. It is called while the reaches of all of them exist.
func audiencesOf[K comparable](t *txn, matched map[int64][]int64, keys map[int64]K) (map[K]audience, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	numbers, to := map[K]int{}, make(map[int64]int, len(keys))
	for id, key := range keys {
		if _, known := numbers[key]; !known {
			numbers[key] = len(numbers)
		}
		to[id] = numbers[key]
	}
	told, err := t.audiences(matched, to, len(numbers))
	if err != nil {
		return nil, err
	}
	audiences := make(map[K]audience, len(numbers))
	for key, number := range numbers {
		audiences[key] = told[number]
	}
	return audiences, nil
}

// audiences is audiencesOf for what is told by number, from 0 up to count.
func (t *txn) audiences(matched map[int64][]int64, to map[int64]int, count int) ([]audience, error) {
	reaches, err := t.readDecisionReaches(slices.Sorted(maps.Keys(to)))
	if err != nil {
		return nil, err
	}
	audienceMatches, err := t.audienceMatchesOf(matched, to, reaches)
	if err != nil {
		return nil, err
	}
	unmatched, err := unmatchedImages(t.DB)
	if err != nil {
		return nil, err
	}
	told, namespaces := make([]audience, count), map[int64][]int{}
	return told, inParts(slices.Sorted(maps.Keys(audienceMatches)), func(part []int64) error {
		holders := map[int64][]int64{}
		rows := t.Table("image_packages AS ip").Where("ip.excluded = 0 AND ip.package_pk IN ?", part)
		err := eachList(rows, t.Dialect, "ip.package_pk", "ip.image_pk", func(id int64, images []int64) {
			holders[id] = slices.DeleteFunc(images, func(image int64) bool { return unmatched[image] })
		})
		if err != nil {
			return err
		}
		if err := t.readNamespaces(namespaces, slices.Concat(slices.Collect(maps.Values(holders))...)); err != nil {
			return err
		}
		for id, images := range holders {
			var whole audience
			for _, image := range images {
				whole.add(namespaces[image])
			}
			for _, one := range audienceMatches[id] {
				if one.reach == everywhere {
					told[one.to].join(whole)
					continue
				}
				for _, image := range images {
					told[one.to].add(reaches.in(one.reach, image, namespaces[image]))
				}
			}
		}
		return nil
	})
}

// clusterwide are the decisions of objects of the cluster, each told by itself.
func clusterwide(rows []decisionRow) map[int64]int64 {
	ids := map[int64]int64{}
	for i := range rows {
		if rows[i].Namespace == "" {
			ids[rows[i].ID] = rows[i].ID
		}
	}
	return ids
}

// audienceMatchesOf returns what is told of matches of findings that count now, by package.
func (t *txn) audienceMatchesOf(matched map[int64][]int64, to map[int64]int, reaches *decisionReaches) (map[int64][]audienceMatch, error) {
	current, err := currentNumber(t.DB)
	if err != nil {
		return nil, err
	}
	var findings []int64
	for id := range to {
		findings = append(findings, matched[id]...)
	}
	slices.Sort(findings)
	packages := map[int64]int64{}
	err = inParts(slices.Compact(findings), func(part []int64) error {
		var rows []struct{ ID, PackagePk int64 }
		err := t.Table("findings AS f").Where("f.id IN ?", part).Where(shown, current, current).Select("f.id, f.package_pk").Scan(&rows).Error
		for _, row := range rows {
			packages[row.ID] = row.PackagePk
		}
		return err
	})
	audienceMatches := map[int64][]audienceMatch{}
	for id, number := range to {
		for _, finding := range matched[id] {
			if held, counts := packages[finding]; counts {
				audienceMatches[held] = append(audienceMatches[held], audienceMatch{number, reaches.of[id]})
			}
		}
	}
	for held, all := range audienceMatches {
		slices.SortFunc(all, func(a, b audienceMatch) int { return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.reach, b.reach)) })
		audienceMatches[held] = slices.Compact(all)
	}
	return audienceMatches, err
}

// readNamespaces adds the namespaces in which images are visible, by their numbers.
func (t *txn) readNamespaces(known map[int64][]int, images []int64) error {
	images = slices.DeleteFunc(images, func(image int64) bool { _, found := known[image]; return found })
	slices.Sort(images)
	return inParts(slices.Compact(images), func(part []int64) error {
		for _, image := range part {
			known[image] = nil
		}
		return eachRow(t.Table("image_namespaces AS m").Where("m.image_pk IN ?", part).Select("m.image_pk, m.namespace"), func(scan func(...any) error) error {
			var image int64
			var namespace string
			err := scan(&image, &namespace)
			known[image] = append(known[image], t.namespaces.of(namespace))
			return err
		})
	})
}

// decisionReaches are the reaches of decisions, and the images that they have: in all namespaces, or in some.
type decisionReaches struct {
	of    map[int64]int64
	whole map[imageReach]bool
	some  map[imageReach][]int
}

func (t *txn) readDecisionReaches(decisions []int64) (*decisionReaches, error) {
	r := &decisionReaches{of: make(map[int64]int64, len(decisions)), whole: map[imageReach]bool{}, some: map[imageReach][]int{}}
	limited := map[int64]bool{}
	err := inParts(decisions, func(part []int64) error {
		var rows []struct{ ID, Reach int64 }
		err := t.Raw("SELECT d.id, d.reach FROM decisions d WHERE d.id IN ?", part).Scan(&rows).Error
		for _, row := range rows {
			if r.of[row.ID] = row.Reach; row.Reach != everywhere {
				limited[row.Reach] = true
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, inParts(slices.Sorted(maps.Keys(limited)), func(part []int64) error {
		var whole []imageReach
		if err := t.Raw("SELECT x.reach, x.image_pk FROM reached x WHERE x.reach IN ?", part).Scan(&whole).Error; err != nil {
			return err
		}
		for _, at := range whole {
			r.whole[at] = true
		}
		var some []struct {
			At        imageReach `gorm:"embedded"`
			Namespace string
		}
		err := t.Raw("SELECT x.reach, x.image_pk, x.namespace FROM reached_namespaces x WHERE x.reach IN ?", part).Scan(&some).Error
		for _, row := range some {
			r.some[row.At] = append(r.some[row.At], t.namespaces.of(row.Namespace))
		}
		return err
	})
}

// in returns those of the namespaces of an image in which a reach has it.
func (r *decisionReaches) in(reach, image int64, namespaces []int) []int {
	at := imageReach{reach, image}
	if r.whole[at] {
		return namespaces
	}
	return r.some[at]
}
