// Package vexdecisions keeps the decisions of the store equal to the statements of the VEX documents in it, and says what became of each
// source of documents.
package vexdecisions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vex"
)

const (
	// maxAttempts bounds how often documents are read again that change meanwhile.
	maxAttempts = 5
	// countEvery is how often findings are counted at most while no document changes.
	countEvery = time.Minute
	// syncAgain is when documents are applied again although none has changed.
	syncAgain = 10 * time.Minute
	// maxTime bounds one call of Sync or Apply.
	maxTime = 2 * time.Minute
	// MaxUnmatched bounds the statements of a source that are listed because they match nothing.
	MaxUnmatched = 20
)

// Store is the part of the store that an Applier uses.
type Store interface {
	store.VEXDocuments
	DecisionCounts(ctx context.Context, in store.Namespaces, source string) (map[store.DecisionObject]store.DecisionCount, error)
}

// Applier applies the documents of the store. It is safe for concurrent use; several processes may each have one. NewApplier makes one.
type Applier struct {
	// Log is told at level info of each source whose documents are applied or are not applied any more.
	Log logr.Logger

	store Store
	clock clock.PassiveClock
	// problems is told how many sources do not apply, by reason, whenever that may have changed.
	problems func(map[store.DecisionReason]int)

	// lock is held by the one call that looks at what follows.
	lock *semaphore.Weighted
	// revision is that of the documents that were read, "" before the first time.
	revision string
	sources  []*source
	// triedAt is when they were applied.
	triedAt time.Time
	// counted is when findings were counted.
	counted time.Time
	counts  map[store.DecisionObject]store.DecisionCount
}

// NewApplier returns an Applier of the documents of a store. problems, unless it is nil, is told how many sources do not apply, by reason.
func NewApplier(s Store, now clock.PassiveClock, problems func(map[store.DecisionReason]int)) *Applier {
	if problems == nil {
		problems = func(map[store.DecisionReason]int) {}
	}
	return &Applier{store: s, clock: now, problems: problems, lock: semaphore.NewWeighted(1)}
}

// Applied says what became of a source.
type Applied struct {
	store.VEXSource
	// Problem says why its statements do not apply, nil if they do.
	Problem *Problem
	// Statements counts those of its documents. Matched are those that decide about at least one current finding, and Unmatched the others; of
	// these, ImagesOnly name images in another way than by digest, and are not applied.
	Statements, Matched, Unmatched, ImagesOnly int
	// Suppressed counts the current findings of images that its statements suppress.
	Suppressed int
	// Examples are the first statements that match nothing, at most MaxUnmatched.
	Examples []Unmatched
	// NotApplied are the first statements that match nothing whatever is found, at most MaxUnmatched: those with another reason than NoFinding.
	NotApplied []Unmatched
}

// Problem says why the statements of a source do not apply.
type Problem struct {
	// Reason is Invalid or TooMany.
	Reason store.DecisionReason
	// Message says what is wrong, and which bound was exceeded.
	Message string
}

// Unmatched is a statement that decides about no finding.
type Unmatched struct {
	// Document is the name of the document within its source.
	Document string
	// Position is where the document has the statement, such as "statements[3]".
	Position, Vulnerability string
	Reason                  UnmatchedReason
}

// UnmatchedReason says why a statement decides about no finding.
type UnmatchedReason string

// The reasons.
const (
	// NoFinding: no current finding is one in its products, or other statements override it.
	NoFinding UnmatchedReason = "NoFinding"
	// NotIdentified: none of its products has a PURL, a CPE or a digest, or its vulnerability has no ID that can be stored.
	NotIdentified UnmatchedReason = "NotIdentified"
	// Overridden: a newer statement of the same author and the same source is about the same products.
	Overridden UnmatchedReason = "Overridden"
	// ImagesOnly: all of its products are images, and none is named by its digest.
	ImagesOnly UnmatchedReason = "ImagesOnly"
	// Expired: it is a decision whose end is over.
	Expired UnmatchedReason = "Expired"
)

// Apply makes the decisions of the store those of the documents in it, if these have changed, and returns what became of each source, the oldest
// first. An error means that what applied before still does.
func (a *Applier) Apply(ctx context.Context) ([]Applied, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	if err := a.lock.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("apply VEX documents: wait for another call: %w", err)
	}
	defer a.lock.Release(1)
	err := a.latest(ctx)
	if err != nil {
		return nil, err
	}
	if a.counts == nil || a.clock.Since(a.counted) >= countEvery {
		if a.counts, err = a.store.DecisionCounts(ctx, store.AllNamespaces(), store.DecisionSourceVEX); err != nil {
			return nil, fmt.Errorf("count the findings of VEX documents: %w", err)
		}
		a.counted = a.clock.Now()
	}
	all := make([]Applied, len(a.sources))
	for i, s := range a.sources {
		all[i] = s.applied(a.counts, a.clock.Now())
	}
	return all, nil
}

// Sync makes the decisions of the store those of the documents in it, as Apply does, and counts nothing.
func (a *Applier) Sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	if err := a.lock.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("apply VEX documents: wait for another call: %w", err)
	}
	defer a.lock.Release(1)
	return a.latest(ctx)
}

// latest applies the documents as they are when nothing changes them meanwhile.
func (a *Applier) latest(ctx context.Context) error {
	var err error
	for range maxAttempts {
		if err = a.sync(ctx); !errors.Is(err, store.ErrVEXChanged) {
			break
		}
	}
	return err
}

// sync reads the documents and applies them, unless they are the same as before and were applied not long ago: there can be room for more by then, and
// a replica of another version can have applied them in another way.
func (a *Applier) sync(ctx context.Context) error {
	listed, revision, err := a.store.VEX(ctx)
	if err != nil || revision == a.revision && a.clock.Since(a.triedAt) < syncAgain {
		return err
	}
	sources := make([]*source, len(listed))
	for i := range listed {
		s, err := a.read(ctx, listed[i])
		if errors.Is(err, store.ErrNotFound) {
			return store.ErrVEXChanged
		}
		if err != nil {
			return err
		}
		sources[i] = s
	}
	images, err := a.syncStore(ctx, revision, sources)
	if err != nil {
		return err
	}
	problems := map[store.DecisionReason]int{}
	for _, s := range sources {
		if s.problem != nil {
			problems[s.problem.Reason]++
		}
	}
	a.problems(problems)
	aboutImages := make(map[*vex.Statement]bool, len(images))
	for _, statement := range images {
		aboutImages[statement] = true
	}
	for _, s := range sources {
		s.forget(aboutImages)
	}
	if a.revision != "" {
		a.logChanges(a.sources, sources)
	}
	a.revision, a.sources, a.counts = revision, sources, nil
	a.triedAt = a.clock.Now()
	return nil
}

// logChanges logs which documents of which sources apply, where that has changed: their digest, why they do not apply, or nothing where there are none. There
// are at most store.MaxVEXDocuments sources, and users upload no faster than the limits of the API permit.
func (a *Applier) logChanges(before, after []*source) {
	type name struct{ kind, name string }
	states := func(sources []*source) map[name]string {
		all := make(map[name]string, len(sources))
		for _, s := range sources {
			state := "sha256:" + s.SHA256
			if s.problem != nil {
				state = string(s.problem.Reason)
			}
			all[name{s.Kind, s.Name}] = state
		}
		return all
	}
	from, to := states(before), states(after)
	for _, s := range slices.Concat(before, after) {
		key := name{s.Kind, s.Name}
		if from[key] != to[key] {
			a.Log.Info("VEX documents changed", "kind", s.Kind, "object", s.Name, "from", from[key], "to", to[key])
		}
		delete(from, key)
		delete(to, key)
	}
}

// syncStore makes the statements of the sources those that apply, and returns those that name images in another way than by digest. A source whose statements take too much work
// is left out. So are the newest sources that the store has no room for, first one and then twice as many each time: a source never decides whether those
// before it apply, and there are few attempts, each of which may look at all findings.
func (a *Applier) syncStore(ctx context.Context, revision string, sources []*source) (images []*vex.Statement, err error) {
	for more := 1; ; {
		decisions, images, err := combine(sources)
		if err == nil {
			err = a.store.SyncVEX(ctx, revision, decisions)
		}
		if full, found := errors.AsType[*store.VEXRoomError](err); found && leaveOutNewest(sources, full) {
			for range more - 1 {
				leaveOutNewest(sources, full)
			}
			more *= 2
			continue
		}
		heavy, found := errors.AsType[*store.VEXWorkError](err)
		if !found {
			return images, err
		}
		n := slices.IndexFunc(sources, func(s *source) bool { return s.problem == nil && s.Kind == heavy.Kind && s.Name == heavy.Name })
		if n < 0 {
			return nil, err
		}
		sources[n].problem = &Problem{store.DecisionTooMany, heavy.Error()}
	}
}

func (a *Applier) read(ctx context.Context, listed store.VEXSource) (*source, error) {
	s := &source{VEXSource: listed}
	contents, err := a.store.VEXContent(ctx, listed.Kind, listed.Name)
	if err != nil {
		return nil, err
	}
	for _, content := range contents {
		document, err := Read(listed.Kind, listed.Name, content)
		if err != nil {
			s.problem = &Problem{store.DecisionInvalid, err.Error()}
			return s, nil //nolint:nilerr // what became of the source says why
		}
		document.ExportedDecisions = listed.ExportedDecisions
		if listed.Kind == store.VEXKindSource {
			document.Trust = listed.Kind + "/" + listed.Name
		}
		s.documents = append(s.documents, document)
		s.names = append(s.names, content.Name)
		s.count += len(document.Statements)
	}
	return s, nil
}

// Read reads a document as the Applier does.
func Read(kind, name string, content store.VEXContent) (*vex.Document, error) {
	return vex.Read(kind+"/"+name+": "+content.Name, bytes.NewReader(content.Content), vex.Limits{Bytes: store.MaxVEXDocumentBytes})
}

// combine makes decisions of the statements of all sources. A source with which there would be too many is left out.
func combine(sources []*source) (decisions []store.Decision, images []*vex.Statement, err error) {
	for {
		var documents []*vex.Document
		of := map[*vex.Document]*source{}
		for _, s := range sources {
			s.statements = nil
			if s.problem != nil {
				continue
			}
			for _, d := range s.documents {
				documents = append(documents, d)
				of[d] = s
			}
		}
		set, err := vex.NewSet(documents)
		if err != nil {
			if !leaveOutNewest(sources, err) {
				return nil, nil, fmt.Errorf("%w: %w", err, store.ErrVEXTooMany)
			}
			continue
		}
		rules, images, err := set.Rules()
		if err != nil {
			return nil, nil, err
		}
		if tooMany(sources, of, rules) {
			continue
		}
		decisions = make([]store.Decision, 0, len(rules))
		for i := range rules {
			s := of[rules[i].Document]
			names := usable(rules[i].Statement)
			if len(names) == 0 {
				continue
			}
			decisions = append(decisions, decisionOf(s, &rules[i], names))
			s.note(&rules[i])
		}
		return decisions, images, nil
	}
}

// leaveOutNewest gives the newest source that has no problem the one that all together exceed a bound, and reports whether there is such a source.
func leaveOutNewest(sources []*source, exceeded error) bool {
	for _, s := range slices.Backward(sources) {
		if s.problem == nil {
			s.problem = &Problem{store.DecisionTooMany, exceeded.Error()}
			return true
		}
	}
	return false
}

// tooMany gives the newest source a problem with which there are more rules than the bound, and reports whether there is one.
func tooMany(sources []*source, of map[*vex.Document]*source, rules []vex.Rule) bool {
	counts, sizes := map[*source]int{}, map[*source]int{}
	for i := range rules {
		counts[of[rules[i].Document]]++
		sizes[of[rules[i].Document]] += len(rules[i].Text)
	}
	count, size := 0, 0
	for _, s := range sources {
		count, size = count+counts[s], size+sizes[s]
		if count > store.MaxVEXDecisions || size > store.MaxVEXRuleBytes {
			s.problem = &Problem{store.DecisionTooMany, fmt.Sprintf(
				"its documents have %d statements whose products take %d bytes, and all sources together may have %d and %d; delete others first, or use fewer documents",
				counts[s], sizes[s], store.MaxVEXDecisions, store.MaxVEXRuleBytes)}
			return true
		}
	}
	return false
}

// key names a decision of a source.
func (s *source) key(statement string) store.DecisionObject {
	return store.DecisionObject{Kind: s.Kind, Name: s.Name, Statement: statement}
}
