package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// maxPath bounds the path that packages are ordered by, in bytes. It is in page tokens.
const maxPath = 512

// imagePackageToken is what a page token of the packages of an image belongs to.
type imagePackageToken struct {
	List        string
	ImageID     string
	Platform    string
	Text        string
	MinSeverity model.Severity
	Vulnerable  bool
	Origin      model.Origin
	Layer       *int
}

// layeredPackage is a package of an image with all that it is ordered by.
type layeredPackage struct {
	id                               int64
	layer                            int
	path, name, version, fingerprint string
	origin                           model.Origin
	counts                           store.Counts
	// bytes is how long its locations are.
	bytes int
}

// rank orders store.UnknownLayer behind all others.
func (p *layeredPackage) rank() int {
	if p.layer == store.UnknownLayer {
		return math.MaxInt
	}
	return p.layer
}

func (p *layeredPackage) compare(o *layeredPackage) int {
	return cmp.Or(cmp.Compare(p.rank(), o.rank()), cmp.Compare(p.path, o.path), cmp.Compare(p.name, o.name), cmp.Compare(p.version, o.version),
		cmp.Compare(p.fingerprint, o.fingerprint))
}

// imageTree is what the packages of an image are ordered by: its layers, and where its packages are.
type imageTree struct {
	tx     *gorm.DB
	in     store.Namespaces
	image  imageRow
	layers []string
	// numbers are those of the layers by diff ID. A layer that is there twice has the number of the lower one.
	numbers map[string]int
	origins origins
}

func (s *Store) treeOf(tx *gorm.DB, in store.Namespaces, key model.ImageKey) (*imageTree, error) {
	image, err := findImage(tx, in, key)
	if err != nil {
		return nil, err
	}
	tree := &imageTree{tx: tx, in: in, image: image, numbers: map[string]int{}}
	if err := tx.Raw("SELECT diff_id FROM image_layers WHERE image_pk = ? ORDER BY position", image.ID).Scan(&tree.layers).Error; err != nil {
		return nil, err
	}
	for i, layer := range slices.Backward(tree.layers) {
		tree.numbers[layer] = i + 1
	}
	tree.origins, err = s.originsIn(tx, in, image.ID)
	return tree, err
}

// packages reads the packages that a query keeps, without an order.
func (t *imageTree) packages(d sqldb.Dialect, query store.ImagePackageQuery) ([]layeredPackage, error) {
	path, err := t.commonPaths()
	if err != nil {
		return nil, err
	}
	counts, err := t.counts()
	if err != nil {
		return nil, err
	}
	var fromBase map[int64]bool
	if t.origins.known() {
		if fromBase, err = t.origins.fromBase(t.tx, nil); err != nil {
			return nil, err
		}
	}
	rows := contains(t.tx.Table("image_packages AS ip").Joins("JOIN packages p ON p.id = ip.package_pk").Where("ip.image_pk = ?", t.image.ID), d, query.Text, "p.name").
		Select("p.id, p.name, p.version, p.fingerprint, ip.locations")
	var kept []layeredPackage
	err = eachRow(rows, func(scan func(...any) error) error {
		var p layeredPackage
		var text string
		if err := scan(&p.id, &p.name, &p.version, &p.fingerprint, &text); err != nil {
			return err
		}
		p.counts = counts[p.id]
		if query.Vulnerable && p.counts.Total() == 0 || query.MinSeverity > model.SeverityUnknown && !hasAtLeast(p.counts, query.MinSeverity) {
			return nil
		}
		if t.origins.known() {
			if p.origin = model.OriginImage; fromBase[p.id] {
				p.origin = model.OriginBase
			}
		}
		if query.Origin != "" && p.origin != query.Origin {
			return nil
		}
		var locations []model.Location
		if err := fromJSON(text, &locations); err != nil {
			return fmt.Errorf("locations of package %d in the database: %w", p.id, err)
		}
		if p.layer = t.lowest(locations); query.Layer != nil && p.layer != *query.Layer {
			return nil
		}
		p.path, p.bytes = sqldb.Truncate(path(locations, p.layer), maxPath), len(text)
		kept = append(kept, p)
		return nil
	})
	return kept, err
}

// commonPaths returns a function that chooses the location that most packages of the image have; of several the first one in a layer, or else the first one.
func (t *imageTree) commonPaths() (func(locations []model.Location, layer int) string, error) {
	seed := maphash.MakeSeed()
	common := map[uint64]int{} // The paths themselves would take more memory.
	err := eachRow(t.tx.Table("image_packages AS ip").Where("ip.image_pk = ?", t.image.ID).Select("ip.locations"), func(scan func(...any) error) error {
		var text string
		if err := scan(&text); err != nil {
			return err
		}
		var locations []model.Location
		if err := fromJSON(text, &locations); err != nil {
			return fmt.Errorf("locations of a package of image %d in the database: %w", t.image.ID, err)
		}
		for _, location := range locations {
			common[maphash.String(seed, location.Path)]++
		}
		return nil
	})
	return func(locations []model.Location, layer int) string {
		path, most := "", 0
		for _, location := range locations {
			n := 2 * common[maphash.String(seed, location.Path)]
			if t.numbers[location.Layer] == layer {
				n++
			}
			if n > most {
				path, most = location.Path, n
			}
		}
		return path
	}, err
}

// lowest is the number of the lowest layer of some locations.
func (t *imageTree) lowest(locations []model.Location) int {
	lowest := store.UnknownLayer
	for _, location := range locations {
		if n, known := t.numbers[location.Layer]; known && (lowest == store.UnknownLayer || n < lowest) {
			lowest = n
		}
	}
	return lowest
}

// counts sums up the open findings in each package of the image that has any.
func (t *imageTree) counts() (map[int64]store.Counts, error) {
	counts := map[int64]store.Counts{}
	if t.image.MatchedAt == 0 {
		return counts, nil
	}
	current, err := currentNumber(t.tx)
	if err != nil {
		return nil, err
	}
	view, err := seenIn(t.tx, t.in)
	if err != nil {
		return nil, err
	}
	var rows []struct {
		PackagePk int64
		Counts    countsRow `gorm:"embedded"`
	}
	err = t.tx.Table("image_packages AS ip").Joins("CROSS JOIN findings f").Joins("JOIN vulnerabilities v ON v.id = f.vulnerability_pk").
		Where("ip.image_pk = ? AND ip.excluded = 0 AND f.package_pk = ip.package_pk", t.image.ID).Where(view.open(), current, current).
		Select("f.package_pk, " + countedColumns()).Group("f.package_pk").Scan(&rows).Error
	for _, row := range rows {
		counts[row.PackagePk] = row.Counts.counts()
	}
	return counts, err
}

// sizes reads the sizes of the layers by position, as far as they are known.
func (t *imageTree) sizes() (map[int]*int64, error) {
	var rows []struct {
		Position int
		Size     int64
	}
	err := t.tx.Raw("SELECT position, size FROM layer_sizes WHERE image_pk = ?", t.image.ID).Scan(&rows).Error
	sizes := make(map[int]*int64, len(rows))
	for i := range rows {
		sizes[rows[i].Position] = &rows[i].Size
	}
	return sizes, err
}

func hasAtLeast(counts store.Counts, least model.Severity) bool {
	return slices.ContainsFunc(model.Severities(), func(s model.Severity) bool { return s >= least && counts.Of(s) > 0 })
}

// ImagePackages implements store.Reader.
func (s *Store) ImagePackages(ctx context.Context, in store.Namespaces, query store.ImagePackageQuery) (store.ImagePackagePage, error) {
	token := imagePackageToken{
		"packages of an image", query.Image.ImageID, query.Image.Platform.String(), query.Text, query.MinSeverity, query.Vulnerable, query.Origin, query.Layer,
	}
	var page store.ImagePackagePage
	err := s.read(ctx, "list the packages of an image", func(tx *gorm.DB) error {
		page = store.ImagePackagePage{}
		tree, err := s.treeOf(tx, in, query.Image)
		if err != nil {
			return err
		}
		all, err := tree.packages(s.db.Dialect(), query)
		if err != nil {
			return err
		}
		slices.SortFunc(all, func(a, b layeredPackage) int { return a.compare(&b) })
		page.Total = len(all)
		rest, err := behind(all, query.Token, token)
		if err != nil {
			return err
		}
		if limit := fitting(rest, query.Limit()); len(rest) > limit {
			rest = rest[:limit]
			last := &rest[limit-1]
			page.NextToken, err = store.EncodeToken(token, strconv.Itoa(last.layer), last.path, last.name, last.version, last.fingerprint)
			if err != nil {
				return err
			}
		}
		page.Packages, err = tree.read(rest)
		return err
	})
	if err != nil {
		return store.ImagePackagePage{}, err
	}
	return page, nil
}

// fitting is how many packages a page holds, at least one: not more than a limit, and not with locations of more than maxPageBytes.
func fitting(packages []layeredPackage, limit int) int {
	bytes := 0
	for i := range packages {
		if bytes += packages[i].bytes; i == limit || i > 0 && bytes > maxPageBytes {
			return i
		}
	}
	return len(packages)
}

// behind returns those of ordered packages that come behind the page that a token is of.
func behind(all []layeredPackage, token string, query imagePackageToken) ([]layeredPackage, error) {
	if token == "" {
		return all, nil
	}
	values, err := store.DecodeToken(token, query, 5)
	if err != nil {
		return nil, err
	}
	layer, err := strconv.Atoi(values[0])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrInvalidToken, err)
	}
	last := layeredPackage{layer: layer, path: values[1], name: values[2], version: values[3], fingerprint: values[4]}
	i, found := slices.BinarySearchFunc(all, &last, func(p layeredPackage, last *layeredPackage) int { return p.compare(last) })
	if found {
		i++
	}
	return all[i:], nil
}

// imagePackageColumns are packageColumns without what only matching reads.
var imagePackageColumns = strings.Replace(packageColumns, "p.match_input,", "", 1)

// read reads all about the packages of a page, without what matching reads.
func (t *imageTree) read(page []layeredPackage) ([]store.ImagePackage, error) {
	packages := make([]store.ImagePackage, len(page))
	at, ids := make(map[int64]int, len(page)), make([]int64, len(page))
	for i := range page {
		p := &page[i]
		at[p.id], ids[i] = i, p.id
		packages[i] = store.ImagePackage{Layer: p.layer, Path: p.path, Origin: p.origin, Counts: p.counts}
	}
	return packages, inParts(ids, func(part []int64) error {
		var rows []struct {
			ID      int64
			Package packageRow `gorm:"embedded"`
		}
		err := t.tx.Raw("SELECT p.id, "+imagePackageColumns+" FROM image_packages ip JOIN packages p ON p.id = ip.package_pk WHERE ip.image_pk = ? AND p.id IN ?", t.image.ID, part).
			Scan(&rows).Error
		for i := range rows {
			held, heldErr := rows[i].Package.held()
			packages[at[rows[i].ID]].HeldPackage = held
			err = errors.Join(err, heldErr)
		}
		return err
	})
}

// ImageLayers implements store.Reader.
func (s *Store) ImageLayers(ctx context.Context, in store.Namespaces, query store.ImagePackageQuery) ([]store.ImageLayer, error) {
	var layers []store.ImageLayer
	query.Layer = nil
	err := s.read(ctx, "list the layers of an image", func(tx *gorm.DB) error {
		tree, err := s.treeOf(tx, in, query.Image)
		if err != nil {
			return err
		}
		all, err := tree.packages(s.db.Dialect(), query)
		if err != nil {
			return err
		}
		sizes, err := tree.sizes()
		if err != nil {
			return err
		}
		layers = make([]store.ImageLayer, len(tree.layers)+1)
		for i, layer := range tree.layers {
			layers[i] = store.ImageLayer{Number: i + 1, DiffID: layer, Size: sizes[i]}
			if base := tree.origins.base; base != nil {
				if layers[i].Origin = model.OriginImage; int64(i) <= base.Position {
					layers[i].Origin = model.OriginBase
				}
			}
		}
		unknown := len(tree.layers)
		for i := range all {
			layer := &layers[min(all[i].rank()-1, unknown)]
			layer.Packages++
			layer.Counts.SeverityCounts = layer.Counts.Plus(all[i].counts.SeverityCounts)
			layer.Counts.KEV += all[i].counts.KEV
			layer.Counts.Fixable += all[i].counts.Fixable
		}
		if layers[unknown].Packages == 0 {
			layers = layers[:unknown]
		}
		return nil
	})
	return layers, err
}
