package sqldb

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"gorm.io/gorm"
)

// TestAfter walks through a list, one row at a time, by the condition that a row follows the last one.
func TestAfter(t *testing.T) {
	db := openThings(t)
	err := db.Write(t.Context(), "fill", func(tx *Tx) error {
		return tx.Insert("things", []string{"id", "name"}, []any{1, "b", 2, "a", 3, "b", 4, "c", 10, "b"}, "")
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		keys []SortKey
		want []int
	}{
		"one key":          {[]SortKey{{Column: "id", Number: true}}, []int{1, 2, 3, 4, 10}},
		"descending":       {[]SortKey{{Column: "id", Number: true, Descending: true}}, []int{10, 4, 3, 2, 1}},
		"two keys":         {[]SortKey{{Column: "name"}, {Column: "id", Number: true}}, []int{2, 1, 3, 10, 4}},
		"mixed directions": {[]SortKey{{Column: "name", Descending: true}, {Column: "id", Number: true}}, []int{4, 1, 3, 10, 2}},
	} {
		var got []int
		err := db.Read(t.Context(), "walk", func(tx *gorm.DB) error {
			var last []string
			for got = nil; len(got) <= len(c.want); {
				query := tx.Table("things").Order(OrderBy(c.keys)).Limit(1)
				if last != nil {
					condition, arguments, err := After(c.keys, last)
					if err != nil {
						return err
					}
					query = query.Where(condition, arguments...)
				}
				var rows []struct {
					ID   int
					Name string
				}
				if err := query.Scan(&rows).Error; err != nil || len(rows) == 0 {
					return err
				}
				got, last = append(got, rows[0].ID), nil
				for _, key := range c.keys {
					last = append(last, map[string]string{"id": fmt.Sprint(rows[0].ID), "name": rows[0].Name}[key.Column])
				}
			}
			return nil
		})
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, c.want)
		}
	}
	for _, value := range []string{"", "x", "1.5", "99999999999999999999"} {
		if _, _, err := After([]SortKey{{Column: "id", Number: true}}, []string{value}); !errors.Is(err, ErrInvalidValue) {
			t.Errorf("%q: got %v, want ErrInvalidValue", value, err)
		}
	}
	if _, _, err := After([]SortKey{{Column: "name"}}, []string{"a\x00"}); !errors.Is(err, ErrInvalidValue) {
		t.Errorf("got %v, want ErrInvalidValue", err)
	}
}
