package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// rolloutColumns are the columns of rollouts that are written.
var rolloutColumns = []string{
	"at", "cluster", "namespace", "kind", "name", "container", "from_image", "from_platform", "to_image", "to_platform",
}

// imageChange is a rollout that is about to be recorded, in the slot of a use.
type imageChange struct {
	use      *useRow
	from, to store.RolloutImage
}

// recordBegun notes of images that are about to begin in slots which images they take the place of. An image that is in the slot
// already, on another platform, takes no place, unless yet another image has taken its own.
func (w *presenceWriter) recordBegun(begun []useRow, occupants map[string][]occupant) error {
	names, err := imageNames(w.DB, begun)
	if err != nil {
		return err
	}
	var changes []imageChange
	for i := range begun {
		row := &begun[i]
		to, slot := names[row.ImagePk], row.slot()
		there := occupants[slot]
		if len(there) == 0 || slices.ContainsFunc(there, func(o occupant) bool { return o.ImageID == to.ImageID && !o.replaced(there) }) {
			continue
		}
		next := occupant{ImageID: to.ImageID, Platform: to.Platform, Since: w.now, UntilTime: stillOpen}
		changes = append(changes, imageChange{row, there[len(there)-1].image(), next.image()})
		occupants[slot] = append(there, next)
	}
	return w.recordRollouts(changes)
}

// latestRollouts are the images of the latest rollouts in the slots of presences.
const latestRollouts = `SELECT m.slot, r.to_image AS image_id FROM (
		SELECT p.slot, MAX(l.id) AS id FROM image_presences p
		JOIN rollouts l ON l.namespace = p.namespace AND l.name = p.name AND l.kind = p.kind AND l.container = p.container
		WHERE p.id IN ? GROUP BY p.slot
	) m JOIN rollouts r ON r.id = m.id`

// recordLeft notes what is left in slots that the image of the latest rollout has gone from: what had been there beside it, or was back
// before long. So ends a rolling update that is undone while both images run: nothing begins then. As long as nothing else runs, an image
// that is gone may be back at once, and nothing is noted.
func (w *presenceWriter) recordLeft(touched []useRow) error {
	occupants, err := w.occupants(slotsOf(touched))
	if err != nil {
		return err
	}
	var left []int64
	for _, there := range occupants {
		if newest := there[len(there)-1]; there[0].UntilTime != stillOpen && newest.UntilTime == stillOpen {
			left = append(left, newest.ID)
		}
	}
	slices.Sort(left)
	latest := map[string]string{}
	for part := range slices.Chunk(left, sqldb.MaxIn) {
		var rows []struct{ Slot, ImageID string }
		if err := w.Raw(latestRollouts, part).Scan(&rows).Error; err != nil {
			return err
		}
		for _, row := range rows {
			latest[row.Slot] = row.ImageID
		}
	}
	var changes []imageChange
	for i := range touched {
		slot := touched[i].slot()
		there := occupants[slot]
		if gone := lastOf(there, latest[slot]); gone != nil && gone.UntilTime != stillOpen {
			changes = append(changes, imageChange{&touched[i], gone.image(), there[len(there)-1].image()})
		}
		delete(latest, slot) // A slot may be touched by several uses.
	}
	return w.recordRollouts(changes)
}

// recordRollouts writes rollouts, tells of them and has them wait to be evaluated. Nobody else writes meanwhile, so those behind the last one
// are ours.
func (w *presenceWriter) recordRollouts(changes []imageChange) error {
	if len(changes) == 0 {
		return nil
	}
	var last int64
	if err := w.Raw("SELECT COALESCE(MAX(id), 0) FROM rollouts").Scan(&last).Error; err != nil {
		return err
	}
	workloads := make([]store.Workload, len(changes))
	for i, c := range changes {
		workloads[i] = store.Workload{Namespace: c.use.Namespace, Kind: c.use.Kind, Name: c.use.Name}
	}
	if err := setOwners(w.DB, pointersTo(workloads)); err != nil {
		return err
	}
	values := make([]any, 0, len(rolloutColumns)*len(changes))
	for i, c := range changes {
		values = append(values, w.now, w.cluster, c.use.Namespace, c.use.Kind, c.use.Name, c.use.Container,
			c.from.ImageID, c.from.Platform, c.to.ImageID, c.to.Platform)
		err := w.event(store.EventRolloutChanged, c.to.ImageID, c.to.Platform, store.RolloutEvent{
			Workload: workloads[i], Container: c.use.Container, From: c.from, To: c.to,
		})
		if err != nil {
			return err
		}
	}
	if err := w.Insert("rollouts", rolloutColumns, values, ""); err != nil {
		return err
	}
	return w.Execute("INSERT INTO rollout_queue (rollout_id, stage) SELECT id, ? FROM rollouts WHERE id > ?", stageWaiting, last)
}

// imageNames reads the image IDs and platforms of uses by id.
func imageNames(tx *gorm.DB, uses []useRow) (map[int64]imageRow, error) {
	ids := make([]int64, len(uses))
	for i := range uses {
		ids[i] = uses[i].ImagePk
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	names := make(map[int64]imageRow, len(ids))
	for part := range slices.Chunk(ids, sqldb.MaxIn) {
		var rows []imageRow
		if err := tx.Raw("SELECT id, image_id, platform FROM images WHERE id IN ?", part).Scan(&rows).Error; err != nil {
			return nil, err
		}
		for _, row := range rows {
			names[row.ID] = row
		}
	}
	return names, nil
}

// rolloutOrder has the latest first.
var rolloutOrder = []sqldb.SortKey{{Column: "r.at", Number: true, Descending: true}, {Column: "r.id", Number: true, Descending: true}}

// rolloutToken is what a page token of rollouts belongs to.
type rolloutToken struct {
	List, Namespace, Workload, ImageID string
	Ownership                          store.Ownership
	Since, Until                       int64
}

// rolloutRow is a rollout with what is known of its images.
type rolloutRow struct {
	ID, At                                            int64
	Cluster, Namespace, Kind, Workload, ContainerName string
	FromImage, FromPlatform, ToImage, ToPlatform      string
	From                                              sideState `gorm:"embedded;embeddedPrefix:from_"`
	To                                                sideState `gorm:"embedded;embeddedPrefix:to_"`
	EvaluatedAt                                       int64
	EvaluationState, Opened, Closed                   string
}

// sideState is what is known of an image; the state is "" when it is gone.
type sideState struct {
	ID                     int64
	State, Reason, Message string
	// FailedFor is the namespace that the last failed attempt was made for.
	FailedFor string
	MatchedAt int64
	Counts    countsRow `gorm:"embedded"`
}

// rolloutJoins joins rollouts r with images a before and b after, as far as they are visible, and with what became of them, v.
func rolloutJoins(in store.Namespaces) string {
	visible := func(image string) string {
		if in.All() {
			return ""
		}
		return " AND EXISTS (SELECT 1 FROM image_namespaces m WHERE m.image_pk = " + image + ".id AND " + isWithin("m.namespace", in) + ")"
	}
	return " LEFT JOIN images a ON a.image_id = r.from_image AND a.platform = r.from_platform" + visible("a") +
		" LEFT JOIN images b ON b.image_id = r.to_image AND b.platform = r.to_platform" + visible("b") +
		" LEFT JOIN image_failures fa ON fa.image_pk = a.id LEFT JOIN image_failures fb ON fb.image_pk = b.id" +
		" LEFT JOIN rollout_verdicts v ON v.rollout_id = r.id"
}

// rolloutSelect are the columns of rolloutRow.
var rolloutSelect = func() string {
	columns := []string{
		"r.id", "r.at", "r.cluster", "r.namespace", "r.kind", "r.name AS workload", "r.container AS container_name", "r.from_image", "r.from_platform",
		"r.to_image", "r.to_platform",
	}
	columns = append(columns, "COALESCE(v.at, 0) AS evaluated_at", "COALESCE(v.state, '') AS evaluation_state", "COALESCE(v.opened, '') AS opened",
		"COALESCE(v.closed, '') AS closed")
	for _, column := range []string{"state", "reason", "message"} {
		columns = append(columns, fmt.Sprintf("COALESCE(a.%[1]s, '') AS from_%[1]s, COALESCE(b.%[1]s, '') AS to_%[1]s", column))
	}
	columns = append(columns, "COALESCE(a.id, 0) AS from_id, COALESCE(b.id, 0) AS to_id")
	columns = append(columns, "COALESCE(fa.namespace, '') AS from_failed_for, COALESCE(fb.namespace, '') AS to_failed_for")
	for _, column := range append([]string{"matched_at"}, countColumns...) {
		columns = append(columns, fmt.Sprintf("COALESCE(a.%[1]s, 0) AS from_%[1]s", column), fmt.Sprintf("COALESCE(b.%[1]s, 0) AS to_%[1]s", column))
	}
	return strings.Join(columns, ", ")
}()

// ListRollouts implements store.Rollouts.
func (s *Store) ListRollouts(ctx context.Context, in store.Namespaces, query store.RolloutQuery) (store.RolloutPage, error) {
	token := rolloutToken{"rollouts", query.Namespace, query.Workload, query.ImageID, query.Ownership, micros(query.Since), micros(query.Until)}
	var page store.RolloutPage
	err := s.read(ctx, "list rollouts", func(tx *gorm.DB) error {
		page = store.RolloutPage{Rollouts: []store.Rollout{}}
		filtered := filterRollouts(within(tx.Table("rollouts AS r"), "r.namespace", in), query).Session(&gorm.Session{})
		var total int64
		if err := filtered.Count(&total).Error; err != nil {
			return err
		}
		page.Total = int(total)
		behind, err := fromToken(filtered, query.Token, token, rolloutOrder)
		if err != nil {
			return err
		}
		if err := readRollouts(tx, behind, in, query.Limit(), token, &page); err != nil {
			return err
		}
		return setOwners(tx, workloadsIn(page.Rollouts, func(r *store.Rollout) *store.Workload { return &r.Workload }))
	})
	if err != nil {
		return store.RolloutPage{}, err
	}
	return page, nil
}

func filterRollouts(tx *gorm.DB, query store.RolloutQuery) *gorm.DB {
	if query.Namespace != "" {
		tx = tx.Where("r.namespace = ?", query.Namespace)
	}
	if query.Workload != "" {
		tx = tx.Where("r.name = ?", query.Workload)
	}
	tx = ownedBy(tx, "r", query.Ownership)
	if query.ImageID != "" {
		tx = tx.Where("(r.from_image = ? OR r.to_image = ?)", query.ImageID, query.ImageID)
	}
	if !query.Since.IsZero() {
		tx = tx.Where("r.at >= ?", micros(query.Since))
	}
	if !query.Until.IsZero() {
		tx = tx.Where("r.at < ?", micros(query.Until))
	}
	return tx
}

// readRollouts fills a page.
func readRollouts(tx, behind *gorm.DB, in store.Namespaces, limit int, token rolloutToken, page *store.RolloutPage) error {
	var ids []int64
	if err := behind.Select("r.id").Order(sqldb.OrderBy(rolloutOrder)).Limit(limit + 1).Scan(&ids).Error; err != nil {
		return err
	}
	rows, err := inOrderOf(ids, func(part []int64) (rows []rolloutRow, err error) {
		err = tx.Table("rollouts AS r").Joins(rolloutJoins(in)).Select(rolloutSelect).Where("r.id IN ?", part).Scan(&rows).Error
		return rows, err
	}, func(r *rolloutRow) int64 { return r.ID })
	if err != nil {
		return err
	}
	if len(rows) > limit {
		rows = rows[:limit]
		last := &rows[limit-1]
		if page.NextToken, err = store.EncodeToken(token, strconv.FormatInt(last.At, 10), strconv.FormatInt(last.ID, 10)); err != nil {
			return err
		}
	}
	placed := make([]*rolloutRow, len(rows))
	for i := range rows {
		placed[i] = &rows[i]
	}
	if err := placeRollouts(tx, placed); err != nil {
		return err
	}
	for i := range rows {
		rollout, err := rows[i].rollout(in)
		if err != nil {
			return err
		}
		page.Rollouts = append(page.Rollouts, rollout)
	}
	return nil
}

func (r *rolloutRow) rollout(in store.Namespaces) (store.Rollout, error) {
	rollout := store.Rollout{
		ID: r.ID, At: fromMicros(r.At), Cluster: r.Cluster, Workload: store.Workload{Namespace: r.Namespace, Kind: r.Kind, Name: r.Workload},
		Container: r.ContainerName,
	}
	var err error
	if rollout.From, err = r.From.side(in, r.FromImage, r.FromPlatform); err != nil {
		return store.Rollout{}, err
	}
	if rollout.To, err = r.To.side(in, r.ToImage, r.ToPlatform); err != nil {
		return store.Rollout{}, err
	}
	rollout.Evaluation, err = r.evaluation()
	return rollout, err
}

// evaluation is what became of the rollout; without a row it waits.
func (r *rolloutRow) evaluation() (store.RolloutEvaluation, error) {
	if r.EvaluationState == "" {
		return store.RolloutEvaluation{State: store.RolloutWaiting}, nil
	}
	evaluation := store.RolloutEvaluation{State: store.RolloutState(r.EvaluationState), At: fromMicros(r.EvaluatedAt)}
	if err := errors.Join(fromJSON(r.Opened, &evaluation.Opened), fromJSON(r.Closed, &evaluation.Closed)); err != nil {
		return store.RolloutEvaluation{}, fmt.Errorf("rollout %d in the database: %w", r.ID, err)
	}
	return evaluation, nil
}

func (s *sideState) side(in store.Namespaces, imageID, platform string) (store.RolloutSide, error) {
	key, err := keyOf(imageID, platform)
	if err != nil {
		return store.RolloutSide{}, err
	}
	side := store.RolloutSide{Image: key, State: store.State(s.State), Reason: model.Reason(s.Reason), Message: s.Message}
	if !in.Contains(s.FailedFor) && side.Reason != model.ReasonMatchFailed {
		side.Message = ""
	}
	if s.MatchedAt > 0 {
		counts := s.Counts.counts()
		side.Counts = &counts
	}
	return side, nil
}
