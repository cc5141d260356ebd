package sqlstore

import (
	"path/filepath"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// TestOwnersAreWrittenOnce records the same again, and expects that nothing is written.
func TestOwnersAreWrittenOnce(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "owners.db"))
	key := model.ImageKey{ImageID: "registry.example/app@sha256:1"}
	if _, err := s.WantImages(t.Context(), []model.ImageKey{key}); err != nil {
		t.Fatal(err)
	}
	record := func(owner string) int64 {
		t.Helper()
		web := store.Workload{Namespace: "shop", Kind: "Deployment", Name: "web", Owner: owner}
		db := store.Workload{Namespace: "shop", Kind: "Deployment", Name: "db"}
		err := s.RecordUses(t.Context(), "scope", []store.Use{{Image: key, Workload: web, Container: "c"}, {Image: key, Workload: db, Container: "c"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.RecordCoverage(t.Context(), "scope", []store.ContainerCoverage{{Workload: web, Image: key}, {Workload: db, Image: key}}); err != nil {
			t.Fatal(err)
		}
		var changes int64
		if err := s.write(t.Context(), "count changes", func(tx *txn) error { return tx.Raw("SELECT total_changes()").Scan(&changes).Error }); err != nil {
			t.Fatal(err)
		}
		return changes
	}
	for _, owner := range []string{"red", "blue", ""} {
		first := record(owner)
		if again := record(owner); again != first {
			t.Errorf("the same again with owner %q changed %d rows", owner, again-first)
		}
	}
}

// TestForgottenOwners expects that owners are deleted with the last record of their workloads.
func TestForgottenOwners(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		clk := clocktesting.NewFakeClock(time.Date(2026, 2, 27, 12, 0, 0, 0, time.UTC))
		config.Clock = clk
		s := openWith(t, config)
		key := model.ImageKey{ImageID: "registry.example/app@sha256:1"}
		workload := func(name string) store.Workload {
			return store.Workload{Namespace: "shop", Kind: "Deployment", Name: name, Owner: "red"}
		}
		if _, err := s.WantImages(t.Context(), []model.ImageKey{key}); err != nil {
			t.Fatal(err)
		}
		for _, uses := range [][]store.Use{
			{{Image: key, Workload: workload("past"), Container: "c"}, {Image: key, Workload: workload("running"), Container: "c"}},
			{{Image: key, Workload: workload("running"), Container: "c"}},
		} {
			if err := s.RecordUses(t.Context(), "scope", uses); err != nil {
				t.Fatal(err)
			}
			clk.Step(time.Hour)
		}
		cover := func(rows ...store.ContainerCoverage) {
			t.Helper()
			if err := s.RecordCoverage(t.Context(), "scope", rows); err != nil {
				t.Fatal(err)
			}
		}
		expect := func(step string, before time.Time, want int64) {
			t.Helper()
			if err := s.Prune(t.Context(), before); err != nil {
				t.Fatal(err)
			}
			var rows int64
			if err := s.db.Reader().Raw("SELECT COUNT(*) FROM workload_owners").Scan(&rows).Error; err != nil || rows != want {
				t.Errorf("%s: %d owners, %v, want %d", step, rows, err, want)
			}
		}
		cover(store.ContainerCoverage{Workload: workload("pending")})
		expect("all are known", clk.Now().Add(-24*time.Hour), 3)
		cover()
		expect("nothing is pending", clk.Now().Add(-24*time.Hour), 2)
		expect("the past is forgotten", clk.Now(), 1)
	})
}

// TestLongNamesHaveOwners stores names that are cut, and an owner in more bytes than letters.
func TestLongNamesHaveOwners(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		s := openWith(t, config)
		key := model.ImageKey{ImageID: "registry.example/app@sha256:1"}
		if _, err := s.WantImages(t.Context(), []model.ImageKey{key}); err != nil {
			t.Fatal(err)
		}
		long := make([]byte, 2*maxIdentifier)
		for i := range long {
			long[i] = 'a'
		}
		owner := string(long[:store.MaxOwner-2]) + "ü"
		uses := []store.Use{{Image: key, Workload: store.Workload{Namespace: string(long), Kind: string(long), Name: string(long), Owner: owner}, Container: "c"}}
		for range 2 {
			if err := s.RecordUses(t.Context(), "scope", uses); err != nil {
				t.Fatal(err)
			}
		}
		query := store.WorkloadQuery{Where: store.Where{Ownership: store.Ownership{Owner: owner}}}
		page, err := s.ListWorkloads(t.Context(), store.AllNamespaces(), query)
		if err != nil || len(page.Workloads) != 1 || page.Workloads[0].Workload.Owner != owner {
			t.Errorf("got %+v, %v", page, err)
		}
		changes, err := compareOwners(s.db.Reader(), []store.Workload{uses[0].Workload})
		if err != nil || len(changes) > 0 {
			t.Errorf("what was recorded differs: %v, %v", changes, err)
		}
	})
}
