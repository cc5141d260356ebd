package sqlstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

var baseSorts = map[store.BaseSort][]sqldb.SortKey{
	store.SortBaseImages:   {{Column: "l.images", Number: true, Descending: true}, {Column: "l.chain_id"}, {Column: "l.layers", Number: true}},
	store.SortBaseSeverity: append(slices.Clone(worstFirst), sqldb.SortKey{Column: "l.chain_id"}, sqldb.SortKey{Column: "l.layers", Number: true}),
}

// baseToken is what a page token of base images belongs to.
type baseToken struct {
	List  string
	Where store.Where
	Sort  store.BaseSort
}

// baseEntry is a base with what the images on it sum up to.
type baseEntry struct {
	Top                     layerOf `gorm:"embedded"`
	ChainID, StatedName     string
	Layers, Images, Scanned int
	Counts                  countsRow `gorm:"embedded"`
}

func (r *baseEntry) value(column string) string {
	if value, found := r.Counts.value(column); found {
		return value
	}
	switch column {
	case "l.images":
		return strconv.Itoa(r.Images)
	case "l.layers":
		return strconv.Itoa(r.Layers)
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
		known, err := s.bases.known(tx, in)
		if err != nil {
			return err
		}
		page.Listed = known.entries
		visible, places, err := s.readVisible(tx, place{in: in})
		if err != nil {
			return err
		}
		view, err := seenOf(tx, in, "", places)
		if err != nil {
			return err
		}
		among := func(rows *gorm.DB, column string) *gorm.DB {
			if visible == nil {
				return visibleOnly(tx, rows, column, in)
			}
			return rows.Where(column+" IN (?)", numberList(slices.Sorted(maps.Keys(visible))))
		}
		bases, err := readBases(tx, in, known, among)
		if err != nil {
			return err
		}
		images := onBases(view.images(tx), bases)
		if query.Where == (store.Where{}) {
			images = among(images, "i.id")
		} else {
			images = images.Where("i.id IN (?)", place{query.Where, in}.images(tx))
		}
		rows, next, total, err := readEntries(tx, images, keys, query.Page, baseToken{"bases", query.Where, query.Sort}, (*baseEntry).value)
		page.NextToken, page.Total, page.Bases = next, total, make([]store.BaseSummary, len(rows))
		for i := range rows {
			row := &rows[i]
			page.Bases[i] = store.BaseSummary{
				ChainID: row.ChainID, Source: store.BaseShared, StatedName: row.StatedName, Layers: row.Layers, Images: row.Images, Scanned: row.Scanned, Counts: row.Counts.counts(),
			}
		}
		if err != nil {
			return err
		}
		if err := addBaseWorkloads(tx, place{query.Where, in}, rows, page.Bases); err != nil {
			return err
		}
		return addBaseImages(tx, view, known, page.Bases)
	})
	if err != nil {
		return store.BasePage{}, err
	}
	return page, nil
}

// onBases selects what images i with these layers sum up to, by these layers.
func onBases(images *gorm.DB, bases []layerOf) *gorm.DB {
	return images.Joins("JOIN image_layers b ON b.image_pk = i.id AND b.is_top = 0").
		Joins("JOIN image_layers d ON d.chain_id = b.chain_id AND d.position = b.position").
		Joins("LEFT JOIN stated_bases st ON st.image_pk = i.id AND st.name <> ''").Where(inLayers(bases)).
		Select("d.image_pk, d.position, MIN(d.chain_id) AS chain_id, d.position + 1 AS layers, CASE WHEN MIN(st.name) = MAX(st.name) THEN MIN(st.name) ELSE '' END AS stated_name, " +
			"COUNT(*) AS images, SUM(CASE WHEN i.matched_at > 0 THEN 1 ELSE 0 END) AS scanned, " + perCount("SUM(i.%[1]s) AS %[1]s")).Group("d.image_pk, d.position")
}

// basesIn selects the bases of the visible images, as baseOf finds them, each once, with one of the images that have its layers. An image and another one part at a
// layer: either that is the highest one of the other image, or both have different layers on it. The highest layer at which the image parts with one that ends there,
// or that is another application, is that of its base, unless it has the layers of a listed image.
func basesIn(tx *gorm.DB, in store.Namespaces, known knownBases) *gorm.DB {
	layers := func() *gorm.DB {
		rows := tx.Table("image_layers AS l")
		if in.All() {
			return rows
		}
		return rows.Where("l.image_pk IN (?)", visibleImages(tx, in))
	}
	const withNext = "JOIN image_layers n ON n.image_pk = l.image_pk AND n.position = l.position + 1"
	ends := layers().Where("l.is_top = 1").Distinct("l.chain_id, l.position")
	continued := layers().Joins(withNext).Distinct("l.chain_id, l.position, n.chain_id AS next, l.application")
	// Of what lies on a layer, other applications with other next layers are all, without those with the same next layer, and those of the same application.
	others := tx.Table("(?) AS c", continued).Select("c.chain_id, c.position, c.next, c.application, COUNT(*) OVER (PARTITION BY c.chain_id, c.position) + 1 - " +
		"COUNT(*) OVER (PARTITION BY c.chain_id, c.position, c.next) - COUNT(*) OVER (PARTITION BY c.chain_id, c.position, c.application) AS others")
	parts := tx.Table("(?) AS o", others).Joins("LEFT JOIN (?) e ON e.chain_id = o.chain_id AND e.position = o.position", ends).
		Where("o.others > 0 OR e.chain_id IS NOT NULL").Select("o.chain_id, o.position, o.next, o.application")
	highest := layers().Joins(withNext).
		Joins("JOIN (?) h ON h.chain_id = l.chain_id AND h.position = l.position AND h.next = n.chain_id AND h.application = l.application", parts).
		Select("l.image_pk, MAX(l.position) AS position").Group("l.image_pk")
	if known.images != "" {
		// What has the layers of a listed image parts with it at the latest, so that it is among the others.
		tops := tx.Table("image_layers AS g").Where("g.is_top = 1 AND g.image_pk IN (" + known.images + ")").Distinct("g.chain_id, g.position")
		listed := layers().Where("l.is_top = 0").Joins("JOIN (?) g ON g.chain_id = l.chain_id AND g.position = l.position", tops).
			Select("l.image_pk, MAX(l.position) AS position").Group("l.image_pk")
		highest = tx.Table("(?) AS s", highest).Joins("LEFT JOIN (?) g ON g.image_pk = s.image_pk", listed).Select("s.image_pk, COALESCE(g.position, s.position) AS position")
	}
	return tx.Table("(?) AS p", highest).Joins("JOIN image_layers q ON q.image_pk = p.image_pk AND q.position = p.position").
		Select("MIN(q.image_pk) AS image_pk, q.position").Group("q.chain_id, q.position")
}

// basesByLayer returns bases by their highest layers, and the chain IDs of these, of which several can be the same.
func basesByLayer(bases []store.BaseSummary) (at map[layer]*store.BaseSummary, chains []string) {
	at = make(map[layer]*store.BaseSummary, len(bases))
	for i := range bases {
		chains = append(chains, bases[i].ChainID)
		at[layer{bases[i].ChainID, int64(bases[i].Layers) - 1}] = &bases[i]
	}
	slices.Sort(chains)
	return at, slices.Compact(chains)
}

// addBaseWorkloads counts the chosen workloads that run images on each base.
func addBaseWorkloads(tx *gorm.DB, chosen place, rows []baseEntry, bases []store.BaseSummary) error {
	at, tops := make(map[layerOf]*store.BaseSummary, len(rows)), make([]layerOf, len(rows))
	for i := range rows {
		at[rows[i].Top], tops[i] = &bases[i], rows[i].Top
	}
	return eachRow(tx.Table("(?) AS r", workloadsOn(tx, chosen, tops)).Select("r.image_pk, r.position, COUNT(*)").Group("r.image_pk, r.position"), func(scan func(...any) error) error {
		var top layerOf
		var workloads int
		if err := scan(&top.ImagePk, &top.Position, &workloads); err != nil {
			return err
		}
		if base := at[top]; base != nil {
			base.Workloads = workloads
		}
		return nil
	})
}

// workloadsOn selects the chosen workloads that run images with these layers, each once for each of these.
func workloadsOn(tx *gorm.DB, chosen place, bases []layerOf) *gorm.DB {
	images := tx.Table("image_layers AS d").Joins("JOIN image_layers b ON b.chain_id = d.chain_id AND b.position = d.position AND b.is_top = 0").
		Joins("JOIN image_uses u ON u.image_pk = b.image_pk").Where(inLayers(bases))
	return uses(images, chosen).Distinct("d.image_pk, d.position, u.namespace, u.kind, u.name")
}

// addBaseImages adds the image that has the layers of each base only: the oldest of those that are listed, or else of all, and says whether it is listed.
func addBaseImages(tx *gorm.DB, view seen, known knownBases, bases []store.BaseSummary) error {
	at, chains := basesByLayer(bases)
	isListed := "0"
	if known.images != "" {
		isListed = "CASE WHEN i.id IN (" + known.images + ") THEN 1 ELSE 0 END"
	}
	return inParts(chains, func(part []string) error {
		images := view.images(tx).Joins("JOIN image_layers b ON b.image_pk = i.id").Joins("LEFT JOIN sbom_creations a ON a.image_pk = i.id").Where("b.is_top = 1 AND b.chain_id IN ?", part)
		images = visibleOnly(tx, images, "i.id", view.in)
		numbered := images.Select("b.chain_id, b.position, i.image_id, i.platform, i.matched_at, " + isListed + " AS listed, " + perCount("i.%[1]s") +
			", ROW_NUMBER() OVER (PARTITION BY b.chain_id, b.position ORDER BY " + isListed + " DESC, " + createdOrLast + ", i.image_id, i.platform) AS number")
		var found []struct {
			Top               layer `gorm:"embedded"`
			ImageID, Platform string
			MatchedAt         int64
			Listed            bool
			Counts            countsRow `gorm:"embedded"`
		}
		err := tx.Table("(?) AS n", numbered).Select("n.*").Where("n.number = 1").Scan(&found).Error
		if err != nil {
			return err
		}
		for i := range found {
			base := at[found[i].Top]
			if base == nil {
				continue
			}
			if found[i].Listed {
				base.Source = store.BaseListed
			}
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
