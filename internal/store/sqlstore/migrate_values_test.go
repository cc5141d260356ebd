package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/coverage"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// oldValues are rows with values that have other names today, in a database of the version in valuesRenamed.
var oldValues = []string{
	`INSERT INTO rollouts (id, at, cluster, namespace, kind, name, container, from_image, from_platform, to_image, to_platform)
		VALUES (1, 3, '', 'shop', 'Deployment', 'web', 'web', 'a', '', 'b', ''), (2, 2, '', 'shop', 'Deployment', 'web', 'web', 'b', '', 'c', ''),
			(3, 1, '', 'shop', 'Deployment', 'web', 'web', 'c', '', 'd', '')`,
	`INSERT INTO rollout_verdicts (rollout_id, at, state, opened, closed, worst) VALUES (1, 5, 'judged', '{"low":1}', '{}', '{}'), (2, 6, 'gaveUp', '{}', '{}', '{}')`,
	`INSERT INTO events (seq, at, kind, image_id, platform, data) VALUES
		(1, 1, 'rollout.judged', 'b', '', '{"id":1,"container":"judged","state":"judged"}'),
		(2, 1, 'rollout.judged', 'c', '', '{"id":2,"container":"gaveUp","state":"gaveUp"}'),
		(3, 1, 'rollout.changed', 'c', '', '{"container":"judged"}'), (4, 1, 'image.catalogued', 'a', '', '{}')`,
	`INSERT INTO images (id, image_id, platform, repository, digest, state, nonce, attempts, reason, message, next_attempt_at, distro, size, package_count,
		critical, high, medium, low, negligible, unknown, kev, fixable, first_seen, catalogued_at, matched_at, sbom_sha256, sbom_size)
		VALUES (1, 'a', 'linux/amd64', '', '', 'Catalogued', '', 0, '', '', 0, '', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 7, 0, 'd', 1)`,
	`INSERT INTO container_coverage (id, scope, row_key, namespace, kind, name, container, image_id, platform, reference, pods, state, reason, message,
		next_attempt_at, since) VALUES (1, 's', 'k', 'shop', 'Deployment', 'web', 'web', 'z', '', 'z', 1, 'Pending', 'NotCatalogued', '', 0, 1)`,
}

// valuesRenamed is the last version of each schema with the old values.
var valuesRenamed = map[string]int64{sqldb.TypeSQLite: 7, sqldb.TypePostgres: 5, sqldb.TypeMySQL: 39}

// TestMigrationOfValues opens a database with values of before they were renamed, and migrates it down and up again.
func TestMigrationOfValues(t *testing.T) {
	t.Run(sqldb.TypeSQLite, func(t *testing.T) {
		t.Parallel()
		migrateValues(t, Config{Type: sqldb.TypeSQLite, DSN: filepath.Join(t.TempDir(), "values.db")})
	})
	eachEmptyServer(t, migrateValues)
}

func migrateValues(t *testing.T, config Config) {
	t.Helper()
	open := openServer
	if config.Type == sqldb.TypeSQLite {
		open = func(t *testing.T, config Config) *sql.DB { return openFile(t, config.DSN) }
	}
	pool := open(t, config)
	provider := migrator(t, pool, config.Type)
	if _, err := provider.UpTo(t.Context(), valuesRenamed[config.Type]); err != nil {
		t.Fatal(err)
	}
	for _, statement := range oldValues {
		if _, err := pool.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	s := openWith(t, config)
	checkValues(t, s)
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error {
			_, err := provider.DownTo(ctx, valuesRenamed[config.Type])
			return err
		},
		func(ctx context.Context) error { _, err := provider.Up(ctx); return err },
	} {
		if err := step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	checkValues(t, s)
}

// checkValues expects oldValues under their names of today.
func checkValues(t *testing.T, s *Store) {
	t.Helper()
	rollouts, err := s.ListRollouts(t.Context(), store.AllNamespaces(), store.RolloutQuery{})
	if err != nil {
		t.Fatal(err)
	}
	var states []store.RolloutState
	for i := range rollouts.Rollouts {
		states = append(states, rollouts.Rollouts[i].Evaluation.State)
	}
	if diff := cmp.Diff([]store.RolloutState{store.RolloutEvaluated, store.RolloutTimedOut, store.RolloutWaiting}, states); diff != "" {
		t.Errorf("rollouts (-want +got):\n%s", diff)
	}
	events, err := s.EventsSince(t.Context(), store.AllNamespaces(), 0, store.MaxKeys)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range events {
		var data struct{ Container, State string }
		if err := json.Unmarshal(events[i].Data, &data); err != nil {
			t.Fatal(err)
		}
		got = append(got, string(events[i].Kind)+" "+data.Container+" "+data.State)
	}
	want := []string{"rollout.evaluated judged evaluated", "rollout.evaluated gaveUp timedOut", "rollout.changed judged ", "image.cataloged  "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	images, err := s.ListImages(t.Context(), store.AllNamespaces(), store.ImageQuery{States: []store.State{store.StateCataloged}})
	if err != nil || len(images.Images) != 1 || !images.Images[0].CatalogedAt.Equal(fromMicros(7)) {
		t.Errorf("images: got %+v, %v", images.Images, err)
	}
	coverages, err := s.ListCoverage(t.Context(), store.AllNamespaces(), store.CoverageQuery{Reason: coverage.ReasonNotCataloged})
	if err != nil || len(coverages.Containers) != 1 {
		t.Errorf("coverage: got %+v, %v", coverages.Containers, err)
	}
}
