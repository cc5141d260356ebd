package report

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// measure walks over the first JSON object of data without allocating anything, and returns where it ends. It bounds
// what a decoder would have to build, before there is a decoder: nesting, and the number of strings, numbers, words,
// objects and arrays. It does not validate; json.Valid does, once the object is known to be harmless.
func measure(data []byte, limits Limits) (end int, err error) {
	start := skipSpace(data, 0)
	if start == len(data) || data[start] != '{' {
		return 0, invalidf("the body is not a JSON object")
	}
	depth, values, scalar := 0, 0, false
	for i := start; i < len(data); i++ {
		opensValue := false
		switch c := data[i]; c {
		case '"':
			closing := endOfString(data, i)
			if closing < 0 {
				return 0, invalidf("the JSON document ends inside a string")
			}
			i = closing
			opensValue, scalar = true, false
		case '{', '[':
			depth++
			opensValue, scalar = true, false
		case '}', ']':
			depth--
			scalar = false
			if depth == 0 {
				return i + 1, nil
			}
		case ',', ':', ' ', '\t', '\r', '\n':
			scalar = false
		default:
			opensValue = !scalar
			scalar = true
		}
		if opensValue {
			values++
		}
		switch {
		case depth > limits.Depth:
			return 0, tooLargef("the JSON document is nested deeper than the limit of %d levels", limits.Depth)
		case values > limits.Values:
			return 0, tooLargef("the JSON document holds more than the limit of %d values", limits.Values)
		}
	}
	return 0, invalidf("the JSON document is truncated")
}

// endOfString returns the index of the quote that closes the string which opens at i, -1 when there is none.
func endOfString(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

func skipSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\t' || data[i] == '\r' || data[i] == '\n') {
		i++
	}
	return i
}

// skipValue returns the index behind the value that starts at i. The data is valid JSON.
func skipValue(data []byte, i int) int {
	depth := 0
	for ; i < len(data); i++ {
		switch data[i] {
		case '"':
			i = endOfString(data, i)
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ',', ':', ' ', '\t', '\r', '\n':
			continue
		default:
			for i+1 < len(data) && !bytes.ContainsRune([]byte(",:]} \t\r\n"), rune(data[i+1])) {
				i++
			}
		}
		if depth == 0 {
			return i + 1
		}
	}
	return i
}

// members calls f with the name and the value of each member of a valid JSON object. A member that is null counts as absent.
func members(object []byte, f func(name string, value []byte) error) error {
	for i := skipSpace(object, 1); i < len(object) && object[i] != '}'; {
		end := skipValue(object, i)
		name, err := text(object[i:end])
		if err != nil {
			return err
		}
		start := skipSpace(object, skipSpace(object, end)+1)
		end = skipValue(object, start)
		if value := object[start:end]; string(value) != "null" {
			if err := f(name, value); err != nil {
				return err
			}
		}
		i = nextElement(object, end)
	}
	return nil
}

// elements calls f with each element of a valid JSON array.
func elements(array []byte, f func(value []byte) error) error {
	for i := skipSpace(array, 1); i < len(array) && array[i] != ']'; {
		end := skipValue(array, i)
		if err := f(array[i:end]); err != nil {
			return err
		}
		i = nextElement(array, end)
	}
	return nil
}

// nextElement returns the start of what follows the comma behind i, or the index of the closing bracket.
func nextElement(data []byte, i int) int {
	i = skipSpace(data, i)
	if i < len(data) && data[i] == ',' {
		return skipSpace(data, i+1)
	}
	return i
}

// text decodes a JSON string.
func text(value []byte) (string, error) {
	if len(value) < 2 || value[0] != '"' {
		return "", fmt.Errorf("%.40q is not a string", value)
	}
	if !bytes.ContainsRune(value, '\\') {
		return string(value[1 : len(value)-1]), nil
	}
	var s string
	if err := json.Unmarshal(value, &s); err != nil {
		return "", err
	}
	return s, nil
}

func isObject(value []byte) bool { return len(value) > 0 && value[0] == '{' }

func isArray(value []byte) bool { return len(value) > 0 && value[0] == '[' }
