package match_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/anchore/grype/grype/distro"
	"github.com/anchore/grype/grype/vulnerability"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

func dayOf(t *testing.T, text string) time.Time {
	t.Helper()
	if text == "" {
		return time.Time{}
	}
	day, err := time.Parse(time.DateOnly, text)
	if err != nil {
		t.Fatal(err)
	}
	return day
}

func TestLifecycles(t *testing.T) {
	tests := map[string]struct{ endOfSupport, endOfLife string }{
		"debian:11":     {"", "2024-08-14"},
		"alpine:3.14.2": {"", "2023-05-01"},
		"alpine:3.014":  {"", "2023-05-01"},
		"rhel:9":        {"2027-05-31", "2032-05-31"},
		// The database has one record for all minor versions.
		"rhel:9.4":     {"2027-05-31", "2032-05-31"},
		"rhel:9.4+eus": {"2027-05-31", "2032-05-31"},
		// It has other releases of the same major version.
		"alpine:3.99": {},
		"alpine:3":    {},
		"rhel:7":      {},
		// RHEL's advisories apply to it, and RHEL's dates do not.
		"centos:8":                             {},
		"debian":                               {},
		"debian:":                              {},
		"debian:sid":                           {},
		"debian:bullseye":                      {"", "2024-08-14"},
		"":                                     {},
		":":                                    {},
		":11":                                  {},
		"debian:v":                             {}, // Grype's parser panics on these.
		"debian:+":                             {},
		"' OR 1=1 --:11":                       {},
		"debian:" + strings.Repeat("1", 1<<12): {},
	}
	releases := map[string]string{
		"debian:11": "debian:11", "debian:bullseye": "debian:11", "alpine:3.14.2": "alpine:3.14", "alpine:3.014": "alpine:3.14",
		"rhel:9": "redhat:9", "rhel:9.4": "redhat:9", "rhel:9.4+eus": "redhat:9",
	}
	names := make([]string, 0, len(tests))
	for name := range tests {
		names = append(names, name)
	}
	database := openSample(t)
	got, err := database.Lifecycles(t.Context(), names)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range tests {
		want := model.Lifecycle{Release: releases[name], EndOfSupport: dayOf(t, want.endOfSupport), EndOfLife: dayOf(t, want.endOfLife)}
		if got[name] != want {
			t.Errorf("%.40q: got %+v, want %+v", name, got[name], want)
		}
	}
	if len(got) != len(tests) {
		t.Errorf("%d answers for %d names", len(got), len(tests))
	}
}

// TestLifecyclesAreThoseOfGrype compares the dates of all releases in a database with what Grype says of them.
func TestLifecyclesAreThoseOfGrype(t *testing.T) {
	installed := dbtest.Sample(t)
	reader, err := v6.NewReader(v6.Config{DBDirPath: installed.SQLiteDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	grype, ok := v6.NewVulnerabilityProvider(reader).(vulnerability.EOLChecker)
	if !ok {
		t.Fatal("Grype does not tell the end of life")
	}
	database, err := match.Open(installed)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = database.Close() }()
	for _, name := range []string{"debian:10", "debian:11", "debian:12", "alpine:3.13.1", "alpine:3.18.4", "alpine:3.19.0", "rhel:8", "rhel:9"} {
		id, version, _ := strings.Cut(name, ":")
		endOfLife, endOfSupport, err := grype.GetOperatingSystemEOL(distro.NewFromNameVersion(id, version))
		if err != nil {
			t.Fatal(err)
		}
		got, err := database.Lifecycles(t.Context(), []string{name})
		if err != nil {
			t.Fatal(err)
		}
		for what, pair := range map[string]struct {
			grype *time.Time
			ours  time.Time
		}{"life": {endOfLife, got[name].EndOfLife}, "support": {endOfSupport, got[name].EndOfSupport}} {
			if pair.grype == nil != pair.ours.IsZero() || pair.grype != nil && !pair.grype.Equal(pair.ours) {
				t.Errorf("%s: the end of %s is %s, that of Grype %v", name, what, pair.ours, pair.grype)
			}
		}
	}
}

func TestLifecyclesOfAClosedDatabase(t *testing.T) {
	database, err := match.Open(dbtest.Sample(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := database.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := database.Lifecycles(t.Context(), []string{"debian:11"}); !errors.Is(err, match.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
