package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// Vulnerabilities implements store.ResultSets. limit is cut to store.MaxKeys.
func (s *Store) Vulnerabilities(ctx context.Context, after int64, limit int) ([]store.StoredVulnerability, error) {
	if limit <= 0 {
		return nil, nil
	}
	limit = min(limit, store.MaxKeys)
	var vulnerabilities []store.StoredVulnerability
	err := s.read(ctx, "list the vulnerabilities", func(tx *gorm.DB) error {
		var rows []struct {
			ID             int64
			Detail, Scores string
		}
		err := tx.Raw(`SELECT v.id, d.detail, v.scores FROM vulnerabilities v JOIN vulnerability_details d ON d.vulnerability_pk = v.id
			WHERE v.id > ? ORDER BY v.id LIMIT ?`, after, limit).Scan(&rows).Error
		if err != nil {
			return err
		}
		vulnerabilities = make([]store.StoredVulnerability, len(rows))
		for i, row := range rows {
			v, err := vulnerabilityOf(row.Detail, row.Scores)
			if err != nil {
				return err
			}
			vulnerabilities[i] = store.StoredVulnerability{ID: row.ID, Vulnerability: v}
		}
		return nil
	})
	return vulnerabilities, err
}

// StageScores implements store.ResultSets. Scores that are those of today need no row.
func (s *Store) StageScores(ctx context.Context, resultSet int64, vulnerabilities []store.StoredVulnerability) error {
	const what = "save vulnerability scores"
	if len(vulnerabilities) > store.MaxKeys {
		return fmt.Errorf("%s: %d items, the maximum is %d", what, len(vulnerabilities), store.MaxKeys)
	}
	staged := make(map[int64]scoresRow, len(vulnerabilities))
	ids := make([]int64, 0, len(vulnerabilities))
	for i := range vulnerabilities {
		row, err := scoresOf(&vulnerabilities[i].Vulnerability)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		id := vulnerabilities[i].ID
		if _, twice := staged[id]; !twice {
			ids = append(ids, id)
		}
		staged[id] = row
	}
	return s.write(ctx, what, func(tx *txn) error {
		if err := isNext(tx.DB, resultSet); err != nil {
			return err
		}
		for part := range slices.Chunk(ids, sqldb.MaxIn) {
			if err := stageScores(tx, part, staged); err != nil {
				return err
			}
		}
		return nil
	})
}

func stageScores(tx *txn, ids []int64, staged map[int64]scoresRow) error {
	var rows []struct {
		ID     int64
		Scores scoresRow `gorm:"embedded"`
	}
	err := tx.Raw("SELECT id, epss_micros, risk_micros, kev, scores FROM vulnerabilities WHERE id IN ?", ids).Scan(&rows).Error
	if err != nil {
		return err
	}
	if err := tx.Execute("DELETE FROM staged_scores WHERE vulnerability_pk IN ?", ids); err != nil {
		return err
	}
	var values []any
	for _, row := range rows {
		if next := staged[row.ID]; next != row.Scores {
			values = append(append(values, row.ID), next.values()...)
		}
	}
	return tx.Insert("staged_scores", append([]string{"vulnerability_pk"}, scoreColumns...), values, "")
}

// applyScores gives vulnerabilities the scores that were kept for them.
func applyScores(tx *txn) error {
	const staged = " = (SELECT s.%[1]s FROM staged_scores s WHERE s.vulnerability_pk = vulnerabilities.id)"
	assignments := make([]string, len(scoreColumns))
	for i, column := range scoreColumns {
		assignments[i] = column + fmt.Sprintf(staged, column)
	}
	changed, err := tx.Change("UPDATE vulnerabilities SET " + strings.Join(assignments, ", ") +
		" WHERE id IN (SELECT vulnerability_pk FROM staged_scores)")
	if err != nil {
		return err
	}
	tx.fixAll = tx.fixAll || changed > 0
	return tx.Execute("DELETE FROM staged_scores")
}
