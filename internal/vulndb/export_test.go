package vulndb

import (
	"bytes"
	"context"
	"fmt"
	"math"
)

// SetFreeSpace replaces what the library believes to be free.
func (l *Library) SetFreeSpace(free int64) { l.free = func(string) (int64, error) { return free, nil } }

// value is what a field holds, as the driver of the database gives it.
func (f *field) value() any {
	switch f.kind {
	case integer:
		return int64(f.bits)
	case float:
		return math.Float64frombits(f.bits)
	case content:
		return string(f.bytes)
	default:
		return nil
	}
}

// ReadTable reads columns of a table as a comparison does: from the pages of the file, or else with a query.
func ReadTable(ctx context.Context, installed Installed, table string, columns []string, query bool) (rows []string, err error) {
	visit := func(row []field) error {
		values := make([]any, len(row))
		for i := range row {
			values[i] = row[i].value()
		}
		rows = append(rows, fmt.Sprintf("%#v", values))
		return nil
	}
	err = withDatabase(installed, func(db database) error {
		if query {
			return db.each(ctx, selectOf(table, columns)+" ORDER BY rowid", visit)
		}
		return db.scan(ctx, table, columns, visit)
	})
	return rows, err
}

// CountRows counts the rows of a table that begins at a page of a file and has a number of columns.
func CountRows(ctx context.Context, file []byte, root uint32, columns int) (rows int, err error) {
	t, err := newTables(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return 0, err
	}
	s := &scan{tables: t, ctx: ctx, table: table{root: root, wanted: make([]int, columns), id: -1}, row: make([]field, columns), visit: func(row []field) error {
		rows++
		_ = hashFields(row)
		return nil
	}}
	for i := range s.table.wanted {
		s.table.wanted[i] = i
	}
	return rows, s.walk(root, 0)
}
