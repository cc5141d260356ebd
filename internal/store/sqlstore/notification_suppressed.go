package sqlstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// suppressedChanges tells where decisions suppress what changes are about.
type suppressedChanges struct {
	partlySuppressed
	// findings has the findings of each change. A change is suppressed where all of them are.
	findings map[int64][]int64
	// always has the findings that are suppressed everywhere.
	always map[int64]bool
	// sets has what suppresses each change, as text, and left what runs an image without the workloads where such a set suppresses a change.
	sets map[int64]string
	left map[suppressedImage]*store.RunningImage
}

// suppressedImage is an image, and what suppresses a change in it.
type suppressedImage struct {
	set   string
	image int64
}

// suppressedChanges reads where decisions suppress what changes are about. about has the images of each.
func (s *Store) suppressedChanges(tx *gorm.DB, rows []changeRow, about map[int64][]int64) (*suppressedChanges, error) {
	hidden := &suppressedChanges{
		partlySuppressed: partlySuppressed{
			covers: covers{view: seen{in: store.AllNamespaces()}, reached: map[int64]map[int64]bool{}}, reaches: map[int64][]int64{}, workloads: map[int64]map[imagePlace]bool{},
		},
		findings: map[int64][]int64{}, always: map[int64]bool{}, sets: map[int64]string{}, left: map[suppressedImage]*store.RunningImage{},
	}
	packages := make([]int64, len(rows))
	for i := range rows {
		packages[i] = rows[i].PackagePk
	}
	slices.Sort(packages)
	packages = slices.Compact(packages)
	found := map[int64]bool{} // The packages with suppressed findings.
	err := inParts(packages, func(part []int64) error {
		suppressed := tx.Table("findings AS f").Joins("CROSS JOIN finding_suppressions fs").Where("f.package_pk IN ? AND fs.finding_id = f.id", part).
			Select("f.package_pk, f.id, fs.reach")
		return eachRow(suppressed, func(scan func(...any) error) error {
			var id, finding, reach int64
			err := scan(&id, &finding, &reach)
			found[id] = true
			if reach == everywhere {
				hidden.always[finding] = true
			} else {
				hidden.reaches[finding] = append(hidden.reaches[finding], reach)
				hidden.reached[reach] = map[int64]bool{}
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	if err := hidden.readClosed(tx, rows); err != nil {
		return nil, err
	}
	if err := hidden.readFindings(tx, rows, slices.Sorted(maps.Keys(found))); err != nil {
		return nil, err
	}
	if len(hidden.reaches) == 0 {
		return hidden, nil
	}
	var images []int64
	for _, list := range about {
		images = append(images, list...)
	}
	slices.Sort(images)
	images = slices.Compact(images)
	if err := hidden.readSome(tx, images); err != nil {
		return nil, err
	}
	return hidden, hidden.readWorkloads(tx, images)
}

// readClosed reads where findings were suppressed when changes closed them.
func (h *suppressedChanges) readClosed(tx *gorm.DB, rows []changeRow) error {
	var closed []int64
	for i := range rows {
		if rows[i].Kind == kindClosed && rows[i].Variant != "" {
			closed = append(closed, rows[i].ID)
		}
	}
	return inParts(closed, func(part []int64) error {
		suppressed := tx.Table("closed_suppressions AS cs").Where("cs.change_id IN ?", part).Select("cs.change_id, cs.finding_id, cs.reach").Order("cs.change_id, cs.finding_id, cs.reach")
		return eachRow(suppressed, func(scan func(...any) error) error {
			var change, finding, reach int64
			err := scan(&change, &finding, &reach)
			if !slices.Contains(h.findings[change], finding) {
				h.findings[change] = append(h.findings[change], finding)
			}
			h.reaches[finding] = append(h.reaches[finding], reach)
			h.reached[reach] = map[int64]bool{}
			return err
		})
	})
}

// readFindings reads the findings of changes in some packages that are shown now.
func (h *suppressedChanges) readFindings(tx *gorm.DB, rows []changeRow, packages []int64) error {
	if len(packages) == 0 {
		return nil
	}
	current, err := currentNumber(tx)
	if err != nil {
		return err
	}
	type name struct {
		packageID                               int64
		vulnerabilityID, vulnerabilityNamespace string
	}
	known := map[name][]int64{}
	err = inParts(packages, func(part []int64) error {
		all := tx.Table("findings AS f").Joins("CROSS JOIN vulnerabilities v").Where("f.package_pk IN ? AND v.id = f.vulnerability_pk AND "+shown, part, current, current).
			Select("f.package_pk, v.vulnerability_id, v.namespace, f.id")
		return eachRow(all, func(scan func(...any) error) error {
			var of name
			var id int64
			err := scan(&of.packageID, &of.vulnerabilityID, &of.vulnerabilityNamespace, &id)
			known[of] = append(known[of], id)
			return err
		})
	})
	for i := range rows {
		if r := &rows[i]; r.Kind != kindClosed {
			if findings := known[name{r.PackagePk, r.VulnerabilityID, r.Namespace}]; len(findings) > 0 {
				h.findings[r.ID] = findings
			}
		}
	}
	return err
}

// there reports whether what a change is about is suppressed in an image that a workload runs; in the image, if the workload has no name.
func (h *suppressedChanges) there(change, image int64, w store.Workload) bool {
	w.Owner = ""
	findings := h.findings[change]
	at := &dueTarget{imagePlace: imagePlace{image, w}}
	return len(findings) > 0 && !slices.ContainsFunc(findings, func(finding int64) bool { return !h.always[finding] && !h.has(finding, at) })
}

// set tells what suppresses a change apart: the reaches of each of its findings that is not suppressed everywhere.
func (h *suppressedChanges) set(change int64) string {
	set, known := h.sets[change]
	if !known {
		var reaches []string
		for _, finding := range h.findings[change] {
			if !h.always[finding] {
				reaches = append(reaches, fmt.Sprint(slices.Sorted(slices.Values(h.reaches[finding]))))
			}
		}
		slices.Sort(reaches)
		set = strings.Join(slices.Compact(reaches), "")
		h.sets[change] = set
	}
	return set
}

// without is what runs an image, without the workloads where what a change is about is suppressed. Changes that the same suppresses share it.
func (h *suppressedChanges) without(change, image int64, running *store.RunningImage) *store.RunningImage {
	if running == nil || len(h.findings[change]) == 0 {
		return running
	}
	at := suppressedImage{h.set(change), image}
	left := h.left[at]
	if left == nil {
		left = &store.RunningImage{ImageKey: running.ImageKey, Partial: true}
		for _, w := range running.Workloads {
			if !h.there(change, image, w) {
				left.Workloads = append(left.Workloads, w)
			}
		}
		if len(left.Workloads) == len(running.Workloads) {
			left = running
		}
		h.left[at] = left
	}
	return left
}

// SuppressedChanges implements store.Notifications.
func (s *Store) SuppressedChanges(ctx context.Context, changes []int64, concerned func(*store.Workload) bool) ([]int64, error) {
	var ids []int64
	err := s.read(ctx, "read which changes are suppressed", func(tx *gorm.DB) error {
		ids = nil
		return inParts(changes, func(part []int64) error {
			var rows []changeRow
			err := tx.Table("finding_changes AS c").Where("c.id IN ?", part).
				Select("c.id, c.generation, c.package_pk, c.vulnerability_id, c.namespace, c.kind, " + variantOf + " AS variant").Scan(&rows).Error
			if err != nil {
				return err
			}
			about, err := s.imagesAbout(tx, rows)
			if err != nil {
				return err
			}
			hidden, err := s.suppressedChanges(tx, rows, about)
			if err != nil || len(hidden.findings) == 0 {
				return err
			}
			var images []int64
			for change := range hidden.findings {
				images = append(images, about[change]...)
			}
			running := map[int64]*store.RunningImage{}
			for _, image := range images {
				running[image] = &store.RunningImage{}
			}
			if err := addWorkloads(tx, tx.Table("image_uses AS u"), running); err != nil {
				return err
			}
			for i := range rows {
				if id := rows[i].ID; hidden.hides(id, about[id], running, concerned) {
					ids = append(ids, id)
				}
			}
			return nil
		})
	})
	return ids, err
}

// OverdueFindings implements store.Notifications.
func (s *Store) OverdueFindings(ctx context.Context, in store.Namespaces, images []model.ImageKey) (map[model.ImageKey][]store.OverdueFinding, error) {
	wanted := map[model.ImageKey]bool{}
	ids := make([]string, len(images))
	for i, key := range images {
		wanted[key], ids[i] = true, key.ImageID
	}
	slices.Sort(ids)
	var findings map[model.ImageKey][]store.OverdueFinding
	err := s.read(ctx, "read overdue findings of images", func(tx *gorm.DB) error {
		findings = map[model.ImageKey][]store.OverdueFinding{}
		keys := map[int64]model.ImageKey{}
		err := inParts(slices.Compact(ids), func(part []string) error {
			var rows []imageRow
			err := tx.Raw("SELECT id, image_id, platform FROM images WHERE image_id IN ?", part).Scan(&rows).Error
			for i := range rows {
				key, keyErr := keyOf(rows[i].ImageID, rows[i].Platform)
				if keyErr != nil {
					return keyErr
				}
				if wanted[key] {
					keys[rows[i].ID] = key
				}
			}
			return err
		})
		if err != nil || len(keys) == 0 {
			return err
		}
		r, err := s.dueReader(tx, in)
		if err != nil || len(r.policies) == 0 {
			return err
		}
		chosen := slices.Sorted(maps.Keys(keys))
		targets, err := r.targets(chosen, false)
		if err != nil {
			return err
		}
		now := s.now()
		return r.each(chosen, targets, func(t *dueTarget, f *dueFinding, at int64, _ int) {
			if at <= now {
				findings[keys[t.image]] = append(findings[keys[t.image]], store.OverdueFinding{Key: f.key, Severity: f.severity})
			}
		})
	})
	return findings, err
}

// hides reports whether what a change is about is suppressed in all workloads that are concerned; if none is, in all images.
func (h *suppressedChanges) hides(change int64, images []int64, running map[int64]*store.RunningImage, concerned func(*store.Workload) bool) bool {
	if len(h.findings[change]) == 0 {
		return false
	}
	runs := false
	for _, image := range images {
		for i := range running[image].Workloads {
			if w := &running[image].Workloads[i]; concerned(w) {
				runs = true
				if !h.there(change, image, *w) {
					return false
				}
			}
		}
	}
	if runs {
		return true
	}
	if len(images) == 0 {
		return h.there(change, 0, store.Workload{})
	}
	return !slices.ContainsFunc(images, func(image int64) bool { return !h.there(change, image, store.Workload{}) })
}
