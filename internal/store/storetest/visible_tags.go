package storetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Of a lookup, who sees it learns how many attempts there were, as of an image. When it was looked up is cut to when the image was visible, which can be before containers had
// its tag.
var withoutAttempts = cmpopts.IgnoreFields(store.TagLookup{}, "Nonce", "Attempts", "LookedUpAt")

// visibleLookup is the lookup of an image in a scope that both stores have.
type visibleLookup struct {
	scope string
	key   model.ImageKey
}

// wantedTags are the lookups of the images that a scope runs, for who sees some namespaces.
func (h *history) wantedTags(scope string, in store.Namespaces) []store.WantedTags {
	byImage := map[model.ImageKey]*store.WantedTags{}
	var wanted []store.WantedTags
	for _, use := range h.ran[scope] {
		if !in.Contains(use.Workload.Namespace) {
			continue
		}
		if byImage[use.Image] == nil {
			byImage[use.Image] = &store.WantedTags{Key: use.Image, Repository: tagRepository, Tag: "1.0"}
		}
		byImage[use.Image].Namespaces = append(byImage[use.Image].Namespaces, use.Workload.Namespace)
	}
	for n := range visibleImages {
		if one := byImage[visibleKey(n)]; one != nil {
			slices.Sort(one.Namespaces)
			one.Namespaces = slices.Compact(one.Namespaces)
			wanted = append(wanted, *one)
		}
	}
	return wanted
}

// lookUp has both stores want the lookups of what runs, finishes one of them with other newer tags, and matches these. Part learns the result of a lookup that whole has
// when one of its namespaces wants it.
func (h *history) lookUp() string {
	text := []string{"look up"}
	for _, scope := range []string{"scope-0", "scope-1"} {
		whole, part := h.wantedTags(scope, store.AllNamespaces()), h.wantedTags(scope, h.in)
		lookups := map[*fixture]map[model.ImageKey]store.TagLookup{h.whole: {}, h.part: {}}
		for f, wanted := range map[*fixture][]store.WantedTags{h.whole: whole, h.part: part} {
			for _, lookup := range f.wantLookups(h.t, scope, wanted...) {
				lookups[f][lookup.Key] = lookup
			}
		}
		for n := range visibleImages {
			key := visibleKey(n)
			of := visibleLookup{scope, key}
			one, found := lookups[h.whole][key]
			if !found {
				continue
			}
			if one.LookedUpAt.IsZero() {
				delete(h.tags, of)
			}
			if h.chance(3) {
				h.results++
				h.tags[of] = visibleTags(h.results, h.random.IntN(4))
				text = append(text, fmt.Sprint(scope, " ", n))
				h.finishLookup(h.whole, &one, h.tags[of])
			}
			result, known := h.tags[of]
			if mine, seen := lookups[h.part][key]; seen && known && h.told[mine.ID] != result.SHA256+mine.Nonce {
				h.told[mine.ID] = result.SHA256 + mine.Nonce
				h.finishLookup(h.part, &mine, result)
			}
		}
	}
	return strings.Join(text, " ")
}

// visibleTags is a result with some newer tags. The content of an image follows from its tag.
func visibleTags(n, tags int) store.TagResult {
	var names []string
	for i := range tags {
		names = append(names, fmt.Sprintf("1.%d", 1+(n+i)%5))
	}
	return tagResult(fmt.Sprint("result-", n), names...)
}

func (h *history) finishLookup(f *fixture, lookup *store.TagLookup, result store.TagResult) {
	h.jobs++
	uid := fmt.Sprint("tags-", h.jobs)
	f.lookupJob(h.t, lookup, uid)
	must(h.t, f.SaveTagLookup(h.t.Context(), uid, result))
}

// matchTags matches the images of newer tags, and compares them with what runs.
func (h *history) matchTags() {
	h.both(true, func(f *fixture) {
		ctx := h.t.Context()
		shown, found, err := f.ShownResultSet(ctx, store.AllNamespaces())
		must(h.t, err)
		if !found {
			return
		}
		ids, err := f.UnmatchedTagImages(ctx, shown.Number, store.MaxKeys)
		must(h.t, err)
		for _, id := range ids {
			sbom, err := f.TagImageSBOM(ctx, id)
			must(h.t, err)
			must(h.t, f.SaveTagFindings(ctx, id, sbom.SHA256, shown.Number, store.TagFindings{Build: shown.Build.ID, Findings: h.foundInTag(sbom.SHA256)}))
		}
		for more := true; more; {
			more, err = f.CompareNewerTags(ctx)
			must(h.t, err)
		}
	})
}

// foundInTag is what a database says of the image of a newer tag: it lacks one package of those that images have.
func (h *history) foundInTag(sbom string) []store.TagFinding {
	var found []store.TagFinding
	for _, name := range slices.Sorted(maps.Keys(h.says)) {
		if name[1] == sbom[len(sbom)-1] {
			continue
		}
		for _, one := range h.says[name] {
			found = append(found, store.TagFinding{
				VulnerabilityID: one.Vulnerability.ID, Package: name, Severity: one.Vulnerability.Severity, Risk: one.Vulnerability.Risk, KEV: len(one.Vulnerability.KEV) > 0,
				Fixable: one.Fix.State == model.FixStateFixed,
			})
		}
	}
	return found
}
