package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// searchOptions compare what a store returns with what is wanted: nil lists are empty ones.
var searchOptions = cmp.Options{cmpopts.EquateEmpty()}

// comparePages reads a list by pages of several sizes and compares it with what is wanted.
func comparePages[T any](t *testing.T, name string, want []T, list func(page store.Page) ([]T, string, int, error)) {
	t.Helper()
	for _, size := range []int{1, 2, 7, store.MaxPageSize} {
		var got []T
		for token := ""; ; {
			rows, next, total, err := list(store.Page{Token: token, Size: size})
			if err != nil {
				t.Errorf("%s, size %d: %v", name, size, err)
				return
			}
			got = append(got, rows...)
			if total != len(want) || len(got) > total || len(rows) > size || next != "" && len(rows) == 0 {
				t.Errorf("%s, size %d: got %d rows of %d, %d by now, and the token %q, want %d in all", name, size, len(rows), total, len(got), next, len(want))
				return
			}
			if token = next; token == "" {
				break
			}
		}
		if diff := cmp.Diff(want, got, searchOptions); diff != "" {
			t.Errorf("%s, size %d (-want +got): %s", name, size, diff)
			return
		}
	}
}
