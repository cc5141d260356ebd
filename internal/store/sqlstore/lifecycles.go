package sqlstore

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

const day = 24 * time.Hour

// endOfLifeBy is the condition that the distribution in row d of distro_lifecycles has reached its end of life at a time, the value.
const endOfLifeBy = "d.end_of_life > 0 AND d.end_of_life <= ?"

// createdOrLast sorts images whose creation is not known behind the others.
var createdOrLast = fmt.Sprintf("COALESCE(a.created_at, %d)", int64(math.MaxInt64))

// OutdatedLifecycles implements store.Lifecycles. limit is cut to store.MaxKeys. Names that are too long to be in an index are no
// distributions of any database.
func (s *Store) OutdatedLifecycles(ctx context.Context, buildID string, limit int) ([]string, error) {
	if limit <= 0 {
		return nil, nil
	}
	var names []string
	err := s.read(ctx, "list the distributions of images", func(tx *gorm.DB) error {
		names = nil
		return tx.Raw(`SELECT DISTINCT i.distro FROM images i WHERE i.distro <> '' AND OCTET_LENGTH(i.distro) <= ?
			AND NOT EXISTS (SELECT 1 FROM distro_lifecycles d WHERE d.distro = i.distro AND d.build_id = ?) ORDER BY i.distro LIMIT ?`,
			maxIdentifier, buildID, min(limit, store.MaxKeys)).Scan(&names).Error
	})
	return names, err
}

// SaveLifecycles implements store.Lifecycles.
func (s *Store) SaveLifecycles(ctx context.Context, buildID string, lifecycles map[string]model.Lifecycle) error {
	const what = "save the lifecycles of distributions"
	if err := checkIdentifier("the ID of the database build", buildID); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if len(lifecycles) > store.MaxKeys {
		return fmt.Errorf("%s: %d distributions, the maximum is %d", what, len(lifecycles), store.MaxKeys)
	}
	names := slices.Sorted(maps.Keys(lifecycles))
	var values, releases []any
	for _, name := range names {
		if err := checkIdentifier("the distribution", name); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if release := sqldb.Truncate(lifecycles[name].Release, maxIdentifier); release != "" {
			releases = append(releases, name, release)
		}
		values = append(values, name, buildID, micros(lifecycles[name].EndOfLife), micros(lifecycles[name].EndOfSupport))
	}
	return s.write(ctx, what, func(tx *txn) error {
		err := inParts(names, func(part []string) error { return tx.Execute("DELETE FROM distro_lifecycles WHERE distro IN ?", part) })
		if err != nil {
			return err
		}
		if err := tx.Insert("distro_lifecycles", []string{"distro", "build_id", "end_of_life", "end_of_support"}, values, ""); err != nil {
			return err
		}
		return tx.Insert("distro_releases", []string{"distro", "release_name"}, releases, "")
	})
}

// saveCreation keeps when an image was created, by the configuration that its SBOM states.
func saveCreation(tx *txn, image int64, stated time.Time) error {
	if err := tx.Execute("DELETE FROM sbom_creations WHERE image_pk = ?", image); err != nil {
		return err
	}
	created := model.CreatedAt(stated, fromMicros(tx.now))
	if created.IsZero() {
		return nil
	}
	return tx.Insert("sbom_creations", []string{"image_pk", "created_at"}, []any{image, micros(created)}, "")
}

// filterAges selects of images i those that a query asks for by their distribution and their age.
func (s *Store) filterAges(images *gorm.DB, query store.ImageQuery) *gorm.DB {
	if within := query.EndOfLifeWithin; within != nil {
		images = images.Where("i.distro IN (SELECT d.distro FROM distro_lifecycles d WHERE "+endOfLifeBy+")", s.now()+int64(*within)*day.Microseconds())
	}
	if query.OlderThan > 0 {
		images = images.Where("i.id IN (SELECT a.image_pk FROM sbom_creations a WHERE a.created_at <= ?)", s.now()-int64(query.OlderThan)*day.Microseconds())
	}
	return images
}

// RunningAges implements store.Lifecycles.
func (s *Store) RunningAges(ctx context.Context, distros int, days []int) (store.RunningAges, error) {
	var ages store.RunningAges
	err := s.read(ctx, "count running images by age", func(tx *gorm.DB) error {
		ages = store.RunningAges{Older: make(map[int]int, len(days))}
		const running = "EXISTS (SELECT 1 FROM image_uses u WHERE u.image_pk = i.id)"
		var rows []store.DistroImages
		err := tx.Raw("SELECT r.release_name AS distro, COUNT(*) AS images FROM distro_lifecycles d JOIN distro_releases r ON r.distro = d.distro"+
			" JOIN images i ON i.distro = d.distro WHERE "+endOfLifeBy+" AND "+running+" GROUP BY r.release_name ORDER BY images DESC, r.release_name", s.now()).
			Scan(&rows).Error
		if err != nil {
			return err
		}
		shown := min(len(rows), max(distros, 0))
		ages.Ended = rows[:shown]
		for _, row := range rows[shown:] {
			ages.OtherEnded += row.Images
		}
		for _, n := range days {
			var images int
			err := tx.Raw("SELECT COUNT(*) FROM sbom_creations a JOIN images i ON i.id = a.image_pk WHERE a.created_at <= ? AND "+running,
				s.now()-int64(n)*day.Microseconds()).Scan(&images).Error
			if err != nil {
				return err
			}
			ages.Older[n] = images
		}
		return tx.Raw("SELECT COUNT(*) FROM images i WHERE " + running + " AND NOT EXISTS (SELECT 1 FROM sbom_creations a WHERE a.image_pk = i.id)").
			Scan(&ages.Unknown).Error
	})
	return ages, err
}
