package sqlstore

import (
	"context"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

var groupSorts = map[store.GroupSort][]sqldb.SortKey{
	store.SortGroupName:     {{Column: "l.group_name"}},
	store.SortGroupSeverity: append(slices.Clone(worstFirst), sqldb.SortKey{Column: "l.group_name"}),
}

// groupLists names the lists of groups in page tokens.
var groupLists = map[store.GroupBy]string{store.ByOwner: "owners", store.ByNamespace: "namespaces"}

// groupToken is what a page token of groups belongs to.
type groupToken struct {
	List  string
	Where store.Where
	Text  string
	Sort  store.GroupSort
}

// groupEntry is a group with what its images sum up to.
type groupEntry struct {
	GroupName                  string
	Workloads, Images, Scanned int
	Counts                     countsRow `gorm:"embedded"`
}

func (r *groupEntry) value(column string) string {
	if value, found := r.Counts.value(column); found {
		return value
	}
	return r.GroupName
}

// groupedUses are uses u of images, and the expression that has the name of their group.
type groupedUses struct {
	used *gorm.DB
	name string
}

// columns are the name of the group and some columns of the uses.
func (g groupedUses) columns(others string) string { return g.name + " AS group_name, " + others }

// groupUses selects the uses of the groups that a query chooses.
func (s *Store) groupUses(tx *gorm.DB, in store.Namespaces, query store.GroupQuery) groupedUses {
	rows, text, name := tx.Table("image_uses AS u"), "u.namespace", "u.namespace"
	if query.By == store.ByOwner {
		rows, text, name = rows.Joins("LEFT "+ownersOfUses), "w.owner", "COALESCE(w.owner, '')"
	}
	used := contains(uses(rows, place{query.Where, in}), s.db.Dialect(), query.Text, text)
	return groupedUses{used.Session(&gorm.Session{}), name}
}

// ListGroups implements store.Reader.
func (s *Store) ListGroups(ctx context.Context, in store.Namespaces, query store.GroupQuery) (store.GroupPage, error) {
	list, known := groupLists[query.By]
	if !known {
		return store.GroupPage{}, fmt.Errorf("list groups: unknown group %d", query.By)
	}
	what := "list " + list
	if query.Sort == "" {
		query.Sort = store.SortGroupName
	}
	keys, known := groupSorts[query.Sort]
	if !known {
		return store.GroupPage{}, fmt.Errorf("%s: unknown sort order %q", what, query.Sort)
	}
	token := groupToken{list, query.Where, query.Text, query.Sort}
	var page store.GroupPage
	err := s.read(ctx, what, func(tx *gorm.DB) error {
		page = store.GroupPage{}
		grouped := s.groupUses(tx, in, query)
		workloads := tx.Table("(?) AS d", grouped.used.Distinct(grouped.columns("u.namespace, u.kind, u.name"))).
			Select("d.group_name, COUNT(*) AS workloads").Group("d.group_name")
		sums, err := grouped.images(tx)
		if err != nil {
			return err
		}
		entries := tx.Table("(?) AS s", sums).Joins("JOIN (?) n ON n.group_name = s.group_name", workloads).Select("s.*, n.workloads")
		rows, next, total, err := readEntries(tx, entries, keys, query.Page, token, (*groupEntry).value)
		page.NextToken, page.Total, page.Groups = next, total, make([]store.Group, len(rows))
		for i := range rows {
			row := &rows[i]
			page.Groups[i] = store.Group{
				Name: row.GroupName, Workloads: row.Workloads, Images: row.Images, Scanned: row.Scanned, Counts: row.Counts.counts(),
			}
		}
		if err != nil || !query.Due {
			return err
		}
		return s.addDueGroups(tx, grouped, in, page.Groups)
	})
	if err != nil {
		return store.GroupPage{}, err
	}
	return page, nil
}

// images sums up the images that are used, each once for each group. A finding of an image does not count for a group if decisions suppress it in all of the
// group's workloads that run the image.
func (g groupedUses) images(tx *gorm.DB) (*gorm.DB, error) {
	placed, err := somePlaced(tx)
	if err != nil {
		return nil, err
	}
	count := "i.%[1]s"
	sums := tx.Table("(?) AS d", g.used.Distinct(g.columns("u.image_pk"))).Joins("JOIN images i ON i.id = d.image_pk")
	if placed {
		workloads := tx.Table("(?) AS o", g.used.Distinct(g.columns("u.image_pk, u.namespace, u.kind, u.name"))).
			Select("o.group_name, o.image_pk, o.namespace, o.kind, o.name, COUNT(*) OVER (PARTITION BY o.group_name, o.image_pk) AS workloads")
		closed := tx.Table("reached_namespaces AS y").Joins("JOIN (?) u ON u.image_pk = y.image_pk AND u.namespace = y.namespace", workloads).Where(hasWorkload).
			Select("y.reach, y.image_pk, u.group_name").Group("y.reach, y.image_pk, u.group_name, u.workloads").Having("COUNT(*) = u.workloads")
		sums = sums.Joins("LEFT JOIN (?) z ON z.image_pk = d.image_pk AND z.group_name = d.group_name", hidden(tx.Table("(?) AS y", closed), "y.image_pk, y.group_name"))
		count = "i.%[1]s - COALESCE(z.%[1]s, 0)"
	}
	return sums.Select("d.group_name, COUNT(*) AS images, SUM(CASE WHEN i.matched_at > 0 THEN 1 ELSE 0 END) AS scanned, " + perCount("SUM("+count+") AS %[1]s")).
		Group("d.group_name"), nil
}
