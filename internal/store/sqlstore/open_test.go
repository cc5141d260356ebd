package sqlstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

func TestOpenRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		config Config
		want   string
	}{
		"other type": {Config{Type: "oracle"}, "supported types: mysql, postgres, sqlite"},
		"no DSN":     {Config{}, "path of a file"},
		"memory":     {Config{DSN: ":memory:"}, "path of a file"},
		"memory URI": {Config{DSN: "file:x?mode=memory"}, "path of a file"},
		"bad escape": {Config{DSN: "file:%zz"}, "DSN"},
		"directory":  {Config{DSN: t.TempDir()}, "open the database"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.Context(), c.config)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if s != nil {
				t.Error("a store beside an error")
			}
		})
	}
	path := filepath.Join(t.TempDir(), "text.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("this is no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{DSN: path}); err == nil {
		t.Error("a file of another kind is no error")
	}
}

func TestOpenPaths(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, dsn := range map[string]string{
		"a b?%41#ü.db": filepath.Join(dir, "a b?%41#ü.db"),
		"uri b.db":     "file://" + dir + "/uri%20b.db?cache=private",
		"deep.db":      filepath.Join(dir, "one/two/deep.db"),
	} {
		s := openAt(t, dsn)
		if err := s.Ready(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"a b?%41#ü.db", "uri b.db", "one/two/deep.db"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 || info.Size() == 0 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

func TestSettings(t *testing.T) {
	const others = "?_pragma=synchronous(OFF)&_pragma=foreign_keys(OFF)&_pragma=busy_timeout(1)&_synchronous=NORMAL&_fk=0"
	s := openAt(t, "file:"+filepath.Join(t.TempDir(), "settings.db")+others)
	for pool, db := range map[string]*gorm.DB{"writer": s.db.Writer(), "reader": s.db.Reader()} {
		for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "250"} {
			var got string
			if err := db.Raw("PRAGMA " + pragma).Scan(&got).Error; err != nil || got != want {
				t.Errorf("%s %s: got %q, %v, want %q", pool, pragma, got, err, want)
			}
		}
	}
	if err := s.db.Reader().Exec("DELETE FROM images").Error; err == nil {
		t.Error("a reader can write")
	}
}

func TestReopenKeepsEverything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "again.db")
	s, err := Open(t.Context(), Config{DSN: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SaveReport(t.Context(), store.AllNamespaces(), "a", store.Report{Content: []byte("report")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path)
	if report, err := s.Report(t.Context(), store.AllNamespaces(), "a"); err != nil || string(report) != "report" {
		t.Errorf("got %q, %v", report, err)
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "newer.db")
	s, err := Open(t.Context(), Config{DSN: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.db.Writer().Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, 1)").Error; err != nil {
		t.Fatal(err)
	}
	if err := s.Ready(t.Context()); !errors.Is(err, store.ErrSchemaTooNew) {
		t.Errorf("Ready: got %v, want ErrSchemaTooNew", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), Config{DSN: path})
	if !errors.Is(err, store.ErrSchemaTooNew) || !strings.Contains(err.Error(), "99999") {
		t.Errorf("Open: got %v, want ErrSchemaTooNew", err)
	}
	// The refused store has released the lock.
	if _, err := Open(t.Context(), Config{DSN: path}); !errors.Is(err, store.ErrSchemaTooNew) {
		t.Errorf("opened again: got %v, want ErrSchemaTooNew", err)
	}
}

// TestInterruptedMigration leaves the state that a process killed before its first migration leaves.
func TestInterruptedMigration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "interrupted.db")
	pool := openFile(t, path)
	_, err := pool.ExecContext(t.Context(), `CREATE TABLE goose_db_version (id INTEGER PRIMARY KEY AUTOINCREMENT, version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL, tstamp TIMESTAMP DEFAULT (datetime('now')));
		INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, 1)`)
	if err != nil {
		t.Fatal(err)
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	if err := openAt(t, path).Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestMigrationsAreNumbered also expects files for each type of database.
func TestMigrationsAreNumbered(t *testing.T) {
	all, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{sqldb.TypeSQLite, sqldb.TypePostgres, sqldb.TypeMySQL} {
		names, err := fs.Glob(all, name+"/*.sql")
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v, %v", name, names, err)
		}
		slices.Sort(names)
		for i, file := range names {
			if want := fmt.Sprintf("%s/%05d_", name, i+1); !strings.HasPrefix(file, want) {
				t.Errorf("%s: %s does not start with %s", name, file, want)
			}
		}
	}
}

// TestPlans keeps the statements of lists on indexes.
func TestPlans(t *testing.T) {
	s := openAt(t, migrated(t))
	keys := imageSorts[store.SortImageID]
	severities := imageSorts[store.SortSeverity]
	after := func(keys []sqldb.SortKey, values ...string) func(*gorm.DB) *gorm.DB {
		condition, arguments, err := sqldb.After(keys, values)
		if err != nil {
			t.Fatal(err)
		}
		return func(tx *gorm.DB) *gorm.DB {
			return tx.Table("images AS i").Where(condition, arguments...).Joins(imageJoins).Select(imageColumns).
				Order(sqldb.OrderBy(keys)).Limit(10)
		}
	}
	for name, c := range map[string]struct {
		query func(*gorm.DB) *gorm.DB
		want  string
		sorts bool
	}{
		"images by ID":       {after(keys, "a", "b"), "SEARCH i USING INDEX sqlite_autoindex_images_1 (image_id>?)", false},
		"images by severity": {after(severities, "1", "1", "1", "1", "a", "b"), "SEARCH i USING INDEX images_severity (critical<?)", false},
		"findings": {func(tx *gorm.DB) *gorm.DB {
			return s.filterFindings(tx, seen{}, &imageRow{ID: 1}, 1, store.FindingQuery{MinSeverity: model.SeverityHigh}).Select("f.id").
				Order(sqldb.OrderBy(findingSorts[store.SortFindingRisk])).Limit(10)
		}, "SEARCH ip USING PRIMARY KEY (image_pk=?)", true},
		"waiting images": {func(tx *gorm.DB) *gorm.DB {
			return tx.Raw(waitingImages, "Cataloged", "Cataloged", "MatchFailed", "Cataloged", 1, 1, 1, "a", "a", "b", 10)
		}, "SEARCH i USING INDEX images_state (state=? AND image_id>?)", false},
		"unanswered packages": {func(tx *gorm.DB) *gorm.DB {
			return tx.Raw("SELECT COUNT(*) FROM image_packages ip WHERE ip.image_pk = ? AND ip.excluded = 0 AND "+unanswered, 1, 1, 1)
		}, "SEARCH a USING PRIMARY KEY (package_pk=? AND from_gen<?)", false},
		"answered packages": {func(tx *gorm.DB) *gorm.DB { return tx.Raw(answeredPackages, 1, 1, 1, 10) }, "SEARCH package_answers USING PRIMARY KEY (package_pk>?)", false},
		"queue":             {func(tx *gorm.DB) *gorm.DB { return tx.Raw(queuedPackages, 10) }, "SEARCH p USING INTEGER PRIMARY KEY (rowid=?)", false},
		"touched packages":  {func(tx *gorm.DB) *gorm.DB { return tx.Raw(touchedPackages, 2, 2, 1, 2) }, "findings_until (until_gen=?)", true},
		"sides":             {func(tx *gorm.DB) *gorm.DB { return tx.Raw(sidesOfPackages, []int64{1, 2}, 1, 1, 2) }, "SEARCH f USING INDEX sqlite_autoindex_findings_1 (package_pk=?)", true},
		"holders":           {func(tx *gorm.DB) *gorm.DB { return tx.Raw(holdersOfPackages, []int64{1, 2}) }, "COVERING INDEX image_packages_package (package_pk=? AND excluded=?)", false},
		"suppressions": {func(tx *gorm.DB) *gorm.DB {
			return tx.Table("image_packages AS ip").Joins("CROSS JOIN findings f").Where(ofImage, 1, 1, 1).Select("f.id")
		}, "SEARCH fs USING PRIMARY KEY (finding_id=?)", false},
		"reaches": {func(tx *gorm.DB) *gorm.DB {
			return tx.Table("image_packages AS ip").Joins("CROSS JOIN findings f").Where(ofImage, 1, 1, 1).Select("f.id")
		}, "SEARCH x USING PRIMARY KEY (reach=? AND image_pk=?)", false},
		"previous decisions":    {func(tx *gorm.DB) *gorm.DB { return tx.Raw(linkedDecisions, []int64{1, 2}) }, "SEARCH b USING INDEX decisions_object (source=? AND namespace=? AND name=? AND id<?)", false},
		"named findings":        {func(tx *gorm.DB) *gorm.DB { return tx.Raw(namedFindings, []int64{1, 2}, 1) }, "SEARCH dn USING PRIMARY KEY (name=?)", false},
		"suppressing decisions": {func(tx *gorm.DB) *gorm.DB { return tx.Raw(suppressingDecisions, 1, []int64{1, 2}) }, "SEARCH m USING PRIMARY KEY (finding_id=?)", true},
		"decisions about":       {func(tx *gorm.DB) *gorm.DB { return tx.Raw(decisionsAbout, []int64{1, 2}, 1) }, "SEARCH m USING PRIMARY KEY (finding_id=?)", false},
		"changes": {func(tx *gorm.DB) *gorm.DB {
			return filterChanges(tx.Table("finding_changes AS c").Joins("JOIN packages p ON p.id = c.package_pk"), s.db.Dialect(), store.ChangeQuery{ResultSet: 1}).
				Select("c.id").Order(sqldb.OrderBy(changeOrder)).Limit(10)
		}, "finding_changes_worst (generation=?)", false},
		"uses": {func(tx *gorm.DB) *gorm.DB {
			return tx.Raw("SELECT image_pk, namespace, kind, name, container FROM image_uses WHERE scope = ?", "s")
		}, "SEARCH image_uses USING PRIMARY KEY (scope=?)", false},
		"events": {func(tx *gorm.DB) *gorm.DB {
			return tx.Table("events").Where("seq > ?", 1).Order("seq").Limit(10).Select("*")
		}, "SEARCH events USING INTEGER PRIMARY KEY (rowid>?)", false},
	} {
		t.Run(name, func(t *testing.T) {
			var plan []struct{ Detail string }
			statement := s.db.Reader().ToSQL(func(tx *gorm.DB) *gorm.DB { return c.query(tx).Find(&[]map[string]any{}) })
			if err := s.db.Reader().Raw("EXPLAIN QUERY PLAN " + statement).Scan(&plan).Error; err != nil {
				t.Fatal(err)
			}
			text := fmt.Sprint(plan)
			if !strings.Contains(text, c.want) {
				t.Errorf("got %s, want %s", text, c.want)
			}
			for _, step := range plan {
				// The queue and the staged scores are there to be read as a whole.
				whole := strings.HasPrefix(step.Detail, "SCAN q ") || step.Detail == "SCAN s"
				if strings.HasPrefix(step.Detail, "SCAN") && !whole || !c.sorts && strings.Contains(step.Detail, "TEMP B-TREE") {
					t.Errorf("the plan has the step %q", step.Detail)
				}
			}
		})
	}
}

func BenchmarkListImages(b *testing.B) {
	s, err := Open(b.Context(), Config{DSN: filepath.Join(b.TempDir(), "bench.db")})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	keys := make([]model.ImageKey, 10000)
	for i := range keys {
		keys[i] = model.ImageKey{ImageID: fmt.Sprintf("registry.example/image-%d@sha256:%064x", i%977, i), Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
	}
	start := time.Now()
	if _, err := s.WantImages(b.Context(), keys); err != nil {
		b.Fatal(err)
	}
	b.Logf("recorded %d images in %s", len(keys), time.Since(start))
	for name, query := range map[string]store.ImageQuery{
		"all-by-id": {Page: store.Page{Size: store.MaxPageSize}}, "page-by-severity": {Sort: store.SortSeverity}, "page-by-text": {Text: "IMAGE-97"},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				walked := query
				for {
					page, err := s.ListImages(b.Context(), store.AllNamespaces(), walked)
					if err != nil {
						b.Fatal(err)
					}
					if walked.Token = page.NextToken; walked.Token == "" || walked.Size == 0 {
						break
					}
				}
			}
		})
	}
}
