package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// Switch implements store.ResultSets.
func (s *Store) Switch(ctx context.Context, resultSet int64) (store.ResultSet, error) {
	var switched *resultSetRow
	err := s.write(ctx, "make a result set current", func(tx *txn) error {
		current, next, err := liveResultSets(tx.DB)
		if err != nil {
			return err
		}
		if err := mayFollow(tx.DB, current, next, resultSet); err != nil {
			return err
		}
		w := switcher{txn: tx, current: current.Number, next: next, images: map[int64]*reach{}, reached: reachedDeltas{}, listed: map[alike]*listed{}, listedChanges: s.listedChanges}
		if err := w.collect(); err != nil {
			return err
		}
		changed, err := rescored(tx.DB)
		if err != nil {
			return err
		}
		if err := applyScores(tx); err != nil {
			return err
		}
		if err := w.publish(); err != nil {
			return err
		}
		if err := w.openDeadlines(changed); err != nil {
			return err
		}
		// What the switch closed is in no live result set any more.
		if err := w.forgetDecided("(SELECT id FROM findings WHERE until_gen = ?)", next.Number); err != nil {
			return err
		}
		w.noteFixes(w.touched)
		if _, err := w.recount(w.touched, nil); err != nil {
			return err
		}
		switched = next
		return nil
	})
	if err != nil {
		return store.ResultSet{}, err
	}
	return switched.resultSet(), nil
}

// mayFollow checks that a result set can become current.
func mayFollow(tx *gorm.DB, current, next *resultSetRow, resultSet int64) error {
	if current == nil || next == nil || next.Number != resultSet {
		return fmt.Errorf("result set %d is not being prepared: %w", resultSet, store.ErrNotFound)
	}
	if next.State != string(store.ResultSetMatching) {
		return fmt.Errorf("result set %d is %s: its packages have not been queued yet", resultSet, next.State)
	}
	var queued int64
	if err := tx.Raw("SELECT COUNT(*) FROM rematch_queue").Scan(&queued).Error; err != nil {
		return err
	}
	if queued > 0 {
		return fmt.Errorf("result set %d still has %d packages to match", resultSet, queued)
	}
	return nil
}

// switcher makes the next result set current. What it reads and writes follows what changed: packages whose findings differ or
// whose vulnerabilities have scores that make a difference, and the images that hold them.
type switcher struct {
	*txn
	current int64
	next    *resultSetRow
	worst   worstChanges
	// listed are the changes that change_packages gets, by what they have in common; nil if they are more than listedChanges.
	listed        map[alike]*listed
	listedChanges int
	// touched are the packages about which the result sets differ.
	touched []int64
	images  map[int64]*reach
	// joined are read when they are needed first.
	joined joinedReaches
	// suppressed are the images in which the findings of the packages at hand are suppressed.
	suppressed *covers
	// reached is what the switch does to images where reaches with places suppress findings.
	reached reachedDeltas
}

// reach is what the switch does to one image.
type reach struct {
	delta countsDelta
	// published says that a change that is published reaches the image.
	published bool
}

// collect writes what changed and notes what it does to images.
func (w *switcher) collect() error {
	packages, err := w.touchedPackages()
	if err != nil {
		return err
	}
	w.touched = packages
	for part := range slices.Chunk(packages, sqldb.MaxIn) {
		rows, err := w.sides(part)
		if err != nil {
			return err
		}
		deltas := map[int64]setDeltas{}
		for i := range rows {
			row := &rows[i]
			if deltas[row.PackagePk] == nil {
				deltas[row.PackagePk] = setDeltas{}
			}
			delta := deltas[row.PackagePk][row.suppressed]
			if row.before(w.next.Number) {
				delta.add(row.Severity, row.Kev, row.Fixable, -1)
			}
			if row.after(w.next.Number) {
				delta.add(row.Severity, row.KevAfter, row.Fixable, 1)
			}
			deltas[row.PackagePk][row.suppressed] = delta
		}
		holders, err := w.reachImages(part, deltas)
		if err != nil {
			return err
		}
		changes, err := w.changes(rows, holders)
		if err != nil {
			return err
		}
		if err := w.record(changes); err != nil {
			return err
		}
	}
	return nil
}

// epssCrossed is the condition that staged scores s put vulnerability v on the other side of store.EPSSThreshold.
var epssCrossed = fmt.Sprintf("(s.epss_micros >= %[1]d AND v.epss_micros < %[1]d OR s.epss_micros < %[1]d AND v.epss_micros >= %[1]d)",
	millionths(store.EPSSThreshold))

// The statements of the switch. The CROSS JOINs begin with the staged scores, which are fewer than the findings.
var (
	touchedPackages = `SELECT package_pk FROM findings WHERE until_gen = ? UNION SELECT package_pk FROM findings WHERE from_gen = ?
		UNION SELECT f.package_pk FROM staged_scores s CROSS JOIN vulnerabilities v CROSS JOIN findings f
		WHERE v.id = s.vulnerability_pk AND f.vulnerability_pk = v.id AND f.from_gen <= ? AND f.until_gen > ?
		AND (s.kev <> v.kev OR ` + epssCrossed + `)`
	sidesOfPackages = `SELECT f.id, f.package_pk, f.from_gen, f.until_gen, v.vulnerability_id, v.namespace, v.severity, v.epss_micros, v.kev,
		COALESCE(s.epss_micros, v.epss_micros) AS epss_after, COALESCE(s.kev, v.kev) AS kev_after, f.fix_state, f.fix_versions, f.fixable
		FROM findings f JOIN vulnerabilities v ON v.id = f.vulnerability_pk LEFT JOIN staged_scores s ON s.vulnerability_pk = v.id
		WHERE f.package_pk IN ? AND f.until_gen > ? AND (f.from_gen <= ? OR f.from_gen = ?) AND ` + unsuppressed + `
		ORDER BY f.package_pk, v.vulnerability_id, v.namespace, f.id`
	holdersOfPackages = "SELECT package_pk, image_pk FROM image_packages WHERE package_pk IN ? AND excluded = 0"
)

// touchedPackages are those about which the result sets may differ in more than figures that are not published.
func (w *switcher) touchedPackages() ([]int64, error) {
	var ids []int64
	err := w.Raw(touchedPackages, w.next.Number, w.next.Number, w.current, w.next.Number).Scan(&ids).Error
	slices.Sort(ids)
	return ids, err
}

// sideRow is a finding with what is said of its vulnerability before and after the switch.
type sideRow struct {
	ID, PackagePk, FromGen, UntilGen int64
	VulnerabilityID, Namespace       string
	Severity                         int64
	EpssMicros, EpssAfter            int64
	Kev, KevAfter                    int64
	FixState, FixVersions            string
	Fixable                          int64
	suppressed                       reachSet
}

func (r *sideRow) before(next int64) bool { return r.FromGen < next }
func (r *sideRow) after(next int64) bool  { return r.UntilGen > next }

// sides reads the findings of packages that are open before or after the switch, decisions as they are now, grouped by package and vulnerability.
func (w *switcher) sides(packages []int64) ([]sideRow, error) {
	var rows []sideRow
	if err := w.Raw(sidesOfPackages, packages, w.current, w.current, w.next.Number).Scan(&rows).Error; err != nil {
		return nil, err
	}
	sets, err := setsOf(w.DB, packages)
	for i := range rows {
		rows[i].suppressed = sets[rows[i].ID]
	}
	return rows, err
}

// reachImages notes what the packages do to the images that hold them, and returns the images that hold each. Images that are not matched yet hold a
// package too, but have no counts.
func (w *switcher) reachImages(packages []int64, deltas map[int64]setDeltas) (map[int64][]int64, error) {
	rows, err := w.Raw(holdersOfPackages, packages).Rows()
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err tells whether all rows were read.
	holders := make(map[int64][]int64, len(packages))
	for rows.Next() {
		var packageID, image int64
		if err := rows.Scan(&packageID, &image); err != nil {
			return nil, err
		}
		holders[packageID] = append(holders[packageID], image)
		if w.images[image] == nil {
			w.images[image] = &reach{}
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	var sets []reachSet
	for _, bySet := range deltas {
		for set := range bySet {
			sets = append(sets, set)
		}
	}
	if w.suppressed, err = readCovers(w.DB, seen{}, sets); err != nil {
		return nil, err
	}
	places, err := readReachedPlaces(w.DB, sets)
	if err != nil {
		return nil, err
	}
	for packageID, images := range holders {
		for set, delta := range deltas[packageID] {
			for _, image := range images {
				w.reached.add(places, w.suppressed, set, image, &delta)
				if !w.suppressed.has(set, image) {
					w.images[image].delta.plus(&delta)
				}
			}
		}
	}
	return holders, nil
}

// publish flips the states and tells of all that changed.
func (w *switcher) publish() error {
	for _, r := range w.images {
		if r.published {
			w.next.Images++
		}
	}
	n := w.next
	n.State, n.CurrentSince = string(store.ResultSetCurrent), w.now
	if err := w.Execute("UPDATE generations SET state = ? WHERE number = ?", string(store.ResultSetPast), w.current); err != nil {
		return err
	}
	err := w.Execute(`UPDATE generations SET state = ?, current_since = ?, opened = ?, closed = ?, changed = ?, images = ?, opened_critical = ?,
		new_kev = ? WHERE number = ?`, n.State, n.CurrentSince, n.Opened, n.Closed, n.Changed, n.Images, n.OpenedCritical, n.NewKev, n.Number)
	if err != nil {
		return err
	}
	if err := w.writeListed(); err != nil {
		return err
	}
	if err := w.open(); err != nil {
		return err
	}
	if err := n.event(w.txn); err != nil {
		return err
	}
	if err := w.writeFindingEvents(); err != nil {
		return err
	}
	if err := w.noteFailures(); err != nil {
		return err
	}
	return w.updateImages()
}

// updateImages adds to the counts of the matched images, and tells of each once.
func (w *switcher) updateImages() error {
	if err := w.addToReached(w.reached); err != nil {
		return err
	}
	ids := make([]int64, 0, len(w.images))
	for id, r := range w.images {
		if r.published || r.delta != (countsDelta{}) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	var told []imageRow
	for part := range slices.Chunk(ids, sqldb.MaxIn) {
		var rows []imageRow
		err := w.Raw("SELECT id, image_id, platform, "+strings.Join(countColumns, ", ")+
			" FROM images WHERE matched_at > 0 AND id IN ? ORDER BY id", part).Scan(&rows).Error
		if err != nil {
			return err
		}
		matched, deltas := make([]int64, len(rows)), make(map[int64]countsDelta, len(rows))
		for i := range rows {
			matched[i], deltas[rows[i].ID] = rows[i].ID, w.images[rows[i].ID].delta
			rows[i].Counts.add(deltas[rows[i].ID])
		}
		if err := w.addCounts(matched, deltas); err != nil {
			return err
		}
		told = append(told, rows...)
	}
	// Not by number: that tells which image was known first, also to who sees only since when it runs in a namespace.
	slices.SortFunc(told, func(a, b imageRow) int {
		return cmp.Or(cmp.Compare(a.ImageID, b.ImageID), cmp.Compare(a.Platform, b.Platform))
	})
	placed, err := somePlaced(w.DB)
	if err != nil {
		return err
	}
	for i := range told {
		row := &told[i]
		err := w.event(store.EventImageMatched, row.ImageID, row.Platform, matched{Database: w.next.BuildID, Counts: row.Counts.counts(), AllNamespaces: placed})
		if err != nil {
			return err
		}
	}
	return nil
}
