package sqlstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// summarizer reads a store.Summary in one transaction.
type summarizer struct {
	tx     *gorm.DB
	s      *Store
	chosen place
	view   seen
	// owned says that workloads of an owner are chosen, and that findings can count in some workloads only.
	owned   bool
	current int64
	limit   int
}

func (s *Store) summarizer(tx *gorm.DB, in store.Namespaces, owned store.Ownership, limit int) (*summarizer, error) {
	z := &summarizer{tx: tx, s: s, chosen: place{store.Where{Ownership: owned}, in}, limit: limit}
	var err error
	if z.view, err = seenIn(tx, in); err != nil {
		return nil, err
	}
	if owned != (store.Ownership{}) {
		if z.owned, err = somePlaced(tx); err != nil {
			return nil, err
		}
	}
	z.current, err = currentNumber(tx)
	return z, err
}

func checkRows(what string, limit int) error {
	if limit < 0 || limit > store.MaxSummaryRows {
		return fmt.Errorf("%s: a limit of %d rows is not in the range 0 to %d", what, limit, store.MaxSummaryRows)
	}
	return nil
}

// Summary implements store.Reader.
func (s *Store) Summary(ctx context.Context, in store.Namespaces, query store.SummaryQuery) (store.Summary, error) {
	const what = "summarize what runs"
	if err := checkRows(what, query.Limit); err != nil {
		return store.Summary{}, err
	}
	var summary store.Summary
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		summary = store.Summary{}
		z, err := s.summarizer(tx, in, query.Ownership, query.Limit)
		if err != nil {
			return err
		}
		if err := z.sums(&summary); err != nil {
			return err
		}
		if err := z.changes(micros(query.Since), true, &summary); err != nil {
			return err
		}
		if err := z.ending(s.now()+query.EndOfLifeWithin.Microseconds(), &summary); err != nil {
			return err
		}
		return z.due(s.now(), query.DueWithin.Microseconds(), &summary)
	})
	return summary, err
}

// ChangesSince implements store.Reader.
func (s *Store) ChangesSince(ctx context.Context, in store.Namespaces, since time.Time) (store.ChangeSums, error) {
	var summary store.Summary
	err := s.read(ctx, "count what was opened and closed", func(tx *gorm.DB) error {
		summary = store.Summary{}
		z, err := s.summarizer(tx, in, store.Ownership{}, 0)
		if err != nil {
			return err
		}
		if err := z.since(&summary); err != nil {
			return err
		}
		return z.changes(micros(since), false, &summary)
	})
	return store.ChangeSums{Opened: summary.Opened.Counts, Closed: summary.Closed.Counts, KnownSince: summary.KnownSince}, err
}

// uses selects what is chosen of uses u.
func (z *summarizer) uses() *gorm.DB { return uses(z.tx.Table("image_uses AS u"), z.chosen) }

// sums counts workloads and images, and sums up the counts of the images.
func (z *summarizer) sums(summary *store.Summary) error {
	workloads := z.tx.Table("(?) AS w", z.uses().Distinct("u.namespace, u.kind, u.name"))
	if err := workloads.Select("COUNT(*)").Scan(&summary.Workloads).Error; err != nil {
		return err
	}
	namespaces := z.uses().Where("u.namespace <> ''").Distinct("u.namespace").Order("u.namespace").Limit(store.MaxNamespaces)
	if err := namespaces.Scan(&summary.Namespaces).Error; err != nil {
		return err
	}
	var row sumRow
	images := z.view.images(z.tx)
	if z.owned {
		images = imagesWithout(z.tx, hidden(z.tx.Table("(?) AS y", closedIn(z.tx, z.uses())), "y.image_pk"))
	}
	err := z.tx.Table("(?) AS d", z.uses().Distinct("u.image_pk")).Joins("JOIN (?) i ON i.id = d.image_pk", images).
		Select(sumsOfImages).Scan(&row).Error
	summary.Images, summary.Scanned, summary.Counts = row.Images, row.Scanned, row.Counts.counts()
	if err != nil {
		return err
	}
	return z.since(summary)
}

// since reads since when something of what is chosen is known to run.
func (z *summarizer) since(summary *store.Summary) error {
	var first int64
	ran := visiblePresences(uses(z.tx.Table("image_presences AS u"), z.chosen), "u", z.chosen.in)
	err := ran.Select("COALESCE(MIN(" + presenceSince("u", z.chosen.in) + "), 0)").Scan(&first).Error
	summary.KnownSince = fromMicros(first)
	return err
}

// counting keeps the findings f that count in images i of packages ip, for what is chosen.
func (z *summarizer) counting(found *gorm.DB) *gorm.DB {
	found = found.Where(z.view.open(), z.current, z.current)
	if z.owned {
		found = openAmong(found, z.uses(), "i.id")
	}
	return found
}

// reach adds to vulnerabilities what has them.
func (z *summarizer) reach(list []store.ReachedVulnerability) error {
	for i := range list {
		one := &list[i]
		holding := z.counting(z.tx.Table("vulnerabilities AS v").Joins("CROSS JOIN findings f").Joins("CROSS JOIN image_packages ip").Joins("CROSS JOIN images i").Joins("CROSS JOIN packages p").
			Where("v.vulnerability_id = ? AND f.vulnerability_pk = v.id AND ip.package_pk = f.package_pk AND ip.excluded = 0 AND i.id = ip.image_pk AND i.matched_at > 0", one.ID)).
			Where("p.id = f.package_pk AND i.id IN (?)", z.uses().Select("u.image_pk")).Distinct("p.name, i.id")
		names, images := map[string]bool{}, map[int64]bool{}
		err := eachRow(holding, func(scan func(...any) error) error {
			var name string
			var image int64
			err := scan(&name, &image)
			names[name], images[image] = true, true
			return err
		})
		if err != nil {
			return err
		}
		packages := slices.Sorted(maps.Keys(names))
		one.PackageCount, one.Packages = len(packages), packages[:min(len(packages), store.MaxReach)]
		one.Images = len(images)
		workloads, err := countWorkloads(z.uses(), [][]int64{slices.Collect(maps.Keys(images))})
		if err != nil {
			return err
		}
		one.Workloads = workloads[0]
	}
	return nil
}

// ending lists the images that run whose distribution reaches its end of life before a time.
func (z *summarizer) ending(before int64, summary *store.Summary) error {
	images := z.tx.Table("(?) AS r", z.uses().Distinct("u.image_pk")).Joins("JOIN images i ON i.id = r.image_pk").Joins("JOIN distro_lifecycles d ON d.distro = i.distro").
		Where(endOfLifeBy, before).Session(&gorm.Session{})
	if err := images.Select("COUNT(*)").Scan(&summary.EndOfLifeTotal).Error; err != nil {
		return err
	}
	var rows []struct {
		ImageID, Platform, Distro string
		EndOfLife                 int64
	}
	err := images.Select("i.image_id, i.platform, i.distro, d.end_of_life").
		Order(sqldb.OrderBy([]sqldb.SortKey{{Column: "d.end_of_life", Number: true}, {Column: "i.image_id"}, {Column: "i.platform"}})).Limit(z.limit).Scan(&rows).Error
	if err != nil {
		return err
	}
	for _, row := range rows {
		key, err := keyOf(row.ImageID, row.Platform)
		if err != nil {
			return err
		}
		summary.EndOfLife = append(summary.EndOfLife, store.EndingImage{Image: key, Distro: row.Distro, EndOfLife: fromMicros(row.EndOfLife)})
	}
	return nil
}
