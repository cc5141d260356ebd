package matching

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

// replica has a folder of vulnerability databases of its own, and shares a store.
type replica struct {
	library *vulndb.Library
	*Sharer
}

func newReplica(t *testing.T, s *sqlstore.Store) replica {
	t.Helper()
	log := testr.NewWithInterface(t, testr.Options{})
	library, err := vulndb.New(vulndb.Config{Dir: filepath.Join(t.TempDir(), "db"), UpdateURL: vulndb.UpdateURLNone, Sample: true, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return replica{library, &Sharer{Store: s, Library: library, Clock: clock.RealClock{}, Log: log}}
}

func (r replica) imports(t *testing.T, build vulndb.Installed, options ...vulndb.ImportOption) vulndb.Installed {
	t.Helper()
	installed, err := r.library.Import(t.Context(), build.Dir, options...)
	if err != nil {
		t.Fatal(err)
	}
	return installed
}

// expect synchronizes and compares the current build.
func (r replica) expect(t *testing.T, want vulndb.Installed) {
	t.Helper()
	if err := r.Sync(t.Context()); err != nil {
		t.Error(err)
	}
	got, _ := r.library.Current()
	if got.Build.ID != want.Build.ID || got.AllowOlder != want.AllowOlder || !got.InstalledAt.Truncate(time.Microsecond).Equal(want.InstalledAt.Truncate(time.Microsecond)) {
		t.Errorf("the current build is %+v, want %+v", got, want)
	}
}

// TestImportedDatabaseReachesOtherReplicas imports databases on replicas with folders of their own.
func TestImportedDatabaseReachesOtherReplicas(t *testing.T) {
	sample := dbtest.Sample(t)
	older := dbtest.Mutate(t, sample, 1, dbtest.Fraction(0.1)...)
	newer := dbtest.Mutate(t, older, 2, dbtest.Fraction(0.1)...)
	images := map[model.ImageKey]string{numbered(0): document}
	s := newStore(t)
	a, b := newReplica(t, s), newReplica(t, s)
	if _, err := b.library.Update(t.Context()); err != nil { // It has the sample database.
		t.Fatal(err)
	}
	first := a.imports(t, older)
	a.expect(t, first)
	b.expect(t, first)

	// A follower imports a newer one; the leader takes it and matches with it.
	second := b.imports(t, newer)
	b.expect(t, second)
	a.expect(t, second)
	leader, _ := newMatcher(t, s, a.library)
	fill(t, leader, s, images)
	settle(t, leader)
	wanted := newShelf(vulndb.Installed{Dir: newer.Dir, Build: second.Build})
	current, _ := wanted.Current()
	same(t, fresh(t, images, current), pictures(t, s))

	// All folders are lost at once.
	c := newReplica(t, s)
	c.expect(t, second)

	// Somebody returns to the older one on purpose, and nobody goes back.
	third := b.imports(t, older, vulndb.AllowOlder())
	b.expect(t, third)
	for _, r := range []replica{a, c, b} {
		r.expect(t, third)
	}
	leader, _ = newMatcher(t, s, a.library)
	settle(t, leader)
	if build, _ := leader.Build(); build.ID != third.Build.ID {
		t.Errorf("the findings come from %+v, want %+v", build, third.Build)
	}

	// What cannot be matched with any more is not kept, nor shared again.
	latest := dbtest.Mutate(t, newer, 3, dbtest.Fraction(0.1)...)
	latest.Build.Source = model.DatabaseSourceOfficial
	leader, _ = newMatcher(t, s, newShelf(latest))
	settle(t, leader)
	b.expect(t, third)
	if shared, found, err := s.SharedDatabase(t.Context()); err != nil || found {
		t.Errorf("%+v is still shared, %v", shared, err)
	}
}
