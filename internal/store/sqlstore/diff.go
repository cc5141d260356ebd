package sqlstore

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// changeKinds are the kinds in the order of lists; the index is the value of the column.
var changeKinds = []store.ChangeKind{store.ChangeOpened, store.ChangeClosed, store.ChangeChanged}

var findingEvents = []store.EventKind{store.EventFindingOpened, store.EventFindingClosed, store.EventFindingChanged}

const (
	kindOpened = iota
	kindClosed
	kindChanged
)

// change is what became of one vulnerability of one package.
type change struct {
	packageID                  int64
	vulnerabilityID, namespace string
	kind                       int
	reasons                    []store.ChangeReason
	before, after              *store.ChangeSide
	// kev says that the vulnerability is known to be exploited after the switch, also when the finding is closed.
	kev bool
	// holders are the images that it is about, images is their number.
	holders []int64
	images  int
	// variant is a digest of a change that is not about all images that hold the package, "" of others.
	variant string
	// suppressed says where each finding is suppressed that is closed, nil if one of them is suppressed nowhere.
	suppressed map[int64]reachSet
}

// severity is the worse one of both sides.
func (c *change) severity() model.Severity {
	switch {
	case c.before == nil:
		return c.after.Severity
	case c.after == nil:
		return c.before.Severity
	default:
		return max(c.before.Severity, c.after.Severity)
	}
}

// newlyExploited tells whether the finding was opened as known to be exploited, or became it.
func (c *change) newlyExploited() bool {
	return c.kind == kindOpened && c.kev || c.kind == kindChanged && c.kev && !c.before.KEV
}

func (r *sideRow) sameAs(o *sideRow) bool {
	return r.PackagePk == o.PackagePk && r.VulnerabilityID == o.VulnerabilityID && r.Namespace == o.Namespace
}

// compareSides compares both sides of a vulnerability of a package, of which there can be several rows. What differs in its description alone is no
// change.
func compareSides(rows []sideRow, next int64) (change, bool) {
	c := change{packageID: rows[0].PackagePk, vulnerabilityID: rows[0].VulnerabilityID, namespace: rows[0].Namespace}
	for i := range rows {
		row := &rows[i]
		c.kev = c.kev || row.KevAfter != 0
		if row.before(next) {
			c.before = row.addTo(c.before, row.EpssMicros, row.Kev)
		}
		if row.after(next) {
			c.after = row.addTo(c.after, row.EpssAfter, row.KevAfter)
		}
	}
	switch {
	case c.before == nil && c.after == nil:
		return c, false
	case c.before == nil:
		c.kind = kindOpened
	case c.after == nil:
		c.kind = kindClosed
	default:
		c.kind, c.reasons = kindChanged, reasons(c.before, c.after)
	}
	return c, c.kind != kindChanged || len(c.reasons) > 0
}

// addTo makes one side of all rows of a vulnerability: the worst severity and scores, the best fix, every fixed version.
func (r *sideRow) addTo(side *store.ChangeSide, epssMicros, kev int64) *store.ChangeSide {
	if side == nil {
		side = &store.ChangeSide{FixState: model.FixState(r.FixState)}
	}
	side.Severity = max(side.Severity, model.Severity(r.Severity))
	side.EPSS = max(side.EPSS, float64(epssMicros)/1e6)
	side.KEV = side.KEV || kev != 0
	if fixRank(model.FixState(r.FixState)) < fixRank(side.FixState) {
		side.FixState = model.FixState(r.FixState)
	}
	var versions []string
	if fromJSON(r.FixVersions, &versions) == nil {
		side.FixVersions = slices.Compact(slices.Sorted(slices.Values(append(side.FixVersions, versions...))))
	}
	return side
}

// fixRank orders the fix states, the best for the user first.
func fixRank(state model.FixState) int {
	rank := slices.Index([]model.FixState{model.FixStateFixed, model.FixStateNotFixed, model.FixStateWontFix, model.FixStateUnknown}, state)
	if rank < 0 {
		return len(model.FixStateUnknown)
	}
	return rank
}

func reasons(before, after *store.ChangeSide) []store.ChangeReason {
	var all []store.ChangeReason
	if before.Severity != after.Severity {
		all = append(all, store.ReasonSeverity)
	}
	if before.FixState != after.FixState || !slices.Equal(before.FixVersions, after.FixVersions) {
		all = append(all, store.ReasonFix)
	}
	if (before.EPSS >= store.EPSSThreshold) != (after.EPSS >= store.EPSSThreshold) {
		all = append(all, store.ReasonEPSS)
	}
	if before.KEV != after.KEV {
		all = append(all, store.ReasonKEV)
	}
	return all
}

// record keeps and counts changes.
func (w *switcher) record(changes []change) error {
	var values []any
	for i := range changes {
		c := &changes[i]
		w.count(c)
		w.worst.add(c)
		w.list(c)
		before, err := encodeSide(c.before)
		if err != nil {
			return err
		}
		after, err := encodeSide(c.after)
		if err != nil {
			return err
		}
		values = append(values, w.next.Number, c.packageID, c.vulnerabilityID, c.namespace, int64(c.severity()), boolean(c.kev), c.kind,
			encodeReasons(c.reasons), before, after)
	}
	err := w.Insert("finding_changes", []string{
		"generation", "package_pk", "vulnerability_id", "namespace", "severity", "kev", "kind", "reasons", "before_side", "after_side",
	}, values, "")
	if err != nil {
		return err
	}
	return w.recordVariants(changes)
}

func (w *switcher) count(c *change) {
	switch c.kind {
	case kindOpened:
		w.next.Opened++
		if c.after.Severity == model.SeverityCritical {
			w.next.OpenedCritical++
		}
	case kindClosed:
		w.next.Closed++
	case kindChanged:
		w.next.Changed++
	}
	if c.newlyExploited() {
		w.next.NewKev++
	}
}

// encodeSide writes no side as "".
func encodeSide(side *store.ChangeSide) (string, error) {
	if side == nil {
		return "", nil
	}
	content, err := json.Marshal(side)
	return string(content), err
}

func encodeReasons(all []store.ChangeReason) string {
	texts := make([]string, len(all))
	for i, reason := range all {
		texts[i] = string(reason)
	}
	return strings.Join(texts, ",")
}

// worstChanges keeps the store.MaxFindingEvents changes that come first in a list.
type worstChanges []change

func (w *worstChanges) add(c *change) {
	one := *c
	one.holders = nil
	if *w = append(*w, one); len(*w) >= 2*store.MaxFindingEvents {
		w.cut()
	}
}

func (w *worstChanges) cut() {
	slices.SortStableFunc(*w, func(a, b change) int {
		return cmp.Or(cmp.Compare(b.severity(), a.severity()), cmp.Compare(boolean(b.kev), boolean(a.kev)), cmp.Compare(a.kind, b.kind))
	})
	*w = (*w)[:min(len(*w), store.MaxFindingEvents)]
}

// writeFindingEvents writes the events about single findings.
func (w *switcher) writeFindingEvents() error {
	w.worst.cut()
	names := map[int64]packageRow{}
	ids := make([]int64, len(w.worst))
	for i := range w.worst {
		ids[i] = w.worst[i].packageID
	}
	slices.Sort(ids)
	for part := range slices.Chunk(slices.Compact(ids), sqldb.MaxIn) {
		var rows []storedPackageRow
		if err := w.Raw("SELECT p.id, p.name, p.version, p.type FROM packages p WHERE p.id IN ?", part).Scan(&rows).Error; err != nil {
			return err
		}
		for _, row := range rows {
			names[row.ID] = row.Package
		}
	}
	owners, err := w.ownersOfWorst()
	if err != nil {
		return err
	}
	for i := range w.worst {
		c := &w.worst[i]
		p, found := names[c.packageID]
		if !found {
			return fmt.Errorf("package %d of a change does not exist", c.packageID)
		}
		side := c.after
		if side == nil {
			side = c.before
		}
		err := w.event(findingEvents[c.kind], "", "", store.FindingEvent{
			Build: w.next.BuildID, PreviousBuild: w.next.PreviousBuild, Package: p.Name, Version: p.Version, Type: p.Type,
			VulnerabilityID: c.vulnerabilityID, Namespace: c.namespace, Severity: side.Severity, KEV: c.kev, Reasons: c.reasons,
			Images: c.images, Owners: owners[c.key()],
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// changeKey tells the changes of a switch apart.
type changeKey struct {
	packagePk                           int64
	vulnerabilityID, namespace, variant string
}

func (c *change) key() changeKey {
	return changeKey{c.packageID, c.vulnerabilityID, c.namespace, c.variant}
}

// maxOwned bounds the packages whose images are in memory together.
const maxOwned = 100

// ownersOfWorst reads the owners of the workloads that run the images which the worst changes are about.
func (w *switcher) ownersOfWorst() (map[changeKey][]string, error) {
	owned, err := ownersOfImages(w.DB, w.Table("image_uses AS u"), nil)
	if err != nil || len(owned) == 0 {
		return nil, err
	}
	told, packages := make(map[changeKey]bool, len(w.worst)), make([]int64, len(w.worst))
	for i := range w.worst {
		told[w.worst[i].key()], packages[i] = true, w.worst[i].packageID
	}
	slices.Sort(packages)
	owners := make(map[changeKey][]string, len(told))
	for part := range slices.Chunk(slices.Compact(packages), maxOwned) {
		var rows []changeRow
		err := w.Raw("SELECT c.id, c.package_pk, c.vulnerability_id, c.namespace, "+variantOf+" AS variant FROM finding_changes c WHERE c.generation = ? AND c.package_pk IN ?",
			w.next.Number, part).Scan(&rows).Error
		if err != nil {
			return nil, err
		}
		rows = slices.DeleteFunc(rows, func(r changeRow) bool { return !told[r.key()] })
		about, _, err := aboutOf(w.DB, &changeView{in: store.AllNamespaces(), dialect: w.Dialect}, rows)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			owners[rows[i].key()] = owned.of(about[rows[i].ID])
		}
	}
	return owners, nil
}

func (r *changeRow) key() changeKey {
	return changeKey{r.PackagePk, r.VulnerabilityID, r.Namespace, r.Variant}
}
