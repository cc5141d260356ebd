package sqlstore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// sortKey is a column that a list is ordered by.
type sortKey struct {
	column string
	// number says that the column holds whole numbers, otherwise text.
	number bool
	// descending puts the greatest first.
	descending bool
}

// orderBy is the ORDER BY clause of the keys; rename gives each column its name in the statement.
func orderBy(keys []sortKey, rename func(int, string) string) string {
	terms := make([]string, len(keys))
	for i, key := range keys {
		terms[i] = rename(i, key.column)
		if key.descending {
			terms[i] += " DESC"
		}
	}
	return strings.Join(terms, ", ")
}

func sameName(_ int, column string) string { return column }

// behind is the condition that a row comes after the one with these values. The last key must be unique together with
// those before it. The condition on the first key alone is there for databases that do not see through the rest.
func behind(keys []sortKey, values []string) (string, []any, error) {
	parsed := make([]any, len(keys))
	for i, key := range keys {
		parsed[i] = values[i]
		if key.number {
			number, err := strconv.ParseInt(values[i], 10, 64)
			if err != nil {
				return "", nil, fmt.Errorf("%w: %q is not a number", store.ErrInvalidToken, values[i])
			}
			parsed[i] = number
		} else if values[i] != clean(values[i]) {
			return "", nil, fmt.Errorf("%w: it holds text that is not stored anywhere", store.ErrInvalidToken)
		}
	}
	condition := ""
	var arguments []any
	for i, key := range slices.Backward(keys) {
		beyond := key.column + " > ?"
		if key.descending {
			beyond = key.column + " < ?"
		}
		if condition == "" {
			condition, arguments = beyond, []any{parsed[i]}
			continue
		}
		condition = "(" + beyond + " OR (" + key.column + " = ? AND " + condition + "))"
		arguments = append([]any{parsed[i], parsed[i]}, arguments...)
	}
	if len(keys) > 1 {
		bound := keys[0].column + " >= ?"
		if keys[0].descending {
			bound = keys[0].column + " <= ?"
		}
		condition = bound + " AND " + condition
		arguments = append([]any{parsed[0]}, arguments...)
	}
	return condition, arguments, nil
}

// fromToken adds the condition of a page token, if there is one.
func fromToken(tx *gorm.DB, token string, query any, keys []sortKey) (*gorm.DB, error) {
	if token == "" {
		return tx, nil
	}
	values, err := store.DecodeToken(token, query, len(keys))
	if err != nil {
		return nil, err
	}
	condition, arguments, err := behind(keys, values)
	if err != nil {
		return nil, err
	}
	return tx.Where(condition, arguments...), nil
}

// cutPage takes away what was read beyond the limit, and returns the token of the next page when that is anything. value is the
// sort value of a column in a row.
func cutPage[T any](rows []T, limit int, token any, keys []sortKey, value func(row *T, column string) string) ([]T, string, error) {
	if len(rows) <= limit {
		return rows, "", nil
	}
	rows = rows[:limit]
	values := make([]string, len(keys))
	for i, key := range keys {
		values[i] = value(&rows[limit-1], key.column)
	}
	next, err := store.EncodeToken(token, values...)
	return rows, next, err
}

// counted is a row of a list with the number of all of them.
type counted[T any] struct {
	Row   T `gorm:"embedded"`
	Total int
}

// readEntries reads a page of a list that the database has to make as a whole, and counts it on the way. The columns of the
// entries are those of T, keys name them with "l." in front.
func readEntries[T any](tx, entries *gorm.DB, keys []sortKey, page store.Page, token any, value func(row *T, column string) string) (
	rows []T, next string, total int, err error,
) {
	chosen, err := fromToken(tx.Table("(?) AS l", tx.Table("(?) AS e", entries).Select("e.*, COUNT(*) OVER () AS total")), page.Token, token, keys)
	if err != nil {
		return nil, "", 0, err
	}
	var found []counted[T]
	err = chosen.Select("l.*").Order(orderBy(keys, sameName)).Limit(page.Limit() + 1).Scan(&found).Error
	if err != nil {
		return nil, "", 0, err
	}
	if len(found) > 0 {
		total = found[0].Total
	} else if page.Token != "" { // No row is left to tell how many there are.
		err = tx.Table("(?) AS e", entries).Select("COUNT(*)").Scan(&total).Error
		if err != nil {
			return nil, "", 0, err
		}
	}
	rows = make([]T, len(found))
	for i := range found {
		rows[i] = found[i].Row
	}
	rows, next, err = cutPage(rows, page.Limit(), token, keys, value)
	return rows, next, total, err
}

// equals adds the condition that a column is a text, unless that is "".
func equals(tx *gorm.DB, column, text string) *gorm.DB {
	switch {
	case text == "":
		return tx
	case text != clean(text) || len(text) > maxName:
		return tx.Where("1 = 0") // No column holds such text.
	default:
		return tx.Where(column+" = ?", text)
	}
}

// contains adds the condition that one of the columns contains text, without regard to ASCII case.
func contains(tx *gorm.DB, d dialect, text string, columns ...string) *gorm.DB {
	if text == "" {
		return tx
	}
	if text != clean(text) || len(text) > maxName {
		return tx.Where("1 = 0") // No column holds such text.
	}
	pattern := "%" + strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(asciiLower(text)) + "%"
	conditions := make([]string, len(columns))
	arguments := make([]any, len(columns))
	for i, column := range columns {
		conditions[i] = d.lower(column) + " LIKE ? ESCAPE '!'"
		arguments[i] = pattern
	}
	return tx.Where("("+strings.Join(conditions, " OR ")+")", arguments...)
}

func asciiLower(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

func asciiUpper(text string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			return r + 'A' - 'a'
		}
		return r
	}, text)
}
