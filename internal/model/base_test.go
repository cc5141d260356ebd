package model

import (
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
)

func TestChainIDs(t *testing.T) {
	t.Parallel()
	digests := []digest.Digest{digest.FromString("a"), digest.FromString("b"), digest.FromString("a"), digest.FromString("c")}
	var layers, want []string
	for i, d := range digests {
		layers = append(layers, d.String())
		want = append(want, identity.ChainID(slices.Clone(digests[:i+1])).String())
	}
	if got := ChainIDs(layers); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for name, layers := range map[string][]string{
		"no digest": {layers[0], ""}, "another algorithm": {"sha512:" + strings.Repeat("0", 128)}, "too short": {"sha256:00"}, "no hex": {"sha256:" + strings.Repeat("x", 64)},
		"upper case": {strings.ToUpper(layers[0])}, "upper case digits": {"sha256:" + strings.Repeat("A", 64)}, "none": nil, "too many": slices.Repeat(layers[:1], MaxLayers+1),
	} {
		if got := ChainIDs(layers); len(got) > 0 {
			t.Errorf("%s: got %v", name, got)
		}
	}
	if got := ChainIDs(slices.Repeat(layers[:1], MaxLayers)); len(got) != MaxLayers {
		t.Errorf("got %d chain IDs of %d layers", len(got), MaxLayers)
	}
}
