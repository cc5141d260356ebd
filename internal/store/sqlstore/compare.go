package sqlstore

import (
	"context"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Compare implements store.Reader.
func (s *Store) Compare(ctx context.Context, in store.Namespaces, from, to model.ImageKey) (store.Comparison, error) {
	var comparison store.Comparison
	err := s.read(ctx, "compare images", func(tx *gorm.DB) error {
		comparison = store.Comparison{Evaluation: store.RolloutEvaluation{State: store.RolloutWaiting}}
		before, err := findImage(tx, in, from)
		if err != nil {
			return err
		}
		after, err := findImage(tx, in, to)
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
