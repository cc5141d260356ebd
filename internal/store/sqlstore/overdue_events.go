package sqlstore

import (
	"cmp"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// addNamespaces adds to targets the images that something runs in each namespace, with what is reported to those who see this namespace alone. Their
// workload is the namespacePlace.
func (r *dueReader) addNamespaces(targets map[int64][]*dueTarget) error {
	if len(r.policies) == 0 {
		return nil
	}
	everywhere, known := r.everywhere(), map[imagePlace]*dueTarget{}
	running := r.tx.Table("image_namespaces AS m").Joins("JOIN images i ON i.id = m.image_pk").
		Where("i.matched_at > 0 AND EXISTS (SELECT 1 FROM image_uses u WHERE u.image_pk = m.image_pk AND u.namespace = m.namespace)").
		Select("m.image_pk, m.namespace, " + laterOf("m.since", "i.matched_at"))
	err := eachRow(running, func(scan func(...any) error) error {
		t := &dueTarget{reach: everywhere}
		err := scan(&t.image, &t.workload.Namespace, &t.since)
		known[t.imagePlace] = t
		targets[t.image] = append(targets[t.image], t)
		return err
	})
	if err != nil {
		return err
	}
	places := make(map[int64]int, len(r.policies))
	for place := range r.policies {
		places[r.policies[place].ID] = place
	}
	placed := r.tx.Table("policy_places AS u").Distinct("u.policy_pk, u.image_pk, u.namespace")
	return eachRow(placed, func(scan func(...any) error) error {
		var id int64
		var at imagePlace
		err := scan(&id, &at.image, &at.workload.Namespace)
		place, applies := places[id]
		if t := known[at]; t != nil && applies {
			t.reach.add(place)
		}
		return err
	})
}

// readNamespaces reads the namespaces of which reaches have all places of images.
func (p *partlySuppressed) readNamespaces(tx *gorm.DB) error {
	return eachRow(tx.Table("("+closedByNamespace+") AS y").Select("y.reach, y.image_pk, y.namespace"), func(scan func(...any) error) error {
		var reach int64
		var at imagePlace
		err := scan(&reach, &at.image, &at.workload.Namespace)
		if p.reached[reach] != nil {
			if p.workloads[reach] == nil {
				p.workloads[reach] = map[imagePlace]bool{}
			}
			p.workloads[reach][at] = true
		}
		return err
	})
}

// placesOfImages are the namespaces in which images are visible, and the cluster for images that are visible anywhere.
func placesOfImages(tx *gorm.DB, images []int64) (map[imagePlace]bool, error) {
	visible := map[imagePlace]bool{}
	err := inParts(images, func(part []int64) error {
		return eachRow(tx.Table("image_namespaces AS m").Where("m.image_pk IN ?", part).Select("m.image_pk, m.namespace"), func(scan func(...any) error) error {
			var at imagePlace
			err := scan(&at.image, &at.workload.Namespace)
			visible[at], visible[imagePlace{image: at.image}] = true, true
			return err
		})
	})
	return visible, err
}

// overdueEvents makes events of what is overdue. Those about the cluster are of the images with the worst findings: as many as are permitted, and the
// number of the other images. There is one about each namespace.
func (r *dueReader) overdueEvents(changes map[imagePlace]*overdueImage) ([]overdueEvent, error) {
	names := map[int64]imageName{}
	err := inParts(changedImages(changes), func(part []int64) error {
		var rows []struct {
			ID                int64
			ImageID, Platform string
		}
		err := r.tx.Raw("SELECT id, image_id, platform FROM images WHERE id IN ?", part).Scan(&rows).Error
		for _, row := range rows {
			names[row.ID] = imageName{row.ImageID, row.Platform}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var all []*overdueImage
	for _, one := range changes {
		if one.name = names[one.image]; len(one.fresh) > 0 && one.name != (imageName{}) {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b *overdueImage) int {
		return cmp.Or(strings.Compare(a.workload.Namespace, b.workload.Namespace),
			cmp.Compare(b.counts.Critical, a.counts.Critical), cmp.Compare(b.counts.High, a.counts.High), cmp.Compare(b.counts.Medium, a.counts.Medium),
			cmp.Compare(b.counts.Low, a.counts.Low), strings.Compare(a.name.imageID, b.name.imageID), strings.Compare(a.name.platform, b.name.platform))
	})
	owners, err := r.placeOwners(all)
	if err != nil {
		return nil, err
	}
	var events []overdueEvent
	for len(all) > 0 {
		namespace := all[0].workload.Namespace
		end := slices.IndexFunc(all, func(one *overdueImage) bool { return one.workload.Namespace != namespace })
		if end < 0 {
			end = len(all)
		}
		here := all[:end]
		all = all[end:]
		if namespace != "" {
			events = append(events, overdueEvent{kind: store.EventNamespaceOverdue, data: r.namespaceEvent(namespace, here, owners)})
		} else {
			events = r.clusterEvents(here, owners)
		}
	}
	return events, nil
}

// placeOwners reads the owners of the workloads that run images in a namespace, or anywhere, by name.
func (r *dueReader) placeOwners(all []*overdueImage) (map[imagePlace][]string, error) {
	images := make([]int64, len(all))
	for i, one := range all {
		images[i] = one.image
	}
	slices.Sort(images)
	owners := map[imagePlace][]string{}
	return owners, inParts(slices.Compact(images), func(part []int64) error {
		used := visibleUses(r.tx, r.in).Joins(ownersOfUses).Where("u.image_pk IN ?", part).Distinct("u.image_pk, u.namespace, w.owner")
		return eachRow(used.Order("w.owner"), func(scan func(...any) error) error {
			var image int64
			var namespace, owner string
			err := scan(&image, &namespace, &owner)
			for _, at := range []imagePlace{{image: image}, {image, namespacePlace(namespace)}} {
				if known := owners[at]; len(known) < store.MaxImageOwners && !slices.Contains(known, owner) {
					owners[at] = append(known, owner)
				}
			}
			return err
		})
	})
}

// clusterEvents makes the events about the cluster.
func (r *dueReader) clusterEvents(all []*overdueImage, owners map[imagePlace][]string) []overdueEvent {
	listed := all[:min(len(all), store.MaxOverdueEvents)]
	var events []overdueEvent
	for _, one := range listed {
		at := fromMicros(one.earliest)
		events = append(events, overdueEvent{store.EventFindingOverdue, one.name, store.OverdueEvent{
			Findings: one.counts, DueAt: &at, Owners: owners[one.imagePlace], Policies: r.policyNames(one), Keys: one.keys(store.MaxFindingKeys),
		}})
	}
	if omitted := len(all) - len(listed); omitted > 0 {
		events = append(events, overdueEvent{kind: store.EventFindingOverdue, data: store.OverdueEvent{Omitted: omitted}})
	}
	return events
}

// namespaceEvent makes the event about a namespace.
func (r *dueReader) namespaceEvent(namespace string, all []*overdueImage, owners map[imagePlace][]string) store.NamespaceOverdueEvent {
	listed := all[:min(len(all), store.MaxOverdueEvents)]
	event := store.NamespaceOverdueEvent{Namespace: namespace, Omitted: len(all) - len(listed), Policies: r.policyNames(listed...)}
	room := store.MaxFindingKeys
	for _, one := range listed {
		keys := one.keys(room)
		room -= len(keys)
		event.Images = append(event.Images, store.OverdueImage{
			ImageID: one.name.imageID, Platform: one.name.platform, Findings: one.counts, DueAt: fromMicros(one.earliest), Owners: owners[one.imagePlace], Keys: keys,
		})
	}
	return event
}

// keys are those of the findings that events tell of now, none if there are more than some number.
func (o *overdueImage) keys(most int) store.FindingKeys {
	keys := slices.Compact(slices.Sorted(slices.Values(o.fresh)))
	if len(keys) > most {
		return nil
	}
	return keys
}

// policyNames are the policies that set the dates of images, by name.
func (r *dueReader) policyNames(images ...*overdueImage) []string {
	var names []string
	for place := range r.policies {
		if slices.ContainsFunc(images, func(one *overdueImage) bool { return one.policies.has(place) }) {
			names = append(names, r.policies[place].Name)
		}
	}
	return names
}
