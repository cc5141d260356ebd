package notify

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// Bounds of messages.
const (
	// maxWorst is how many findings, and how many other changes, a message names.
	maxWorst = 10
	// maxKept is how many findings a message keeps until it is sent: the next ones are named if decisions suppress some of the worst.
	maxKept = 100
	// maxIntroduced is how many images that are new in a namespace are among them.
	maxIntroduced = maxKept / 2
	// maxTracked is how many changes of findings, and overdue findings, a message can leave out one by one if decisions suppress them before it is sent.
	maxTracked = 20_000
	// maxWorkloads is how many workloads a message counts one by one.
	maxWorkloads = 1000
	// maxText bounds texts from images and databases, in bytes.
	maxText = 255
)

// Message says what changed for a group. It is the data of CloudEvents, without the workloads beyond the first ones.
type Message struct {
	Rule string `json:"rule"`
	// Group names what the changes have in common, such as a namespace, "" for all changes of a rule.
	Group string `json:"group,omitempty"`
	// Combined says that changes of several groups are here, because the rule has sent as many messages as it may in an hour.
	Combined bool `json:"combined,omitempty"`
	// Test says that a user asked for the message, to see whether it arrives. It is about no change.
	Test bool `json:"test,omitempty"`
	// Report is attached to the mail, which is about no single change; nil for other messages.
	Report *Report `json:"report,omitempty"`
	// From and To are when the first and the last change were recorded.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Counts are the numbers of changes by kind. A vulnerability of a package counts once for each group, however many workloads run it.
	Counts map[Kind]int `json:"counts"`
	// Severities counts the changes that have a severity, by kind. FindingOverdue, RolloutEvaluated and ImageIntroduced count their findings.
	Severities map[Kind]model.SeverityCounts `json:"severities,omitempty"`
	// Changes are the IDs of the changes of findings that are counted, by kind and severity, at most maxTracked. Receivers do not get them.
	Changes map[Kind]map[model.Severity][]int64 `json:"changes,omitempty"`
	// Worst are the worst findings, at most ten, and maxKept until the message is sent. Others are the first changes that are about no single finding, at most ten.
	Worst  []Finding `json:"worst,omitempty"`
	Others []Other   `json:"others,omitempty"`
	// Workloads are those that the changes concern, as NAMESPACE/KIND/NAME. More says that there are more than the number counted.
	Workloads []string `json:"workloads,omitempty"`
	More      bool     `json:"moreWorkloads,omitempty"`
	// Link is where the UI shows more, "" if the external URL is not configured.
	Link string `json:"link,omitempty"`
	// tracked is the number of Changes, and of the keys of overdue findings.
	tracked int
}

// Finding is a finding in a message.
type Finding struct {
	Kind            Kind           `json:"kind"`
	VulnerabilityID string         `json:"vulnerabilityId"`
	Severity        model.Severity `json:"severity"`
	KEV             bool           `json:"kev,omitempty"`
	EPSS            float64        `json:"epss,omitempty"`
	Package         string         `json:"package"`
	Version         string         `json:"version"`
	FixedIn         string         `json:"fixedIn,omitempty"`
	// Images is the number of images of the group with the package, and Image the first of them.
	Images int    `json:"images"`
	Image  string `json:"image,omitempty"`
	// Change is the ID of the change. Receivers do not get it.
	Change int64 `json:"change,omitempty"`
}

// Other is a change that is about no single finding.
type Other struct {
	Kind Kind   `json:"kind"`
	Text string `json:"text"`
	// Overdue is the image whose findings became overdue, nil for other kinds. Receivers do not get it.
	Overdue *store.OverdueImage `json:"overdue,omitempty"`
	// Rollout is the rollout that was evaluated, nil for other kinds. Receivers do not get it.
	Rollout *EvaluatedRollout `json:"rollout,omitempty"`
	// Introduced is the image that is new in a namespace, nil for other kinds. Receivers do not get it.
	Introduced *IntroducedImage `json:"introduced,omitempty"`
}

// worse orders findings, the worst first.
func worse(a, b Finding) int {
	known := func(f Finding) int {
		if f.KEV && f.Kind != FindingClosed {
			return 0
		}
		return 1
	}
	closed := func(f Finding) int {
		if f.Kind == FindingClosed {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(closed(a), closed(b)), cmp.Compare(known(a), known(b)), cmp.Compare(b.Severity, a.Severity), cmp.Compare(b.EPSS, a.EPSS),
		cmp.Compare(a.VulnerabilityID, b.VulnerabilityID), cmp.Compare(a.Package, b.Package), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Image, b.Image),
	)
}

// addFinding adds a change of a finding.
func (m *Message) addFinding(f Finding, at time.Time) {
	m.span(at, at)
	m.count(f.Kind, 1)
	counts := m.Severities[f.Kind]
	counts.Add(f.Severity)
	m.severities(f.Kind, counts)
	if f.Change != 0 {
		m.track(f.Kind, f.Severity, f.Change)
	}
	m.insert(f)
}

// track notes changes that can be left out, as long as there is room.
func (m *Message) track(kind Kind, severity model.Severity, changes ...int64) {
	room := max(0, maxTracked-m.tracked)
	changes = changes[:min(len(changes), room)]
	if len(changes) == 0 {
		return
	}
	m.tracked += len(changes)
	if m.Changes == nil {
		m.Changes = map[Kind]map[model.Severity][]int64{}
	}
	if m.Changes[kind] == nil {
		m.Changes[kind] = map[model.Severity][]int64{}
	}
	m.Changes[kind][severity] = append(m.Changes[kind][severity], changes...)
}

// changeIDs are the IDs of all changes that can be left out, each once and in order.
func (m *Message) changeIDs() []int64 {
	var ids []int64
	for _, bySeverity := range m.Changes {
		for _, changes := range bySeverity {
			ids = append(ids, changes...)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// concerned tells which workloads the message of a rule concerns. If it does not list all of them, these are the workloads of its group.
func (m *Message) concerned(rule *Rule) func(*store.Workload) bool {
	listed := make(map[string]bool, len(m.Workloads))
	for _, name := range m.Workloads {
		listed[name] = true
	}
	return func(w *store.Workload) bool {
		if !rule.sees(w.Namespace) || listed[workloadName(w)] {
			return rule.sees(w.Namespace)
		}
		_, group := rule.group(w)
		return m.More && (m.Combined || group == m.Group)
	}
}

// leaveOut removes changes, whose IDs are in order.
func (m *Message) leaveOut(suppressed []int64) {
	gone := func(id int64) bool {
		_, found := slices.BinarySearch(suppressed, id)
		return found
	}
	for kind, bySeverity := range m.Changes {
		counts := m.Severities[kind]
		for severity, changes := range bySeverity {
			left := slices.DeleteFunc(changes, gone)
			m.Counts[kind] -= len(changes) - len(left)
			counts = counts.Minus(severity, len(changes)-len(left))
			bySeverity[severity] = left
		}
		if m.Severities[kind] = counts; m.Counts[kind] == 0 {
			delete(m.Counts, kind)
			delete(m.Severities, kind)
		}
	}
	m.Worst = slices.DeleteFunc(m.Worst, func(f Finding) bool { return f.Change != 0 && gone(f.Change) })
}

// forReceivers is the message as receivers get it.
func (m *Message) forReceivers() *Message {
	sent := *m
	sent.Changes, sent.Worst = nil, slices.Clone(m.Worst[:min(len(m.Worst), maxWorst)])
	for i := range sent.Worst {
		sent.Worst[i].Change = 0
	}
	sent.Others = slices.Clone(m.Others)
	worstIntroduced(sent.Others)
	sent.Others = sent.Others[:min(len(sent.Others), maxWorst)]
	for i := range sent.Others {
		sent.Others[i].Overdue, sent.Others[i].Rollout, sent.Others[i].Introduced = nil, nil, nil
	}
	return &sent
}

// insert adds a finding to the worst ones, if it is one of them.
func (m *Message) insert(f Finding) {
	n, _ := slices.BinarySearchFunc(m.Worst, f, worse)
	if n < maxKept {
		m.Worst = slices.Insert(m.Worst, n, f)
		m.Worst = m.Worst[:min(len(m.Worst), maxKept)]
	}
}

// addOther adds another change, with the findings that it is about.
func (m *Message) addOther(o Other, findings model.SeverityCounts, at time.Time) {
	m.span(at, at)
	m.count(o.Kind, 1)
	if findings.Total() > 0 {
		m.severities(o.Kind, m.Severities[o.Kind].Plus(findings))
	}
	o.Text = truncate.Ellipsis(o.Text, 2*maxText)
	m.keep(o)
}

// keep adds to the other changes as long as there is room, with the keys of findings as long as there is room for these.
func (m *Message) keep(o Other) {
	if o.Introduced != nil && !m.makeRoom(o.Introduced) || len(m.Others) == maxKept {
		return
	}
	if o.Overdue != nil {
		if m.tracked+len(o.Overdue.Keys) > maxTracked {
			o.Overdue = new(*o.Overdue)
			o.Overdue.Keys = nil
		}
		m.tracked += len(o.Overdue.Keys)
	}
	m.Others = append(m.Others, o)
}

// revised is what becomes of a change in Others: what it counted and counts now, and whether it stays.
type revised struct {
	before, after model.SeverityCounts
	other         Other
	stays         bool
}

// reviseOthers has changes of a kind count other findings, or leaves them out. revise returns nil for one that stays as it is. It reports whether anything
// changed.
func (m *Message) reviseOthers(kind Kind, revise func(i int, o Other) *revised) (changed bool) {
	var kept []Other
	for i, o := range m.Others {
		r := revise(i, o)
		if r == nil {
			kept = append(kept, o)
			continue
		}
		changed = true
		counts := difference(m.Severities[kind], r.before)
		if r.stays {
			counts = counts.Plus(r.after)
			kept = append(kept, r.other)
		} else if m.Counts[kind]--; m.Counts[kind] == 0 {
			delete(m.Counts, kind)
			delete(m.Severities, kind)
			continue
		}
		m.severities(kind, counts)
	}
	m.Others = kept
	return changed
}

// makeRoom reports whether there is room for an image that is new in a namespace: the worst maxIntroduced of them are kept, so that there is room for others.
func (m *Message) makeRoom(image *IntroducedImage) bool {
	kept, least := 0, -1
	for i := range m.Others {
		if one := m.Others[i].Introduced; one != nil {
			if kept++; least < 0 || one.compare(m.Others[least].Introduced) < 0 {
				least = i
			}
		}
	}
	if kept < maxIntroduced {
		return true
	}
	if image.compare(m.Others[least].Introduced) <= 0 {
		return false
	}
	m.Others = slices.Delete(m.Others, least, least+1)
	return true
}

// worstIntroduced orders the images that are new in a namespace, the worst first; the other changes stay where they are.
func worstIntroduced(others []Other) {
	var places []int
	var images []Other
	for i := range others {
		if others[i].Introduced != nil {
			places, images = append(places, i), append(images, others[i])
		}
	}
	slices.SortStableFunc(images, func(a, b Other) int { return b.Introduced.compare(a.Introduced) })
	for i, place := range places {
		others[place] = images[i]
	}
}

func (m *Message) span(from, to time.Time) {
	if m.From.IsZero() || from.Before(m.From) {
		m.From = from
	}
	if to.After(m.To) {
		m.To = to
	}
}

func (m *Message) count(kind Kind, n int) {
	if m.Counts == nil {
		m.Counts = map[Kind]int{}
	}
	m.Counts[kind] += n
}

func (m *Message) severities(kind Kind, counts model.SeverityCounts) {
	if m.Severities == nil {
		m.Severities = map[Kind]model.SeverityCounts{}
	}
	m.Severities[kind] = counts
}

// addWorkloads adds the names of workloads; both lists are sorted.
func (m *Message) addWorkloads(names []string) {
	m.Workloads = append(m.Workloads, names...)
	slices.Sort(m.Workloads)
	m.Workloads = slices.Compact(m.Workloads)
	if len(m.Workloads) > maxWorkloads {
		m.Workloads, m.More = m.Workloads[:maxWorkloads], true
	}
}

// merge adds what another message of the rule says.
func (m *Message) merge(other *Message) {
	m.span(other.From, other.To)
	for kind, n := range other.Counts {
		m.count(kind, n)
	}
	for kind, counts := range other.Severities {
		m.severities(kind, m.Severities[kind].Plus(counts))
	}
	for _, kind := range slices.Sorted(maps.Keys(other.Changes)) {
		for _, severity := range slices.Sorted(maps.Keys(other.Changes[kind])) {
			m.track(kind, severity, other.Changes[kind][severity]...)
		}
	}
	for _, f := range other.Worst {
		m.insert(f)
	}
	for _, o := range other.Others {
		m.keep(o)
	}
	m.More = m.More || other.More
	m.addWorkloads(other.Workloads)
}

// Severity is the worst severity of the changes, SeverityUnknown if none has one. Closed findings count only where nothing else has one: they are good
// news.
func (m *Message) Severity() model.Severity {
	worst := model.SeverityUnknown
	for kind, counts := range m.Severities {
		if kind != FindingClosed || len(m.Severities) == 1 {
			worst = max(worst, worstOf(counts))
		}
	}
	return worst
}

// worstOf is the worst severity of which there is a finding.
func worstOf(c model.SeverityCounts) model.Severity {
	switch {
	case c.Critical > 0:
		return model.SeverityCritical
	case c.High > 0:
		return model.SeverityHigh
	case c.Medium > 0:
		return model.SeverityMedium
	case c.Low > 0:
		return model.SeverityLow
	case c.Negligible > 0:
		return model.SeverityNegligible
	default:
		return model.SeverityUnknown
	}
}

// workloadCount is the number of workloads as text.
func (m *Message) workloadCount() string {
	n := strconv.Itoa(len(m.Workloads))
	switch {
	case m.More:
		return "more than " + n + " workloads"
	case len(m.Workloads) == 1:
		return "1 workload"
	default:
		return n + " workloads"
	}
}

func (m *Message) encode() ([]byte, error) { return json.Marshal(m) }

func decode(content []byte) (*Message, error) {
	m := &Message{}
	if err := json.Unmarshal(content, m); err != nil {
		return nil, fmt.Errorf("read a message in the database: %w", err)
	}
	for _, bySeverity := range m.Changes {
		for _, changes := range bySeverity {
			m.tracked += len(changes)
		}
	}
	for i := range m.Others {
		if image := m.Others[i].Overdue; image != nil {
			m.tracked += len(image.Keys)
		}
	}
	return m, nil
}
