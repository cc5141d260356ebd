package sqlstore

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// saveLayers keeps the layers of an image and the base image that it states.
func saveLayers(tx *txn, image int64, catalog *model.Catalog) error {
	var before []string
	if err := tx.Raw("SELECT chain_id FROM image_layers WHERE image_pk = ? ORDER BY position", image).Scan(&before).Error; err != nil {
		return err
	}
	if err := tx.Execute("DELETE FROM image_layers WHERE image_pk = ?", image); err != nil {
		return err
	}
	var repository string
	if err := tx.Raw("SELECT repository FROM images WHERE id = ?", image).Scan(&repository).Error; err != nil {
		return err
	}
	chain := model.ChainIDs(catalog.Layers)
	if !slices.Equal(before, chain) {
		tx.noteLacks(image)
	}
	values := make([]any, 0, 6*len(chain))
	for i, id := range chain {
		values = append(values, image, i, catalog.Layers[i], id, boolean(i == len(chain)-1), path.Base(repository))
	}
	err := tx.Insert("image_layers", []string{"image_pk", "position", "diff_id", "chain_id", "is_top", "application"}, values, "")
	if err != nil {
		return err
	}
	if err := saveLayerSizes(tx, image, catalog.LayerSizes[:min(len(catalog.LayerSizes), len(chain))]); err != nil {
		return err
	}
	if err := tx.Execute("DELETE FROM stated_bases WHERE image_pk = ?", image); err != nil || catalog.Base == (model.StatedBase{}) {
		return err
	}
	return tx.Insert("stated_bases", []string{"image_pk", "name", "digest"},
		[]any{image, sqldb.Truncate(catalog.Base.Name, model.MaxStated), sqldb.Truncate(catalog.Base.Digest, maxIdentifier)}, "")
}

// saveLayerSizes keeps the sizes of the layers of an image that has an SBOM.
func saveLayerSizes(tx *txn, image int64, sizes []int64) error {
	if err := tx.Execute("DELETE FROM layer_sizes WHERE image_pk = ?", image); err != nil {
		return err
	}
	values := make([]any, 0, 3*len(sizes))
	for i, size := range sizes {
		values = append(values, image, i, size)
	}
	return tx.Insert("layer_sizes", []string{"image_pk", "position", "size"}, values, "")
}

// foundBase is what an image shares with others: its lowest layers, up to a position. ImagePk is an image that has these layers only, 0 if there is none, and
// Listed says that the list of base images has it.
type foundBase struct {
	Position          int64
	ChainID           string
	Listed            bool
	ImagePk           int64
	ImageID, Platform string
}

// baseOf reads the base of an image among the images that are visible in some namespaces, nil if it has none. Images that have all layers of the image say nothing
// of its base: they are copies of it, or were built on it.
func (s *Store) baseOf(tx *gorm.DB, in store.Namespaces, image int64) (*foundBase, error) {
	if listed, err := s.bases.of(tx, in, image); err != nil || listed != nil {
		return listed, err
	}
	const hasAll = "EXISTS (SELECT 1 FROM image_layers x WHERE x.image_pk = o.image_pk AND x.position = t.position AND x.chain_id = t.chain_id)"
	others := visibleOnly(tx, tx.Table("image_layers AS o").Select("1").
		Where("o.chain_id = l.chain_id AND o.position = l.position AND (o.is_top = 1 OR o.application <> l.application) AND NOT "+hasAll), "o.image_pk", in)
	var found []foundBase
	err := tx.Table("image_layers AS l").Joins("JOIN image_layers t ON t.image_pk = l.image_pk AND t.is_top = 1").
		Where("l.image_pk = ? AND l.is_top = 0 AND EXISTS (?)", image, others).
		Select("l.position, l.chain_id").Order("l.position DESC").Limit(1).Scan(&found).Error
	if err != nil || len(found) == 0 {
		return nil, err
	}
	base := &found[0]
	var known []struct {
		ID                int64
		ImageID, Platform string
	}
	err = visibleOnly(tx, tx.Table("image_layers AS b").Joins("CROSS JOIN images k").Joins("LEFT JOIN sbom_creations a ON a.image_pk = k.id").
		Where("b.chain_id = ? AND b.position = ? AND b.is_top = 1 AND k.id = b.image_pk", base.ChainID, base.Position), "k.id", in).
		Select("k.id, k.image_id, k.platform").Order(createdOrLast + ", k.image_id, k.platform").Limit(1).Scan(&known).Error
	if len(known) > 0 {
		base.ImagePk, base.ImageID, base.Platform = known[0].ID, known[0].ImageID, known[0].Platform
	}
	return base, err
}

// addBase adds the base to an image, or why its layers are not known.
func (s *Store) addBase(tx *gorm.DB, in store.Namespaces, id int64, image *store.Image) error {
	var stated []model.StatedBase
	if err := tx.Raw("SELECT name, digest FROM stated_bases WHERE image_pk = ?", id).Scan(&stated).Error; err != nil {
		return err
	}
	if len(stated) > 0 {
		image.Base.Stated = stated[0]
	}
	var unknown []string
	if err := tx.Raw("SELECT reason FROM unknown_layers WHERE image_pk = ?", id).Scan(&unknown).Error; err != nil {
		return err
	}
	image.LayersUnknown = strings.Join(unknown, "") // There is at most one.
	base, err := s.baseOf(tx, in, id)
	if err != nil || base == nil {
		return err
	}
	image.Base.Layers, image.Base.ChainID, image.Base.Source = int(base.Position)+1, base.ChainID, store.BaseShared
	if base.Listed {
		image.Base.Source = store.BaseListed
	}
	if base.ImagePk != 0 {
		image.Base.Image, err = keyOf(base.ImageID, base.Platform)
	}
	return err
}

// origins says where the packages of an image come from.
type origins struct {
	image int64
	base  *foundBase
	// mounted says that the image was read from an image volume, so that no file is in a layer that is known.
	mounted bool
}

// originsIn reads the base of an image, which depends on the other images that are visible.
func (s *Store) originsIn(tx *gorm.DB, in store.Namespaces, image int64) (origins, error) {
	base, err := s.baseOf(tx, in, image)
	if err != nil || base == nil {
		return origins{image: image}, err
	}
	var mounted []int64
	err = tx.Raw("SELECT image_pk FROM sbom_sources WHERE image_pk = ? AND source = ?", image, string(model.SourceImageVolume)).Scan(&mounted).Error
	return origins{image, base, len(mounted) > 0}, err
}

// known reports whether it is known which packages come from the base: there is a base, and it is a known image, or the layers of files are known.
func (o *origins) known() bool { return o.base != nil && (o.base.ImagePk != 0 || !o.mounted) }

// fromBase lists those of some packages, nil for all, that come from the base, if that is known: those that the base holds, too, if it is a known image, and otherwise those of
// which a file is in one of its layers. Files of packages that the base has may be in higher layers, too, as the database of the distribution often is.
func (o *origins) fromBase(tx *gorm.DB, packages []int64) (map[int64]bool, error) {
	from := map[int64]bool{}
	if o.base.ImagePk != 0 {
		return from, eachPart(packages, func(part []int64) error {
			var ids []int64
			err := of(tx.Table("image_packages AS ip").Joins("JOIN image_packages b ON b.package_pk = ip.package_pk").
				Where("ip.image_pk = ? AND b.image_pk = ?", o.image, o.base.ImagePk), "ip.package_pk", part).Select("ip.package_pk").Scan(&ids).Error
			for _, id := range ids {
				from[id] = true
			}
			return err
		})
	}
	var layers []string
	if err := tx.Raw("SELECT diff_id FROM image_layers WHERE image_pk = ? AND position <= ?", o.image, o.base.Position).Scan(&layers).Error; err != nil {
		return nil, err
	}
	return from, eachPart(packages, func(part []int64) error {
		rows := of(tx.Table("image_packages AS ip").Where("ip.image_pk = ?", o.image), "ip.package_pk", part).Select("ip.package_pk, ip.locations")
		return eachRow(rows, func(scan func(...any) error) error {
			var id int64
			var text string
			if err := scan(&id, &text); err != nil {
				return err
			}
			var locations []model.Location
			if err := fromJSON(text, &locations); err != nil {
				return fmt.Errorf("locations of package %d in the database: %w", id, err)
			}
			from[id] = slices.ContainsFunc(locations, func(l model.Location) bool { return slices.Contains(layers, l.Layer) })
			return nil
		})
	})
}

// filter adds the condition that the package of findings f has an origin; "" adds none.
func (o *origins) filter(tx, findings *gorm.DB, origin model.Origin) (*gorm.DB, error) {
	if origin == "" {
		return findings, nil
	}
	if !o.known() {
		return findings.Where("1 = 0"), nil
	}
	if o.base.ImagePk != 0 {
		held := tx.Table("image_packages AS b").Select("b.package_pk").Where("b.image_pk = ?", o.base.ImagePk)
		if origin == model.OriginImage {
			return findings.Where("f.package_pk NOT IN (?)", held), nil
		}
		return findings.Where("f.package_pk IN (?)", held), nil
	}
	from, err := o.fromBase(tx, nil)
	list := []byte("0")
	for _, id := range slices.Sorted(maps.Keys(from)) {
		if from[id] {
			list = strconv.AppendInt(append(list, ','), id, 10) // Numbers, too many to be given as values.
		}
	}
	condition := "f.package_pk IN (" + string(list) + ")"
	if origin == model.OriginImage {
		condition = "NOT " + condition
	}
	return findings.Where(condition), err
}

// add adds the origins to findings.
func (o *origins) add(tx *gorm.DB, rows []findingRow, findings []model.Finding) error {
	if !o.known() || len(rows) == 0 {
		return nil
	}
	packages := make([]int64, len(rows))
	for i := range rows {
		packages[i] = rows[i].PackagePk
	}
	slices.Sort(packages)
	from, err := o.fromBase(tx, slices.Compact(packages))
	for i := range rows {
		findings[i].Origin = model.OriginImage
		if from[rows[i].PackagePk] {
			findings[i].Origin = model.OriginBase
		}
	}
	return err
}
