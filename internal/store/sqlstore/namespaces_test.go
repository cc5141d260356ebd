package sqlstore

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
)

// TestVisible reads what some namespaces may see, beside a store that holds nothing else.
func TestVisible(t *testing.T) {
	t.Parallel()
	for name, histories := range map[string]int{sqldb.TypeSQLite: 7, sqldb.TypePostgres: 2, sqldb.TypeMySQL: 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.RunVisible(t, budget(7, histories), func(t *testing.T, clk clock.PassiveClock) store.Store {
				config := cheap(t, name)
				config.Clock, config.MaxOpenConns, config.BaseImages = clk, 4, storetest.BaseImages()
				s := openWith(t, config)
				// So that lists of some images are read in both ways.
				s.fewImages, s.fewUpdates, s.manyPackages, s.fewChosen, s.keptNumbers, s.fewVisible, s.maxSteps = 1, 1, 1, 0, 6, 3, 1
				s.holdersPerImage, s.maxClasses, s.firstOwn, s.listedChanges = 0, 2, 0, 4
				t.Cleanup(func() { checkHeld(t, s) })
				return s
			})
		})
	}
}

// checkVisible expects that image_namespaces says what follows from what runs and what scopes keep. Every test of the store's suite ends with it.
func checkVisible(t *testing.T, s *Store) {
	t.Helper()
	var names [2][]struct {
		Namespace string
		ImagePk   int64
	}
	for i, statement := range []string{
		"SELECT namespace, image_pk FROM image_namespaces ORDER BY namespace, image_pk",
		`SELECT namespace, image_pk FROM (SELECT namespace, image_pk FROM image_uses UNION SELECT namespace, image_pk FROM namespace_last_uses) n
			WHERE namespace <> '' ORDER BY namespace, image_pk`,
	} {
		if err := s.db.Reader().WithContext(context.Background()).Raw(statement).Scan(&names[i]).Error; err != nil {
			t.Error(err)
			return
		}
	}
	if diff := cmp.Diff(names[1], names[0]); diff != "" {
		t.Errorf("image_namespaces (-want +got):\n%s", diff)
	}
}
