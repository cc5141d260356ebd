package vex

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// maxConstraints bounds the constraints of one range.
const maxConstraints = 100

// Versions compares versions of packages. The constraint is an operator, one of <, <=, >, >= and =, and a version.
type Versions interface {
	Satisfies(packageType, version, constraint string) (bool, error)
}

// Range is a range of versions (https://github.com/package-url/vers-spec).
type Range struct {
	constraints []constraint
	// bounds are the constraints that are no single versions.
	bounds []constraint
	all    bool
}

type constraint struct{ operator, version string }

// rangeText is how a Range is written.
type rangeText struct {
	All         bool        `json:"all,omitempty"`
	Constraints [][2]string `json:"constraints,omitempty"`
}

// MarshalJSON writes the range for UnmarshalJSON.
func (r *Range) MarshalJSON() ([]byte, error) {
	text := rangeText{All: r.all}
	for _, c := range r.constraints {
		text.Constraints = append(text.Constraints, [2]string{c.operator, c.version})
	}
	return json.Marshal(text)
}

// UnmarshalJSON reads what MarshalJSON has written.
func (r *Range) UnmarshalJSON(data []byte) error {
	var text rangeText
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	*r = Range{all: text.All}
	for _, c := range text.Constraints {
		r.add(constraint{c[0], c[1]})
	}
	return nil
}

func (r *Range) add(c constraint) {
	r.constraints = append(r.constraints, c)
	if c.operator != "=" && c.operator != "!=" {
		r.bounds = append(r.bounds, c)
	}
}

// ParseRange reads a range such as "vers:npm/>=1.0|<1.4". The scheme may be missing, as in "<1.4" of CSAF documents. The versions are compared as the type
// of the package asks for, whatever the scheme.
func ParseRange(text string) (*Range, error) {
	if len(text) > maxIdentifier {
		return nil, fmt.Errorf("the range has %d bytes, more than the limit of %d", len(text), maxIdentifier)
	}
	r := &Range{}
	list := text
	if scheme, found := strings.CutPrefix(text, "vers:"); found {
		if scheme, list, found = strings.Cut(scheme, "/"); !found {
			return nil, fmt.Errorf("the range %.100q has no versions after its scheme", text)
		}
		if scheme == "none" {
			return r, nil
		}
	}
	if strings.TrimSpace(list) == "*" {
		r.all = true
		return r, nil
	}
	for part := range strings.SplitSeq(list, "|") {
		if len(r.constraints) == maxConstraints {
			return nil, fmt.Errorf("the range %.100q has more than %d constraints", text, maxConstraints)
		}
		c, err := parseConstraint(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("the range %.100q is invalid: %w", text, err)
		}
		r.add(c)
	}
	for i := 1; i < len(r.bounds); i++ {
		if r.bounds[i-1].upper() == r.bounds[i].upper() {
			return nil, fmt.Errorf("the range %.100q is invalid: two consecutive bounds have the same direction", text)
		}
	}
	return r, nil
}

// exactly is the range of one version. It may be any text, which is compared as a version only if it can be one.
func exactly(version string) (*Range, error) {
	if len(version) > maxIdentifier {
		return nil, fmt.Errorf("the version has %d bytes, more than the limit of %d", len(version), maxIdentifier)
	}
	return &Range{constraints: []constraint{{"=", version}}}, nil
}

// isVersion reports whether a text is one version to a parser of constraints, and no operator, no list and no beginning of versions.
func isVersion(text string) bool {
	return text != "" && len(text) <= maxIdentifier && !strings.ContainsAny(text[:1], "~^") && !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune("<>=!|&,*\"'()", r)
	})
}

// single reports whether the range is one version.
func (r *Range) single() bool { return len(r.constraints) == 1 && r.constraints[0].operator == "=" }

// lists reports whether the range is all versions, or has a tag or a digest of an image as one of its versions. Images have no order.
func (r *Range) lists(i *image) bool {
	return r.all || slices.ContainsFunc(r.constraints, func(c constraint) bool {
		return c.operator == "=" && (i.tags[c.version] || i.digests[c.version])
	})
}

func parseConstraint(text string) (constraint, error) {
	c := constraint{operator: "="}
	for _, operator := range []string{">=", "<=", "!=", "<", ">", "="} {
		if rest, found := strings.CutPrefix(text, operator); found {
			c.operator, text = operator, strings.TrimSpace(rest)
			break
		}
	}
	version, err := url.PathUnescape(text)
	if err != nil {
		return c, fmt.Errorf("the version %.100q: %w", text, err)
	}
	if !isVersion(version) {
		return c, fmt.Errorf("%.100q is not a version", text)
	}
	c.version = version
	return c, nil
}

func (c constraint) upper() bool { return c.operator[0] == '<' }

// Contains reports whether a version of a package of that type is in the range, as the specification says. What cannot be compared is not.
func (r *Range) Contains(versions Versions, packageType, version string) bool {
	if r.all {
		return true
	}
	if version == "" {
		return false
	}
	holds := func(operator, operand string) bool {
		if !isVersion(operand) {
			return false
		}
		ok, err := versions.Satisfies(packageType, version, operator+operand)
		return ok && err == nil
	}
	equal := func(c constraint) bool { return c.version == version || holds("=", c.version) }
	for _, c := range r.constraints {
		switch c.operator {
		case "=":
			if equal(c) {
				return true
			}
		case "!=":
			if equal(c) {
				return false
			}
		}
	}
	bounds := r.bounds
	if len(bounds) == 0 { // only "!=": all versions but these
		return len(r.constraints) > 0 && r.constraints[0].operator == "!="
	}
	// The bounds alternate: each lower one begins an interval that the next one ends.
	if bounds[0].upper() {
		if holds(bounds[0].operator, bounds[0].version) {
			return true
		}
		bounds = bounds[1:]
	}
	for ; len(bounds) > 0; bounds = bounds[min(2, len(bounds)):] {
		if holds(bounds[0].operator, bounds[0].version) && (len(bounds) == 1 || holds(bounds[1].operator, bounds[1].version)) {
			return true
		}
	}
	return false
}

// maxMemo bounds what a memo remembers.
const maxMemo = 100_000

// memo remembers comparisons: documents state the same range of many products, and images have the same version of many packages.
type memo struct {
	Versions
	known map[comparison]bool
}

type comparison struct{ packageType, version, constraint string }

// Satisfies implements Versions. What cannot be compared is false.
func (m *memo) Satisfies(packageType, version, constraint string) (bool, error) {
	c := comparison{packageType, version, constraint}
	if holds, found := m.known[c]; found {
		return holds, nil
	}
	holds, err := m.Versions.Satisfies(packageType, version, constraint)
	if len(m.known) >= maxMemo {
		clear(m.known)
	}
	holds = holds && err == nil
	m.known[c] = holds
	return holds, nil
}

// counted counts the work of comparisons.
type counted struct {
	Versions
	work int
}

// versionWork is the work of one comparison of versions, which are parsed for it, beside a unit for each of their bytes.
const versionWork = 100

// Satisfies implements Versions.
func (c *counted) Satisfies(packageType, version, constraint string) (bool, error) {
	c.work += versionWork + len(version) + len(constraint)
	return c.Versions.Satisfies(packageType, version, constraint)
}
