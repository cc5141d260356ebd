package advice

import (
	"slices"
	"strings"
	"unicode"
)

// MaxVersions is the most fixed versions that Update compares for one package.
const MaxVersions = 1000

// Update returns the lowest version that closes all findings of a package, "" if that cannot be said. fixes has the fixed versions of each finding; a
// finding with several is fixed in several lines. compare orders versions.
//
// A version closes a finding if it is one of the fixed versions or follows all of them. Between two of them it does only in the line of the lower one, which
// ends where both differ: 2.0.1 is not fixed by 1.2.5 and 2.0.3, but 1.9.0 is; 1.22.2 is not fixed by 1.21.11 and 1.22.4, but 1.21.12 is.
func Update(installed string, fixes [][]string, compare func(a, b string) (int, error)) string {
	var candidates []string
	for _, fix := range fixes {
		if len(fix) == 0 {
			return ""
		}
		candidates = append(candidates, fix...)
	}
	slices.Sort(candidates)
	candidates = slices.Compact(candidates)
	if len(candidates) == 0 || len(candidates) > MaxVersions {
		return ""
	}
	failed := false
	order := func(a, b string) int {
		n, err := compare(a, b)
		failed = failed || err != nil
		return n
	}
	slices.SortStableFunc(candidates, order)
	sorted := make([][]string, len(fixes))
	for i, fix := range fixes {
		sorted[i] = slices.SortedFunc(slices.Values(fix), order)
	}
	for _, version := range candidates {
		if order(version, installed) <= 0 {
			continue
		}
		if !slices.ContainsFunc(sorted, func(fix []string) bool { return !closes(version, fix, order) }) && !failed {
			return version
		}
	}
	return ""
}

// closes reports whether a version has a fix; fixes are in order.
func closes(version string, fixes []string, order func(a, b string) int) bool {
	for i, fix := range slices.Backward(fixes) {
		switch n := order(version, fix); {
		case n == 0, n > 0 && i == len(fixes)-1:
			return true
		case n > 0:
			return inLine(components(version), components(fix), components(fixes[i+1]))
		}
	}
	return false
}

// inLine reports whether a version between two fixed ones is in the line of the lower one: it has the same components up to the first one that tells both
// apart.
func inLine(version, lower, higher []string) bool {
	for i, part := range lower {
		if i >= len(version) || version[i] != part {
			return false
		}
		if i >= len(higher) || higher[i] != part {
			return true
		}
	}
	return false
}

// components are the parts of a version between characters that are neither letters nor digits, without an epoch and a leading v.
func components(version string) []string {
	if _, rest, found := strings.Cut(version, ":"); found {
		version = rest
	}
	return strings.FieldsFunc(strings.TrimPrefix(version, "v"), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}
