package vexdecisions

import (
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vex"
)

// source is a source with its statements.
type source struct {
	store.VEXSource
	problem *Problem
	// names are those of the documents, which forget drops.
	documents []*vex.Document
	names     []string
	count     int
	// statements has those that have been noted, and all is made of them by forget.
	statements map[*vex.Statement]*statement
	all        []*statement
}

// statement is one of a document.
type statement struct {
	Unmatched
	// keys are those of its decisions.
	keys []string
	// expiresAt is when they end, zero when they have no end.
	expiresAt time.Time
}

// note adds the decision of a rule.
func (s *source) note(rule *vex.Rule) {
	one := s.of(rule.Statement)
	one.keys = append(one.keys, rule.Key)
	one.Reason = NoFinding
	if rule.Decision != nil {
		one.expiresAt = rule.Decision.ExpiresAt
	}
}

func (s *source) of(key *vex.Statement) *statement {
	if s.statements == nil {
		s.statements = map[*vex.Statement]*statement{}
	}
	if s.statements[key] == nil {
		s.statements[key] = &statement{}
	}
	return s.statements[key]
}

// forget drops the documents, and keeps what is told of their statements. images are those that name images in another way than by digest.
func (s *source) forget(images map[*vex.Statement]bool) {
	for n, d := range s.documents {
		for i := range d.Statements {
			key := &d.Statements[i]
			one := s.statements[key]
			if one == nil {
				one = &statement{}
				switch {
				case images[key]:
					one.Reason = ImagesOnly
				case key.Identified() && len(usable(key)) > 0:
					one.Reason = Overridden
				default:
					one.Reason = NotIdentified
				}
			}
			one.Document, one.Position, one.Vulnerability = s.names[n], key.Position, key.Vulnerability
			s.all = append(s.all, one)
		}
	}
	s.documents, s.statements = nil, nil
}

// applied says what became of the source at a time.
func (s *source) applied(counts map[store.DecisionObject]store.DecisionCount, now time.Time) Applied {
	a := Applied{VEXSource: s.VEXSource, Problem: s.problem, Statements: s.count}
	if s.problem != nil {
		return a
	}
	for _, one := range s.all {
		matched, unmatched := 0, one.Unmatched
		if !one.expiresAt.IsZero() && !one.expiresAt.After(now) {
			unmatched.Reason = Expired
		} else {
			for _, key := range one.keys {
				count := counts[s.key(key)]
				matched += count.Matched
				a.Suppressed += count.Suppressed
			}
		}
		if matched > 0 {
			a.Matched++
			continue
		}
		a.Unmatched++
		if unmatched.Reason == ImagesOnly {
			a.ImagesOnly++
		}
		if len(a.Examples) < MaxUnmatched {
			a.Examples = append(a.Examples, unmatched)
		}
		if unmatched.Reason != NoFinding && len(a.NotApplied) < MaxUnmatched {
			a.NotApplied = append(a.NotApplied, unmatched)
		}
	}
	return a
}

// maxName is the longest ID of a vulnerability that the store takes, in bytes.
const maxName = 255

// usable returns the IDs of a statement that the store can have. No finding has another one.
func usable(s *vex.Statement) []string {
	var names []string
	for _, id := range append([]string{s.Vulnerability}, s.Aliases...) {
		id = strings.TrimSpace(id)
		if id != "" && len(id) <= maxName && !strings.ContainsFunc(id, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }) {
			names = append(names, id)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// statuses are the statuses of decisions by those of statements.
var statuses = map[vex.Status]model.DecisionStatus{
	vex.StatusNotAffected: model.DecisionNotAffected, vex.StatusFixed: model.DecisionFixed, vex.StatusAffected: model.DecisionAffected,
	vex.StatusUnderInvestigation: model.DecisionUnderInvestigation,
}

// decisionOf is the decision of a rule. Only uploads have an author: anybody can write any author into a document.
func decisionOf(s *source, rule *vex.Rule, names []string) store.Decision {
	statement := rule.Statement
	decision := store.Decision{
		Object: s.key(rule.Key), Vulnerabilities: names, Author: s.Author, StatedAuthor: rule.Document.Author, Images: rule.Images, Rule: rule.Text,
	}
	if d := rule.Decision; d != nil {
		decision.Status, decision.Justification, decision.Comment, decision.ExpiresAt, decision.Full = d.Status, d.Justification, d.Comment, d.ExpiresAt, true
		return decision
	}
	var texts []string
	for _, text := range []string{statement.ImpactStatement, statement.ActionStatement, statement.Comment} {
		if text != "" {
			texts = append(texts, text)
		}
	}
	decision.Status, decision.Justification, decision.Comment = statuses[statement.Status], string(statement.Justification), strings.Join(texts, "; ")
	return decision
}
