package sqlstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// cataloged is the data of store.EventImageCataloged.
type cataloged struct {
	Packages int    `json:"packages"`
	Distro   string `json:"distro,omitempty"`
	Size     int64  `json:"size,omitempty"`
}

// SaveSBOM implements store.Images. Findings that the image has from an earlier match stay visible until the next one when the
// packages are the same; otherwise they are of packages that are gone, and go too.
func (s *Store) SaveSBOM(ctx context.Context, key model.ImageKey, sbom store.SBOM, catalog model.Catalog) error {
	const what = "save an SBOM"
	if len(sbom.ScannedIn) > maxObjectName {
		return fmt.Errorf("%s of %s: the namespace has %d bytes, the maximum is %d", what, key, len(sbom.ScannedIn), maxObjectName)
	}
	if sbom.Unreadable < 0 || sbom.Unreadable > store.MaxUnreadable {
		return fmt.Errorf("%s of %s: %d unreadable files, expected 0 to %d", what, key, sbom.Unreadable, store.MaxUnreadable)
	}
	packages, err := distinct(catalog.Packages)
	if err != nil {
		return fmt.Errorf("%s of %s: %w", what, key, err)
	}
	return s.write(ctx, what, func(tx *txn) error {
		if sbom.Job != "" {
			job, err := deliver(tx, key, &sbom)
			if err != nil || job == nil {
				return err
			}
			sbom.ScannedIn = job.Namespace
		}
		id, err := exactImage(tx.DB, key)
		if err != nil {
			return err
		}
		if worse, err := lacksFiles(tx, id, sbom); err != nil || worse {
			return err
		}
		again, err := endRecatalog(tx, id)
		if err != nil {
			return err
		}
		if again {
			return renewSBOM(tx, id, key, sbom, catalog, len(packages))
		}
		if err := become(tx, id, store.StateCataloged); err != nil {
			return err
		}
		return keepSBOM(tx, id, key, sbom, catalog, packages, false)
	})
}

// become puts an image into a state of which no failure tells. Attempts are counted anew, so they get another nonce.
func become(tx *txn, image int64, state store.State) error {
	return tx.Execute("UPDATE images SET state = ?, nonce = ?, attempts = 0, reason = '', message = '', next_attempt_at = 0 WHERE id = ?",
		string(state), newNonce(), image)
}

// keepSBOM makes an SBOM that of an image, whose state stays. packages are those of the catalog, each once; fromReport says that the SBOM
// is a report.
func keepSBOM(tx *txn, id int64, key model.ImageKey, sbom store.SBOM, catalog model.Catalog, packages []model.HeldPackage, fromReport bool) error {
	ids, err := savePackages(tx, packages)
	if err != nil {
		return err
	}
	same, err := replaceImagePackages(tx, id, packages, ids)
	if err != nil {
		return err
	}
	if err := saveDocument(tx, id, key, sbom, catalog); err != nil {
		return err
	}
	err = tx.Execute(`UPDATE images SET distro = ?, size = ?, package_count = ?, catalogued_at = ?, sbom_sha256 = ?, sbom_size = ?, projection = ?,
		from_report = ? WHERE id = ?`,
		sqldb.Clean(catalog.Distro), catalog.Size, len(packages), tx.now, sbom.SHA256, sbom.Size, catalog.Stamp, boolean(fromReport), id)
	if err != nil {
		return err
	}
	tx.moved(id)
	if err := saveLayers(tx, id, &catalog); err != nil {
		return err
	}
	if err := saveSymbols(tx, id, catalog.Symbols); err != nil {
		return err
	}
	if !same {
		if err := forgetMatch(tx, id); err != nil {
			return err
		}
	}
	return tx.event(store.EventImageCataloged, key.ImageID, key.Platform.String(),
		cataloged{Packages: len(packages), Distro: sqldb.Clean(catalog.Distro), Size: catalog.Size})
}

// saveDocument replaces the SBOM of an image as it is stored.
func saveDocument(tx *txn, image int64, key model.ImageKey, sbom store.SBOM, catalog model.Catalog) error {
	if err := tx.Execute("DELETE FROM sboms WHERE image_pk = ?", image); err != nil {
		return err
	}
	err := tx.Insert("sboms", []string{"image_pk", "media_type", "sha256", "size"}, []any{image, sbom.MediaType, sbom.SHA256, sbom.Size}, "")
	if err != nil {
		return err
	}
	if err := sbomParts.save(tx, image, sbom.Content); err != nil {
		return err
	}
	if sbom.ScannedIn != "" {
		if err := tx.Insert("sbom_origins", []string{"image_pk", "namespace"}, []any{image, sbom.ScannedIn}, ""); err != nil {
			return err
		}
	}
	if from := catalog.Repository; from != "" && from != model.RepositoryOf(key.Repository()) {
		if err := tx.Insert("sbom_repositories", []string{"image_pk", "repository"}, []any{image, sqldb.Truncate(from, maxIdentifier)}, ""); err != nil {
			return err
		}
	}
	if sbom.Source != "" || sbom.Unreadable > 0 {
		err := tx.Insert("sbom_sources", []string{"image_pk", "source", "unreadable"}, []any{image, string(sbom.Source), sbom.Unreadable}, "")
		if err != nil {
			return err
		}
	}
	if sbom.LayersUnknown != "" {
		if err := tx.Insert("unknown_layers", []string{"image_pk", "reason"}, []any{image, sqldb.Truncate(sbom.LayersUnknown, model.MaxLayersUnknown)}, ""); err != nil {
			return err
		}
	}
	if catalog.AttestedBy != "" {
		if err := tx.Insert("sbom_attestations", []string{"image_pk", "key_id"}, []any{image, sqldb.Truncate(catalog.AttestedBy, maxIdentifier)}, ""); err != nil {
			return err
		}
	}
	if err := saveCreation(tx, image, catalog.Created); err != nil {
		return err
	}
	return saveCataloger(tx, image, catalog.Cataloger)
}

// saveCataloger keeps which program wrote the SBOM that an image has.
func saveCataloger(tx *txn, image int64, cataloger string) error {
	if err := tx.Execute("DELETE FROM sbom_catalogers WHERE image_pk = ?", image); err != nil || cataloger == "" {
		return err
	}
	return tx.Insert("sbom_catalogers", []string{"image_pk", "cataloger"}, []any{image, sqldb.Truncate(cataloger, maxIdentifier)}, "")
}

// distinct merges what is the same package at several places of an image. It counts as excluded when it is at all of them;
// otherwise the places where it is excluded do not count.
func distinct(held []model.HeldPackage) ([]model.HeldPackage, error) {
	merged := make([]model.HeldPackage, 0, len(held))
	index := make(map[string]int, len(held))
	for _, next := range held {
		fingerprint := next.Package.Fingerprint
		if fingerprint == "" || len(fingerprint) > maxIdentifier {
			return nil, fmt.Errorf("package %q %q: the fingerprint has %d bytes, expected 1 to %d",
				sqldb.Truncate(next.Package.Name, maxIdentifier), sqldb.Truncate(next.Package.Version, maxIdentifier), len(fingerprint), maxIdentifier)
		}
		at, found := index[fingerprint]
		switch {
		case !found:
			index[fingerprint] = len(merged)
			next.Locations = slices.Clone(next.Locations)
			merged = append(merged, next)
		case merged[at].Excluded == next.Excluded:
			merged[at].Locations = append(merged[at].Locations, next.Locations...)
		case merged[at].Excluded:
			merged[at].Locations, merged[at].Excluded = slices.Clone(next.Locations), false
		}
	}
	return merged, nil
}

// exactImage is the id of the image with that very platform.
func exactImage(tx *gorm.DB, key model.ImageKey) (int64, error) {
	var ids []int64
	err := tx.Raw("SELECT id FROM images WHERE image_id = ? AND platform = ?", key.ImageID, key.Platform.String()).Scan(&ids).Error
	if err != nil {
		return 0, err
	}
	if len(ids) == 0 {
		return 0, fmt.Errorf("image %s: %w", key, store.ErrNotFound)
	}
	return ids[0], nil
}

// savePackages records the packages that are not known and returns the ids of all, by fingerprint.
func savePackages(tx *txn, packages []model.HeldPackage) (map[string]int64, error) {
	ids, err := packageIDs(tx.DB, packages)
	if err != nil {
		return nil, err
	}
	var values []any
	var added []model.HeldPackage
	for _, held := range packages {
		if _, known := ids[held.Package.Fingerprint]; known {
			continue
		}
		p := held.Package
		licenses, err := toJSON(p.Licenses)
		if err != nil {
			return nil, err
		}
		cpes, err := toJSON(p.CPEs)
		if err != nil {
			return nil, err
		}
		added = append(added, held)
		values = append(values, p.Fingerprint, sqldb.Truncate(p.Name, maxName), sqldb.Truncate(p.Version, maxName), sqldb.Truncate(p.Type, maxIdentifier),
			sqldb.Clean(p.Language), sqldb.Clean(p.PURL), sqldb.Clean(p.Distro), licenses, cpes, []byte(p.MatchInput))
	}
	if len(added) == 0 {
		return ids, nil
	}
	err = tx.Insert("packages", []string{
		"fingerprint", "name", "version", "type", "language", "purl", "distro", "licenses", "cpes", "match_input",
	}, values, tx.Dialect.IgnoreConflict("fingerprint"))
	if err != nil {
		return nil, err
	}
	addedIDs, err := packageIDs(tx.DB, added)
	if err != nil {
		return nil, err
	}
	maps.Copy(ids, addedIDs)
	return ids, nil
}

func packageIDs(tx *gorm.DB, packages []model.HeldPackage) (map[string]int64, error) {
	ids := make(map[string]int64, len(packages))
	for part := range slices.Chunk(packages, sqldb.MaxIn) {
		fingerprints := make([]string, len(part))
		for i := range part {
			fingerprints[i] = part[i].Package.Fingerprint
		}
		var rows []struct {
			ID          int64
			Fingerprint string
		}
		if err := tx.Raw("SELECT id, fingerprint FROM packages WHERE fingerprint IN ?", fingerprints).Scan(&rows).Error; err != nil {
			return nil, err
		}
		for _, row := range rows {
			ids[row.Fingerprint] = row.ID
		}
	}
	return ids, nil
}

// replaceImagePackages records what the image holds and reports whether matching sees the same as before.
func replaceImagePackages(tx *txn, image int64, packages []model.HeldPackage, ids map[string]int64) (bool, error) {
	var rows []struct{ PackagePk, Excluded int64 }
	if err := tx.Raw("SELECT package_pk, excluded FROM image_packages WHERE image_pk = ?", image).Scan(&rows).Error; err != nil {
		return false, err
	}
	before := make(map[int64]int64, len(rows))
	for _, row := range rows {
		before[row.PackagePk] = row.Excluded
	}
	details, err := packageOverrides(tx.DB, packages, ids)
	if err != nil {
		return false, err
	}
	same := len(before) == len(packages)
	values := make([]any, 0, 5*len(packages))
	list := make([]int64, 0, len(packages))
	for _, held := range packages {
		id, found := ids[held.Package.Fingerprint]
		if !found {
			return false, fmt.Errorf("package %s was not recorded", held.Package.Fingerprint)
		}
		locations, err := toJSON(held.Locations)
		if err != nil {
			return false, err
		}
		excluded, known := before[id]
		same = same && known && excluded == boolean(held.Excluded)
		values = append(values, image, id, boolean(held.Excluded), locations, details[id])
		list = append(list, 2*id+boolean(held.Excluded))
	}
	if err := tx.Execute("DELETE FROM image_packages WHERE image_pk = ?", image); err != nil {
		return false, err
	}
	if err := tx.Insert("image_packages", []string{"image_pk", "package_pk", "excluded", "locations", "own"}, values, ""); err != nil {
		return false, err
	}
	if err := savePackageSet(tx, image, list); err != nil || same {
		return same, err
	}
	tx.noteLacks(image)
	return false, tx.noteHeld(image, slices.Sorted(maps.Keys(before)))
}

// forgetMatch makes an image one that was never matched. Its counts are those of its report again, if it has one.
func forgetMatch(tx *txn, image int64) error {
	var matched int64
	if err := tx.Raw("SELECT matched_at FROM images WHERE id = ?", image).Scan(&matched).Error; err != nil {
		return err
	}
	counts := make([]string, len(countColumns))
	for i, column := range countColumns {
		counts[i] = column + " = COALESCE((SELECT r." + column + " FROM reports r WHERE r.image_id = images.image_id), 0)"
	}
	tx.noteFixes(nil, image)
	tx.noteTags(nil, nil, image)
	err := tx.Execute("UPDATE images SET matched_at = 0, "+strings.Join(counts, ", ")+" WHERE id = ?", image)
	if err != nil || matched == 0 {
		return err
	}
	if err := tx.recountReachedOf([]int64{image}); err != nil {
		return err
	}
	packages, err := packagesOf(tx.DB, []int64{image}, "")
	if err != nil {
		return err
	}
	return tx.lowerHeld(packages)
}

// SBOM implements store.Images.
func (s *Store) SBOM(ctx context.Context, in store.Namespaces, key model.ImageKey) (store.SBOM, error) {
	var sbom store.SBOM
	err := s.read(ctx, "read an SBOM", func(tx *gorm.DB) error {
		image, err := findImage(tx, in, key)
		if err != nil {
			return err
		}
		var rows []struct {
			MediaType string
			Sha256    string `gorm:"column:sha256"`
			Size      int64
		}
		err = tx.Raw("SELECT media_type, sha256, size FROM sboms WHERE image_pk = ?", image.ID).Scan(&rows).Error
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return fmt.Errorf("SBOM of image %s: %w", key, store.ErrNotFound)
		}
		sbom = store.SBOM{MediaType: rows[0].MediaType, SHA256: rows[0].Sha256, Size: rows[0].Size}
		sbom.Content, err = sbomParts.load(tx, image.ID)
		return err
	})
	return sbom, err
}
