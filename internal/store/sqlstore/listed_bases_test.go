package sqlstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

func TestOpenRefusesBaseImages(t *testing.T) {
	for want, patterns := range map[string][]string{
		`the list of base images: the image pattern "debian" does not begin with a registry`: {"docker.io/library/debian", "debian"},
		"the list of base images has 101 entries: use at most 100":                           slices.Repeat([]string{"docker.io/library/debian"}, 101),
	} {
		if _, err := Open(t.Context(), Config{DSN: migrated(t), BaseImages: patterns}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestListOfBaseImagesChanges expects that a new list counts for what was scanned before.
func TestListOfBaseImagesChanges(t *testing.T) {
	t.Parallel()
	path := migrated(t)
	diffIDs := func(numbers ...int) (layers []string) {
		for _, n := range numbers {
			layers = append(layers, fmt.Sprintf("sha256:%064x", n))
		}
		return layers
	}
	key := func(name string) model.ImageKey {
		return model.ImageKey{ImageID: "registry.example/" + name + "@sha256:" + strings.Repeat("a", 64), Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
	}
	scan := func(s *Store) {
		for name, layers := range map[string][]string{"base": diffIDs(1), "one": diffIDs(1, 2, 3), "two": diffIDs(1, 2, 4)} {
			if _, err := s.WantImages(t.Context(), []model.ImageKey{key(name)}); err != nil {
				t.Fatal(err)
			}
			sbom := store.SBOM{MediaType: "application/vnd.syft+json", Content: []byte("{}"), SHA256: name, Size: 2}
			if err := s.SaveSBOM(t.Context(), key(name), sbom, model.Catalog{Layers: layers}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, step := range []struct {
		list   []string
		source store.BaseSource
		layers int
		listed []store.ListedBase
	}{
		{nil, store.BaseShared, 2, nil},
		{[]string{"registry.example/base"}, store.BaseListed, 1, []store.ListedBase{{Pattern: "registry.example/base", Images: 1}}},
		{[]string{"registry.example/other"}, store.BaseShared, 2, []store.ListedBase{{Pattern: "registry.example/other"}}},
	} {
		s, err := Open(t.Context(), Config{DSN: path, BaseImages: step.list})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			scan(s)
		}
		image, err := s.Image(t.Context(), store.AllNamespaces(), key("one"))
		if err != nil || image.Base.Source != step.source || image.Base.Layers != step.layers {
			t.Errorf("list %v: got %+v, %v", step.list, image.Base, err)
		}
		page, err := s.ListBases(t.Context(), store.AllNamespaces(), store.BaseQuery{})
		if err != nil || page.Total != 1 || page.Bases[0].Source != step.source || !slices.Equal(page.Listed, step.listed) {
			t.Errorf("list %v: got %+v, %v", step.list, page, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
