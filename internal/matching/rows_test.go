package matching

import (
	"context"
	"errors"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

// TestOneBadRowStopsNothing has an answer and an image that the store refuses, among others.
func TestOneBadRowStopsNothing(t *testing.T) {
	s := newStore(t)
	bad := &picky{Store: s, version: "v0.2.0", unfinished: numbered(2)}
	a, _ := newMatcher(t, bad, newShelf(dbtest.Sample(t)))
	images := map[model.ImageKey]string{
		numbered(0): goModules(module, "v0.1.0"),
		numbered(1): goModules(module, "v0.2.0", module, "v0.1.0"),
		numbered(2): goModules(module, "v0.3.0"),
		numbered(3): goModules(module, "v0.4.0"),
	}
	fill(t, a, s, images)
	settle(t, a)
	for key, want := range map[model.ImageKey]struct {
		state  store.State
		reason model.Reason
	}{
		numbered(0): {store.StateScanned, ""},
		numbered(1): {store.StateCataloged, model.ReasonMatchFailed},
		numbered(2): {store.StateCataloged, ""},
		numbered(3): {store.StateScanned, ""},
	} {
		image, err := s.Image(t.Context(), store.AllNamespaces(), key)
		if err != nil {
			t.Fatal(err)
		}
		if image.State != want.state || image.Reason != want.reason {
			t.Errorf("%s: %s %q, want %s %q", key.ImageID, image.State, image.Reason, want.state, want.reason)
		}
	}
}

// picky refuses the findings of a version, and to finish an image.
type picky struct {
	*sqlstore.Store
	version    string
	unfinished model.ImageKey
}

func (p *picky) SaveAnswers(ctx context.Context, resultSet int64, answers map[int64]model.PackageAnswer) error {
	_, packages, err := p.UnansweredPackages(ctx, numbered(1))
	if err != nil {
		return err
	}
	for _, unanswered := range packages {
		if answer, asked := answers[unanswered.ID]; asked && unanswered.Version == p.version && answer.Failure == "" {
			return errors.New("value too long for an index")
		}
	}
	return p.Store.SaveAnswers(ctx, resultSet, answers)
}

func (p *picky) FinishImage(ctx context.Context, key model.ImageKey, sbomDigest string) error {
	if key == p.unfinished {
		return errors.New("value out of range")
	}
	return p.Store.FinishImage(ctx, key, sbomDigest)
}
