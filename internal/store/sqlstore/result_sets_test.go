package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
)

// written is how many rows the connection that writes has changed so far.
func written(t *testing.T, s *Store) int64 {
	t.Helper()
	var rows int64
	if err := s.db.Writer().Raw("SELECT total_changes()").Scan(&rows).Error; err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestWhatStaysIsNotWritten counts the rows that calls write which bring nothing new.
func TestWhatStaysIsNotWritten(t *testing.T) {
	s := openAt(t, migrated(t))
	ctx := t.Context()
	if err := crashSetUp(ctx, s); err != nil {
		t.Fatal(err)
	}
	answered, err := s.AnsweredPackages(ctx, 0, store.MaxKeys)
	if err != nil || len(answered) != crashPackages {
		t.Fatalf("%d packages, %v", len(answered), err)
	}
	next, err := s.StartResultSet(ctx, model.DatabaseBuild{ID: "2"}, "engine", false)
	if err != nil {
		t.Fatal(err)
	}
	if err := crashQueue(ctx, s, next.Number); err != nil {
		t.Fatal(err)
	}
	packages, err := s.QueuedPackages(ctx, next.Number, store.MaxPageSize)
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.Vulnerabilities(ctx, 0, store.MaxKeys)
	if err != nil {
		t.Fatal(err)
	}
	uses := []store.Use{{Image: crashKey(0), Workload: store.Workload{Namespace: "n", Kind: "Pod", Name: "p"}, Container: "c"}}
	if err := s.RecordUses(ctx, "scope", uses); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		call func() error
		want int64
	}{
		// The rows of the queue, and the figure of how many were matched.
		{"SaveAnswers under the next result set", func() error { return crashSave(ctx, s, next.Number, 1, packages) }, crashPackages + 1},
		{"SaveAnswers again", func() error { return crashSave(ctx, s, next.Number, 1, packages) }, 0},
		{"StageScores", func() error { return s.StageScores(ctx, next.Number, all) }, 0},
		{"RecordUses", func() error { return s.RecordUses(ctx, "scope", uses) }, 0},
		// Two rows of result sets, the event, and the log ID of its transaction.
		{"Switch", func() error { _, err := s.Switch(ctx, next.Number); return err }, 4},
		{"SaveAnswers under the current result set", func() error { return crashSave(ctx, s, next.Number, 1, packages) }, 0},
	} {
		before := written(t, s)
		if err := c.call(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := written(t, s) - before; got != c.want {
			t.Errorf("%s wrote %d rows, want %d", c.name, got, c.want)
		}
	}
}

// countdown is a clock that calls back when it is asked for the nth time, which each transaction that writes does once.
type countdown struct {
	clock.RealClock
	left int
	over func()
}

func (c *countdown) Now() time.Time {
	if c.left--; c.left == 0 {
		c.over()
	}
	return c.RealClock.Now()
}

// TestInterruptedDiscard stops the removal of an unfinished result set at each of its transactions.
func TestInterruptedDiscard(t *testing.T) {
	t.Parallel()
	complete := false
	for n := 1; !complete; n += budget(1, 4) {
		ticks := &countdown{}
		s, err := Open(t.Context(), Config{DSN: migrated(t), Clock: ticks})
		if err != nil {
			t.Fatal(err)
		}
		if err := crashSetUp(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		staged := func(step string) {
			if step == "staged" { // All that a result set can write is there.
				ticks.left, ticks.over = n, cancel
				if _, err = s.StartResultSet(ctx, model.DatabaseBuild{ID: "2"}, "engine", false); err == nil {
					complete = true
				}
			}
		}
		if stepErr := crashStep(ctx, s, false, staged); stepErr == nil {
			t.Fatal("the dropped result set became current")
		}
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("after %d transactions: %v", n, err)
		}
		checkResultSet(t, s)
		if resultSets, err := s.ListResultSets(t.Context(), store.AllNamespaces(), 9); err != nil || !complete && n > 1 && len(resultSets) != 1 {
			t.Errorf("after %d transactions: got %+v, %v", n, resultSets, err)
		}
		next, err := s.StartResultSet(t.Context(), model.DatabaseBuild{ID: "2"}, "engine", false)
		if err != nil {
			t.Fatal(err)
		}
		checkNothingPrepared(t, s, next.Number)
		if err := crashStep(t.Context(), s, false, func(string) {}); err != nil {
			t.Fatal(err)
		}
		checkResultSet(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if n > 100 {
			t.Fatal("it never ends")
		}
	}
}

// checkNothingPrepared expects that a result set has only just begun.
func checkNothingPrepared(t *testing.T, s *Store, next int64) {
	t.Helper()
	for _, table := range []string{
		"findings WHERE from_gen > 1 OR until_gen <= ?", "package_answers WHERE from_gen > 1 OR until_gen <= ?", "vulnerabilities WHERE from_gen > 1 AND 0 < ?",
		"rematch_queue WHERE 0 < ?", "staged_scores WHERE 0 < ?", "generations WHERE number NOT IN (1, ?)",
	} {
		var rows int64
		if err := s.db.Reader().Raw("SELECT COUNT(*) FROM "+table, next).Scan(&rows).Error; err != nil || rows != 0 {
			t.Errorf("%d rows of %s are left, %v", rows, table, err)
		}
	}
}

// TestMigrationOfMatches opens a database of the first schema, whose findings belonged to database builds.
func TestMigrationOfMatches(t *testing.T) {
	path := filepath.Join(t.TempDir(), "first.db")
	firstSchema(t, path)
	s := openAt(t, path)
	key := model.ImageKey{ImageID: "scanned", Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
	image, err := s.Image(t.Context(), store.AllNamespaces(), key)
	if err != nil || image.State != store.StateCataloged || image.Counts != (store.Counts{SeverityCounts: model.SeverityCounts{High: 7}}) ||
		image.Database != nil || !image.MatchedAt.IsZero() || image.Reason != "" {
		t.Errorf("got %+v, %v", image, err)
	}
	if sbom, err := s.SBOM(t.Context(), store.AllNamespaces(), key); err != nil || string(sbom.Content) != "content" {
		t.Errorf("got %+v, %v", sbom, err)
	}
	outdated, err := s.OutdatedCatalogs(t.Context(), 2, false, model.ImageKey{}, 9)
	if diff := cmp.Diff([]model.ImageKey{key}, outdated); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	for id, want := range map[string]store.State{"failed": store.StateFailed, "reported": store.StateReported} {
		if other, err := s.Image(t.Context(), store.AllNamespaces(), model.ImageKey{ImageID: id}); err != nil || other.State != want || id == "reported" && other.Counts.Low != 3 {
			t.Errorf("got %+v, %v", other, err)
		}
	}
	if report, err := s.Report(t.Context(), store.AllNamespaces(), "reported"); err == nil || !strings.Contains(err.Error(), "decompress") {
		t.Errorf("the report is gone: %q, %v", report, err)
	}
	if last, err := s.LastSequence(t.Context()); err != nil || last != 1 {
		t.Errorf("got %d events, %v", last, err)
	}
	// It is matched like a new one.
	if _, err := s.StartResultSet(t.Context(), model.DatabaseBuild{ID: "new"}, "engine", true); err != nil {
		t.Fatal(err)
	}
	findings := map[string][]model.PackageFinding{"p": {{Vulnerability: model.Vulnerability{ID: "CVE-1", Severity: model.SeverityLow}}}}
	if err := storetest.Match(t.Context(), s, key, "digest", findings); err != nil {
		t.Fatal(err)
	}
	if image, err = s.Image(t.Context(), store.AllNamespaces(), key); err != nil || image.State != store.StateScanned || image.Counts.Low != 1 || image.Counts.High != 0 {
		t.Errorf("got %+v, %v", image, err)
	}
	// And back and forth again.
	down(t, s)
}

// firstSchema makes a database of the first schema with one image in each of three states.
func firstSchema(t *testing.T, path string) {
	t.Helper()
	pool := openFile(t, path)
	defer func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := migrator(t, pool, sqldb.TypeSQLite).UpTo(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	image := func(id int, name, platform, state string, counts ...int) string {
		return fmt.Sprintf(`INSERT INTO images (id, image_id, platform, repository, digest, state, nonce, attempts, reason, message, next_attempt_at, distro, size,
			package_count, critical, high, medium, low, negligible, unknown, kev, fixable, database_id, first_seen, catalogued_at, matched_at, sbom_sha256, sbom_size)
			VALUES (%d, '%s', '%s', '', '', '%s', '', 0, 'MatchFailed', 'x', 0, '', 0, 1, %d, 0, 0, %d, 0, 0, 0, 0, %s, 1, 1, %d, '%s', 1)`,
			id, name, platform, state, counts[0], counts[1], []string{"NULL", "1"}[counts[2]], counts[2], strings.Repeat("digest", counts[2]))
	}
	report := func(name string, high, low int) string {
		return fmt.Sprintf(`INSERT INTO reports (image_id, saved_at, critical, high, medium, low, negligible, unknown, kev, fixable, size, content)
			VALUES ('%s', 1, 0, %d, 0, %d, 0, 0, 0, 0, 1, x'00')`, name, high, low)
	}
	for _, statement := range []string{
		"INSERT INTO vulnerability_databases (build_id, schema_version, built, source, recorded_at, in_use) VALUES ('old', '', 1, '', 1, 1)",
		image(1, "scanned", "linux/amd64", "Scanned", 5, 5, 1), image(2, "failed", "linux/amd64", "Failed", 0, 0, 0), image(3, "reported", "", "Reported", 0, 3, 0),
		"INSERT INTO sboms VALUES (1, 'type', 'digest', 7, 'content')",
		"INSERT INTO packages VALUES (1, 'f', 'p', '1', 'deb', '', '', '', '', '', x'00')",
		"INSERT INTO image_packages VALUES (1, 1, 0, '')", "INSERT INTO package_matches VALUES (1, 1)",
		"INSERT INTO vulnerabilities VALUES (1, 1, 'n', 'CVE-1', 5, 0, 0, 0, '{}')", "INSERT INTO findings VALUES (1, 1, 1, 1, '', 0, '', '')",
		"INSERT INTO image_exclusions VALUES (1, 1, 'CVE-2', 'n')", report("scanned", 7, 0), report("reported", 0, 3),
		"INSERT INTO events (at, kind, image_id, platform, data) VALUES (1, 'image.discovered', 'scanned', '', '{}')",
	} {
		if _, err := pool.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// down migrates to the first schema and up again.
func down(t *testing.T, s *Store) {
	t.Helper()
	provider := migrator(t, pools(t, s)["writer"], s.db.Dialect().Type())
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { _, err := provider.DownTo(ctx, 1); return err },
		func(ctx context.Context) error { _, err := provider.Up(ctx); return err },
	} {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if page, err := s.ListImages(t.Context(), store.AllNamespaces(), store.ImageQuery{States: []store.State{store.StateCataloged}}); err != nil || page.Total != 1 {
		t.Errorf("got %+v, %v", page, err)
	}
}
