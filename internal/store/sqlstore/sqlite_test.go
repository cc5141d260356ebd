package sqlstore

import (
	"testing"

	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
)

func TestSQLite(t *testing.T) {
	storetest.Run(t, func(t *testing.T, clk clock.PassiveClock) store.Store {
		s := openWith(t, Config{DSN: migrated(t), Clock: clk})
		t.Cleanup(func() { checkHeld(t, s) })
		return s
	})
}
