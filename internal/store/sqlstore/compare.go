package sqlstore

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Compare implements store.Reader.
func (s *Store) Compare(ctx context.Context, in store.Namespaces, from, to model.ImageKey) (store.Comparison, error) {
	var comparison store.Comparison
	err := s.read(ctx, "compare images", func(tx *gorm.DB) error {
		comparison = store.Comparison{Evaluation: store.RolloutEvaluation{State: store.RolloutWaiting}}
		before, after, err := comparedImages(tx, in, from, to)
		if err != nil {
			return err
		}
		if comparison.From, err = before.side(); err != nil {
			return err
		}
		if comparison.To, err = after.side(); err != nil || !comparison.From.Scanned() || !comparison.To.Scanned() {
			return err
		}
		view, err := seenIn(tx, in)
		if err != nil {
			return err
		}
		current, err := currentNumber(tx)
		if err != nil {
			return err
		}
		compared, err := compare(tx, before.ID, after.ID, current, view.open())
		comparison.Evaluation = store.RolloutEvaluation{State: compared.state, Opened: compared.opened, Closed: compared.closed}
		comparison.WorstOpened, comparison.WorstClosed = compared.worst.Opened, compared.worst.Closed
		return err
	})
	if err != nil {
		return store.Comparison{}, err
	}
	return comparison, nil
}

// comparedImages reads two images; if neither has a platform, on one that both have: one on which both are scanned, if there is any.
func comparedImages(tx *gorm.DB, in store.Namespaces, from, to model.ImageKey) (before, after imageRow, err error) {
	var common []string
	chosen := from.Platform == (model.Platform{}) && to.Platform == (model.Platform{})
	if chosen {
		visible := ""
		if !in.All() {
			seen := func(side string) string {
				return " AND EXISTS (SELECT 1 FROM image_namespaces m WHERE m.image_pk = " + side + ".id AND " + isWithin("m.namespace", in) + ")"
			}
			visible = seen("a") + seen("b")
		}
		scanned := string(store.StateScanned)
		err := tx.Raw("SELECT a.platform FROM images a JOIN images b ON b.platform = a.platform WHERE a.image_id = ? AND b.image_id = ?"+visible+
			" ORDER BY CASE WHEN a.state = ? AND b.state = ? THEN 0 ELSE 1 END, CASE WHEN a.platform = ? THEN 0 ELSE 1 END, a.platform LIMIT 1",
			from.ImageID, to.ImageID, scanned, scanned, "linux/amd64").Scan(&common).Error
		if err != nil {
			return before, after, err
		}
		if len(common) > 0 {
			if from, err = keyOf(from.ImageID, common[0]); err != nil {
				return before, after, err
			}
			to.Platform = from.Platform
		}
	}
	if before, err = findImage(tx, in, from); err != nil {
		return before, after, err
	}
	if after, err = findImage(tx, in, to); err == nil && chosen && len(common) == 0 {
		err = fmt.Errorf("%s and %s: %w", from.ImageID, to.ImageID, store.ErrNoCommonPlatform)
	}
	return before, after, err
}

// side is the image as one side of a comparison.
func (r *imageRow) side() (store.RolloutSide, error) {
	key, err := r.key()
	side := store.RolloutSide{Image: key, State: store.State(r.State), Reason: model.Reason(r.Reason), Message: r.Message}
	if r.MatchedAt > 0 {
		counts := r.Counts.counts()
		side.Counts = &counts
	}
	return side, err
}
