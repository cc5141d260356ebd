package match

import "github.com/anchore/grype/grype/match"

// GrypeVersion and SyftVersion are the fallbacks of Engine and Stamp.
const (
	GrypeVersion = grypeVersion
	SyftVersion  = syftVersion
)

// StampOf is the stamp of a program with these versions.
var StampOf = stamp

// UseMatchers replaces the matchers of a database by those that change makes of them.
func UseMatchers(d *Database, change func([]match.Matcher) []match.Matcher) {
	d.matchers = func() []match.Matcher { return change(newMatchers()) }
}

// Distinct sorts the packages of a context and removes what is there twice.
var Distinct = distinct
