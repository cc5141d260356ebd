package vex

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"

	"github.com/scanner-operator/scanner-operator/internal/decision"
	"github.com/scanner-operator/scanner-operator/internal/model"
)

// Set holds documents. It is immutable, and may be used by several goroutines at once.
type Set struct {
	documents []*Document
	// byVulnerability holds the statements about an ID, as of key.
	byVulnerability map[string][]entry
}

// entry is a statement and its document.
type entry struct {
	document  *Document
	statement *Statement
}

// The bounds of a Set.
const (
	MaxDocuments        = 100
	maxSetStatements    = 100_000
	maxSetProducts      = 1_000_000
	maxVulnerabilityIDs = 1_000_000
)

// NewSet returns the set of some documents, at most MaxDocuments. Of documents with the same format, ID, author and Trust, it uses those with the newest revision.
func NewSet(documents []*Document) (*Set, error) {
	if len(documents) > MaxDocuments {
		return nil, fmt.Errorf("%d VEX documents are more than the limit of %d: merge some of them", len(documents), MaxDocuments)
	}
	s := &Set{byVulnerability: map[string][]entry{}}
	statements, products, ids := 0, 0, 0
	for _, d := range documents {
		if slices.ContainsFunc(documents, d.replacedBy) {
			continue
		}
		s.documents = append(s.documents, d)
		statements += len(d.Statements)
		for i := range d.Statements {
			statement := &d.Statements[i]
			products += statement.size()
			keys := []string{key(statement.Vulnerability)}
			for _, alias := range statement.Aliases {
				keys = append(keys, key(alias))
			}
			slices.Sort(keys)
			for _, id := range slices.Compact(keys) {
				ids++
				s.byVulnerability[id] = append(s.byVulnerability[id], entry{d, statement})
			}
		}
	}
	for _, bound := range []struct {
		name         string
		count, limit int
	}{{"statements", statements, maxSetStatements}, {"products", products, maxSetProducts}, {"vulnerability IDs", ids, maxVulnerabilityIDs}} {
		if bound.count > bound.limit {
			return nil, fmt.Errorf("the VEX documents have %d %s in total, more than the limit of %d: use fewer documents", bound.count, bound.name, bound.limit)
		}
	}
	return s, nil
}

// size counts products and subcomponents.
func (s *Statement) size() int {
	n := len(s.Products)
	for i := range s.Products {
		n += len(s.Products[i].Subcomponents)
	}
	return n
}

// speaker is who makes statements.
type speaker struct{ author, trust string }

func (s speaker) compare(other speaker) int {
	return cmp.Or(cmp.Compare(s.author, other.author), cmp.Compare(s.trust, other.trust))
}

// speaker tells authors apart. A document that does not name its author has one of its own.
func (d *Document) speaker() speaker { return speaker{cmp.Or(d.Author, d.ID, d.Source), d.Trust} }

// replacedBy reports whether another document is a newer revision of this one.
func (d *Document) replacedBy(other *Document) bool {
	if d.ID == "" || d.ID != other.ID || d.Format != other.Format || d.Author != other.Author || d.Trust != other.Trust {
		return false
	}
	return semver.Compare("v"+d.Revision, "v"+other.Revision) < 0
}

// Result says what the statements of a set mean for the findings of an image.
type Result struct {
	// Open are the findings that count, in the order in which they were given, and Suppressed the others.
	Open       []model.Finding
	Suppressed []model.SuppressedFinding
	// Unmatched are the statements that match no finding, by source and position.
	Unmatched []Unmatched
}

// Unmatched is a statement that matches no finding.
type Unmatched struct {
	Source    string
	Statement *Statement
	// Ended says that the statement is a decision whose end is over, so that it matches nothing. See Document.ExportedDecisions.
	Ended bool
}

// Apply says which findings of an image are suppressed at a time. The result does not depend on the order of the documents. The error is that of the
// context, which ends the work between two findings.
func (s *Set) Apply(ctx context.Context, names model.ImageNames, findings []model.Finding, versions Versions, now time.Time) (Result, error) {
	var result Result
	image := newImage(names)
	matched := map[*Statement]bool{}
	versions = &memo{versions, map[comparison]bool{}}
	for i := range findings {
		if err := ctx.Err(); err != nil {
			return Result{}, err
		}
		deciding, decided := s.decide(image, newSubject(&findings[i]), versions, now, func(e entry) { matched[e.statement] = true })
		switch {
		case decided != nil:
			result.Suppressed = append(result.Suppressed, model.SuppressedFinding{Finding: findings[i], Suppression: decided.suppression()})
		case deciding != nil && deciding.statement.Status.Suppresses():
			result.Suppressed = append(result.Suppressed, model.SuppressedFinding{Finding: findings[i], Suppression: deciding.suppression()})
		default:
			result.Open = append(result.Open, findings[i])
		}
	}
	for _, d := range s.documents {
		for i := range d.Statements {
			if statement := &d.Statements[i]; !matched[statement] {
				exported, found := d.exported(statement)
				result.Unmatched = append(result.Unmatched, Unmatched{d.Source, statement, found && over(&exported, now)})
			}
		}
	}
	slices.SortStableFunc(result.Unmatched, func(a, b Unmatched) int { return strings.Compare(a.Source, b.Source) })
	return result, nil
}

// decide returns the statement that decides about a finding and the exported decision that suppresses it, each nil when there is none, and calls matched
// for each statement that matches. One of them is enough to suppress the finding.
func (s *Set) decide(i *image, p *subject, versions Versions, now time.Time, matched func(entry)) (deciding *entry, decided *decidedEntry) {
	var d decider
	for _, id := range p.ids {
		for _, e := range s.byVulnerability[id] {
			exported, independent := e.document.exported(e.statement)
			if independent && over(&exported, now) {
				continue
			}
			precision := e.statement.matches(i, p, versions)
			if precision == noMatch {
				continue
			}
			matched(e)
			switch one := (decidedEntry{candidate{e, precision}, exported}); {
			case !independent:
				d.add(one.candidate)
			case exported.Suppresses && (decided == nil || one.compare(decided) < 0):
				decided = &one
			}
		}
	}
	if c := d.deciding(); c != nil {
		deciding = &c.entry
	}
	return deciding, decided
}

// decidedEntry is a statement that is an exported decision.
type decidedEntry struct {
	candidate
	decision model.Decision
}

// compare orders decisions that suppress the same finding as all lists do, the one that is shown first.
func (e *decidedEntry) compare(other *decidedEntry) int {
	return cmp.Or(decision.Compare(e.decision, other.decision), -e.compareOfAuthors(other.candidate))
}

// over reports whether a decision has ended.
func over(d *model.Decision, now time.Time) bool {
	return !d.ExpiresAt.IsZero() && !d.ExpiresAt.After(now)
}

func (e *decidedEntry) suppression() model.Suppression {
	s := e.candidate.suppression()
	s.Decision, s.ExpiresAt, s.Comment = e.decision.Status, e.decision.ExpiresAt, e.decision.Comment
	// The comment of a decision is in the text that the format requires.
	s.ImpactStatement = ""
	return s
}

// decider picks the statement that decides among those that match a finding.
type decider struct {
	// newest holds what each author says now.
	newest map[speaker]candidate
}

func (d *decider) add(c candidate) {
	if d.newest == nil {
		d.newest = map[speaker]candidate{}
	}
	author := c.document.speaker()
	if best, found := d.newest[author]; !found || c.compareOfAuthor(best) > 0 {
		d.newest[author] = c
	}
}

// deciding returns nil when no statement was added.
func (d *decider) deciding() *candidate {
	var deciding *candidate
	for _, c := range d.newest {
		if deciding == nil || c.compareOfAuthors(*deciding) > 0 {
			deciding = &c
		}
	}
	return deciding
}

// candidate is a statement that matches a finding.
type candidate struct {
	entry
	precision precision
}

// compareOfAuthor orders the statements of one author; the greatest is what the author says now.
func (c candidate) compareOfAuthor(other candidate) int {
	return cmp.Or(
		c.statement.Timestamp.Compare(other.statement.Timestamp),
		cmp.Compare(c.precision, other.precision),
		c.compareRest(other),
	)
}

// compareOfAuthors orders what authors say now; the greatest decides.
func (c candidate) compareOfAuthors(other candidate) int {
	return cmp.Or(
		cmp.Compare(c.statement.Status.caution(), other.statement.Status.caution()),
		c.statement.Timestamp.Compare(other.statement.Timestamp),
		cmp.Compare(c.precision, other.precision),
		c.document.speaker().compare(other.document.speaker()),
		c.compareRest(other),
	)
}

// compareRest makes the order total: statements that are equal here are shown alike.
func (c candidate) compareRest(other candidate) int {
	a, b := c.document, other.document
	return cmp.Or(
		cmp.Compare(c.statement.Status.caution(), other.statement.Status.caution()),
		cmp.Compare(a.Format, b.Format),
		cmp.Compare(a.ID, b.ID),
		cmp.Compare(a.Revision, b.Revision),
		cmp.Compare(a.Source, b.Source),
		cmp.Compare(c.statement.Position, other.statement.Position),
		compareMeaning(c.statement, other.statement),
	)
}

// suppression describes the statement for reports.
func (e *entry) suppression() model.Suppression {
	return model.Suppression{
		Status: string(e.statement.Status), Justification: string(e.statement.Justification), ImpactStatement: e.statement.ImpactStatement,
		Comment: e.statement.Comment, Author: e.document.Author, Source: e.document.Source, Document: e.document.ID,
		Position: e.statement.Position, Timestamp: e.statement.Timestamp, LastUpdated: e.statement.LastUpdated,
	}
}
