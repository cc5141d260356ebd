package sqlstore

import (
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// fromToken adds the condition of a page token, if there is one.
func fromToken(tx *gorm.DB, token string, query any, keys []sqldb.SortKey) (*gorm.DB, error) {
	if token == "" {
		return tx, nil
	}
	values, err := store.DecodeToken(token, query, len(keys))
	if err != nil {
		return nil, err
	}
	condition, arguments, err := sqldb.After(keys, values)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrInvalidToken, err)
	}
	return tx.Where(condition, arguments...), nil
}

// tokenValues are the sort values of the row that a page token follows.
func tokenValues(tx *gorm.DB, token string, query any, keys []sqldb.SortKey) ([]string, error) {
	if _, err := fromToken(tx, token, query, keys); err != nil {
		return nil, err
	}
	return store.DecodeToken(token, query, len(keys))
}

// cutPage takes away what was read beyond the limit, and returns the token of the next page when that is anything. value is the
// sort value of a column in a row.
func cutPage[T any](rows []T, limit int, token any, keys []sqldb.SortKey, value func(row *T, column string) string) ([]T, string, error) {
	if len(rows) <= limit {
		return rows, "", nil
	}
	rows = rows[:limit]
	values := make([]string, len(keys))
	for i, key := range keys {
		values[i] = value(&rows[limit-1], key.Column)
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
func readEntries[T any](tx, entries *gorm.DB, keys []sqldb.SortKey, page store.Page, token any, value func(row *T, column string) string) (
	rows []T, next string, total int, err error,
) {
	return readCounted(tx, tx.Table("(?) AS e", entries).Select("e.*, "+totalColumn), keys, page, token, value)
}

// totalColumn is the number of all rows of a statement.
const totalColumn = "COUNT(*) OVER () AS total"

// readCounted is readEntries of entries that have the totalColumn: MariaDB makes a temporary table for each statement in another one.
func readCounted[T any](tx, entries *gorm.DB, keys []sqldb.SortKey, page store.Page, token any, value func(row *T, column string) string) (
	rows []T, next string, total int, err error,
) {
	chosen, err := fromToken(tx.Table("(?) AS l", entries), page.Token, token, keys)
	if err != nil {
		return nil, "", 0, err
	}
	var found []counted[T]
	err = chosen.Select("l.*").Order(sqldb.OrderBy(keys)).Limit(page.Limit() + 1).Scan(&found).Error
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

// inOrderOf reads the rows with some IDs, each of which has one, and returns them in the order of the IDs.
func inOrderOf[T any](ids []int64, read func(part []int64) ([]T, error), id func(row *T) int64) ([]T, error) {
	at := make(map[int64]int, len(ids))
	for i, one := range ids {
		at[one] = i
	}
	rows := make([]T, len(ids))
	err := inParts(ids, func(part []int64) error {
		some, err := read(part)
		for i := range some {
			place, wanted := at[id(&some[i])]
			if !wanted {
				return fmt.Errorf("the database returned the row %d, which was not asked for, or twice", id(&some[i]))
			}
			rows[place] = some[i]
			delete(at, id(&some[i]))
		}
		return err
	})
	if err == nil && len(at) > 0 {
		err = fmt.Errorf("%d of %d rows are not in the database any more", len(at), len(ids))
	}
	return rows, err
}

// ofTable returns keys with the columns of another table.
func ofTable(table string, keys []sqldb.SortKey) []sqldb.SortKey {
	keys = slices.Clone(keys)
	for i := range keys {
		keys[i].Column = table + keys[i].Column[strings.IndexByte(keys[i].Column, '.'):]
	}
	return keys
}

// equals adds the condition that a column is a text, unless that is "".
func equals(tx *gorm.DB, column, text string) *gorm.DB {
	switch {
	case text == "":
		return tx
	case text != sqldb.Clean(text) || len(text) > maxName:
		return tx.Where("1 = 0") // No column holds such text.
	default:
		return tx.Where(column+" = ?", text)
	}
}

// contains adds the condition that one of the columns contains text, ignoring ASCII case.
func contains(tx *gorm.DB, d sqldb.Dialect, text string, columns ...string) *gorm.DB {
	switch {
	case text == "":
		return tx
	case text != sqldb.Clean(text) || len(text) > maxName:
		return tx.Where("1 = 0") // No column holds such text.
	default:
		return sqldb.Contains(tx, d, text, columns...)
	}
}
