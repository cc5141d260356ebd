package sqlstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// TestSettledHistoryIsNotWritten records again what the store knows.
func TestSettledHistoryIsNotWritten(t *testing.T) {
	s := openAt(t, migrated(t))
	ctx := t.Context()
	if err := crashSetUp(ctx, s); err != nil {
		t.Fatal(err)
	}
	workload := store.Workload{Namespace: "n", Kind: "Deployment", Name: "web"}
	uses := []store.Use{{Image: crashKey(0), Workload: workload, Container: "c"}, {Image: crashKey(1), Workload: workload, Container: "d"}}
	covered := []store.ContainerCoverage{
		{Workload: workload, Container: "c", Image: crashKey(0), Reference: "a:1", Pods: 2, State: "Scanned"},
		{Workload: workload, Container: "d", State: "Failed", Reason: "ImageNotFound", Message: "no\x00", NextAttempt: time.Now().Add(time.Hour), Pods: 1},
	}
	// The last decision of an object stays while it is not known to be gone.
	err := s.write(ctx, "end", func(tx *txn) error {
		return tx.Insert("decisions", endedColumns, append(endedDecision(1, "exists", 1), endedDecision(2, "exists", 2)...), "")
	})
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]func() error{
		"RecordUses":     func() error { return s.RecordUses(ctx, "scope", uses) },
		"RecordCoverage": func() error { return s.RecordCoverage(ctx, "scope", covered) },
		"RecordDay":      func() error { return s.RecordDay(ctx) },
		"Prune": func() error {
			return errors.Join(s.PruneDecisions(ctx, time.Now()), s.Prune(ctx, time.Now().Add(-time.Hour)))
		},
	}
	// What the first rounds write depends on the order of the calls, which is random; the last one writes nothing.
	for round := range 3 {
		for name, call := range calls {
			if name == "RecordDay" && round == 0 {
				continue // The uses are to be there first.
			}
			before, last := written(t, s), lastSequence(t, s)
			if err := call(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			rows, events := written(t, s)-before, lastSequence(t, s)-last
			if settled := round == 2 || name == "Prune" && round > 0; settled && (rows != 0 || events != 0) {
				t.Errorf("%s wrote %d rows and %d events once more", name, rows, events)
			}
			if name != "Prune" && round == 0 && rows == 0 {
				t.Errorf("%s wrote nothing at first", name)
			}
		}
	}
	if left := texts(t, s, "SELECT id FROM decisions"); !slices.Equal(left, []string{"2"}) {
		t.Errorf("decisions %v are left, want the last one", left)
	}
}

func lastSequence(t *testing.T, s *Store) int64 {
	t.Helper()
	last, err := s.LastSequence(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// migratedTo2 are statements that make a database of schema 2 with a history: result set 1 found what 2 said otherwise and 3 closed;
// result set 4 is being prepared.
var migratedTo2 = []string{
	`INSERT INTO images (id, image_id, platform, repository, digest, state, nonce, attempts, reason, message, next_attempt_at, distro, size, package_count,
		critical, high, medium, low, negligible, unknown, kev, fixable, first_seen, catalogued_at, matched_at, sbom_sha256, sbom_size, projection)
		VALUES (1, 'a', 'linux/amd64', '', '', 'Scanned', '', 0, '', '', 0, '', 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 500, 600, 700, 'digest', 1, 1)`,
	"INSERT INTO sboms (image_pk, media_type, sha256, size, content) VALUES (1, 'type', 'digest', 7, 'content')",
	"INSERT INTO packages VALUES (1, 'f', 'p', '1', 'deb', '', '', '', '', '', x'00')",
	"INSERT INTO image_packages (image_pk, package_pk, excluded, locations) VALUES (1, 1, 0, '')",
	resultSetOf(1, "Past", 1000), resultSetOf(2, "Past", 2000), resultSetOf(3, "Current", 3000), resultSetOf(4, "Matching", 0),
	vulnerabilityOfSchema2(1, "CVE-1", `["GHSA-1", "CVE-1", ""]`), vulnerabilityOfSchema2(2, "CVE-1", `[]`), vulnerabilityOfSchema2(3, "CVE-2", `null`),
	findingOf(1, 1, 1, 2), findingOf(2, 2, 2, 4), findingOf(3, 1, 4, stillOpen), // CVE-1, with other texts.
	findingOf(4, 3, 1, 2), findingOf(5, 3, 3, stillOpen), // CVE-2 was gone for a while.
	"INSERT INTO image_uses VALUES ('s', 1, 'n', 'Deployment', 'web', 'c'), ('t', 1, 'n', 'Deployment', 'web', 'c'), ('s', 1, 'n', 'Odd/Kind', 'x', 'c')",
}

func resultSetOf(number int, state string, since int) string {
	const columns = "number, build_id, schema_version, built, source, engine, previous_build, full_match, state, started_at, current_since, queued, matched, " +
		"opened, closed, changed, images, opened_critical, new_kev"
	return fmt.Sprintf("INSERT INTO generations ("+columns+") VALUES (%d, 'b', '', 1, '', '', '', 0, '%s', 1, %d, 0, 0, 0, 0, 0, 0, 0, 0)", number, state, since)
}

func vulnerabilityOfSchema2(id int, name, aliases string) string {
	return fmt.Sprintf(`INSERT INTO vulnerabilities (id, digest, vulnerability_id, namespace, severity, from_gen, epss_micros, risk_micros, kev, scores)
		VALUES (%[1]d, 'd%[1]d', '%[2]s', 'n', 2, 1, 0, 0, 0, '{}'); INSERT INTO vulnerability_details VALUES (%[1]d, '{"id":"%[2]s","aliases":%[3]s}')`,
		id, name, aliases)
}

func findingOf(id, vulnerability, from, until int) string {
	return fmt.Sprintf(`INSERT INTO findings (id, package_pk, vulnerability_pk, digest, from_gen, until_gen, fix_state, fixable, fix_versions, details)
		VALUES (%[1]d, 1, %[2]d, 'd%[1]d', %[3]d, %[4]d, '', 0, '', '')`, id, vulnerability, from, until)
}

// TestMigrationOfHistory opens a database of the second schema.
func TestMigrationOfHistory(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "second.db")
	pool := openFile(t, path)
	if _, err := migrator(t, pool, sqldb.TypeSQLite).UpTo(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	for _, statement := range migratedTo2 {
		if _, err := pool.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, path)
	rows := func(query string) []string {
		t.Helper()
		var texts []string
		if err := s.db.Reader().Raw(query).Scan(&texts).Error; err != nil {
			t.Fatal(err)
		}
		return texts
	}
	for query, want := range map[string][]string{
		"SELECT id || ' ' || opened_at || ' ' || opened_gen FROM findings ORDER BY id": {"1 1000 1", "2 1000 1", "3 1000 1", "4 1000 1", "5 3000 3"},
		"SELECT name || ' ' || vulnerability_pk FROM vulnerability_names ORDER BY 1":   {"CVE-1 1", "CVE-1 2", "CVE-2 3", "GHSA-1 1"},
		"SELECT slot || ' ' || since || ' ' || until_time FROM image_presences":        {"n/Deployment/web/c 500 9223372036854775807"},
		"SELECT scope || ' ' || kind FROM image_uses ORDER BY 1":                       {"s Deployment", "t Deployment"},
		"SELECT from_report || state FROM images":                                      {"0Scanned"},
	} {
		if diff := cmp.Diff(want, rows(query)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	// What is recorded next goes on from there.
	key := model.ImageKey{ImageID: "a", Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
	web := store.Use{Image: key, Workload: store.Workload{Namespace: "n", Kind: "Deployment", Name: "web"}, Container: "c"}
	odd := store.Use{Image: key, Workload: store.Workload{Namespace: "n", Kind: "Odd/Kind", Name: "x"}, Container: "c"}
	for _, scope := range []string{"s", "t"} {
		if err := s.RecordUses(t.Context(), scope, []store.Use{web, odd}); err != nil {
			t.Fatal(err)
		}
	}
	page, err := s.Presences(t.Context(), store.AllNamespaces(), store.PresenceQuery{Image: key})
	if err != nil || page.Total != 2 || page.Presences[0].Workload.Name != "x" || !page.Presences[1].Since.Equal(fromMicros(500)) {
		t.Errorf("got %+v, %v", page, err)
	}
	down(t, s)
}

// TestPlansOfHistory expects that statements about a few rows do not read whole tables.
func TestPlansOfHistory(t *testing.T) {
	s := openAt(t, migrated(t))
	for statement, c := range map[string]struct {
		values []any
		want   string
	}{
		endPresences:       {[]any{1, []string{"a", "b"}, 1}, "SEARCH image_presences USING INDEX image_presences_slot (slot=? AND until_time=?)"},
		occupantsOfSlots:   {[]any{[]string{"a", "b"}, 1}, "SEARCH p USING INDEX image_presences_slot (slot=? AND until_time>?)"},
		openFindings:       {[]any{1, 1}, "SEARCH findings USING INDEX findings_from (from_gen=?)"},
		findingsOfPackages: {[]any{[]int64{1, 2}, 1, 1, 2}, "SEARCH f USING INDEX sqlite_autoindex_findings_1 (package_pk=?)"},
		failingImages:      {[]any{1, 1}, "SEARCH ip USING COVERING INDEX image_packages_package (package_pk=? AND excluded=?)"},
		"SELECT MIN(p.since) FROM image_uses u " + presencesOfUses + " WHERE u.namespace = ?": {[]any{"n"}, "SEARCH p USING INDEX image_presences_workload (namespace=? AND name=? AND kind=? AND image_pk=?)"},
		"SELECT 1 FROM container_coverage c WHERE c.namespace = ? AND " + firstScope:          {[]any{"n"}, "SEARCH o USING INDEX container_coverage_workload (namespace=? AND kind=? AND name=? AND container=?)"},
		"DELETE FROM image_presences WHERE " + endedPresence:                                  {[]any{1}, "SEARCH image_presences USING INDEX image_presences_until (until_time<?)"},
	} {
		var plan []struct{ Detail string }
		if err := s.db.Reader().Raw("EXPLAIN QUERY PLAN "+statement, c.values...).Scan(&plan).Error; err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		if text := fmt.Sprint(plan); !strings.Contains(text, c.want) {
			t.Errorf("%s:\ngot %s, want %s", statement, text, c.want)
		}
	}
}
