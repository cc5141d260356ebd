package main

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// rule replaces the words that a pattern matches.
type rule struct {
	pattern *regexp.Regexp
	// unless matches uses of the words that are right; nil when there are none.
	unless *regexp.Regexp
	advice string
}

// finding is one use of words that are replaced.
type finding struct {
	line          int
	match, advice string
}

// parseRules reads lines of the form "pattern => advice" or "pattern => advice unless pattern". Patterns are regular expressions of
// whole words in any case; a space in them stands for any white space.
func parseRules(text string) ([]rule, error) {
	var rules []rule
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		pattern, advice, found := strings.Cut(line, " => ")
		if !found {
			return nil, fmt.Errorf("vocabulary, line %d: %q is not of the form pattern => advice", i+1, line)
		}
		advice, unless, excepted := strings.Cut(advice, " unless ")
		r := rule{advice: strings.TrimSpace(advice)}
		var err error
		if r.pattern, err = words(pattern); err == nil && excepted {
			r.unless, err = words(unless)
		}
		if err != nil {
			return nil, fmt.Errorf("vocabulary, line %d: %w", i+1, err)
		}
		rules = append(rules, r)
	}
	if len(rules) == 0 {
		return nil, errNoRules
	}
	return rules, nil
}

func words(pattern string) (*regexp.Regexp, error) {
	return regexp.Compile(`(?i)\b(?:` + strings.ReplaceAll(strings.TrimSpace(pattern), " ", `\s+`) + `)\b`)
}

// check lists the findings in a text in the order of lines.
func check(rules []rule, text []byte) []finding {
	var findings []finding
	for _, r := range rules {
		for _, at := range r.pattern.FindAllIndex(text, -1) {
			match := text[at[0]:at[1]]
			if r.unless != nil && r.unless.Match(match) {
				continue
			}
			findings = append(findings, finding{
				line: 1 + bytes.Count(text[:at[0]], []byte("\n")), match: strings.Join(strings.Fields(string(match)), " "), advice: r.advice,
			})
		}
	}
	slices.SortStableFunc(findings, func(a, b finding) int { return cmp.Compare(a.line, b.line) })
	return findings
}
