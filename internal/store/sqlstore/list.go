package sqlstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// imageSorts are the orders of a list of images, each with the sort values of a row.
var imageSorts = map[store.ImageSort]struct {
	keys   []sortKey
	values func(*imageRow) []string
}{
	store.SortImageID: {
		keys:   []sortKey{{column: "i.image_id"}, {column: "i.platform"}},
		values: func(r *imageRow) []string { return []string{r.ImageID, r.Platform} },
	},
	store.SortSeverity: {
		keys: []sortKey{
			{column: "i.critical", number: true, descending: true}, {column: "i.high", number: true, descending: true},
			{column: "i.medium", number: true, descending: true}, {column: "i.low", number: true, descending: true},
			{column: "i.image_id"}, {column: "i.platform"},
		},
		values: func(r *imageRow) []string {
			return []string{
				strconv.Itoa(r.Counts.Critical), strconv.Itoa(r.Counts.High), strconv.Itoa(r.Counts.Medium), strconv.Itoa(r.Counts.Low), r.ImageID, r.Platform,
			}
		},
	},
}

// imageToken is what a page token of images belongs to.
type imageToken struct {
	List        string
	Text        string
	States      []store.State
	MinSeverity vuln.Severity
	Sort        store.ImageSort
}

// Image implements store.Images.
func (s *Store) Image(ctx context.Context, key vuln.ImageKey) (store.Image, error) {
	var image store.Image
	err := s.read(ctx, "read an image", func(tx *gorm.DB) error {
		row, err := findImage(tx, key)
		if err != nil {
			return err
		}
		image, err = row.image()
		return err
	})
	return image, err
}

// ListImages implements store.Images.
func (s *Store) ListImages(ctx context.Context, query store.ImageQuery) (store.ImagePage, error) {
	const what = "list images"
	if query.Sort == "" {
		query.Sort = store.SortImageID
	}
	order, known := imageSorts[query.Sort]
	if !known {
		return store.ImagePage{}, fmt.Errorf("%s: the order %q is not known", what, query.Sort)
	}
	token := imageToken{"images", query.Text, query.States, query.MinSeverity, query.Sort}
	limit := query.Limit()
	var page store.ImagePage
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		page = store.ImagePage{}
		filtered := filterImages(tx.Table("images AS i"), s.dialect, query).Session(&gorm.Session{})
		var total int64
		if err := filtered.Count(&total).Error; err != nil {
			return err
		}
		page.Total = int(total)
		behind, err := fromToken(filtered, query.Token, token, order.keys)
		if err != nil {
			return err
		}
		var rows []imageRow
		err = behind.Joins(imageJoins).Select(imageColumns).Order(orderBy(order.keys, sameName)).Limit(limit + 1).Scan(&rows).Error
		if err != nil {
			return err
		}
		if len(rows) > limit {
			rows = rows[:limit]
			if page.NextToken, err = store.EncodeToken(token, order.values(&rows[limit-1])...); err != nil {
				return err
			}
		}
		page.Images = make([]store.Image, len(rows))
		for i := range rows {
			if page.Images[i], err = rows[i].image(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return store.ImagePage{}, err
	}
	return page, nil
}

func filterImages(tx *gorm.DB, d dialect, query store.ImageQuery) *gorm.DB {
	tx = contains(tx, d, query.Text, "i.image_id")
	if len(query.States) > 0 {
		states := make([]string, len(query.States))
		for i, state := range query.States {
			states[i] = string(state)
		}
		tx = tx.Where("i.state IN ?", states)
	}
	if query.MinSeverity > vuln.SeverityUnknown {
		var columns []string
		for _, severity := range vuln.Severities() {
			if severity >= query.MinSeverity {
				columns = append(columns, "i."+strings.ToLower(severity.String())+" > 0")
			}
		}
		tx = tx.Where("(" + strings.Join(columns, " OR ") + ")")
	}
	return tx
}

// Overview implements store.Images.
func (s *Store) Overview(ctx context.Context) (store.Overview, error) {
	overview := store.Overview{}
	err := s.read(ctx, "sum up the images", func(tx *gorm.DB) error {
		overview = store.Overview{Images: map[store.State]int{}}
		var rows []struct {
			State  string
			Images int
			Counts countsRow `gorm:"embedded"`
		}
		sums := make([]string, len(countColumns))
		for i, column := range countColumns {
			sums[i] = "SUM(" + column + ") AS " + column
		}
		err := tx.Raw("SELECT state, COUNT(*) AS images, " + strings.Join(sums, ", ") + " FROM images GROUP BY state").Scan(&rows).Error
		if err != nil {
			return err
		}
		for _, row := range rows {
			counts := row.Counts.counts()
			overview.Images[store.State(row.State)] = row.Images
			overview.Counts.SeverityCounts = overview.Counts.Plus(counts.SeverityCounts)
			overview.Counts.KEV += counts.KEV
			overview.Counts.Fixable += counts.Fixable
		}
		return tx.Raw(`SELECT COUNT(*) FROM packages p WHERE EXISTS
			(SELECT 1 FROM image_packages ip WHERE ip.package_pk = p.id)`).Scan(&overview.Packages).Error
	})
	return overview, err
}
