package match

import (
	"bytes"
	"fmt"
	"strings"
)

// scanner walks over JSON without building anything, and stops at the first bound that is exceeded. It does not
// validate: the decoder behind it does. It must only never count less than the decoder would build.
type scanner struct {
	data   []byte
	pos    int
	limits DecodeLimits

	depth  int
	values int
	// key is the last member name of the top-level object, and counts the elements of the arrays under such names.
	key    string
	counts map[string]int
	// expectKey says that the next string at depth 1 is a member name.
	expectKey bool
}

// checkBounds refuses a document that is too deep, or has too many or too long elements.
func checkBounds(data []byte, limits DecodeLimits) error {
	s := scanner{data: data, limits: limits, counts: map[string]int{}}
	return s.run()
}

func (s *scanner) run() error {
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		switch c {
		case ' ', '\t', '\n', '\r', ':':
			s.pos++
		case ',':
			s.pos++
			s.expectKey = s.depth == 1
		case '{', '[':
			if err := s.open(); err != nil {
				return err
			}
		case '}', ']':
			s.depth--
			s.pos++
			s.expectKey = false
		case '"':
			if err := s.text(); err != nil {
				return err
			}
		default:
			if err := s.count(); err != nil {
				return err
			}
			s.skipLiteral()
		}
	}
	return nil
}

func (s *scanner) open() error {
	if err := s.count(); err != nil {
		return err
	}
	s.depth++
	s.pos++
	if s.depth > s.limits.Depth {
		return fmt.Errorf("%w: arrays and objects nest deeper than %d", ErrLimit, s.limits.Depth)
	}
	s.expectKey = s.depth == 1
	return nil
}

// text consumes a string, which is a member name or a value.
func (s *scanner) text() error {
	start := s.pos + 1
	end := start
	for {
		i := bytes.IndexAny(s.data[end:], "\"\\")
		if i < 0 {
			end = len(s.data)
			break
		}
		end += i
		if s.data[end] == '"' {
			break
		}
		end += 2
		if end >= len(s.data) {
			end = len(s.data)
			break
		}
	}
	if end-start > s.limits.StringBytes {
		return fmt.Errorf("%w: a string is longer than %d bytes", ErrLimit, s.limits.StringBytes)
	}
	s.pos = end + 1
	if s.depth == 1 && s.expectKey {
		s.key = string(s.data[start:end])
		s.expectKey = false
		return nil
	}
	return s.count()
}

// count takes note of one value (or, inside an object, of one member name, which costs memory as well).
func (s *scanner) count() error {
	s.values++
	if s.values > s.limits.Values {
		return fmt.Errorf("%w: it has more than %d JSON values", ErrLimit, s.limits.Values)
	}
	if s.depth != 2 {
		return nil
	}
	// The decoder takes member names without regard to case.
	name := strings.ToLower(s.key)
	var limit int
	switch name {
	case "artifacts":
		limit = s.limits.Packages
	case "artifactrelationships":
		limit = s.limits.Relationships
	case "files":
		limit = s.limits.Files
	default:
		return nil
	}
	s.counts[name]++
	if s.counts[name] > limit {
		return fmt.Errorf("%w: it has more than %d %s", ErrLimit, limit, s.key)
	}
	return nil
}

func (s *scanner) skipLiteral() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r', ':', ',', '{', '[', '}', ']', '"':
			return
		}
		s.pos++
	}
}
