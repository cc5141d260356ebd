package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

var baseSorts = map[store.BaseSort][]sqldb.SortKey{
	store.SortBaseImages:   {{Column: "l.images", Number: true, Descending: true}, {Column: "l.chain_id"}},
	store.SortBaseSeverity: append(slices.Clone(worstFirst), sqldb.SortKey{Column: "l.chain_id"}),
}

// baseToken is what a page token of base images belongs to.
type baseToken struct {
	List  string
	Where store.Where
	Sort  store.BaseSort
}

// baseEntry is a base with what the images on it sum up to.
type baseEntry struct {
	ChainID, StatedName     string
	Layers, Images, Scanned int
	Counts                  countsRow `gorm:"embedded"`
}

func (r *baseEntry) value(column string) string {
	if value, found := r.Counts.value(column); found {
		return value
	}
	if column == "l.images" {
		return strconv.Itoa(r.Images)
	}
	return r.ChainID
}

// ListBases implements store.Reader.
func (s *Store) ListBases(ctx context.Context, in store.Namespaces, query store.BaseQuery) (store.BasePage, error) {
	const what = "list base images"
	if query.Sort == "" {
		query.Sort = store.SortBaseImages
	}
	keys, known := baseSorts[query.Sort]
	if !known {
		return store.BasePage{}, fmt.Errorf("%s: unknown sort order %q", what, query.Sort)
	}
	var page store.BasePage
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		page = store.BasePage{}
		current, err := currentNumber(tx)
		if err != nil {
			return err
		}
		view, err := seenIn(tx, in)
		if err != nil {
			return err
		}
		images := view.images(tx, current).Joins("JOIN (?) d ON d.image_pk = i.id", basePositions(tx, in)).
			Joins("JOIN image_layers b ON b.image_pk = d.image_pk AND b.position = d.position").
			Joins("LEFT JOIN stated_bases st ON st.image_pk = i.id AND st.name <> ''")
		if chosen := (place{query.Where, in}); !chosen.everywhere() {
			images = images.Where("i.id IN (?)", chosen.images(tx))
		}
		entries := images.Select("b.chain_id, b.position + 1 AS layers, CASE WHEN MIN(st.name) = MAX(st.name) THEN MIN(st.name) ELSE '' END AS stated_name, " +
			"COUNT(*) AS images, SUM(CASE WHEN i.matched_at > 0 THEN 1 ELSE 0 END) AS scanned, " + perCount("SUM(i.%[1]s) AS %[1]s")).Group("b.chain_id, b.position")
		rows, next, total, err := readEntries(tx, entries, keys, query.Page, baseToken{"bases", query.Where, query.Sort}, (*baseEntry).value)
		page.NextToken, page.Total, page.Bases = next, total, make([]store.BaseSummary, len(rows))
		for i := range rows {
			row := &rows[i]
			page.Bases[i] = store.BaseSummary{
				ChainID: row.ChainID, StatedName: row.StatedName, Layers: row.Layers, Images: row.Images, Scanned: row.Scanned, Counts: row.Counts.counts(),
			}
		}
		if err != nil {
			return err
		}
		return addBaseImages(tx, view, current, page.Bases)
	})
	if err != nil {
		return store.BasePage{}, err
	}
	return page, nil
}

// basePositions selects the visible images that have a base, with the position of its highest layer, as baseOf finds it.
func basePositions(tx *gorm.DB, in store.Namespaces) *gorm.DB {
	layers := func() *gorm.DB {
		rows := tx.Table("image_layers AS l")
		if in.All() {
			return rows
		}
		return rows.Where("l.image_pk IN (?)", visibleImages(tx, in))
	}
	shared := layers().Joins("JOIN images j ON j.id = l.image_pk").Select("l.chain_id").Group("l.chain_id").
		Having("MAX(l.is_top) = 1 OR COUNT(DISTINCT j.repository) > 1")
	return layers().Joins("JOIN (?) h ON h.chain_id = l.chain_id", shared).Where("l.is_top = 0").
		Select("l.image_pk, MAX(l.position) AS position").Group("l.image_pk")
}

// addBaseImages adds the first image that has the layers of each base only.
func addBaseImages(tx *gorm.DB, view seen, current int64, bases []store.BaseSummary) error {
	at := make(map[string]*store.BaseSummary, len(bases))
	chains := make([]string, len(bases))
	for i := range bases {
		chains[i] = bases[i].ChainID
		at[chains[i]] = &bases[i]
	}
	return inParts(chains, func(part []string) error {
		images := view.images(tx, current).Joins("JOIN image_layers b ON b.image_pk = i.id").Where("b.is_top = 1 AND b.chain_id IN ?", part)
		if !view.in.All() {
			images = images.Where("i.id IN (?)", visibleImages(tx, view.in))
		}
		numbered := images.Select("b.chain_id, i.image_id, i.platform, i.matched_at, " + perCount("i.%[1]s") +
			", ROW_NUMBER() OVER (PARTITION BY b.chain_id ORDER BY i.image_id, i.platform) AS number")
		var found []struct {
			ChainID, ImageID, Platform string
			MatchedAt                  int64
			Counts                     countsRow `gorm:"embedded"`
		}
		err := tx.Table("(?) AS n", numbered).Select("n.*").Where("n.number = 1").Scan(&found).Error
		if err != nil {
			return err
		}
		for i := range found {
			base := at[found[i].ChainID]
			if base.Image, err = keyOf(found[i].ImageID, found[i].Platform); err != nil {
				return err
			}
			if base.Matched = found[i].MatchedAt > 0; base.Matched {
				base.ImageCounts = found[i].Counts.counts()
			}
		}
		return nil
	})
}
