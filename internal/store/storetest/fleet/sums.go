package fleet

import (
	"maps"
	"slices"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Counts sums up the findings of an image.
func (f Fleet) Counts(image int) store.Counts { return f.CountsOf(f.PackagesOf(image)...) }

// CountsOf sums up the findings of packages.
func (f Fleet) CountsOf(packages ...int) store.Counts {
	var counts store.Counts
	for _, n := range packages {
		for _, finding := range f.FindingsOf(n) {
			counts.Add(Severity(finding.CVE))
			if KEV(finding.CVE) {
				counts.KEV++
			}
			if finding.Fixable {
				counts.Fixable++
			}
		}
	}
	return counts
}

// All sums up the findings of all images.
func (f Fleet) All() store.Counts {
	var all store.Counts
	for image := range f.Images {
		all = Sum(all, f.Counts(image))
	}
	return all
}

// Sum adds counts.
func Sum(a, b store.Counts) store.Counts {
	return store.Counts{SeverityCounts: a.Plus(b.SeverityCounts), KEV: a.KEV + b.KEV, Fixable: a.Fixable + b.Fixable}
}

// Held lists the packages that images hold, each once.
func (f Fleet) Held() []int {
	held := map[int]bool{}
	for image := range f.Images {
		for _, n := range f.PackagesOf(image) {
			held[n] = true
		}
	}
	return slices.Sorted(maps.Keys(held))
}

// Found lists the vulnerabilities that are found in images, each once.
func (f Fleet) Found() []int {
	found := map[int]bool{}
	for _, n := range f.Held() {
		for _, finding := range f.FindingsOf(n) {
			found[finding.CVE] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// With lists the images that have a finding for which a condition holds, and counts the packages in them that do.
func (f Fleet) With(condition func(Finding) bool) (images []int, packages int) {
	for image := range f.Images {
		count := 0
		for _, n := range f.PackagesOf(image) {
			if slices.ContainsFunc(f.FindingsOf(n), condition) {
				count++
			}
		}
		if count > 0 {
			images, packages = append(images, image), packages+count
		}
	}
	return images, packages
}
