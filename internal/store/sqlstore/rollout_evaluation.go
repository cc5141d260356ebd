package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// What is to be done about a rollout in the queue.
const (
	stageWaiting = iota
	stageUnreported
)

// imagePair is the images of a rollout, by their numbers, and the reaches with places that have its workload, as rolloutPlaces.at has them.
type imagePair struct {
	from, to             int64
	fromPlaces, toPlaces string
}

// evaluation is what a rollout did.
type evaluation struct {
	state          store.RolloutState
	opened, closed model.SeverityCounts
	// openedKEV counts the opened ones that are known to be exploited.
	openedKEV int
	worst     worstFindings
}

// worstFindings is how both lists are stored.
type worstFindings struct {
	Opened []store.RolloutFinding `json:"opened,omitempty"`
	Closed []store.RolloutFinding `json:"closed,omitempty"`
}

// dueRollout is a rollout that can be evaluated, or has timed out when its images are not known.
type dueRollout struct {
	ID                    int64
	FromPk, ToPk          int64
	Namespace, Kind, Name string
	FromImage, ToImage    string
	pair                  imagePair `gorm:"-"`
}

// The rollouts that can be evaluated, and those that waited for too long.
const (
	readyRollouts = `SELECT r.id, a.id AS from_pk, b.id AS to_pk, r.namespace, r.kind, r.name, r.from_image, r.to_image FROM rollout_queue q JOIN rollouts r ON r.id = q.rollout_id
		JOIN images a ON a.image_id = r.from_image AND a.platform = r.from_platform AND a.matched_at > 0
		JOIN images b ON b.image_id = r.to_image AND b.platform = r.to_platform AND b.matched_at > 0
		WHERE q.stage = ? ORDER BY r.id DESC LIMIT ?`
	overdueRollouts = `SELECT r.id, 0 AS from_pk, 0 AS to_pk FROM rollout_queue q JOIN rollouts r ON r.id = q.rollout_id
		WHERE q.stage = ? AND r.at < ? ORDER BY r.id LIMIT ?`
	presentRollouts = `SELECT r.id, a.id AS from_pk, b.id AS to_pk, r.namespace, r.kind, r.name, r.from_image, r.to_image FROM rollouts r
		JOIN images a ON a.image_id = r.from_image AND a.platform = r.from_platform AND a.matched_at > 0
		JOIN images b ON b.image_id = r.to_image AND b.platform = r.to_platform AND b.matched_at > 0
		WHERE r.id IN ?`
)

// comparedFindings are the vulnerabilities of packages that one image has and the other has not, the worst first. has_to says that the
// second one has it. open is the condition that finding f is open in the image of ip, with the values of shown. The values are the second image, both
// images, and the result set twice.
func comparedFindings(open string) string {
	return `SELECT v.vulnerability_id, p.name, MAX(v.severity) AS severity, MAX(v.kev) AS kev, MAX(f.fixable) AS fixable,
		MAX(CASE WHEN ip.image_pk = ? THEN 1 ELSE 0 END) AS has_to
	FROM image_packages ip CROSS JOIN findings f JOIN vulnerabilities v ON v.id = f.vulnerability_pk JOIN packages p ON p.id = ip.package_pk
	WHERE ip.image_pk IN (?, ?) AND ip.excluded = 0 AND f.package_pk = ip.package_pk AND ` + open + `
	GROUP BY v.vulnerability_id, p.name
	HAVING MIN(ip.image_pk) = MAX(ip.image_pk)
	ORDER BY MAX(v.severity) DESC, MAX(v.kev) DESC, MAX(v.risk_micros) DESC, v.vulnerability_id, p.name`
}

// EvaluateRollouts implements store.Rollouts.
func (s *Store) EvaluateRollouts(ctx context.Context, timeOutBefore time.Time, limit int) (int, error) {
	const what = "evaluate rollouts"
	limit = min(limit, store.MaxEvaluated)
	var rows []dueRollout
	evaluations := map[imagePair]evaluation{}
	// The comparison takes a while for large images, and must not hold up those who write.
	err := s.read(ctx, what, func(tx *gorm.DB) (err error) {
		clear(evaluations)
		if rows, err = dueRollouts(tx, micros(timeOutBefore), limit); err != nil || len(rows) == 0 {
			return err
		}
		return evaluateAll(tx, rows, evaluations)
	})
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	taken := 0
	err = s.write(ctx, what, func(tx *txn) error {
		taken = 0
		for _, row := range rows {
			j := evaluations[row.pair]
			recorded, err := recordEvaluation(tx, row.ID, &j)
			if err != nil {
				return err
			}
			if recorded {
				taken++
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return taken, nil
}

// evaluateAll evaluates rollouts; those with the same images and places share an evaluation.
func evaluateAll(tx *gorm.DB, rows []dueRollout, evaluations map[imagePair]evaluation) error {
	current, err := currentNumber(tx)
	if err != nil {
		return err
	}
	if err := placeDue(tx, rows); err != nil {
		return err
	}
	for i := range rows {
		pair := rows[i].pair
		if _, known := evaluations[pair]; known {
			continue
		}
		if evaluations[pair], err = evaluate(tx, pair, current); err != nil {
			return err
		}
	}
	return nil
}

// PresentRollouts implements store.Notifications.
func (s *Store) PresentRollouts(ctx context.Context, ids []int64) (map[int64]store.RolloutCounts, error) {
	var present map[int64]store.RolloutCounts
	err := s.read(ctx, "compare the images of rollouts", func(tx *gorm.DB) error {
		present = map[int64]store.RolloutCounts{}
		evaluations := map[imagePair]evaluation{}
		return inParts(ids, func(part []int64) error {
			var rows []dueRollout
			if err := tx.Raw(presentRollouts, part).Scan(&rows).Error; err != nil || len(rows) == 0 {
				return err
			}
			if err := evaluateAll(tx, rows, evaluations); err != nil {
				return err
			}
			for i := range rows {
				j := evaluations[rows[i].pair]
				present[rows[i].ID] = store.RolloutCounts{Opened: j.opened, Closed: j.closed, OpenedKEV: j.openedKEV}
			}
			return nil
		})
	})
	return present, err
}

// dueRollouts finds what can be evaluated and, as far as there is room, what has timed out.
func dueRollouts(tx *gorm.DB, timeOutBefore int64, limit int) ([]dueRollout, error) {
	var rows, overdue []dueRollout
	if err := tx.Raw(readyRollouts, stageWaiting, limit).Scan(&rows).Error; err != nil {
		return nil, err
	}
	// One that can be evaluated may be among them: it has left the queue when it comes for the second time.
	err := tx.Raw(overdueRollouts, stageWaiting, timeOutBefore, limit-len(rows)).Scan(&overdue).Error
	return append(rows, overdue...), err
}

// placeDue notes which reaches with places have the workloads of rollouts.
func placeDue(tx *gorm.DB, rows []dueRollout) error {
	var namespaces []string
	for i := range rows {
		rows[i].pair = imagePair{from: rows[i].FromPk, to: rows[i].ToPk}
		namespaces = append(namespaces, rows[i].Namespace)
	}
	p, err := readRolloutPlaces(tx, namespaces, nil)
	if err != nil || p == nil {
		return err
	}
	for i := range rows {
		row := &rows[i]
		w := store.Workload{Namespace: row.Namespace, Kind: row.Kind, Name: row.Name}
		row.pair.fromPlaces, row.pair.toPlaces = p.at(row.FromImage, w), p.at(row.ToImage, w)
	}
	return nil
}

// evaluate compares the findings of two images. Only what differs leaves the database, and only the worst of it is kept.
func evaluate(tx *gorm.DB, images imagePair, resultSet int64) (evaluation, error) {
	if images.from == 0 {
		return evaluation{state: store.RolloutTimedOut}, nil
	}
	return compare(tx, images.from, images.to, resultSet, openInWorkload(map[int64]string{images.from: images.fromPlaces, images.to: images.toPlaces}))
}

// compare compares the findings f of two matched images that are open in the image of ip by a condition with the values of shown.
func compare(tx *gorm.DB, from, to, resultSet int64, open string) (evaluation, error) {
	j := evaluation{state: store.RolloutEvaluated}
	if from == to {
		return j, nil
	}
	rows, err := tx.Raw(comparedFindings(open), to, from, to, resultSet, resultSet).Rows()
	if err != nil {
		return j, err
	}
	return j, j.count(rows)
}

// count goes through rows and closes them.
func (j *evaluation) count(rows *sql.Rows) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var finding store.RolloutFinding
		var severity, kev, fixable, opened int64
		if err := rows.Scan(&finding.VulnerabilityID, &finding.Package, &severity, &kev, &fixable, &opened); err != nil {
			return err
		}
		finding.Severity, finding.KEV, finding.Fixable = model.Severity(severity), kev != 0, fixable != 0
		counts, worst := &j.closed, &j.worst.Closed
		if opened != 0 {
			counts, worst = &j.opened, &j.worst.Opened
			if finding.KEV {
				j.openedKEV++
			}
		}
		counts.Add(finding.Severity)
		if len(*worst) < store.MaxRolloutFindings {
			*worst = append(*worst, finding)
		}
	}
	return rows.Err()
}

// recordEvaluation keeps what a rollout did and tells of it, unless somebody else was faster. What was evaluated is reported at the workload.
func recordEvaluation(tx *txn, id int64, j *evaluation) (bool, error) {
	taken, err := tx.Change("DELETE FROM rollout_queue WHERE rollout_id = ? AND stage = ?", id, stageWaiting)
	if err != nil || taken == 0 {
		return false, err
	}
	values := []any{id, tx.now, string(j.state)}
	for _, part := range []any{j.opened, j.closed, j.worst} {
		content, err := json.Marshal(part)
		if err != nil {
			return false, fmt.Errorf("encode the evaluation of rollout %d: %w", id, err)
		}
		values = append(values, string(content))
	}
	if err := tx.Insert("rollout_verdicts", []string{"rollout_id", "at", "state", "opened", "closed", "worst"}, values, ""); err != nil {
		return false, err
	}
	if j.state == store.RolloutEvaluated {
		if err := tx.Insert("rollout_queue", []string{"rollout_id", "stage"}, []any{id, stageUnreported}, ""); err != nil {
			return false, err
		}
	} else if err := tx.introduceTimedOut(id); err != nil {
		return false, err
	}
	details, err := rolloutDetails(tx.DB, store.AllNamespaces(), "r.id = ?", []any{id}, 1)
	if err != nil || len(details) == 0 {
		return false, err
	}
	event := details[0].EvaluatedEvent()
	event.OpenedKEV = j.openedKEV
	return true, tx.event(store.EventRolloutEvaluated, event.To.ImageID, event.To.Platform, event)
}

// Rollout implements store.Rollouts.
func (s *Store) Rollout(ctx context.Context, in store.Namespaces, id int64) (store.RolloutDetail, error) {
	var details []store.RolloutDetail
	err := s.read(ctx, "read a rollout", func(tx *gorm.DB) (err error) {
		details, err = rolloutDetails(tx, in, "r.id = ?", []any{id}, 1)
		if err == nil && len(details) == 0 {
			err = fmt.Errorf("rollout %d: %w", id, store.ErrNotFound)
		}
		return err
	})
	if err != nil {
		return store.RolloutDetail{}, err
	}
	return details[0], nil
}

// UnreportedRollouts implements store.Rollouts.
func (s *Store) UnreportedRollouts(ctx context.Context, after int64, limit int) ([]store.RolloutDetail, error) {
	var details []store.RolloutDetail
	err := s.read(ctx, "list unreported rollouts", func(tx *gorm.DB) (err error) {
		unreported := "r.id IN (SELECT q.rollout_id FROM rollout_queue q WHERE q.stage = ? AND q.rollout_id > ?)"
		details, err = rolloutDetails(tx, store.AllNamespaces(), unreported, []any{stageUnreported, after}, min(limit, store.MaxEvaluated))
		return err
	})
	return details, err
}

// MarkRolloutReported implements store.Rollouts.
func (s *Store) MarkRolloutReported(ctx context.Context, id int64) error {
	return s.write(ctx, "mark a rollout as reported", func(tx *txn) error {
		return tx.Execute("DELETE FROM rollout_queue WHERE rollout_id = ? AND stage = ?", id, stageUnreported)
	})
}

// rolloutDetails reads rollouts r with their lists, the first ones first.
func rolloutDetails(tx *gorm.DB, in store.Namespaces, condition string, values []any, limit int) ([]store.RolloutDetail, error) {
	var rows []struct {
		Row   rolloutRow `gorm:"embedded"`
		Worst string
	}
	if !in.All() {
		condition += " AND " + isWithin("r.namespace", in)
	}
	err := tx.Raw("SELECT "+rolloutSelect+", COALESCE(v.worst, '') AS worst FROM rollouts r"+rolloutJoins(in)+" WHERE "+condition+
		" ORDER BY r.id LIMIT ?", append(values, limit)...).Scan(&rows).Error
	if err != nil {
		return nil, err
	}
	placed := make([]*rolloutRow, len(rows))
	for i := range rows {
		placed[i] = &rows[i].Row
	}
	if err := placeRollouts(tx, placed); err != nil {
		return nil, err
	}
	details := make([]store.RolloutDetail, len(rows))
	for i := range rows {
		if details[i].Rollout, err = rows[i].Row.rollout(in); err != nil {
			return nil, err
		}
		var worst worstFindings
		if err := fromJSON(rows[i].Worst, &worst); err != nil {
			return nil, fmt.Errorf("findings of rollout %d in the database: %w", rows[i].Row.ID, err)
		}
		details[i].WorstOpened, details[i].WorstClosed = worst.Opened, worst.Closed
	}
	return details, setOwners(tx, workloadsIn(details, func(d *store.RolloutDetail) *store.Workload { return &d.Workload }))
}
