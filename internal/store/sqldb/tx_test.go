package sqldb

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"

	"gorm.io/gorm"
)

// TestRowsOfStatement cuts rows into statements by number and by size.
func TestRowsOfStatement(t *testing.T) {
	rows := func(n int, text string) []any {
		var values []any
		for range n {
			values = append(values, 1, text)
		}
		return values
	}
	for name, c := range map[string]struct {
		values []any
		want   int
	}{
		"one":            {rows(1, "x"), 1},
		"few":            {rows(7, "x"), 7},
		"many":           {rows(1000, "x"), MaxVariables / 2},
		"large":          {rows(9, string(make([]byte, maxStatement/2))), 2},
		"larger than it": {rows(9, string(make([]byte, maxStatement+1))), 1},
	} {
		if got := rowsOfStatement(c.values, 2); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}

// TestTransactions reads what was written, and nothing of a transaction that failed.
func TestTransactions(t *testing.T) {
	db := openThings(t)
	failed := errors.New("failed")
	for name, c := range map[string]struct{ err, want error }{
		"kept": {nil, nil}, "rolled back": {failed, failed}, "unavailable": {fmt.Errorf("test: %w", sql.ErrTxDone), ErrUnavailable},
		"final": {Final(failed), failed},
	} {
		err := db.Write(t.Context(), "write", func(tx *Tx) error {
			return errors.Join(tx.Insert("things", []string{"name"}, []any{name, name}, ""), c.err)
		})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	var names []string
	err := db.Read(t.Context(), "read", func(tx *gorm.DB) error { return tx.Raw("SELECT name FROM things").Scan(&names).Error })
	if err != nil || !slices.Equal(names, []string{"kept", "kept"}) {
		t.Errorf("got %v, %v", names, err)
	}
}

// TestBusyIsTriedAgain has a transaction fail once with an error that says that the database is busy.
func TestBusyIsTriedAgain(t *testing.T) {
	db := openThings(t)
	for name, c := range map[string]struct {
		mark func(error) error
		want int
	}{
		"busy": {func(err error) error { return err }, 2}, "final": {Final, 1},
	} {
		attempts := 0
		_ = db.Write(t.Context(), "write", func(tx *Tx) error {
			if attempts++; attempts == 1 {
				return c.mark(busyError{})
			}
			return tx.Insert("things", []string{"name"}, []any{name}, "")
		})
		if attempts != c.want {
			t.Errorf("%s: got %d attempts, want %d", name, attempts, c.want)
		}
	}
}

// busyError looks like the driver's error of SQLITE_BUSY.
type busyError struct{}

func (busyError) Error() string { return "busy" }
func (busyError) Code() int     { return sqliteBusy }
