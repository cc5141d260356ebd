package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// check compares what is listed of newer tags with the model, and all actions.
func (m *tagFixModel) check(in store.Namespaces) {
	m.t.Helper()
	m.read = tagFixReads{}
	pick := func(values ...string) string { return values[m.queries.IntN(len(values))] }
	query := store.FixQuery{Kind: store.FixNewerTag, KEV: m.queries.IntN(4) == 0, Overdue: m.queries.IntN(4) == 0}
	switch m.queries.IntN(3) {
	case 0:
		query.Where = store.Where{Namespace: pick("a", "b"), Workload: pick("", "web")}
	case 1:
		query.Namespace = pick("", "", "a")
		query.Ownership = store.Ownership{Owner: pick("red", "")}
		query.None = query.Owner == ""
	}
	if m.queries.IntN(3) == 0 {
		query.ImageID = m.keys[m.queries.IntN(len(m.keys))].ImageID
	}
	lists := map[store.FixKind][]tagAction{}
	for kind, expected := range map[store.FixKind]func(store.Namespaces, store.FixQuery) []tagAction{store.FixNewerTag: m.expected, store.FixNewerBase: m.newerBases} {
		query.Kind = kind
		lists[kind] = expected(in, query)
		m.compare(in, query, slices.Clone(lists[kind]))
		if in.All() {
			everything := store.FixQuery{Kind: kind}
			all := expected(in, everything)
			if len(all) > 0 {
				m.listed[kind]++
			}
			m.compare(in, everything, all)
		}
	}
	query.Kind = []store.FixKind{"", "", store.FixUpdate, store.FixRebuild, store.FixWait}[m.queries.IntN(5)]
	all := m.actions(in, query)
	if query.Kind == "" {
		all = slices.Concat(all, lists[store.FixNewerTag], lists[store.FixNewerBase])
	}
	m.compare(in, query, all)
}

// compare expects that ListFixes returns some actions, which it sorts.
func (m *tagFixModel) compare(in store.Namespaces, query store.FixQuery, want []tagAction) {
	m.t.Helper()
	comparePages(m.t, fmt.Sprintf("actions seen by %v, %+v", in, query), sortActions(want), func(page store.Page) ([]store.Fix, string, int, error) {
		query.Page = page
		got, err := m.ListFixes(m.t.Context(), in, query)
		return got.Fixes, got.NextToken, got.Total, err
	})
}

// checkWorkloads compares the findings of some of the workloads that run an image: those that count in one of them.
func (m *tagFixModel) checkWorkloads(key model.ImageKey) {
	m.t.Helper()
	all := store.AllNamespaces()
	workloads := m.chosen(key, all, store.Where{})
	if len(workloads) == 0 {
		return
	}
	m.queries.Shuffle(len(workloads), func(i, j int) { workloads[i], workloads[j] = workloads[j], workloads[i] })
	workloads = workloads[:1+m.queries.IntN(len(workloads))]
	list := func(query store.FindingQuery) (texts []string) {
		query.Image, query.Sort, query.Size = key, store.SortFindingPackage, store.MaxPageSize
		page, err := m.Findings(m.t.Context(), all, query)
		must(m.t, err)
		for i := range page.Findings {
			f := &page.Findings[i]
			open := slices.ContainsFunc(workloads, func(w store.Workload) bool { return !m.decisions.suppressIn(key.ImageID, f, w) })
			if query.Workloads != nil && open == f.Suppressed {
				m.t.Errorf("%s of %s in %v: suppressed is %t", f.Vulnerability.ID, key, workloads, f.Suppressed)
			}
			if open {
				texts = append(texts, f.Vulnerability.ID+" "+f.Package.Name)
			}
		}
		if len(page.Findings) != page.Total {
			m.t.Errorf("%d of %d findings", len(page.Findings), page.Total)
		}
		return texts
	}
	want := list(store.FindingQuery{Suppressed: true})
	expectTexts(m.t, "with suppressed ones", list(store.FindingQuery{Suppressed: true, Workloads: workloads}), want...)
	expectTexts(m.t, "those that count", list(store.FindingQuery{Workloads: workloads}), want...)
}

// actions is what ListFixes should return of all but newer tags, in no order.
func (m *tagFixModel) actions(in store.Namespaces, query store.FixQuery) []tagAction {
	var all []tagAction
	for _, key := range m.keys {
		workloads := m.chosen(key, in, query.Where)
		if query.ImageID != "" && query.ImageID != key.ImageID || len(workloads) == 0 && (query.ImageID == "" || query.Where != (store.Where{})) {
			continue
		}
		for _, fix := range fixesOf(key, m.counted(in, key, query.Where)) {
			if query.Kind != "" && query.Kind != fix.Kind || query.KEV && fix.Counts.KEV == 0 || query.Overdue && fix.Overdue == 0 {
				continue
			}
			order := ""
			if fix.Kind == store.FixUpdate {
				order = fix.Packages[0].Package.Fingerprint
			}
			fix.Workloads, fix.WorkloadCount, fix.Owners = workloads, len(workloads), ownersIn(workloads)
			all = append(all, tagAction{fix, order})
		}
	}
	return all
}

// counted are the findings of an image that count in one of the workloads that are chosen, or without a choice in one of the visible places.
func (m *tagFixModel) counted(in store.Namespaces, key model.ImageKey, where store.Where) []model.Finding {
	if _, visible := m.imageIn(in, key); !visible {
		return nil
	}
	workloads := m.chosen(key, in, where)
	return slices.DeleteFunc(m.findingsOf(in, key), func(f model.Finding) bool {
		if where == (store.Where{}) {
			return f.Suppressed
		}
		return !slices.ContainsFunc(workloads, func(w store.Workload) bool { return !m.decisions.suppressIn(key.ImageID, &f, w) })
	})
}

// tagFixReads is what the model has read of images since the last change, by the namespaces and the image: several lookups, tags and lists need the same.
type tagFixReads struct {
	images   map[string]*store.Image // Nil if it is not visible.
	findings map[string][]model.Finding
}

// kept returns what is kept of an image as seen in some namespaces, or reads and keeps it.
func kept[V any](all *map[string]V, in store.Namespaces, key model.ImageKey, read func() V) V {
	id := fmt.Sprint(in, key)
	value, known := (*all)[id]
	if !known {
		if value = read(); *all == nil {
			*all = map[string]V{}
		}
		(*all)[id] = value
	}
	return value
}

// imageIn is an image as seen in some namespaces, and whether it is visible there.
func (m *tagFixModel) imageIn(in store.Namespaces, key model.ImageKey) (image store.Image, visible bool) {
	found := kept(&m.read.images, in, key, func() *store.Image {
		image, err := m.Image(m.t.Context(), in, key)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		must(m.t, err)
		return &image
	})
	if found == nil {
		return store.Image{}, false
	}
	return *found, true
}

// findingsOf are the findings of an image as seen in some namespaces, also those that are suppressed there.
func (m *tagFixModel) findingsOf(in store.Namespaces, key model.ImageKey) []model.Finding {
	return slices.Clone(kept(&m.read.findings, in, key, func() []model.Finding { return m.readFindings(in, key) }))
}

func (m *tagFixModel) readFindings(in store.Namespaces, key model.ImageKey) []model.Finding {
	m.t.Helper()
	page, err := m.Findings(m.t.Context(), in, store.FindingQuery{Image: key, Suppressed: true, Page: store.Page{Size: store.MaxPageSize}})
	must(m.t, err)
	if page.NextToken != "" {
		m.t.Fatalf("%d findings", page.Total)
	}
	return page.Findings
}

// expected is what ListFixes should return of newer tags, in no order.
func (m *tagFixModel) expected(in store.Namespaces, query store.FixQuery) []tagAction {
	var all []tagAction
	for id, l := range m.lookups {
		if !l.wanted || query.ImageID != "" && query.ImageID != l.Key.ImageID {
			continue
		}
		if _, visible := m.imageIn(in, l.Key); !visible {
			continue
		}
		workloads := m.workloads(l, in, query.Where)
		visible := len(workloads) > 0
		if query.ImageID != "" && query.Where == (store.Where{}) {
			visible = slices.ContainsFunc(l.Namespaces, in.Contains)
		}
		tag, closed, opened := m.recommended(l)
		if !l.shown || !visible {
			continue
		}
		counted := slices.DeleteFunc(m.counted(in, l.Key, query.Where), func(f model.Finding) bool { return !closed[tagKey{f.Vulnerability.ID, f.Package.Name}] })
		fix := fixOf(l.Key, counted)
		fix.Kind, fix.Workloads, fix.WorkloadCount = store.FixNewerTag, workloads, len(workloads)
		fix.Owners = ownersIn(workloads)
		for i := range fix.Packages {
			fix.Packages[i].Versions, fix.Packages[i].Vulnerabilities = nil, nil
		}
		var risk float64
		fix.NewerTag, risk = m.fixTag(l, tag, opened)
		pays := fix.Risk > risk || fix.Risk == risk && len(counted) > len(opened)
		if pays && (!query.KEV || fix.Counts.KEV > 0) && (!query.Overdue || fix.Overdue > 0) {
			all = append(all, tagAction{fix, id})
		}
	}
	return all
}

// fixTag is what is said of the newer tag of a lookup, with the risk of what it opens.
func (m *tagFixModel) fixTag(l *modelLookup, tag string, opened []store.TagFinding) (said *store.FixTag, risk float64) {
	said = &store.FixTag{Lookup: l.ID, Repository: l.Repository, From: l.Tag, Tag: tag, Kind: "patch", Digest: "sha256:" + tag}
	for i, f := range opened {
		risk += f.Risk
		said.Opened.Add(f.Severity)
		if i < store.MaxFixVulnerabilities {
			said.OpenedFindings = append(said.OpenedFindings, store.RolloutFinding{
				VulnerabilityID: f.VulnerabilityID, Package: f.Package, Severity: f.Severity, KEV: f.KEV, Fixable: f.Fixable,
			})
		}
	}
	return said, risk
}

// modelBaseTag is the newer tag of a lookup, and what it closes and opens in the image of the lookup.
type modelBaseTag struct {
	*modelLookup
	tag    string
	closed map[string]map[tagKey]bool // By the fingerprint of the package.
	opened []store.TagFinding
}

// baseTags are the newer tags that are visible where containers run the image, by the ID of the lookup.
func (m *tagFixModel) baseTags(in store.Namespaces) []modelBaseTag {
	var all []modelBaseTag
	for _, id := range slices.Sorted(maps.Keys(m.lookups)) {
		l := m.lookups[id]
		if !l.wanted || !l.shown || len(m.layers[l.Key]) == 0 || len(m.workloads(l, in, store.Where{})) == 0 {
			continue
		}
		one := modelBaseTag{modelLookup: l, closed: map[string]map[tagKey]bool{}}
		var closed map[tagKey]bool
		one.tag, closed, one.opened = m.recommended(l)
		for _, f := range m.findingsOf(store.AllNamespaces(), l.Key) {
			if key := (tagKey{f.Vulnerability.ID, f.Package.Name}); closed[key] {
				one.closed[f.Package.Fingerprint] = closed
			}
		}
		all = append(all, one)
	}
	return all
}

// newerBases is what ListFixes should return of newer base images, in no order: of each image the best newer tag of the highest of its bases that have a visible
// one.
func (m *tagFixModel) newerBases(in store.Namespaces, query store.FixQuery) []tagAction {
	tags := m.baseTags(in)
	var all []tagAction
	for _, key := range m.keys {
		workloads := m.chosen(key, in, query.Where)
		if query.ImageID != "" && query.ImageID != key.ImageID || len(workloads) == 0 && (query.ImageID == "" || query.Where != (store.Where{})) {
			continue
		}
		findings := m.counted(in, key, query.Where)
		var best *tagAction
		var bestRisk, bestNumber float64
		pays, height := false, 0
		for i := range tags {
			tag := &tags[i]
			layers := m.layers[tag.Key]
			if len(layers) < height || len(layers) >= len(m.layers[key]) || !slices.Equal(layers, m.layers[key][:len(layers)]) {
				continue
			}
			counted := slices.DeleteFunc(slices.Clone(findings), func(f model.Finding) bool {
				return !tag.closed[f.Package.Fingerprint][tagKey{f.Vulnerability.ID, f.Package.Name}]
			})
			fix := fixOf(key, counted)
			fix.Kind, fix.Base, fix.Workloads, fix.WorkloadCount, fix.Owners = store.FixNewerBase, tag.Key, workloads, len(workloads), ownersIn(workloads)
			for i := range fix.Packages {
				fix.Packages[i].Versions, fix.Packages[i].Vulnerabilities = nil, nil
			}
			var risk float64
			fix.NewerTag, risk = m.fixTag(tag.modelLookup, tag.tag, tag.opened)
			left, number := fix.Risk-risk, float64(len(counted)-len(tag.opened))
			if len(layers) > height || left > bestRisk || left == bestRisk && number > bestNumber {
				best, height, bestRisk, bestNumber, pays = &tagAction{fix, tag.ID}, len(layers), left, number, left > 0 || left == 0 && number > 0
			}
		}
		if best != nil && pays && (!query.KEV || best.Counts.KEV > 0) && (!query.Overdue || best.Overdue > 0) {
			all = append(all, *best)
		}
	}
	return all
}

// workloads are those that run the image of a lookup in the namespaces that see it, as far as they are chosen.
func (m *tagFixModel) workloads(l *modelLookup, in store.Namespaces, where store.Where) []store.Workload {
	return slices.DeleteFunc(m.chosen(l.Key, in, where), func(w store.Workload) bool { return !slices.Contains(l.Namespaces, w.Namespace) })
}

// chosen are the workloads that run an image, as far as they are chosen.
func (m *tagFixModel) chosen(key model.ImageKey, in store.Namespaces, where store.Where) []store.Workload {
	chosen := map[store.Workload]bool{}
	for _, use := range m.uses {
		w := use.Workload
		if use.Image == key && in.Contains(w.Namespace) && (where.Namespace == "" || where.Namespace == w.Namespace) &&
			(where.Workload == "" || where.Workload == w.Name) && (where.Owner == "" || where.Owner == w.Owner) && (!where.None || w.Owner == "") {
			chosen[w] = true
		}
	}
	return sorted(chosen)
}

// tagKey tells findings apart in a comparison.
type tagKey struct{ vulnerability, name string }

// recommended compares the newer tags of a lookup with its image: it returns the best one, what it closes, and what it opens, the worst first. Decisions
// have no part in it.
func (m *tagFixModel) recommended(l *modelLookup) (best string, bestCloses map[tagKey]bool, bestOpens []store.TagFinding) {
	present := map[tagKey]float64{}
	for _, f := range m.findingsOf(store.AllNamespaces(), l.Key) {
		key := tagKey{f.Vulnerability.ID, f.Package.Name}
		present[key] = max(present[key], f.Vulnerability.Risk)
	}
	bestRisk, bestNumber := 0.0, 0
	for _, tag := range l.tags {
		image := m.tags[l.of[tag]]
		if image == nil || image.problem != "" || image.resultSet != m.current {
			continue
		}
		closes, risk := map[tagKey]bool{}, 0.0
		for key, of := range present {
			if !slices.ContainsFunc(image.found, func(f store.TagFinding) bool { return f.VulnerabilityID == key.vulnerability && f.Package == key.name }) {
				closes[key] = true
				risk += of
			}
		}
		var opens []store.TagFinding
		bad := false
		for _, f := range image.found {
			if _, there := present[tagKey{f.VulnerabilityID, f.Package}]; !there {
				opens = append(opens, f)
				risk -= f.Risk
				bad = bad || f.KEV || f.Severity >= model.SeverityHigh
			}
		}
		number := len(closes) - len(opens)
		if bad || risk < 0 || risk == 0 && number <= 0 || best != "" && (risk < bestRisk || risk == bestRisk && number <= bestNumber) {
			continue
		}
		slices.SortFunc(opens, func(a, b store.TagFinding) int {
			return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(b.Risk, a.Risk), cmp.Compare(a.VulnerabilityID, b.VulnerabilityID), cmp.Compare(a.Package, b.Package))
		})
		best, bestCloses, bestOpens, bestRisk, bestNumber = tag, closes, opens, risk, number
	}
	return best, bestCloses, bestOpens
}
