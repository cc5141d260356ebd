package decision

import "github.com/scanner-operator/scanner-operator/internal/model"

// MatcherVersion stands for how a Matcher compares packages. Raise it whenever IdentityOf, ParsePattern or Matcher say something else of a package or a pattern than
// before: what stored decisions match is then looked up again.
const MatcherVersion = 2

// Rules reads and evaluates the rules of decisions that follow from documents. Rules about the same vulnerability can contradict each other:
// one of them decides.
type Rules interface {
	// Parse reads a rule. The text is one that was given with a decision.
	Parse(text string) (Rule, error)
	// Decide returns the index of the rule that decides about a finding in a package, -1 if none is about the package. All rules name the
	// vulnerability of the finding, and are about the image in question. Of the package it reads only what the fingerprint covers. The order of the
	// rules has no effect.
	Decide(p *model.Package, rules []Rule) int
	// Independent reports whether the rule decides about each finding that it is about, whatever other rules say. Those that are not decide as one.
	Independent(rule Rule) bool
	// Work returns what the rule has cost since it was read, in units of one comparison of names. A rule is used by one goroutine at a time.
	Work(rule Rule) int
}

// Rule is a rule that was read, in the form that its Rules understand.
type Rule any
