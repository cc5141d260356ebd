package sqlstore

import (
	"context"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Databases implements store.Matches.
func (s *Store) Databases(ctx context.Context) ([]store.Database, error) {
	var databases []store.Database
	err := s.read(ctx, "list the vulnerability databases", func(tx *gorm.DB) error {
		databases = nil
		var rows []generationRow
		err := tx.Raw("SELECT "+generationColumns+` FROM generations g WHERE g.state <> ?
			ORDER BY CASE WHEN g.state = ? THEN 0 ELSE 1 END, g.number DESC LIMIT ?`,
			string(generationDiscarded), string(store.GenerationCurrent), store.MaxKeys).Scan(&rows).Error
		if err != nil {
			return err
		}
		seen := map[string]bool{}
		for i := range rows {
			row := &rows[i]
			if seen[row.BuildID] {
				continue
			}
			seen[row.BuildID] = true
			database := store.Database{
				DatabaseBuild: row.build(), State: store.GenerationState(row.State), CurrentSince: fromMicros(row.CurrentSince),
				PreviousBuild: row.PreviousBuild, Changes: row.counts(),
			}
			if database.State == store.GenerationCurrent {
				if err := tx.Raw("SELECT COUNT(*) FROM images WHERE matched_at > 0").Scan(&database.Images).Error; err != nil {
					return err
				}
			}
			databases = append(databases, database)
		}
		return nil
	})
	return databases, err
}
