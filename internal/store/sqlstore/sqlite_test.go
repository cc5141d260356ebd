package sqlstore

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest/dbserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(dbserver.Main{M: m}) }

func openAt(t *testing.T, path string) *Store {
	t.Helper()
	return openWith(t, Config{DSN: path})
}

func openWith(t *testing.T, config Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestSQLite(t *testing.T) {
	storetest.Run(t, func(t *testing.T, clk clock.PassiveClock) store.Store {
		return openWith(t, Config{DSN: filepath.Join(t.TempDir(), "test.db"), Clock: clk})
	})
}
