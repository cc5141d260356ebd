package sqlstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// TestSyncVEXRoom: what other decisions leave no room for is refused with the bound, by type, and statements end all the same.
func TestSyncVEXRoom(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, config Config) {
		config.Rules = ranked{}
		s := openWith(t, config)
		hold(t, s, 1, 4)
		_, revision, err := s.VEX(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		one, two := statement("a", "one", "CVE-0", "1 *", model.DecisionNotAffected), statement("b", "two", "CVE-1", "1 *", model.DecisionNotAffected)
		inImage := statement("c", "three", "CVE-2", "1 *", model.DecisionNotAffected)
		inImage.Images = []string{"sha256:" + strings.Repeat("a", 64)}
		sync := func(all ...store.Decision) error { return s.SyncVEX(t.Context(), revision, all) }
		expectRefused := func(bound string, limit int, all ...store.Decision) {
			t.Helper()
			before := texts(t, s, decisionRows)
			full, found := errors.AsType[*store.VEXRoomError](sync(all...))
			if !found || !errors.Is(full, store.ErrVEXTooMany) || full.Limit != limit || !strings.Contains(full.Error(), bound) {
				t.Errorf("%s: %v", bound, full)
			}
			if diff := cmp.Diff(before, texts(t, s, decisionRows)); diff != "" {
				t.Errorf("%s: what was refused has an effect: %s", bound, diff)
			}
		}
		if _, err := s.SyncDecisions(t.Context(), "test", decisionCases(clocktesting.NewFakeClock(time.Now()))[:2]); err != nil {
			t.Fatal(err)
		}
		if err := sync(one, two); err != nil {
			t.Fatal(err)
		}
		s.matchBounds.decisions = 4
		expectRefused("3 statements of VEX documents besides 2 exceptions", 4, one, two, inImage)
		// There are more decisions than the bound, and fewer statements and changed ones are taken.
		s.matchBounds.decisions = 3
		one.Status = model.DecisionAffected
		if err := sync(one, two); err != nil {
			t.Error(err)
		}
		if err := sync(one); err != nil {
			t.Error(err)
		}
		s.matchBounds.decisions, s.matchBounds.images = 10, 0
		inImage.Images[0] = "*@" + inImage.Images[0]
		_, err = s.WantImages(t.Context(), []model.ImageKey{{
			ImageID: "r.example/a" + strings.TrimPrefix(inImage.Images[0], "*"), Platform: model.Platform{OS: "linux", Architecture: "amd64"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		expectRefused("too many images", 0, one, inImage)
		checkHeld(t, s)
	})
}
