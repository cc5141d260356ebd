package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// reported is the data of store.EventImageReported.
type reported struct {
	Counts store.Counts `json:"counts"`
}

// SaveReport implements store.Reports. The counts of the report are those of the image for as long as it was not matched.
func (s *Store) SaveReport(ctx context.Context, may store.Namespaces, imageID string, report store.Report) error {
	const what = "save a report"
	key := model.ImageKey{ImageID: imageID}
	if err := key.Validate(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if len(report.Content) > maxReportSize {
		return fmt.Errorf("%s: the report has %d bytes, the maximum is %d", what, len(report.Content), maxReportSize)
	}
	var packages []model.HeldPackage
	if (report.SBOM == nil) != (report.Catalog == nil) {
		return fmt.Errorf("%s of %s: the SBOM and the components must be given together", what, imageID)
	}
	if report.Catalog != nil {
		var err error
		if packages, err = distinct(report.Catalog.Packages); err != nil {
			return fmt.Errorf("%s of %s: %w", what, imageID, err)
		}
	}
	content := s.encoder.EncodeAll(report.Content, nil)
	return s.write(ctx, what, func(tx *txn) error {
		if err := mayChange(tx.DB, may, imageID); err != nil {
			return err
		}
		if err := keepReport(tx, imageID, &report, content); err != nil {
			return err
		}
		if err := tx.event(store.EventImageReported, imageID, "", reported{Counts: report.Counts}); err != nil {
			return err
		}
		images, err := reportedImages(tx, key, report.Counts)
		if err != nil {
			return err
		}
		for i := range images {
			if err := keepComponents(tx, &images[i], &report, packages); err != nil {
				return err
			}
		}
		return nil
	})
}

// keepComponents makes the components of a report the packages of an image that has no SBOM of its own. When nothing runs it, that is all
// there will be; otherwise attempts to catalog it go on.
func keepComponents(tx *txn, image *imageRow, report *store.Report, packages []model.HeldPackage) error {
	key, err := image.key()
	if err != nil {
		return err
	}
	state := store.StateReported
	switch {
	case report.Catalog != nil:
		state, err = store.StateCataloged, keepSBOM(tx, image.ID, key, *report.SBOM, *report.Catalog, packages, true)
	case image.FromReport != 0:
		err = forgetSBOM(tx, image.ID)
	default:
		return nil
	}
	if err != nil || !onlyReported(store.State(image.State), image.FromReport != 0) {
		return err
	}
	return become(tx, image.ID, state)
}

// keepReport replaces the report of an image.
func keepReport(tx *txn, imageID string, report *store.Report, content []byte) error {
	if err := tx.Execute("DELETE FROM reports WHERE image_id = ?", imageID); err != nil {
		return err
	}
	err := tx.Insert("reports", append([]string{"image_id", "saved_at", "size"}, countColumns...),
		append([]any{imageID, tx.now, len(report.Content)}, countValues(report.Counts)...), "")
	if err != nil {
		return err
	}
	var id int64
	if err := tx.Raw("SELECT id FROM reports WHERE image_id = ?", imageID).Scan(&id).Error; err != nil {
		return err
	}
	return reportParts.save(tx, id, content)
}

// reportedImages gives the images of the key the counts of the report, as far as they were not matched, and returns those that have no
// SBOM of their own. There is one for the report alone when nothing else has told of the image.
func reportedImages(tx *txn, key model.ImageKey, counts store.Counts) ([]imageRow, error) {
	rows, err := imageRows(tx.DB, []model.ImageKey{key})
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		err := tx.Insert("images", newImageColumns, newImage(key, store.StateReported, tx.now, counts),
			tx.Dialect.IgnoreConflict("image_id", "platform"))
		if err != nil {
			return nil, err
		}
		if err := tx.reachImages([]string{key.ImageID}); err != nil {
			return nil, err
		}
		rows, err = imageRows(tx.DB, []model.ImageKey{key})
		if err != nil || len(rows) == 0 {
			return nil, fmt.Errorf("read the image of the report: %w", err)
		}
		return rows, nil
	}
	err = tx.Execute("UPDATE images SET "+strings.Join(countColumns, " = ?, ")+" = ? WHERE image_id = ? AND matched_at = 0",
		append(countValues(counts), key.ImageID)...)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(rows, func(row imageRow) bool { return row.SbomSha256 != "" && row.FromReport == 0 }), nil
}

// onlyReported tells whether nothing but a report has told of an image. One that something runs is pending or failed until it has an
// SBOM of its own.
func onlyReported(state store.State, fromReport bool) bool {
	return state == store.StateReported || fromReport && !uncataloged(state)
}

// uncataloged tells whether attempts to catalog an image go on.
func uncataloged(state store.State) bool {
	return state == store.StatePending || state == store.StateFailed
}

// forgetSBOM makes an image one that has no SBOM. Its counts are those of its report again, if it has one.
func forgetSBOM(tx *txn, image int64) error {
	packages, err := packagesOf(tx.DB, []int64{image}, "")
	if err != nil {
		return err
	}
	for _, table := range []string{"image_packages", "image_symbols", "image_layers", "stated_bases", "sboms"} {
		if err := tx.Execute("DELETE FROM "+table+" WHERE image_pk = ?", image); err != nil {
			return err
		}
	}
	err = tx.Execute(`UPDATE images SET distro = '', size = 0, package_count = 0, catalogued_at = 0, sbom_sha256 = '', sbom_size = 0,
		projection = 0, from_report = 0 WHERE id = ?`, image)
	if err != nil {
		return err
	}
	tx.moved(image)
	tx.noteLacks(image)
	if err := forgetMatch(tx, image); err != nil {
		return err
	}
	return tx.lowerHeld(packages)
}

// Report implements store.Reports.
func (s *Store) Report(ctx context.Context, in store.Namespaces, imageID string) ([]byte, error) {
	const what = "read a report"
	var content []byte
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		var ids []int64
		err := visibleID(tx.Table("reports AS r").Select("r.id").Where("r.image_id = ?", imageID), "r.image_id", in).Scan(&ids).Error
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			return fmt.Errorf("report of image %q: %w", imageID, store.ErrNotFound)
		}
		content, err = reportParts.load(tx, ids[0])
		return err
	})
	if err != nil {
		return nil, err
	}
	report, err := s.decoder.DecodeAll(content, nil)
	if err != nil {
		return nil, fmt.Errorf("%s of image %q: decompress: %w", what, imageID, err)
	}
	return report, nil
}
