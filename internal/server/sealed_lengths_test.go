package server

import (
	"bytes"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/server/seal"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// TestLengthsOfLogIDs: the length of a sealed position does not tell how many events the log has.
func TestLengthsOfLogIDs(t *testing.T) {
	sealer, err := seal.New(bytes.Repeat([]byte{1}, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	numbers := eventNumbers{store.OnlyNamespaces("a"), sealer}
	lengths := map[int]bool{}
	for _, sequence := range []int64{0, 1, 127, 1 << 20, 1<<63 - 1} {
		at := feed.Position{Sequence: sequence, LogID: "log"}
		sealed := numbers.seal(at, 3)
		if opened, count, ok := numbers.open(sealed); opened != at || count != 3 || !ok {
			t.Errorf("%d: %+v, %d, %t", sequence, opened, count, ok)
		}
		lengths[len(sealed)] = true
	}
	if len(lengths) != 1 {
		t.Errorf("the positions have these lengths: %v", lengths)
	}
	short := sealer.Fresh(purposeOf(sealEvents, numbers.in), make([]byte, 15))
	if _, _, ok := numbers.open(short); ok {
		t.Error("a position that is too short is read")
	}
}
