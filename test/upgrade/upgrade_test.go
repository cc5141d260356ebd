package upgrade_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/coverage"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/test/upgrade"
)

// previous lists the recordings of the versions that can be upgraded from; see testdata/README.md.
func previous(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob("testdata/*/scanner.sql")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no recordings in testdata: %v", err)
	}
	for i := range dirs {
		dirs[i] = filepath.Dir(dirs[i])
	}
	return dirs
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestDatabase opens the database of each previous version: everything in it reads as it did there, and no image is pulled again.
func TestDatabase(t *testing.T) {
	for _, dir := range previous(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "scanner.db")
			execute(t, file, read(t, filepath.Join(dir, "scanner.sql")))
			before := schema(t, file)
			s := open(t, file)
			// The kind of event and the time of an image had another spelling.
			want := strings.ReplaceAll(read(t, filepath.Join(dir, "scanner.txt")), "catalogued", "cataloged")
			if diff := cmp.Diff(want, describe(t, s)); diff != "" {
				t.Errorf("the upgraded database differs (-before +after):\n%s", diff)
			}
			checkWanted(t, s)
			if diff := cmp.Diff(want, describe(t, s)); diff != "" {
				t.Errorf("to ask for the images changes them (-before +after):\n%s", diff)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}

			after, fresh := schema(t, file), filepath.Join(t.TempDir(), "fresh.db")
			if err := open(t, fresh).Close(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(schema(t, fresh), after); diff != "" {
				t.Errorf("the upgraded schema is not that of a new database (-new +upgraded):\n%s", diff)
			}
			// The previous version refuses a database with a higher version than its own, and must not open one with another schema.
			if cmp.Diff(before.objects, after.objects) != "" && after.version <= before.version {
				t.Errorf("the schema differs at version %d, and the previous version would open it", after.version)
			}
		})
	}
}

// TestRenamedValues opens the database of each previous version with a rollout of each state and a cataloged image, which the recordings do not have.
func TestRenamedValues(t *testing.T) {
	for _, dir := range previous(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "scanner.db")
			execute(t, file, read(t, filepath.Join(dir, "scanner.sql")))
			execute(t, file, read(t, filepath.Join(dir, "..", "renamed.sql")))
			s := open(t, file)
			defer func() { _ = s.Close() }()
			rollouts, err := s.ListRollouts(t.Context(), store.AllNamespaces(), store.RolloutQuery{Namespace: "renamed"})
			if err != nil {
				t.Fatal(err)
			}
			var states []store.RolloutState
			for i := range rollouts.Rollouts {
				states = append(states, rollouts.Rollouts[i].Evaluation.State)
			}
			if diff := cmp.Diff([]store.RolloutState{store.RolloutEvaluated, store.RolloutTimedOut, store.RolloutWaiting}, states); diff != "" {
				t.Errorf("states of rollouts (-want +got):\n%s", diff)
			}
			events, err := s.EventsSince(t.Context(), store.AllNamespaces(), 1000, store.MaxKeys)
			if err != nil {
				t.Fatal(err)
			}
			var kinds []string
			for i := range events {
				kinds = append(kinds, string(events[i].Kind)+" "+string(events[i].Data))
			}
			want := []string{`rollout.evaluated {"state":"evaluated"}`, `rollout.evaluated {"state":"timedOut"}`, "image.cataloged {}"}
			if diff := cmp.Diff(want, kinds); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			image, err := s.Image(t.Context(), store.AllNamespaces(), model.ImageKey{ImageID: "renamed", Platform: model.Platform{OS: "linux", Architecture: "amd64"}})
			if err != nil || image.State != store.StateCataloged || image.CatalogedAt.IsZero() {
				t.Errorf("the cataloged image: got %+v, %v", image, err)
			}
			containers, err := s.ListCoverage(t.Context(), store.AllNamespaces(), store.CoverageQuery{Namespace: "renamed", Reason: coverage.ReasonNotCataloged})
			if err != nil || len(containers.Containers) != 1 {
				t.Errorf("the container of an image that is not cataloged: got %+v, %v", containers.Containers, err)
			}
		})
	}
}

// checkWanted asks for the images as the controller does, which scans those that are Pending or whose next attempt is due.
func checkWanted(t *testing.T, s store.Store) {
	t.Helper()
	page, err := s.ListImages(t.Context(), store.AllNamespaces(), store.ImageQuery{States: []store.State{store.StateScanned, store.StateFailed, store.StatePending}})
	if err != nil {
		t.Fatal(err)
	}
	var keys []model.ImageKey
	scanned := 0
	for _, image := range page.Images {
		if keys = append(keys, image.Key); image.State == store.StateScanned {
			scanned++
		}
	}
	if scanned == 0 {
		t.Error("the recording has no image that was scanned")
	}
	wanted, err := s.WantImages(t.Context(), keys)
	if err != nil {
		t.Fatal(err)
	}
	for _, image := range page.Images {
		if got := wanted[image.Key]; got.State != image.State || !got.NextAttempt.Equal(image.NextAttempt) {
			t.Errorf("%s was %s and is %s: it would be scanned again", image.Key, image.State, got.State)
		}
	}
}

func open(t *testing.T, file string) *sqlstore.Store {
	t.Helper()
	clk := clocktesting.NewFakePassiveClock(upgrade.Day.Add(36 * time.Hour))
	s, err := sqlstore.Open(t.Context(), sqlstore.Config{DSN: file, Clock: clk, Cluster: "production"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func describe(t *testing.T, s store.Store) string {
	t.Helper()
	var text bytes.Buffer
	if err := upgrade.Describe(t.Context(), s, &text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func execute(t *testing.T, file, statements string) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), statements); err != nil {
		t.Fatal(err)
	}
}

// layout is the version of a schema and its objects.
type layout struct {
	version int64
	objects []string
}

func (l layout) Equal(other layout) bool {
	return l.version == other.version && slices.Equal(l.objects, other.objects)
}

func schema(t *testing.T, file string) layout {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var l layout
	if err := db.QueryRowContext(t.Context(), "SELECT MAX(version_id) FROM goose_db_version").Scan(&l.version); err != nil {
		t.Fatal(err)
	}
	rows, err := db.QueryContext(t.Context(), "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type, name")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var object string
		if err := rows.Scan(&object); err != nil {
			t.Fatal(err)
		}
		l.objects = append(l.objects, object)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return l
}

// TestMigrations keeps the migrations of previous versions: a database that has applied one does not apply it again.
func TestMigrations(t *testing.T) {
	sums, err := upgrade.MigrationSums("../../internal/store/sqlstore/migrations")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range previous(t) {
		for line := range strings.Lines(read(t, filepath.Join(dir, "migrations.txt"))) {
			if line = strings.TrimSpace(line); !slices.Contains(sums, line) {
				t.Errorf("%s: the migration was changed or removed: %s", filepath.Base(dir), line)
			}
		}
	}
}

// replaced are the objects that have another name on purpose; the changelog names each.
var replaced = []string{
	// The value of a PriorityClass cannot be changed.
	"PriorityClass scanner-scan is missing",
}

// TestChart renders the chart with the values of previous versions.
func TestChart(t *testing.T) {
	helm := os.Getenv("HELM")
	if helm == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("HELM does not name the helm binary; run make test-chart")
		}
		t.Skip("HELM does not name the helm binary; run make test-chart")
	}
	for _, dir := range previous(t) {
		files, err := filepath.Glob(filepath.Join(dir, "chart", "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no values in %s: %v", dir, err)
		}
		for _, file := range files {
			t.Run(file, func(t *testing.T) {
				var before upgrade.Fixed
				if err := json.Unmarshal([]byte(read(t, strings.TrimSuffix(file, ".yaml")+".json")), &before); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				cmd := exec.CommandContext(ctx, helm, "template", "scanner", "../../charts/scanner-operator", "--namespace", "scanner-system", "--values", file,
					"--set=image.repository=scanner-operator")
				cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("the chart refuses values of the previous version: %v: %s", err, &stderr)
				}
				after, err := upgrade.FixedFields(out)
				if err != nil {
					t.Fatal(err)
				}
				if len(before) < 3 {
					t.Fatalf("the recording has %d objects", len(before))
				}
				for _, line := range before.Broken(after) {
					if !slices.Contains(replaced, line) {
						t.Error(line)
					}
				}
			})
		}
	}
}

func TestBroken(t *testing.T) {
	manifest := func(class, name string) string {
		return "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: " + name + "}\nspec: {storageClassName: " + class +
			", resources: {requests: {storage: 1Gi}}}\n---\nkind: CustomResourceDefinition\nmetadata: {name: crd}\n" +
			"spec: {scope: Namespaced, versions: [{name: v1, served: true}]}\n---\nkind: ConfigMap\nmetadata: {name: " + class + "}\n"
	}
	fixed := func(text string) upgrade.Fixed {
		f, err := upgrade.FixedFields([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	before := fixed(manifest("fast", "data"))
	for name, c := range map[string]struct{ after, want string }{
		"the same":      {manifest("fast", "data"), ""},
		"larger":        {strings.Replace(manifest("fast", "data"), "1Gi", "2Gi", 1), ""},
		"another class": {manifest("slow", "data"), "spec.storageClassName was fast and is slow"},
		"no class":      {strings.Replace(manifest("fast", "data"), "storageClassName: fast, ", "", 1), "spec.storageClassName was fast and is <nil>"},
		"another name":  {manifest("fast", "files"), "PersistentVolumeClaim data is missing"},
		"newer version": {strings.Replace(manifest("fast", "data"), "[{", "[{name: v2, served: true}, {", 1), ""},
		"not served":    {strings.Replace(manifest("fast", "data"), "served: true", "served: false", 1), "version v1 is served was true and is false"},
		"no version":    {strings.Replace(manifest("fast", "data"), "name: v1", "name: v2", 1), "version v1 is served was true and is <nil>"},
	} {
		if got := strings.Join(before.Broken(fixed(c.after)), "; "); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
