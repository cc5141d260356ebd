package vex

import (
	"errors"
	"fmt"
	"strings"

	kjson "sigs.k8s.io/json"

	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// maxFieldErrors bounds the fields that an error names.
const maxFieldErrors = 5

// decodeExactly reads JSON into v, and refuses names in another case, names that occur twice, and fields that v does not have. A field that is
// ignored can be the one that restricts a statement.
func decodeExactly(data []byte, v any) error {
	strict, err := kjson.UnmarshalStrict(data, v)
	if err != nil {
		return short(err)
	}
	return fieldErrors(strict)
}

// decodeKnown reads JSON into v, and refuses names that occur twice. Fields that v does not have are ignored, also if only the case differs.
func decodeKnown(data []byte, v any) error {
	strict, err := kjson.UnmarshalStrict(data, v, kjson.DisallowDuplicateFields)
	if err != nil {
		return short(err)
	}
	return fieldErrors(strict)
}

func fieldErrors(strict []error) error {
	if len(strict) == 0 {
		return nil
	}
	texts := make([]string, 0, maxFieldErrors)
	for _, err := range strict[:min(len(strict), maxFieldErrors)] {
		texts = append(texts, truncate.Ellipsis(err.Error(), 150))
	}
	return errors.New(strings.Join(texts, ", "))
}

// checkNulls refuses members and elements that are null, which decoders take for fields that are not there. It looks at the outer levels of valid JSON.
func checkNulls(data []byte, levels int) error {
	type level struct {
		array bool
		name  []byte
	}
	var stack []level // the objects and arrays around i
	var text []byte
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			end := endOfString(data, i+1)
			text, i = data[i+1:min(end, len(data))], end
		case ':':
			stack[len(stack)-1].name = text
		case '{':
			stack = append(stack, level{})
		case '[':
			array := level{array: true}
			if len(stack) > 0 {
				array.name = stack[len(stack)-1].name
			}
			stack = append(stack, array)
		case '}', ']':
			stack = stack[:len(stack)-1]
		case 'n':
			if len(stack) == 0 || len(stack) > levels {
				continue
			}
			if inner := stack[len(stack)-1]; inner.array {
				return fmt.Errorf("%.150q has an element that is null", inner.name)
			}
			return fmt.Errorf("%.150q is null", stack[len(stack)-1].name)
		}
	}
	return nil
}
