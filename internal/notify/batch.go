package notify

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/policy"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// batch collects what a rule selects of some events.
type batch struct {
	rule *Rule
	// labels are those of namespaces, nil if the rule reads none.
	labels map[string]map[string]string
	groups map[string]*groupBatch
	// placed are the groups of images that run where the rule sees, and partly those of what is left of images, for a page of changes.
	placed map[model.ImageKey][]placement
	partly map[*store.RunningImage][]placement
	// turn counts the changes that were added.
	turn int
	// failures counts what the expression could not be evaluated for; failure tells of the first.
	failures int
	failure  string
}

// groupBatch is a message that is made.
type groupBatch struct {
	message Message
	// finding is what the change that is being added says here, if turn is that of the batch.
	finding Finding
	turn    int
}

// placement is a group with the workloads of an image in it, by name. listed says that its message has them.
type placement struct {
	group     *groupBatch
	workloads []string
	listed    bool
}

// list adds the workloads to the message, once.
func (p *placement) list() {
	if !p.listed {
		p.listed = true
		p.group.message.addWorkloads(p.workloads)
	}
}

func newBatch(rule *Rule, labels map[string]map[string]string) *batch {
	return &batch{
		rule: rule, labels: labels, groups: map[string]*groupBatch{}, placed: map[model.ImageKey][]placement{}, partly: map[*store.RunningImage][]placement{},
	}
}

// group returns the group with an ID.
func (b *batch) group(id, label string) *groupBatch {
	g := b.groups[id]
	if g == nil {
		g = &groupBatch{message: Message{Rule: b.rule.String(), Group: label}}
		b.groups[id] = g
	}
	return g
}

// note notes that the expression could not be evaluated.
func (b *batch) note(err error) {
	if b.failures++; b.failures == 1 {
		b.failure = truncate.Ellipsis(err.Error(), maxText)
	}
}

// selects reports whether the rule selects a change, wherever it is.
func (b *batch) selects(change *policy.Change, severity *model.Severity, finding *policy.ChangedFinding) bool {
	selected, err := b.rule.selects(change, severity, finding)
	if err != nil {
		b.note(err)
	}
	return selected
}

// place reports whether the rule selects a place.
func (b *batch) place(image *policy.Image, w *store.Workload) bool {
	selected, err := b.rule.selector.Place(image, &policy.ChangedWorkload{
		Namespace: w.Namespace, Kind: w.Kind, Name: w.Name, Owner: w.Owner, NamespaceLabels: b.labels[w.Namespace],
	})
	if err != nil {
		b.note(err)
	}
	return selected
}

// placements returns the groups of what runs an image, as far as the rule sees and selects it.
func (b *batch) placements(running *store.RunningImage) []placement {
	known, found := b.placed[running.ImageKey]
	if running.Partial {
		known, found = b.partly[running]
	}
	if found {
		return known
	}
	image := imageFacts(running.ImageKey)
	byGroup := map[*groupBatch][]string{}
	var order []*groupBatch
	seen := false
	for i := range running.Workloads {
		w := &running.Workloads[i]
		if !b.rule.sees(w.Namespace) {
			continue
		}
		seen = true
		if !b.place(image, w) {
			continue
		}
		g := b.group(b.rule.group(w))
		if byGroup[g] == nil {
			order = append(order, g)
		}
		byGroup[g] = append(byGroup[g], workloadName(w))
	}
	// With 1,000 rules of namespaces, entries for the images of other namespaces would need too much memory.
	if !seen {
		return nil
	}
	all := make([]placement, 0, len(order))
	for _, g := range order {
		all = append(all, placement{group: g, workloads: byGroup[g]})
	}
	if running.Partial {
		b.partly[running] = all
	} else {
		b.placed[running.ImageKey] = all
	}
	return all
}

func imageFacts(key model.ImageKey) *policy.Image {
	return &policy.Image{ID: key.ImageID, Repository: model.RepositoryOf(key.ImageID)}
}

// kindsOf are the kinds that a change of a finding is of.
func kindsOf(c *store.Change) []Kind {
	switch c.Kind {
	case store.ChangeOpened:
		return []Kind{FindingOpened}
	case store.ChangeClosed:
		return []Kind{FindingClosed}
	case store.ChangeChanged:
	default:
		return nil
	}
	var kinds []Kind
	for _, reason := range c.Reasons {
		switch reason {
		case store.ReasonKEV:
			if c.After != nil && c.After.KEV {
				kinds = append(kinds, KEVAdded)
			}
		case store.ReasonEPSS:
			if c.After != nil && c.After.EPSS >= store.EPSSThreshold {
				kinds = append(kinds, EPSSCrossed)
			}
		case store.ReasonSeverity, store.ReasonFix:
			if !slices.Contains(kinds, FindingChanged) {
				kinds = append(kinds, FindingChanged)
			}
		default:
		}
	}
	return kinds
}

// addChange adds a change by a database build in images.
func (b *batch) addChange(c *store.Change, images []*store.RunningImage) {
	side := c.After
	if side == nil {
		side = c.Before
	}
	// Places first: a rule of a namespace evaluates nothing for the findings of others.
	concerned := func(running *store.RunningImage) bool { return len(b.placements(running)) > 0 }
	if side == nil || !slices.ContainsFunc(images, concerned) {
		return
	}
	facts := &policy.ChangedFinding{
		ID: c.VulnerabilityID, Severity: side.Severity.String(), KEV: side.KEV, EPSS: side.EPSS, Fixable: len(side.FixVersions) > 0, FixState: string(side.FixState),
		Package: policy.Package{Type: c.Package.Type, Name: c.Package.Name, Version: c.Package.Version, Distro: c.Package.Distro},
	}
	for _, kind := range kindsOf(c) {
		if !b.selects(&policy.Change{Kind: string(kind), KEV: side.KEV}, &side.Severity, facts) {
			continue
		}
		finding := Finding{
			Kind: kind, VulnerabilityID: truncate.Ellipsis(c.VulnerabilityID, maxText), Severity: side.Severity, KEV: side.KEV, EPSS: side.EPSS,
			Change: c.ID, Package: truncate.Ellipsis(c.Package.Name, maxText), Version: truncate.Ellipsis(c.Package.Version, maxText),
		}
		if len(side.FixVersions) > 0 {
			finding.FixedIn = truncate.Ellipsis(side.FixVersions[0], maxText)
		}
		b.addPlaced(finding, c.At, images)
	}
}

// addPlaced adds a selected change to each group that it concerns, once.
func (b *batch) addPlaced(finding Finding, at time.Time, images []*store.RunningImage) {
	var touched []*groupBatch
	b.turn++
	for _, running := range images {
		places := b.placements(running)
		for i := range places {
			g := places[i].group
			if g.turn != b.turn {
				touched = append(touched, g)
				g.turn, g.finding = b.turn, finding
				g.finding.Image = running.ImageID
			}
			g.finding.Images++
			places[i].list()
		}
	}
	for _, g := range touched {
		g.message.addFinding(g.finding, at)
	}
}

// addRunning adds a change that is about all findings of an image, or about an image without any.
func (b *batch) addRunning(kind Kind, at time.Time, overdue *store.OverdueImage, running *store.RunningImage, text string) {
	var severity *model.Severity
	var counts model.SeverityCounts
	if overdue != nil {
		counts = overdue.Findings
		severity = new(worstOf(counts))
	}
	if running == nil || !b.selects(&policy.Change{Kind: string(kind)}, severity, &policy.ChangedFinding{}) {
		return
	}
	places := b.placements(running)
	for i := range places {
		other := Other{Kind: kind, Text: text}
		if overdue != nil {
			other.Overdue = new(*overdue)
		}
		places[i].group.message.addOther(other, counts, at)
		places[i].list()
	}
}

// addLost adds the containers of a namespace that are not scanned any more.
func (b *batch) addLost(data *store.CoverageLostEvent, at time.Time) {
	if !b.rule.sees(data.Namespace) || !b.selects(&policy.Change{Kind: string(CoverageLost)}, nil, &policy.ChangedFinding{}) {
		return
	}
	for i := range data.Containers {
		c := &data.Containers[i]
		if !b.place(imageFacts(model.ImageKey{ImageID: c.ImageID}), &c.Workload) {
			continue
		}
		w := &c.Workload
		name := workloadName(w)
		g := b.group(b.rule.group(w))
		g.message.addOther(Other{Kind: CoverageLost, Text: fmt.Sprintf("%s, container %s: %s, %s", name, c.Container, c.State, c.Reason)}, model.SeverityCounts{}, at)
		g.message.addWorkloads([]string{name})
	}
	if data.Omitted > 0 {
		b.addCluster(CoverageLost, at, data.Namespace, data.Omitted, fmt.Sprintf("%d further containers in %s", data.Omitted, data.Namespace))
	}
}

// addCluster adds changes that are about no workload, in a namespace or in the cluster. text is about all of them.
func (b *batch) addCluster(kind Kind, at time.Time, namespace string, changes int, text string) {
	if !b.rule.sees(namespace) || !b.selects(&policy.Change{Kind: string(kind)}, nil, &policy.ChangedFinding{}) {
		return
	}
	w := &store.Workload{Namespace: namespace}
	if !b.place(&policy.Image{}, w) {
		return
	}
	id, label := "", ""
	if b.rule.By == ByNamespace || b.rule.By == ByWorkload {
		id, label = namespace, namespace
	}
	m := &b.group(id, label).message
	m.addOther(Other{Kind: kind, Text: text}, model.SeverityCounts{}, at)
	m.count(kind, changes-1)
}

// workloadName is how messages name a workload.
func workloadName(w *store.Workload) string { return w.Namespace + "/" + w.Kind + "/" + w.Name }

// selected are the IDs of the groups with a change, the worst first.
func (b *batch) selected() []string {
	ids := slices.Collect(maps.Keys(b.groups))
	ids = slices.DeleteFunc(ids, func(id string) bool { return len(b.groups[id].message.Counts) == 0 })
	slices.SortFunc(ids, func(x, y string) int {
		a, c := &b.groups[x].message, &b.groups[y].message
		if order := int(c.Severity()) - int(a.Severity()); order != 0 {
			return order
		}
		if x < y {
			return -1
		}
		return 1
	})
	return ids
}
