package sqlstore

import (
	"context"
	"fmt"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// reported is the data of store.EventImageReported.
type reported struct {
	Counts store.Counts `json:"counts"`
}

// SaveReport implements store.Reports. The counts of the report are those of the image for as long as it was not matched.
func (s *Store) SaveReport(ctx context.Context, imageID string, report store.Report) error {
	const what = "save a report"
	key := vuln.ImageKey{ImageID: imageID}
	if err := key.Validate(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if len(report.Content) > maxReportSize {
		return fmt.Errorf("%s: it has %d bytes, more than the limit of %d", what, len(report.Content), maxReportSize)
	}
	content, counts := s.encoder.EncodeAll(report.Content, nil), report.Counts
	return s.write(ctx, what, func(tx *txn) error {
		if err := tx.exec("DELETE FROM reports WHERE image_id = ?", imageID); err != nil {
			return err
		}
		err := tx.insert("reports", append([]string{"image_id", "saved_at", "size"}, countColumns...),
			append([]any{imageID, tx.now, len(report.Content)}, countValues(counts)...), "")
		if err != nil {
			return err
		}
		var id int64
		if err := tx.Raw("SELECT id FROM reports WHERE image_id = ?", imageID).Scan(&id).Error; err != nil {
			return err
		}
		if err := reportParts.save(tx, id, content); err != nil {
			return err
		}
		var known int64
		if err := tx.Raw("SELECT COUNT(*) FROM images WHERE image_id = ?", imageID).Scan(&known).Error; err != nil {
			return err
		}
		if known == 0 {
			err = tx.insert("images", newImageColumns, newImage(key, store.StateReported, tx.now, counts),
				tx.dialect.ignoreConflict("image_id", "platform"))
		} else {
			err = tx.exec("UPDATE images SET "+strings.Join(countColumns, " = ?, ")+" = ? WHERE image_id = ? AND matched_at = 0",
				append(countValues(counts), imageID)...)
		}
		if err != nil {
			return err
		}
		return tx.event(store.EventImageReported, imageID, "", reported{Counts: counts})
	})
}

// Report implements store.Reports.
func (s *Store) Report(ctx context.Context, imageID string) ([]byte, error) {
	const what = "read a report"
	var content []byte
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		var ids []int64
		err := tx.Raw("SELECT id FROM reports WHERE image_id = ?", imageID).Scan(&ids).Error
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
