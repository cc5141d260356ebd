package scanner

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// maxRows is the maximum number of rows of one namespace about its containers. Pods cost their creators nothing while they do not run, and must not take the
// place of other namespaces among the rows of a Scanner.
const maxRows = 50_000

// bounded returns the rows that are recorded and those that are left out: no namespace has more than maxRows, and if all have too many together, those
// with the most rows have fewer, each as many. In a namespace, rows of images that run are first, and then those that come first.
func bounded[T any](rows []T, maximum int, namespace func(*T) string, runs func(*T) bool) (kept, left []T) {
	all, running := map[string]int{}, map[string]int{}
	for i := range rows {
		all[namespace(&rows[i])]++
		if runs(&rows[i]) {
			running[namespace(&rows[i])]++
		}
	}
	// The level to which namespaces are filled, those with the fewest rows first.
	level := maxRows
	for i, count := range slices.Sorted(maps.Values(all)) {
		share := maximum / (len(all) - i)
		if count >= share {
			level = min(level, share)
			break
		}
		maximum -= count
	}
	taken, others := map[string]int{}, map[string]int{}
	for i := range rows {
		name := namespace(&rows[i])
		counted, most := taken, min(running[name], level)
		if !runs(&rows[i]) {
			counted, most = others, level-most
		}
		if counted[name] == most {
			left = append(left, rows[i])
			continue
		}
		counted[name]++
		kept = append(kept, rows[i])
	}
	return kept, left
}

// boundedUses leaves out uses beyond the bounds.
func boundedUses(uses []store.Use) []store.Use {
	kept, _ := bounded(uses, store.MaxUses, func(use *store.Use) string { return use.Workload.Namespace }, func(*store.Use) bool { return true })
	return kept
}

// boundedCoverage leaves out coverage beyond the bounds, and counts it.
func (v *observed) boundedCoverage(containers []store.ContainerCoverage) []store.ContainerCoverage {
	kept, left := bounded(containers, store.MaxUses,
		func(c *store.ContainerCoverage) string { return c.Workload.Namespace }, func(c *store.ContainerCoverage) bool { return c.Image.ImageID != "" })
	for i := range left {
		v.omit(left[i].Workload.Namespace, left[i].Pods)
	}
	return kept
}

// omit counts containers of a namespace that are not recorded.
func (v *observed) omit(namespace string, containers int) {
	if containers == 0 {
		return
	}
	if v.omitted == nil {
		v.omitted = map[string]int{}
	}
	v.omitted[namespace] += containers
}

// omittedMessage says which containers are left out, "" for none.
func (v *observed) omittedMessage() string {
	if len(v.omitted) == 0 {
		return ""
	}
	total := 0
	for _, count := range v.omitted {
		total += count
	}
	names := slices.Sorted(maps.Keys(v.omitted))
	named := strings.Join(names[:min(len(names), maxNamespaces)], ", ")
	if len(names) > maxNamespaces {
		named += fmt.Sprintf(" and %d more", len(names)-maxNamespaces)
	}
	return fmt.Sprintf("%s left out, in %s: of a pod, %d containers count whose images are not pulled, and %d bytes of their images; of a namespace, %d rows of workload and container. Delete pods that do not run.",
		plural(total, "container is", "containers are"), named, inventory.MaxWaiting, inventory.MaxImages, maxRows)
}
