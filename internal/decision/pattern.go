package decision

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Pattern matches packages by their Identity.
type Pattern struct {
	kind string
	path []segment
	// version is nil if every version matches.
	version *segment
	// below says that everything below the path matches, not only the path itself.
	below bool
}

// segment matches a part of an identity: the whole of it, or what begins with text.
type segment struct {
	text   string
	prefix bool
}

// ParsePattern reads a pattern: a package URL without qualifiers and subpath, such as "pkg:deb/debian/openssl". Without a version it matches every
// version. "*" at the end of a segment of the namespace, of the name or of the version stands for any text without a slash; a name that is only
// "*", without a version, stands for every name in this namespace and in those below it. An encoded asterisk, "%2A", is one of the package. It has
// at most 512 bytes.
func ParsePattern(text string) (Pattern, error) {
	if len(text) > maxURL {
		return Pattern{}, fmt.Errorf("a package pattern has %d bytes, the maximum is %d", len(text), maxURL)
	}
	if strings.ContainsAny(text, "?#") {
		return Pattern{}, fmt.Errorf("the package pattern %q has qualifiers or a subpath: remove the text from %q on", text, text[strings.IndexAny(text, "?#"):])
	}
	id, err := parseWith(text, unescapePattern)
	if err != nil {
		return Pattern{}, fmt.Errorf("package pattern: %w", err)
	}
	p := Pattern{kind: id.Type}
	if last := len(id.Path) - 1; id.Path[last] == "*" && id.Version == "" {
		p.below, id.Path = true, id.Path[:last]
	}
	for _, part := range id.Path {
		s, err := parseSegment(part)
		if err != nil {
			return Pattern{}, fmt.Errorf("package pattern %q: %w", text, err)
		}
		p.path = append(p.path, s)
	}
	if id.Version != "" {
		s, err := parseSegment(id.Version)
		if err != nil {
			return Pattern{}, fmt.Errorf("package pattern %q: %w", text, err)
		}
		p.version = &s
	}
	return p, nil
}

// asterisk stands for an encoded asterisk until the others have been read. Unicode guarantees that it is no character.
const asterisk = "\uffff"

// unescapePattern decodes a part of a pattern, with encoded asterisks as the constant asterisk.
func unescapePattern(text string) (string, error) {
	decoded, err := url.PathUnescape(text)
	if err != nil {
		return "", err
	}
	if strings.Contains(decoded, asterisk) {
		return "", errors.New("it has the noncharacter U+FFFF")
	}
	return url.PathUnescape(strings.NewReplacer("%2A", url.PathEscape(asterisk), "%2a", url.PathEscape(asterisk)).Replace(text))
}

func parseSegment(text string) (segment, error) {
	before, prefix := strings.CutSuffix(text, "*")
	if strings.Contains(before, "*") {
		return segment{}, fmt.Errorf("%q has * at another place than the end of a segment", strings.ReplaceAll(text, asterisk, "%2A"))
	}
	return segment{strings.ReplaceAll(before, asterisk, "*"), prefix}, nil
}

func (s segment) matches(text string) bool {
	if s.prefix {
		return strings.HasPrefix(text, s.text)
	}
	return text == s.text
}

// Matches reports whether a package with this identity is meant.
func (p *Pattern) Matches(id *Identity) bool {
	if p.kind != id.Type || len(id.Path) < len(p.path) || p.below == (len(id.Path) == len(p.path)) {
		return false
	}
	for i, s := range p.path {
		if !s.matches(id.Path[i]) {
			return false
		}
	}
	return p.version == nil || p.version.matches(id.Version)
}

// Matcher tells which findings with a vulnerability that a decision names are meant.
type Matcher struct {
	patterns []Pattern
	unfixed  bool
}

// NewMatcher makes the matcher of the patterns of a decision, of which there may be none. With unfixed it leaves out findings for which a fixed
// version is known.
func NewMatcher(patterns []string, unfixed bool) (*Matcher, error) {
	m := &Matcher{unfixed: unfixed}
	for _, text := range patterns {
		p, err := ParsePattern(text)
		if err != nil {
			return nil, err
		}
		m.patterns = append(m.patterns, p)
	}
	return m, nil
}

// NewStoredMatcher makes the matcher of a decision that applies already: a pattern that only an earlier version accepted matches nothing.
func NewStoredMatcher(patterns []string, unfixed bool) *Matcher {
	m := &Matcher{unfixed: unfixed}
	for _, text := range patterns {
		p, err := ParsePattern(text)
		if err != nil {
			// Without any pattern, the decision would match all packages. This one is of no type.
			p = Pattern{}
		}
		m.patterns = append(m.patterns, p)
	}
	return m
}

// Matches reports whether a finding in a package is meant; fixable says that a fixed version is known.
func (m *Matcher) Matches(id *Identity, fixable bool) bool {
	if m.unfixed && fixable {
		return false
	}
	if len(m.patterns) == 0 {
		return true
	}
	for i := range m.patterns {
		if m.patterns[i].Matches(id) {
			return true
		}
	}
	return false
}
