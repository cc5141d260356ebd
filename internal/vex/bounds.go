package vex

import "bytes"

// checkBounds refuses JSON that is too deep or has too many values, before anything is built from it. It does not validate.
func checkBounds(data []byte, limits Limits) error {
	depth, values := 0, 0
	inLiteral := false
	for i := 0; i < len(data); i++ {
		begins := false // a value or a member name
		switch data[i] {
		case '"':
			i = endOfString(data, i+1)
			begins, inLiteral = true, false
		case '{', '[':
			depth++
			begins, inLiteral = true, false
		case '}', ']':
			depth--
			inLiteral = false
		case ',', ':', ' ', '\t', '\r', '\n':
			inLiteral = false
		default:
			begins, inLiteral = !inLiteral, true
		}
		if begins {
			values++
		}
		switch {
		case depth > limits.Depth:
			return limitf("arrays and objects nest deeper than %d", limits.Depth)
		case values > limits.Values:
			return limitf("it has more than %d JSON values; split it", limits.Values)
		}
	}
	return nil
}

// endOfString returns the index of the quote that ends the string whose content starts at i, the end of the data if there is none.
func endOfString(data []byte, i int) int {
	for i < len(data) {
		next := bytes.IndexAny(data[i:], `"\`)
		if next < 0 {
			return len(data)
		}
		i += next
		if data[i] == '"' {
			return i
		}
		i += 2
	}
	return len(data)
}
