package sqlstore

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
)

// TestMigrationOfFixes migrates a database with findings and decisions back to before there were fixes, and up again.
func TestMigrationOfFixes(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		clk := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		config.Clock = clk
		s := openWith(t, config)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		_, err := s.StartResultSet(t.Context(), model.DatabaseBuild{ID: "1"}, "", true)
		must(err)
		findings := decidedFindings(5)
		for _, list := range findings {
			for i := range list {
				v := &list[i].Vulnerability
				if v.Risk = float64(i) + 0.5; i == 4 {
					v.KEV = []model.KnownExploited{{CVE: v.ID}}
				}
			}
		}
		findings["package-2"] = slices.DeleteFunc(findings["package-2"], func(f model.PackageFinding) bool { // Those that count in some images only.
			return f.Vulnerability.ID == "CVE-1" || f.Vulnerability.ID == "CVE-3"
		})
		for n := range 3 {
			key := model.ImageKey{ImageID: fmt.Sprintf("registry.example/image-%d@sha256:%064x", n, n), Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
			_, err := s.WantImages(t.Context(), []model.ImageKey{key})
			must(err)
			catalog := decidedCatalog(n)
			catalog.Packages[0].Package.Type = "deb"
			must(s.SaveSBOM(t.Context(), key, store.SBOM{SHA256: "d", Size: 1}, catalog))
			must(storetest.Match(t.Context(), s, key, "d", findings))
		}
		decisions := decisionCases(clk)
		_, err = s.SyncDecisions(t.Context(), "test", []store.Decision{decisions[0], decisions[7]}) // Everywhere, and in some images.
		must(err)
		checkFixes(t, s)
		if actions := texts(t, s, "SELECT DISTINCT action FROM image_fixes ORDER BY 1"); len(actions) != int(fixWait)+1 {
			t.Errorf("there are only rows with the actions %v", actions)
		}
		open := openServer
		if config.Type == sqldb.TypeSQLite {
			open = func(t *testing.T, config Config) *sql.DB { return openFile(t, config.DSN) }
		}
		provider := migrator(t, open(t, config), config.Type)
		first := slices.IndexFunc(provider.ListSources(), func(source *goose.Source) bool { return strings.HasSuffix(source.Path, "fixes.sql") })
		_, err = provider.DownTo(t.Context(), provider.ListSources()[first].Version-1)
		must(err)
		_, err = provider.Up(t.Context())
		must(err)
		checkFixes(t, s)
	})
}
