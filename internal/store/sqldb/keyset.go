package sqldb

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// SortKey is a column that a list is sorted by.
type SortKey struct {
	Column string
	// Number says that the column holds integers, otherwise text.
	Number bool
	// Descending puts the greatest first.
	Descending bool
}

// OrderBy is the ORDER BY clause of the keys.
func OrderBy(keys []SortKey) string {
	return OrderByRenamed(keys, func(_ int, column string) string { return column })
}

// OrderByRenamed is OrderBy; rename gives each column its name in the statement.
func OrderByRenamed(keys []SortKey, rename func(index int, column string) string) string {
	terms := make([]string, len(keys))
	for i, key := range keys {
		terms[i] = rename(i, key.Column)
		if key.Descending {
			terms[i] += " DESC"
		}
	}
	return strings.Join(terms, ", ")
}

// After is the condition that a row follows the one with these sort values, and the arguments of the condition. The last key must
// be unique together with those before it. The condition on the first key alone lets the query planner use an index.
func After(keys []SortKey, values []string) (string, []any, error) {
	parsed := make([]any, len(keys))
	for i, key := range keys {
		parsed[i] = values[i]
		if key.Number {
			number, err := strconv.ParseInt(values[i], 10, 64)
			if err != nil {
				return "", nil, fmt.Errorf("%w: %q is not a number", ErrInvalidValue, values[i])
			}
			parsed[i] = number
		} else if values[i] != Clean(values[i]) {
			return "", nil, fmt.Errorf("%w: the text is not valid UTF-8 or contains NUL", ErrInvalidValue)
		}
	}
	condition := ""
	var arguments []any
	for i, key := range slices.Backward(keys) {
		beyond := key.Column + " > ?"
		if key.Descending {
			beyond = key.Column + " < ?"
		}
		if condition == "" {
			condition, arguments = beyond, []any{parsed[i]}
			continue
		}
		condition = "(" + beyond + " OR (" + key.Column + " = ? AND " + condition + "))"
		arguments = append([]any{parsed[i], parsed[i]}, arguments...)
	}
	if len(keys) > 1 {
		bound := keys[0].Column + " >= ?"
		if keys[0].Descending {
			bound = keys[0].Column + " <= ?"
		}
		condition = bound + " AND " + condition
		arguments = append([]any{parsed[0]}, arguments...)
	}
	return condition, arguments, nil
}
