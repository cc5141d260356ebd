package matching

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

// TestOlderDatabaseOfAnotherReplica lets a replica take over that has an older database than the visible findings come from, or none. It
// reports that, changes nothing, and continues when the database arrives.
func TestOlderDatabaseOfAnotherReplica(t *testing.T) {
	sample := dbtest.Sample(t)
	older := dbtest.Mutate(t, sample, 1, dbtest.Fraction(0.1)...)
	newer := dbtest.Mutate(t, older, 2, dbtest.Fraction(0.1)...)
	images := fleet(t, sample, 4, 1)
	for name, tt := range map[string]struct {
		has    []vulndb.Installed
		reason string
	}{
		"an older one": {[]vulndb.Installed{older}, ReasonOutdated},
		"the sample":   {[]vulndb.Installed{sample}, ReasonOutdated},
		"none":         {nil, ReasonNotInstalled},
		"a newer one that was replaced by the sample": {[]vulndb.Installed{newer, sample}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			a, _ := newMatcher(t, s, newShelf(newer))
			fill(t, a, s, images)
			settle(t, a)
			before := pictures(t, s)

			library := newShelf(tt.has...)
			a, counted := newMatcher(t, s, library)
			told := 0
			a.MissingChanged = func() { told++ }
			settle(t, a)
			settle(t, a)
			same(t, before, pictures(t, s))
			if len(counted.resultSets) > 0 {
				t.Errorf("it published %+v", counted.resultSets)
			}
			reason, message := a.Missing()
			if reason != tt.reason {
				t.Errorf("missing: got %q (%s), want %q", reason, message, tt.reason)
			}
			if tt.reason == "" {
				return
			}
			if !strings.Contains(message, newer.Build.Built.Format("2006-01-02")) || told != 1 {
				t.Errorf("told %d times: %s", told, message)
			}
			late := numbered(1000)
			ingest(t, a, s, late, document)
			library.put(newer)
			settle(t, a)
			if reason, _ := a.Missing(); reason != "" || told != 2 {
				t.Errorf("told %d times, still %s", told, reason)
			}
			with := map[model.ImageKey]string{late: document}
			maps.Copy(with, images)
			same(t, fresh(t, with, newer), pictures(t, s))
		})
	}
}

// TestAllowedOlderDatabase imports an older database on purpose. That counts for what was in use then, not for what came later.
func TestAllowedOlderDatabase(t *testing.T) {
	older := dbtest.Mutate(t, dbtest.Sample(t), 1, dbtest.Fraction(0.1)...)
	newer := dbtest.Mutate(t, older, 2, dbtest.Fraction(0.1)...)
	for name, tt := range map[string]struct {
		allowed time.Duration
		want    vulndb.Installed
	}{
		"before the newer one came": {-time.Hour, newer},
		"afterwards":                {time.Hour, older},
	} {
		t.Run(name, func(t *testing.T) {
			images := fleet(t, older, 2, 1)
			s := newStore(t)
			a, _ := newMatcher(t, s, newShelf(newer))
			fill(t, a, s, images)
			settle(t, a)
			imported := older
			imported.AllowOlder, imported.InstalledAt = true, time.Now().Add(tt.allowed)
			a, _ = newMatcher(t, s, newShelf(imported))
			settle(t, a)
			if build, _ := a.Build(); build.ID != tt.want.Build.ID {
				t.Errorf("the database in use was built %s, want %s", build.Built, tt.want.Build.Built)
			}
			same(t, fresh(t, images, tt.want), pictures(t, s))
		})
	}
}
