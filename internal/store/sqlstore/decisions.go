package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/decision"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// The values of ended_by.
const (
	endChanged = string(store.DecisionEndChanged)
	endDeleted = string(store.DecisionEndDeleted)
	endExpired = string(store.DecisionEndExpired)
)

// everywhere is the reach of decisions that apply to all images in all namespaces.
const everywhere = 0

// maxComment is the most characters of a comment that are kept, as the schemas of exceptions have it.
const maxComment = 4096

// decisionRow is a row of decisions as far as it is compared and told.
type decisionRow struct {
	ID                                                     int64
	Kind, Namespace, Name, Digest, Status, Author, EndedBy string
	ExpiresAt, Since, UntilTime                            int64
}

const decisionColumns = "d.id, d.kind, d.namespace, d.name, d.digest, d.status, d.author, d.ended_by, d.expires_at, d.since, d.until_time"

func (r *decisionRow) object() store.DecisionObject {
	return store.DecisionObject{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
}

// event is what is told of the decision.
func (r *decisionRow) event(action store.DecisionAction, findings int) store.DecisionEvent {
	object := r.object()
	e := store.DecisionEvent{Action: action, Object: &object, Status: model.DecisionStatus(r.Status), Author: r.Author, Findings: findings}
	if r.ExpiresAt > 0 {
		at := fromMicros(r.ExpiresAt)
		e.ExpiresAt = &at
	}
	return e
}

// decisionName tells decisions of a source apart that apply.
type decisionName struct {
	object store.DecisionObject
	digest string
}

// decisionSpec is what a decision matches. Statement is that of its object, so that no two statements of an object have the same digest.
type decisionSpec struct {
	Statement       string   `json:"statement,omitempty"`
	Vulnerabilities []string `json:"vulnerabilities,omitempty"`
	Packages        []string `json:"packages,omitempty"`
	Images          []string `json:"images,omitempty"`
	Places          string   `json:"places,omitempty"`
	// Full and StatedAuthor are those of store.Decision. No comma follows the author: see filterDecisions.
	Full         bool   `json:"full,omitempty"`
	StatedAuthor string `json:"statedAuthor,omitempty"`
}

// newDecision is a decision that is to be applied.
type newDecision struct {
	row                          decisionRow
	suppresses, unfixed          int64
	spec, justification, comment string
	// names are the spellings of its vulnerabilities, nil if it names none.
	names   []string
	matcher *decision.Matcher
	// reach says where it applies, nil for everywhere.
	reach *newReach
	// over says that it ends before it begins, replaces that another one of the same object applied until now.
	over, replaces bool
	findings       []int64
	// statement and rule are those of a statement of a VEX document, "" for others.
	statement, rule string
}

// decisionOf reads a decision.
func decisionOf(d *store.Decision) (*newDecision, error) {
	for what, text := range map[string]string{"kind of the object": d.Object.Kind, "name of the object": d.Object.Name} {
		if err := checkIdentifier("the "+what, text); err != nil {
			return nil, err
		}
	}
	if d.Object.Namespace != "" {
		if err := checkIdentifier("the namespace of the object", d.Object.Namespace); err != nil {
			return nil, err
		}
	}
	if !d.Status.Suppresses() && d.Status != model.DecisionUnderInvestigation && d.Status != model.DecisionAffected {
		return nil, fmt.Errorf("%q is not a status", d.Status)
	}
	if len(d.Vulnerabilities)+len(d.Packages) == 0 {
		return nil, errors.New("it names neither a vulnerability nor a package")
	}
	if d.Rule == "" && len(d.Vulnerabilities) > store.MaxDecisionVulnerabilities || len(d.Packages) > store.MaxDecisionPackages {
		return nil, fmt.Errorf("it names %d vulnerabilities and %d packages, the maximum is %d and %d", len(d.Vulnerabilities), len(d.Packages),
			store.MaxDecisionVulnerabilities, store.MaxDecisionPackages)
	}
	n := &newDecision{
		row: decisionRow{
			Kind: d.Object.Kind, Namespace: d.Object.Namespace, Name: d.Object.Name, Status: string(d.Status),
			Author: sqldb.Truncate(d.Author, maxIdentifier), ExpiresAt: endOf(d.ExpiresAt),
		},
		suppresses: boolean(d.Status.Suppresses() && !d.DryRun), unfixed: boolean(d.Unfixed),
		justification: sqldb.Truncate(d.Justification, maxIdentifier), comment: truncate.Characters(sqldb.Clean(d.Comment), maxComment),
		statement: d.Object.Statement, rule: d.Rule,
	}
	for _, id := range d.Vulnerabilities {
		names := spellings(id)
		if names == nil {
			return nil, fmt.Errorf("%q is not the ID of a vulnerability", sqldb.Truncate(id, maxIdentifier))
		}
		n.names = append(n.names, names...)
	}
	slices.Sort(n.names)
	n.names = slices.Compact(n.names)
	var err error
	if n.matcher, err = decision.NewMatcher(d.Packages, d.Unfixed); err != nil {
		return nil, err
	}
	if n.reach, err = readReach(d); err != nil {
		return nil, err
	}
	spec := decisionSpec{d.Object.Statement, slices.Sorted(slices.Values(d.Vulnerabilities)), slices.Sorted(slices.Values(d.Packages)), slices.Sorted(slices.Values(d.Images)), "", d.Full,
		sqldb.Truncate(d.StatedAuthor, maxIdentifier)}
	if d.Places != nil {
		spec.Places = d.Places.Selector
	}
	content, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	n.spec = string(content)
	// The whole comment counts: what is edited behind the end of the part that is kept is another decision, too.
	n.row.Digest = contentDigest(n.row.Status, strconv.FormatInt(n.suppresses, 10), strconv.FormatInt(n.unfixed, 10), n.spec, n.justification, sqldb.Clean(d.Comment),
		n.row.Author, strconv.FormatInt(n.row.ExpiresAt, 10))
	return n, nil
}

// lastEnd is the latest end: JSON has no later times.
var lastEnd = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// endOf is an end as it is stored: 0 for none, and otherwise a time that can be shown.
func endOf(at time.Time) int64 {
	switch {
	case at.IsZero():
		return 0
	case at.Before(time.UnixMicro(1)):
		return 1
	case at.After(lastEnd):
		return lastEnd.UnixMicro()
	default:
		return at.UnixMicro()
	}
}

// decisionPlan is what makes the decisions of a source those that are wanted.
type decisionPlan struct {
	end      map[string][]decisionRow // By how they end.
	begin    []*newDecision
	problems map[store.DecisionObject]store.DecisionProblem
	// reaches are those of the new decisions that do not exist yet, numbers those of all of them when they are written; both by digest.
	reaches map[string]*newReach
	numbers map[string]int64
	// placed are the reaches with places that are wanted, by digest, and places how many they have. moved are those that have other places now, by number.
	placed map[string]*newReach
	places int
	moved  map[int64]*newReach
	// ending are the rows that end, and kept counts those that stay.
	ending []*decisionRow
	kept   int
	// wanted are the objects that exist.
	wanted map[store.DecisionObject]bool
	// forgotten are requests to delete objects that were deleted and created again since.
	forgotten []string
	// refused are the digests of the new decisions that there is no room for.
	refused map[store.DecisionObject]string
}

func (p *decisionPlan) empty() bool {
	return len(p.begin)+len(p.moved)+len(p.ending)+len(p.forgotten) == 0
}

// SyncDecisions implements store.Decisions.
func (s *Store) SyncDecisions(ctx context.Context, source string, decisions []store.Decision) (map[store.DecisionObject]store.DecisionProblem, error) {
	const what = "apply decisions"
	if err := checkIdentifier("the source", source); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	var plan *decisionPlan
	settled := false
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		behind, err := s.matchesBehind(tx)
		if err != nil {
			return err
		}
		if plan, err = planDecisions(tx, source, decisions, s.now()); err != nil {
			return err
		}
		s.existing.set(source, plan.wanted)
		// What decisions match is looked up once, in the transaction that writes, unless all of them are likely to be refused again.
		if settled = !behind && s.refusedBefore(source, plan.begin); settled {
			err = plan.bound(tx, source, s.matchBounds)
			settled = plan.empty()
		}
		return err
	})
	if err != nil || settled {
		return plan.problemsOf(), err
	}
	err = s.write(ctx, what, func(tx *txn) (err error) {
		behind, err := s.matchesBehind(tx.DB)
		if err == nil && behind {
			// After an upgrade, with which packages can match other patterns than before.
			err = tx.rematchDecisions(s.matcherVersion)
		}
		if err != nil {
			return err
		}
		if plan, err = planDecisions(tx.DB, source, decisions, tx.now); err != nil {
			return err
		}
		if err := plan.bound(tx.DB, source, s.matchBounds); err != nil {
			return err
		}
		return tx.carryOut(source, plan)
	})
	if err != nil {
		return nil, err
	}
	s.refused.set(source, plan.refused)
	return plan.problems, nil
}

// bySource remembers something about objects, by source: what the last SyncDecisions found. Its maps do not change.
type bySource[V any] struct {
	mu      sync.Mutex
	objects map[string]map[store.DecisionObject]V
}

// of returns what is known of the objects of a source; nil before the first SyncDecisions.
func (b *bySource[V]) of(source string) map[store.DecisionObject]V {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.objects[source]
}

func (b *bySource[V]) set(source string, objects map[store.DecisionObject]V) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.objects == nil {
		b.objects = map[string]map[store.DecisionObject]V{}
	}
	b.objects[source] = objects
}

// refusedBefore reports whether there was no room for each of these decisions.
func (s *Store) refusedBefore(source string, decisions []*newDecision) bool {
	digests := s.refused.of(source)
	return !slices.ContainsFunc(decisions, func(n *newDecision) bool { return digests[n.row.object()] != n.row.Digest })
}

func (p *decisionPlan) problemsOf() map[store.DecisionObject]store.DecisionProblem {
	if p == nil {
		return nil
	}
	return p.problems
}

// matchBounds are the most findings that one decision, all decisions, those of one namespace, and those of all namespaces match; how many those of one namespace, and
// those of the cluster with places, match without being refused because of what others have; the most joined reaches in all, when one of a namespace begins, and of
// the decisions of one namespace alone; the most decisions, and the most images that they reach.
type matchBounds struct {
	one, all, namespace, namespaced           int
	alwaysNamespace, alwaysCluster            int
	joined, namespacedJoined, namespaceJoined int
	decisions, images                         int
}

// always is how many findings the decisions of a namespace, "" for those of the cluster, match without being refused because of what others have.
func (b matchBounds) always(namespace string) int {
	if namespace == "" {
		return b.alwaysCluster
	}
	return b.alwaysNamespace
}

// planDecisions compares what is wanted with what applies. The plan is complete after bound.
func planDecisions(tx *gorm.DB, source string, decisions []store.Decision, now int64) (*decisionPlan, error) {
	plan := &decisionPlan{
		end: map[string][]decisionRow{}, problems: map[store.DecisionObject]store.DecisionProblem{}, placed: map[string]*newReach{},
		wanted: make(map[store.DecisionObject]bool, len(decisions)),
	}
	rows, last, err := lastDecisions(tx, source, now)
	if err != nil {
		return nil, err
	}
	for i := range decisions {
		object := decisions[i].Object
		if plan.wanted[object] {
			continue
		}
		plan.wanted[object] = true
		if decisions[i].Refused {
			continue
		}
		wanted, err := decisionOf(&decisions[i])
		if err == nil && (wanted.rule != "" || wanted.statement != "") {
			err = errors.New("it has a rule or names a statement, as only those of VEX documents may")
		}
		if err != nil {
			plan.problems[object] = store.DecisionProblem{Reason: store.DecisionInvalid, Message: err.Error()}
			continue
		}
		wanted.over = overAt(wanted.row.ExpiresAt, now)
		if !wanted.over {
			// One that has ended applies nowhere, and takes no room from others.
			if problem := plan.place(wanted.reach); problem != nil {
				plan.problems[object] = *problem
				continue
			}
		}
		before := last[object]
		switch applies := before != nil && before.UntilTime == stillOpen; {
		case applies && before.Digest == wanted.row.Digest:
			plan.kept++
			delete(last, object)
			continue
		case before != nil && !applies && before.EndedBy == endExpired && before.Digest == wanted.row.Digest:
			plan.problems[object] = expired(&wanted.row)
			continue
		default:
			wanted.replaces = applies
		}
		if wanted.over {
			plan.problems[object] = expired(&wanted.row)
			if !wanted.replaces {
				// It never applied, and ends none that does, so there is nothing to keep: anybody could add any number of such rows.
				continue
			}
		}
		plan.begin = append(plan.begin, wanted)
	}
	if err := plan.findMoved(tx); err != nil {
		return nil, err
	}
	for i := range rows {
		if row := &rows[i]; last[row.object()] != nil && row.UntilTime == stillOpen {
			plan.ending = append(plan.ending, row)
		}
	}
	return plan, plan.findForgotten(tx, source, decisions)
}

// place notes the places of a decision, or says why it cannot apply there.
func (p *decisionPlan) place(reach *newReach) *store.DecisionProblem {
	if reach == nil || !reach.placed {
		return nil
	}
	switch known := p.placed[reach.digest]; {
	case known != nil && known.placesDigest != reach.placesDigest:
		return &store.DecisionProblem{Reason: store.DecisionInvalid, Message: "another decision with the same selectors applies in other places"}
	case known == nil && p.places+len(reach.places) > store.MaxDecisionPlaces:
		return &store.DecisionProblem{Reason: store.DecisionTooBroad, Message: fmt.Sprintf(
			"it selects %d namespaces and workloads; the maximum for all decisions is %d; select fewer, or use the same selectors in several decisions",
			len(reach.places), store.MaxDecisionPlaces)}
	case known == nil:
		p.placed[reach.digest] = reach
		p.places += len(reach.places)
	}
	return nil
}

// findMoved finds the known reaches that have other places now.
func (p *decisionPlan) findMoved(tx *gorm.DB) error {
	p.moved = map[int64]*newReach{}
	return inParts(slices.Sorted(maps.Keys(p.placed)), func(part []string) error {
		var rows []struct {
			ID            int64
			Reach, Places string
		}
		err := tx.Raw("SELECT r.id, r.digest AS reach, q.digest AS places FROM reaches r JOIN placed_reaches q ON q.reach = r.id WHERE r.digest IN ?", part).Scan(&rows).Error
		for _, row := range rows {
			if reach := p.placed[row.Reach]; reach.placesDigest != row.Places {
				p.moved[row.ID] = reach
			}
		}
		return err
	})
}

func expired(row *decisionRow) store.DecisionProblem {
	return store.DecisionProblem{Reason: store.DecisionExpired, Message: "its end was " + fromMicros(row.ExpiresAt).Format(time.RFC3339)}
}

// ExpireDecisions implements store.Decisions.
func (s *Store) ExpireDecisions(ctx context.Context) (time.Time, error) {
	const what = "end decisions whose time is over"
	var next int64
	read := func(tx *gorm.DB) error {
		return tx.Raw("SELECT COALESCE(MIN(expires_at), 0) FROM decisions WHERE until_time = ? AND expires_at > 0", int64(stillOpen)).Scan(&next).Error
	}
	if err := s.read(ctx, what, read); err != nil || next == 0 || next > s.now() {
		return fromMicros(next), err
	}
	err := s.write(ctx, what, func(tx *txn) error {
		var rows []decisionRow
		err := tx.Raw("SELECT "+decisionColumns+" FROM decisions d WHERE d.until_time = ? AND d.expires_at > 0 AND d.expires_at <= ? ORDER BY d.expires_at, d.id",
			int64(stillOpen), tx.now).Scan(&rows).Error
		if err != nil {
			return err
		}
		counts, matched, err := tx.endDecisions(rows, endExpired)
		if err != nil {
			return err
		}
		audiences, err := audiencesOf(tx, matched, clusterwide(rows))
		if err != nil {
			return err
		}
		if err := tx.redecide(slices.Concat(slices.Collect(maps.Values(matched))...)); err != nil {
			return err
		}
		if err := tx.endRules(rows); err != nil {
			return err
		}
		if err := tx.writeDecisionEvents(store.EventDecisionExpired, eventsOf(rows, counts, audiences)); err != nil {
			return err
		}
		return read(tx.DB)
	})
	if err != nil {
		return time.Time{}, err
	}
	return fromMicros(next), nil
}
