package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// What is to be done about a rollout in the queue.
const (
	stageWaiting = iota
	stageUntold
)

// imagePair is the images of a rollout, by their numbers.
type imagePair struct{ from, to int64 }

// judgement is what a rollout did.
type judgement struct {
	state          store.RolloutState
	opened, closed vuln.SeverityCounts
	worst          worstFindings
}

// worstFindings is how both lists are stored.
type worstFindings struct {
	Opened []store.RolloutFinding `json:"opened,omitempty"`
	Closed []store.RolloutFinding `json:"closed,omitempty"`
}

// judgedRow is a rollout that can be judged, or is to be given up when its images are not known.
type judgedRow struct {
	ID           int64
	FromPk, ToPk int64
}

// The rollouts that can be judged, and those that waited for too long.
const (
	judgeableRollouts = `SELECT r.id, a.id AS from_pk, b.id AS to_pk FROM rollout_queue q JOIN rollouts r ON r.id = q.rollout_id
		JOIN images a ON a.image_id = r.from_image AND a.platform = r.from_platform AND a.matched_at > 0
		JOIN images b ON b.image_id = r.to_image AND b.platform = r.to_platform AND b.matched_at > 0
		WHERE q.stage = ? ORDER BY r.id DESC LIMIT ?`
	overdueRollouts = `SELECT r.id, 0 AS from_pk, 0 AS to_pk FROM rollout_queue q JOIN rollouts r ON r.id = q.rollout_id
		WHERE q.stage = ? AND r.at < ? ORDER BY r.id LIMIT ?`
)

// comparedFindings are the vulnerabilities of packages that one image has and the other has not, the worst first. has_to says that the
// second one has it. The values are the images, the generation twice, and the images again.
const comparedFindings = `SELECT v.vulnerability_id, p.name, MAX(v.severity) AS severity, MAX(v.kev) AS kev, MAX(f.fixable) AS fixable,
		MAX(CASE WHEN ip.image_pk = ? THEN 1 ELSE 0 END) AS has_to
	FROM image_packages ip CROSS JOIN findings f JOIN vulnerabilities v ON v.id = f.vulnerability_pk JOIN packages p ON p.id = ip.package_pk
	WHERE ip.image_pk IN (?, ?) AND ip.excluded = 0 AND f.package_pk = ip.package_pk AND ` + visible + `
	GROUP BY v.vulnerability_id, p.name
	HAVING MIN(ip.image_pk) = MAX(ip.image_pk)
	ORDER BY MAX(v.severity) DESC, MAX(v.kev) DESC, MAX(v.risk_micros) DESC, v.vulnerability_id, p.name`

// JudgeRollouts implements store.Rollouts.
func (s *Store) JudgeRollouts(ctx context.Context, giveUp time.Time, limit int) (int, error) {
	const what = "judge rollouts"
	limit = min(limit, store.MaxJudged)
	var rows []judgedRow
	judgements := map[imagePair]judgement{}
	// The comparison takes a while for large images, and must not hold up those who write.
	err := s.read(ctx, what, func(tx *gorm.DB) (err error) {
		clear(judgements)
		if rows, err = dueRollouts(tx, micros(giveUp), limit); err != nil || len(rows) == 0 {
			return err
		}
		current, err := currentNumber(tx)
		if err != nil {
			return err
		}
		for _, row := range rows {
			pair := imagePair{row.FromPk, row.ToPk}
			if _, known := judgements[pair]; known {
				continue
			}
			if judgements[pair], err = judge(tx, pair, current); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	taken := 0
	err = s.write(ctx, what, func(tx *txn) error {
		taken = 0
		for _, row := range rows {
			j := judgements[imagePair{row.FromPk, row.ToPk}]
			recorded, err := recordJudgement(tx, row.ID, &j)
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

// dueRollouts finds what can be judged and, as far as there is room, what is given up.
func dueRollouts(tx *gorm.DB, giveUp int64, limit int) ([]judgedRow, error) {
	var rows, overdue []judgedRow
	if err := tx.Raw(judgeableRollouts, stageWaiting, limit).Scan(&rows).Error; err != nil {
		return nil, err
	}
	// One that can be judged may be among them: it has left the queue when it comes for the second time.
	err := tx.Raw(overdueRollouts, stageWaiting, giveUp, limit-len(rows)).Scan(&overdue).Error
	return append(rows, overdue...), err
}

// judge compares the findings of two images. Only what differs leaves the database, and only the worst of it is kept.
func judge(tx *gorm.DB, images imagePair, generation int64) (judgement, error) {
	if images.from == 0 {
		return judgement{state: store.RolloutGaveUp}, nil
	}
	j := judgement{state: store.RolloutJudged}
	rows, err := tx.Raw(comparedFindings, images.to, images.from, images.to, generation, generation).Rows()
	if err != nil {
		return j, err
	}
	return j, j.count(rows)
}

// count goes through rows and closes them.
func (j *judgement) count(rows *sql.Rows) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var finding store.RolloutFinding
		var severity, kev, fixable, opened int64
		if err := rows.Scan(&finding.VulnerabilityID, &finding.Package, &severity, &kev, &fixable, &opened); err != nil {
			return err
		}
		finding.Severity, finding.KEV, finding.Fixable = vuln.Severity(severity), kev != 0, fixable != 0
		counts, worst := &j.closed, &j.worst.Closed
		if opened != 0 {
			counts, worst = &j.opened, &j.worst.Opened
		}
		counts.Add(finding.Severity)
		if len(*worst) < store.MaxRolloutFindings {
			*worst = append(*worst, finding)
		}
	}
	return rows.Err()
}

// recordJudgement keeps what a rollout did and tells of it, unless somebody else was faster. A workload is told of what was judged.
func recordJudgement(tx *txn, id int64, j *judgement) (bool, error) {
	taken := tx.Exec("DELETE FROM rollout_queue WHERE rollout_id = ? AND stage = ?", id, stageWaiting)
	if taken.Error != nil || taken.RowsAffected == 0 {
		return false, taken.Error
	}
	values := []any{id, tx.now, string(j.state)}
	for _, part := range []any{j.opened, j.closed, j.worst} {
		content, err := json.Marshal(part)
		if err != nil {
			return false, fmt.Errorf("encode what rollout %d did: %w", id, err)
		}
		values = append(values, string(content))
	}
	if err := tx.insert("rollout_verdicts", []string{"rollout_id", "at", "state", "opened", "closed", "worst"}, values, ""); err != nil {
		return false, err
	}
	if j.state == store.RolloutJudged {
		if err := tx.insert("rollout_queue", []string{"rollout_id", "stage"}, []any{id, stageUntold}, ""); err != nil {
			return false, err
		}
	}
	details, err := rolloutDetails(tx.DB, "r.id = ?", []any{id}, 1)
	if err != nil || len(details) == 0 {
		return false, err
	}
	event := details[0].JudgedEvent()
	return true, tx.event(store.EventRolloutJudged, event.To.ImageID, event.To.Platform, event)
}

// Rollout implements store.Rollouts.
func (s *Store) Rollout(ctx context.Context, id int64) (store.RolloutDetail, error) {
	var details []store.RolloutDetail
	err := s.read(ctx, "read a rollout", func(tx *gorm.DB) (err error) {
		details, err = rolloutDetails(tx, "r.id = ?", []any{id}, 1)
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

// UntoldRollouts implements store.Rollouts.
func (s *Store) UntoldRollouts(ctx context.Context, after int64, limit int) ([]store.RolloutDetail, error) {
	var details []store.RolloutDetail
	err := s.read(ctx, "list rollouts that are to be told", func(tx *gorm.DB) (err error) {
		untold := "r.id IN (SELECT q.rollout_id FROM rollout_queue q WHERE q.stage = ? AND q.rollout_id > ?)"
		details, err = rolloutDetails(tx, untold, []any{stageUntold, after}, min(limit, store.MaxJudged))
		return err
	})
	return details, err
}

// RolloutTold implements store.Rollouts.
func (s *Store) RolloutTold(ctx context.Context, id int64) error {
	return s.write(ctx, "record that a rollout was told", func(tx *txn) error {
		return tx.exec("DELETE FROM rollout_queue WHERE rollout_id = ? AND stage = ?", id, stageUntold)
	})
}

// rolloutDetails reads rollouts r with their lists, the first ones first.
func rolloutDetails(tx *gorm.DB, condition string, values []any, limit int) ([]store.RolloutDetail, error) {
	var rows []struct {
		Row   rolloutRow `gorm:"embedded"`
		Worst string
	}
	err := tx.Raw("SELECT "+rolloutSelect+", COALESCE(v.worst, '') AS worst FROM rollouts r"+rolloutJoins+" WHERE "+condition+
		" ORDER BY r.id LIMIT ?", append(values, limit)...).Scan(&rows).Error
	if err != nil {
		return nil, err
	}
	details := make([]store.RolloutDetail, len(rows))
	for i := range rows {
		if details[i].Rollout, err = rows[i].Row.rollout(); err != nil {
			return nil, err
		}
		var worst worstFindings
		if err := fromJSON(rows[i].Worst, &worst); err != nil {
			return nil, fmt.Errorf("findings of rollout %d in the database: %w", rows[i].Row.ID, err)
		}
		details[i].WorstOpened, details[i].WorstClosed = worst.Opened, worst.Closed
	}
	return details, nil
}
