package sqlstore

import (
	"cmp"
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// change_packages has the packages of the changes of a result set that are alike as one text, so that 50,000 changes are some ten rows. The rows are written when the
// result set becomes current: its changes stay the same from then on, until all are deleted. Of result sets without rows, finding_changes is read. So are changes that are about
// some of the images that hold a package.

// alike is what changes have in common that are counted together.
type alike struct {
	severity, kev int64
	kind          int
	// newlyKEV is 1 if the vulnerability is known to be exploited since the change, 0 if not, and kevUnread if that was not read.
	newlyKEV int64
	// partly is 1 if the change is about some of the images that hold the package.
	partly int64
}

const kevUnread = -1

// common is what a change has in common with others.
func (c *change) common() alike {
	return alike{
		severity: int64(c.severity()), kev: boolean(c.kev), kind: c.kind, newlyKEV: boolean(c.newlyExploited()), partly: boolean(c.variant != ""),
	}
}

// listedChanges bounds the changes of a result set of which change_packages has rows.
const listedChanges = 200_000

// maxListedChanges bounds the changes of a result set whose packages are listed to see which are visible. Of more, statements ask.
const maxListedChanges = 500_000

// changeGroup has visible changes that are alike.
type changeGroup struct {
	alike

	resultSet int64
	changes   int
	// packages are those of the changes, nil if they are not known.
	packages []int64
}

// listed are changes of the next result set that are alike.
type listed struct {
	changes  int
	packages []int64
}

// list adds a change to those that change_packages gets, unless there are too many.
func (w *switcher) list(c *change) {
	if w.next.Opened+w.next.Closed+w.next.Changed > w.listedChanges {
		w.listed = nil
		return
	}
	group := w.listed[c.common()]
	if group == nil {
		group = &listed{}
		w.listed[c.common()] = group
	}
	group.changes++
	if c.variant == "" {
		group.packages = append(group.packages, c.packageID)
	}
}

// writeListed writes the rows of the next result set.
func (w *switcher) writeListed() error {
	order := func(a, b alike) int {
		return cmp.Or(cmp.Compare(a.severity, b.severity), cmp.Compare(a.kev, b.kev), cmp.Compare(a.kind, b.kind), cmp.Compare(a.newlyKEV, b.newlyKEV), cmp.Compare(a.partly, b.partly))
	}
	var values []any
	for _, one := range slices.SortedFunc(maps.Keys(w.listed), order) {
		group := w.listed[one]
		values = append(values, w.next.Number, one.severity, one.kev, one.kind, one.newlyKEV, one.partly, group.changes, sqldb.JoinNumbers(group.packages))
	}
	return w.Insert("change_packages", []string{"generation", "severity", "kev", "kind", "newly_kev", "partly", "changes", "packages"}, values, "")
}

// eachGroup calls visit for the visible changes of some kinds of some result sets.
func (v *changeView) eachGroup(tx *gorm.DB, kinds []int, resultSets []int64, visit func(g *changeGroup)) error {
	if v.found != nil && len(v.found) == 0 {
		return nil
	}
	read := map[int64]bool{}
	var partly []int64
	if v.in.All() || v.found != nil {
		err := inParts(resultSets, func(part []int64) error {
			some, err := v.eachListed(tx, kinds, part, read, visit)
			partly = append(partly, some...)
			return err
		})
		if err != nil {
			return err
		}
	}
	err := inParts(distinctIDs(partly), func(part []int64) error { return v.eachPartly(tx, kinds, part, visit) })
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(slices.Clone(resultSets), func(n int64) bool { return read[n] })
	listable := v.found != nil && !v.variants && !slices.ContainsFunc(rest, func(n int64) bool { return v.number[n] > maxListedChanges })
	return inParts(rest, func(part []int64) error { return v.eachRead(tx, kinds, part, listable, visit) })
}

// eachListed is eachGroup with the rows of change_packages. It notes which result sets have some, and returns those with changes that are about some of the images, if they are not
// all visible. A process of a previous version deletes changes without their rows.
func (v *changeView) eachListed(tx *gorm.DB, kinds []int, resultSets []int64, read map[int64]bool, visit func(g *changeGroup)) ([]int64, error) {
	packages := "cp.packages"
	if v.in.All() {
		packages = "''"
	}
	var partly []int64
	lists := tx.Table("change_packages AS cp").Where("cp.generation IN ? AND (SELECT 1 FROM finding_changes c WHERE c.generation = cp.generation LIMIT 1) = 1", resultSets).
		Select("cp.generation, cp.severity, cp.kev, cp.kind, cp.newly_kev, cp.partly, cp.changes, " + packages)
	return partly, eachRow(lists, func(scan func(...any) error) error {
		g := &changeGroup{}
		var text string
		if err := scan(&g.resultSet, &g.severity, &g.kev, &g.kind, &g.newlyKEV, &g.partly, &g.changes, &text); err != nil {
			return err
		}
		read[g.resultSet] = true
		switch {
		case !slices.Contains(kinds, g.kind):
		case v.in.All():
			visit(g)
		case g.partly == 1:
			partly = append(partly, g.resultSet)
		default:
			return v.visitListed(g, text, visit)
		}
		return nil
	})
}

// newlyKEV are the columns of changes c that alike.newlyKEV follows from. indexedKEV is without the reasons, which no index has.
const (
	newlyKEV   = "CASE WHEN c.kev = 1 AND (c.kind = 0 OR c.kind = 2 AND c.reasons LIKE '%kev%') THEN 1 ELSE 0 END"
	indexedKEV = "CASE WHEN c.kind = 0 THEN c.kev WHEN c.kind = 2 AND c.kev = 1 THEN -1 ELSE 0 END"
)

// eachPartly is eachGroup with the changes of some result sets that are about some of the images that hold a package.
func (v *changeView) eachPartly(tx *gorm.DB, kinds []int, resultSets []int64, visit func(g *changeGroup)) error {
	changes := tx.Table("change_variants AS o").Joins("JOIN finding_changes c ON c.id = o.change_id").Where("c.generation IN ? AND c.kind IN ?", resultSets, kinds)
	const grouped = "c.generation, c.severity, c.kev, c.kind, " + newlyKEV
	return eachRow(v.keep(changes).Select(grouped+", COUNT(*)").Group(grouped), func(scan func(...any) error) error {
		g := &changeGroup{alike: alike{partly: 1}}
		err := scan(&g.resultSet, &g.severity, &g.kev, &g.kind, &g.newlyKEV, &g.changes)
		if err == nil {
			visit(g)
		}
		return err
	})
}

// eachRead is eachGroup with the changes of some result sets without rows in change_packages. They are grouped as an index has them in order. listable says that their packages are listed.
func (v *changeView) eachRead(tx *gorm.DB, kinds []int, resultSets []int64, listable bool, visit func(g *changeGroup)) error {
	const grouped = "c.generation, c.severity, c.kev, c.kind"
	changes, packages := tx.Table("finding_changes AS c").Where("c.generation IN ? AND c.kind IN ?", resultSets, kinds), "''"
	if listable {
		packages = v.dialect.List("c.package_pk")
	} else {
		changes = v.keep(changes)
	}
	return eachRow(changes.Select(grouped+", "+indexedKEV+", COUNT(*), "+packages).Group(grouped), func(scan func(...any) error) error {
		g := &changeGroup{}
		var text string
		err := scan(&g.resultSet, &g.severity, &g.kev, &g.kind, &g.newlyKEV, &g.changes, &text)
		switch {
		case err != nil:
		case listable:
			err = v.visitListed(g, text, visit)
		default:
			visit(g)
		}
		return err
	})
}

// visitListed calls visit with what is visible of a group, of which a text has the packages.
func (v *changeView) visitListed(g *changeGroup, text string, visit func(g *changeGroup)) error {
	g.packages = []int64{}
	number := 0
	err := eachNumber(text, func(id int64) {
		number++
		if from, found := v.first[id]; found && from < v.since[g.resultSet] {
			g.packages = append(g.packages, id)
		}
	})
	if err == nil && number != g.changes {
		err = errCut(number, g.changes)
	}
	if g.changes = len(g.packages); err == nil && g.changes > 0 {
		visit(g)
	}
	return err
}
