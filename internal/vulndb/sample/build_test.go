package sample_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/vulndb/sample"
)

// The database must be what the project promises, so that nobody thins it out without noticing.
func TestDataCoverage(t *testing.T) {
	document, err := sample.Load()
	if err != nil {
		t.Fatal(err)
	}
	places, ids := map[string]int{}, map[string]bool{}
	epss, kev := 0, 0
	for _, a := range document.Advisories {
		if ids[a.ID] {
			t.Errorf("%s is there twice", a.ID)
		}
		ids[a.ID] = true
		if a.Summary == "" || len(a.Affected) == 0 {
			t.Errorf("%s has no summary or nothing affected", a.ID)
		}
		if a.EPSS != nil {
			epss++
		}
		if a.KEV != nil {
			kev++
		}
		for _, affected := range a.Affected {
			kind, _, _ := strings.Cut(affected.In, " ")
			places[kind]++
			if affected.Example == "" {
				t.Errorf("%s: %s has no example", a.ID, affected.Name)
			}
			if (affected.Fixed == "") == (affected.State == "") {
				t.Errorf("%s: %s must have either a fixed version or a state", a.ID, affected.Name)
			}
		}
	}
	if n := len(document.Advisories); n < 60 {
		t.Errorf("there are %d advisories, fewer than 60", n)
	}
	for _, kind := range []string{"debian", "alpine", "redhat", "go", "npm", "python", "java", "cpe"} {
		if places[kind] < 2 {
			t.Errorf("%d entries are about %s, fewer than 2", places[kind], kind)
		}
	}
	if len(document.Lifecycles) < 10 {
		t.Errorf("there are %d lifecycles, fewer than 10", len(document.Lifecycles))
	}
	if epss < 20 || kev < 5 {
		t.Errorf("%d advisories have EPSS (want 20), %d KEV (want 5)", epss, kev)
	}
}

// GORM lists constraints and aliases in the order of a map, so files differ; what is in them must not.
func TestBuildIsDeterministic(t *testing.T) {
	var dumps []map[string][]string
	for range 2 {
		dir := t.TempDir()
		if err := sample.Build(dir); err != nil {
			t.Fatal(err)
		}
		dumps = append(dumps, dump(t, filepath.Join(dir, v6.VulnerabilityDBFileName)))
	}
	if diff := cmp.Diff(dumps[0], dumps[1]); diff != "" {
		t.Errorf("two builds of the same data differ (-first +second):\n%s", diff)
	}
	if len(dumps[0]["vulnerability_handles"]) < 60 {
		t.Errorf("the dump holds %d vulnerabilities", len(dumps[0]["vulnerability_handles"]))
	}
}

func dump(t *testing.T, file string) map[string][]string {
	t.Helper()
	db, err := v6.NewLowLevelDB(file, false, false, false)
	if err != nil {
		t.Fatal(err)
	}
	sqlDB, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sqlDB.Close() }()
	tables, err := db.Migrator().GetTables()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, table := range tables {
		if strings.HasPrefix(table, "sqlite_") {
			continue
		}
		var rows []map[string]any
		if err := db.Table(table).Find(&rows).Error; err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			out[table] = append(out[table], fmt.Sprint(row))
		}
		slices.Sort(out[table])
	}
	return out
}

func TestBuildDescription(t *testing.T) {
	dir := t.TempDir()
	if err := sample.Build(dir); err != nil {
		t.Fatal(err)
	}
	description, err := v6.ReadDescription(filepath.Join(dir, v6.VulnerabilityDBFileName))
	if err != nil {
		t.Fatal(err)
	}
	document, err := sample.Load()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(document.Built.UTC(), description.Built.UTC()); diff != "" {
		t.Errorf("build date (-want +got):\n%s", diff)
	}
	if description.SchemaVersion.Model != v6.ModelVersion {
		t.Errorf("schema is %s", description.SchemaVersion)
	}
}

func TestBuildRefusesUnusableFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sample.Build(file); err == nil {
		t.Error("Build into a file succeeded")
	}
}
