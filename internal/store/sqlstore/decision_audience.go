package sqlstore

import (
	"maps"
	"slices"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Events about decisions of objects of the cluster are told where these match findings of visible images when the event is written. Lists show the decisions there:
// see Store.matchingDecisions.

// maxDecisionAudience is the most namespaces that the events of a transaction about single decisions name together. The other decisions are counted.
const maxDecisionAudience = 100_000

// audience has the namespaces that an event is told in.
type audience map[string]bool

// toldDecision is an event about a decision, and who is told it if the object is one of the cluster.
type toldDecision struct {
	store.DecisionEvent
	audience audience
}

// tellable is how many of these events can be about single decisions.
func tellable(told []toldDecision) int {
	named := 0
	for i := range told[:min(len(told), store.MaxDecisionEvents)] {
		if named += len(told[i].audience); named > maxDecisionAudience {
			return i
		}
	}
	return min(len(told), store.MaxDecisionEvents)
}

// telling is what is told of a match: a decision or several together, and the reach of the decision that matches.
type telling[K comparable] struct {
	key   K
	reach int64
}

// audiencesOf returns in which namespaces decisions match findings of visible images, by what is told of them. matched has the findings that they match, keys what is told of
// those that are asked for. It is called while the reaches of all of them exist.
func audiencesOf[K comparable](t *txn, matched map[int64][]int64, keys map[int64]K) (map[K]audience, error) {
	told := make(map[K]audience, len(keys))
	if len(keys) == 0 {
		return told, nil
	}
	reaches, err := readDecisionReaches(t, slices.Sorted(maps.Keys(keys)))
	if err != nil {
		return nil, err
	}
	tellings, err := tellingsOf(t, matched, keys, reaches)
	if err != nil {
		return nil, err
	}
	unmatched, err := unmatchedImages(t.DB)
	if err != nil {
		return nil, err
	}
	namespaces := map[int64][]string{}
	return told, inParts(slices.Sorted(maps.Keys(tellings)), func(part []int64) error {
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
			whole := audience{}
			for _, image := range images {
				whole.add(namespaces[image])
			}
			for one := range tellings[id] {
				if told[one.key] == nil {
					told[one.key] = audience{}
				}
				if one.reach == everywhere {
					maps.Copy(told[one.key], whole)
					continue
				}
				for _, image := range images {
					told[one.key].add(reaches.in(one.reach, image, namespaces[image]))
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

func (a audience) add(namespaces []string) {
	for _, namespace := range namespaces {
		a[namespace] = true
	}
}

// tellingsOf returns what is told of matches of findings that count now, by package.
func tellingsOf[K comparable](t *txn, matched map[int64][]int64, keys map[int64]K, reaches *decisionReaches) (map[int64]map[telling[K]]bool, error) {
	current, err := currentNumber(t.DB)
	if err != nil {
		return nil, err
	}
	var findings []int64
	for id := range keys {
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
	tellings := map[int64]map[telling[K]]bool{}
	for id, key := range keys {
		for _, finding := range matched[id] {
			held, counts := packages[finding]
			if !counts {
				continue
			}
			if tellings[held] == nil {
				tellings[held] = map[telling[K]]bool{}
			}
			tellings[held][telling[K]{key, reaches.of[id]}] = true
		}
	}
	return tellings, err
}

// readNamespaces adds the namespaces in which images are visible.
func (t *txn) readNamespaces(known map[int64][]string, images []int64) error {
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
			known[image] = append(known[image], namespace)
			return err
		})
	})
}

// decisionReaches are the reaches of decisions, and the images that they have: in all namespaces, or in some.
type decisionReaches struct {
	of    map[int64]int64
	whole map[imageReach]bool
	some  map[imageReach][]string
}

func readDecisionReaches(t *txn, decisions []int64) (*decisionReaches, error) {
	r := &decisionReaches{of: make(map[int64]int64, len(decisions)), whole: map[imageReach]bool{}, some: map[imageReach][]string{}}
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
			r.some[row.At] = append(r.some[row.At], row.Namespace)
		}
		return err
	})
}

// in returns those of the namespaces of an image in which a reach has it.
func (r *decisionReaches) in(reach, image int64, namespaces []string) []string {
	at := imageReach{reach, image}
	if r.whole[at] {
		return namespaces
	}
	return r.some[at]
}
