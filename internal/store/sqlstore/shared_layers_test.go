package sqlstore

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// TestBasesAreThoseOfTheDatabase compares the bases that are found among shared layers with those that the database finds, in random fleets in which images have few
// different layers and applications.
func TestBasesAreThoseOfTheDatabase(t *testing.T) {
	t.Parallel()
	s := openAt(t, migrated(t))
	random := rand.New(rand.NewPCG(144, 1))
	found := map[parting]int{}
	for fleet := range 40 {
		images := 2 + random.IntN(40)
		if err := s.write(t.Context(), "make a fleet", func(tx *txn) error { return randomLayers(tx, random, images) }); err != nil {
			t.Fatal(err)
		}
		for _, in := range []store.Namespaces{store.AllNamespaces(), store.OnlyNamespaces("a"), store.OnlyNamespaces("b", "c"), store.OnlyNamespaces()} {
			for _, listed := range []string{"", "2,3,5,8,13,21,34"} {
				compareBases(t, s, in, knownBases{images: listed}, fmt.Sprintf("fleet %d, seen in %v, listed %q", fleet, in.Names(), listed), found)
			}
		}
	}
	for _, parting := range []parting{partsNone, partsAll, partsSome} {
		if found[parting] < 100 {
			t.Errorf("images part in way %d at %d layers only", parting, found[parting])
		}
	}
}

// randomLayers replaces all images by others, in random namespaces.
func randomLayers(tx *txn, random *rand.Rand, images int) error {
	if err := tx.Execute("DELETE FROM images"); err != nil {
		return err
	}
	applications, kinds := 1+random.IntN(4), 1+random.IntN(3)
	for id := 1; id <= images; id++ {
		key := model.ImageKey{ImageID: fmt.Sprintf("registry.example/app-%d@sha256:%064x", random.IntN(applications), id)}
		if err := tx.Insert("images", append([]string{"id"}, newImageColumns...), append([]any{id}, newImage(key, store.StateScanned, 1, store.Counts{})...), ""); err != nil {
			return err
		}
		var layers []string
		for range random.IntN(7) {
			layers = append(layers, fmt.Sprintf("sha256:%064x", random.IntN(kinds)))
		}
		if err := saveLayers(tx, int64(id), &model.Catalog{Layers: layers}); err != nil {
			return err
		}
		for _, namespace := range []string{"a", "b", "c"} {
			if random.IntN(2) == 0 {
				continue
			}
			if err := tx.Insert("image_namespaces", []string{"namespace", "image_pk", "since"}, []any{namespace, id, 1}, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// compareBases compares both, and counts at how many layers images part in which way. What bounds the layers leaves the rest to the database.
func compareBases(t *testing.T, s *Store, in store.Namespaces, known knownBases, step string, found map[parting]int) {
	t.Helper()
	err := s.read(t.Context(), step, func(tx *gorm.DB) error {
		if known.images != "" && !in.All() { // Those that are not visible are not known.
			var visible []int64
			if err := visibleImages(tx, in).Where("m.image_pk IN (" + known.images + ")").Distinct("m.image_pk").Scan(&visible).Error; err != nil {
				return err
			}
			known.images = sqldb.JoinNumbers(visible)
		}
		var bases []layerOf
		if err := basesIn(tx, in, known).Scan(&bases).Error; err != nil {
			return err
		}
		want, err := layersOf(tx, bases)
		if err != nil {
			return err
		}
		among := func(rows *gorm.DB, column string) *gorm.DB { return visibleOnly(tx, rows, column, in) }
		tree := &layerTree{tx: tx, among: among}
		bases, enough, err := tree.read(known, 1000)
		if err != nil {
			return err
		}
		got, err := layersOf(tx, bases)
		if err != nil {
			return err
		}
		if diff := gocmp.Diff(want, got); diff != "" || !enough {
			t.Errorf("%s: bases, enough %v (-want +got):\n%s", step, enough, diff)
		}
		images := 0
		for _, l := range tree.all {
			found[l.parting]++
			for _, number := range l.applications {
				images += number
			}
		}
		for most, want := range map[int]bool{len(tree.all): images <= 10*len(tree.all), len(tree.all) - 1: false} {
			if _, enough, err := (&layerTree{tx: tx, among: among}).read(known, most); most >= 0 && (enough != want || err != nil) {
				t.Errorf("%s: %d layers, %d images on them and a bound of %d: %v, %v, want %v", step, len(tree.all), images, most, enough, err, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// layersOf reads which layers these are, in order.
func layersOf(tx *gorm.DB, bases []layerOf) ([]layer, error) {
	layers := make([]layer, len(bases))
	for i, base := range bases {
		err := tx.Raw("SELECT chain_id, position FROM image_layers WHERE image_pk = ? AND position = ?", base.ImagePk, base.Position).Scan(&layers[i]).Error
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(layers, func(a, b layer) int {
		return cmp.Or(cmp.Compare(a.ChainID, b.ChainID), cmp.Compare(a.Position, b.Position))
	})
	return layers, nil
}
