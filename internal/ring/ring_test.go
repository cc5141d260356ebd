package ring

import (
	"slices"
	"testing"
)

func TestBuffer(t *testing.T) {
	b := New[int](3)
	for added := range int64(8) {
		if b.Next() != added || b.First() != max(0, added-3) {
			t.Errorf("after %d items: first %d, next %d", added, b.First(), b.Next())
		}
		for from := range added + 2 {
			var want []int
			for n := from; n < min(added, from+2); n++ {
				want = append(want, int(10*n))
			}
			kept := from >= added-3
			if !kept {
				want = nil
			}
			got, ok := b.Append(make([]int, 0, 2), from)
			if !slices.Equal(got, want) || ok != kept {
				t.Errorf("after %d items, from %d: got %v, %t, want %v, %t", added, from, got, ok, want, kept)
			}
		}
		b.Add(int(10 * added))
	}
}
