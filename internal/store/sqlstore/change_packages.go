package sqlstore

import (
	"cmp"
	"maps"
	"slices"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// change_packages has the packages of the changes of a result set that are alike as one text, so that 50,000 changes are some ten rows. The rows are written when the
// result set becomes current: its changes stay the same from then on, until all are deleted. Of result sets without rows, finding_changes is read.

// alike is what changes have in common that are counted together. newlyKEV is 1 if the vulnerability is known to be exploited since the change,
// and -1 if that is not read.
type alike struct {
	severity, kev, newlyKEV int64
	kind                    int
}

// alike is what a change has in common with others.
func (c *change) alike() alike {
	return alike{severity: int64(c.severity()), kev: boolean(c.kev), newlyKEV: boolean(c.newlyExploited()), kind: c.kind}
}

// maxListedChanges is of how many changes of a result set the packages are listed.
const maxListedChanges = 500_000

// changeGroup has visible changes that are alike.
type changeGroup struct {
	alike

	resultSet int64
	changes   int
	// packages are those of the changes, nil if they are not known.
	packages []int64
}

// listPackages writes the packages of the changes that are alike of the next result set, unless there are more than maxListedChanges.
func (w *switcher) listPackages() error {
	if w.next.Opened+w.next.Closed+w.next.Changed > maxListedChanges {
		return nil
	}
	var values []any
	order := func(a, b alike) int {
		return cmp.Or(cmp.Compare(a.severity, b.severity), cmp.Compare(a.kev, b.kev), cmp.Compare(a.kind, b.kind), cmp.Compare(a.newlyKEV, b.newlyKEV))
	}
	for _, one := range slices.SortedFunc(maps.Keys(w.packages), order) {
		packages := w.packages[one]
		values = append(values, w.next.Number, one.severity, one.kev, one.kind, one.newlyKEV, len(packages), sqldb.JoinNumbers(packages))
	}
	return w.Insert("change_packages", []string{"generation", "severity", "kev", "kind", "newly_kev", "changes", "packages"}, values, "")
}

// eachGroup calls visit for the visible changes of some kinds of some result sets.
func (v *changeView) eachGroup(tx *gorm.DB, kinds []int, resultSets []int64, visit func(g *changeGroup)) error {
	listable := v.found != nil && !v.variants && !slices.ContainsFunc(resultSets, func(n int64) bool { return v.number[n] > maxListedChanges })
	listed := map[int64]bool{}
	if v.in.All() || listable {
		err := inParts(resultSets, func(part []int64) error { return v.eachListed(tx, kinds, part, listed, visit) })
		if err != nil {
			return err
		}
	}
	rest := slices.DeleteFunc(slices.Clone(resultSets), func(n int64) bool { return listed[n] })
	return inParts(rest, func(part []int64) error { return v.eachGrouped(tx, kinds, part, listable, visit) })
}

// eachListed is eachGroup with the rows of change_packages, and notes which result sets have some.
func (v *changeView) eachListed(tx *gorm.DB, kinds []int, resultSets []int64, listed map[int64]bool, visit func(g *changeGroup)) error {
	packages := "cp.packages"
	if v.in.All() {
		packages = "''"
	}
	lists := tx.Table("change_packages AS cp").Where("cp.generation IN ?", resultSets).Select("cp.generation, cp.severity, cp.kev, cp.kind, cp.newly_kev, cp.changes, " + packages)
	return eachRow(lists, func(scan func(...any) error) error {
		g := &changeGroup{}
		var text string
		if err := scan(&g.resultSet, &g.severity, &g.kev, &g.kind, &g.newlyKEV, &g.changes, &text); err != nil {
			return err
		}
		listed[g.resultSet] = true
		if !slices.Contains(kinds, g.kind) {
			return nil
		}
		return v.visitGroup(g, text, visit)
	})
}

// eachGrouped is eachGroup with the rows of finding_changes. They are grouped as an index has them in order.
func (v *changeView) eachGrouped(tx *gorm.DB, kinds []int, resultSets []int64, listable bool, visit func(g *changeGroup)) error {
	const grouped = "c.generation, c.severity, c.kev, c.kind"
	changes, packages := tx.Table("finding_changes AS c").Where("c.generation IN ? AND c.kind IN ?", resultSets, kinds).Group(grouped), "''"
	if listable {
		packages = v.dialect.List("c.package_pk")
	} else {
		changes = v.keep(changes)
	}
	return eachRow(changes.Select(grouped+", COUNT(*), "+packages), func(scan func(...any) error) error {
		g := &changeGroup{}
		var text string
		if err := scan(&g.resultSet, &g.severity, &g.kev, &g.kind, &g.changes, &text); err != nil {
			return err
		}
		switch {
		case g.kev == 1 && g.kind == kindOpened:
			g.newlyKEV = 1
		case g.kev == 1 && g.kind == kindChanged:
			g.newlyKEV = -1 // The index does not have the reasons.
		}
		return v.visitGroup(g, text, visit)
	})
}

// visitGroup calls visit with what is visible of a group. text has the packages, "" if all that was counted is visible.
func (v *changeView) visitGroup(g *changeGroup, text string, visit func(g *changeGroup)) error {
	if text == "" {
		visit(g)
		return nil
	}
	g.packages = []int64{}
	err := eachNumber(text, func(id int64) {
		if from, found := v.first[id]; found && from < v.since[g.resultSet] {
			g.packages = append(g.packages, id)
		}
	})
	if g.changes = len(g.packages); err == nil && g.changes > 0 {
		visit(g)
	}
	return err
}
