package sqlstore

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// The size of the fleet of the benchmarks.
const (
	fleetImages   = 10000
	fleetHeld     = 200
	fleetPackages = 20000
	fleetCVEs     = 8000
)

// fleetAnswer gives package n three findings when it is even; turn changes the severity of one of them.
func fleetAnswer(n, turn int) model.PackageAnswer {
	answer := model.PackageAnswer{SearchKeys: []model.SearchKey{model.SearchKey(n), model.SearchKey(n + 1), model.SearchKey(n + 2)}}
	if n%2 != 0 {
		return answer
	}
	for i := range 3 {
		id := (n*3 + i*17) % fleetCVEs
		f := model.PackageFinding{
			Vulnerability: model.Vulnerability{
				ID: fmt.Sprintf("CVE-2026-%05d", id), Namespace: "debian:distro:debian:12", Severity: model.Severities()[id%5],
				Description: strings.Repeat("A long description. ", 50), CVEs: []string{fmt.Sprintf("CVE-2026-%05d", id)},
				EPSS: &model.EPSS{Score: float64(id) / fleetCVEs / 12, Percentile: 0.5, Date: "2026-01-01"}, Risk: float64(id % 100),
			},
			Fix: model.Fix{State: model.FixStateFixed, Versions: []string{"1.2.3"}},
			Details: []model.MatchDetail{{
				Type: "exact-direct-match", Matcher: "dpkg-matcher", SearchedBy: json.RawMessage(`{"distro":{"type":"debian","version":"12"},"package":{"name":"p","version":"1"}}`),
				Found: json.RawMessage(`{"versionConstraint":"< 1.2.3 (deb)","vulnerabilityID":"CVE-2026-00000"}`),
			}},
		}
		if i == 0 && turn > 0 {
			f.Vulnerability.Severity = model.Severities()[(id+turn)%5]
		}
		answer.Findings = append(answer.Findings, f)
	}
	return answer
}

// scannedFleet opens a store with a fleet that is scanned under result set 1.
func scannedFleet(b *testing.B) (*Store, string) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "fleet.db")
	s, err := Open(b.Context(), Config{DSN: path})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	keys := make([]model.ImageKey, fleetImages)
	for i := range keys {
		keys[i] = model.ImageKey{ImageID: fmt.Sprintf("registry.example/image-%d@sha256:%064x", i%977, i), Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
	}
	if _, err := s.WantImages(b.Context(), keys); err != nil {
		b.Fatal(err)
	}
	held := make([]model.HeldPackage, fleetPackages)
	for i := range held {
		held[i].Package = model.Package{Fingerprint: fmt.Sprintf("%064x", i), Name: fmt.Sprintf("package-%d", i), Version: "1.0", Type: "deb"}
	}
	if _, err := s.StorePackages(b.Context(), held); err != nil {
		b.Fatal(err)
	}
	resultSet, err := s.StartResultSet(b.Context(), model.DatabaseBuild{ID: "build-0"}, "engine", true)
	if err != nil {
		b.Fatal(err)
	}
	for from := 1; from <= fleetPackages; from += 200 {
		saveFleet(b, s, resultSet.Number, from, 200, 0)
	}
	err = s.write(b.Context(), "fill", func(tx *txn) error {
		err := tx.Execute(`INSERT INTO image_packages (image_pk, package_pk, excluded, locations)
			WITH RECURSIVE k (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM k WHERE n < ?)
			SELECT i.id, (i.id * 37 + k.n * 101) % ? + 1, 0, '' FROM images i CROSS JOIN k ORDER BY 1, 2`, fleetHeld-1, fleetPackages)
		if err != nil {
			return err
		}
		for id := int64(1); id <= fleetImages; id++ {
			counts, err := countFindings(tx.DB, id, resultSet.Number)
			if err != nil {
				return err
			}
			err = tx.Execute("UPDATE images SET state = 'Scanned', sbom_sha256 = 'x', matched_at = 1, "+strings.Join(countColumns, " = ?, ")+" = ? WHERE id = ?",
				append(countValues(counts), id)...)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return s, path
}

// saveFleet answers for count packages from a number on.
func saveFleet(b *testing.B, s *Store, resultSet int64, from, count, turn int) {
	b.Helper()
	answers := make(map[int64]model.PackageAnswer, count)
	for id := from; id < from+count; id++ {
		answers[int64(id)] = fleetAnswer(id, turn)
	}
	if err := s.SaveAnswers(b.Context(), resultSet, answers); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSwitch measures a new database that changes 1 % of the packages of a fleet, or all of them, and every score.
func BenchmarkSwitch(b *testing.B) {
	s, path := scannedFleet(b)
	turn := 0
	for _, share := range []int{1, 100} {
		b.Run(fmt.Sprintf("%d-percent", share), func(b *testing.B) {
			spent := map[string]time.Duration{}
			rounds := 0
			for b.Loop() {
				rounds++
				turn++
				switchFleet(b, s, fleetPackages*share/100, turn, spent)
			}
			for what, total := range spent {
				b.ReportMetric(float64(total.Milliseconds())/float64(rounds), "ms-"+what)
			}
			for _, suffix := range []string{"", "-wal"} {
				if info, err := os.Stat(path + suffix); err == nil {
					b.ReportMetric(float64(info.Size())/(1<<20), "MiB"+suffix)
				}
			}
		})
	}
}

// switchFleet goes to another result set in which that many packages differ, and reads a page of each list.
func switchFleet(b *testing.B, s *Store, packages, turn int, spent map[string]time.Duration) {
	b.Helper()
	measure := func(what string, work func() error) {
		b.Helper()
		start := time.Now()
		if err := work(); err != nil {
			b.Fatal(err)
		}
		spent[what] += time.Since(start)
	}
	var next store.ResultSet
	measure("start", func() error {
		var err error
		next, err = s.StartResultSet(b.Context(), model.DatabaseBuild{ID: fmt.Sprint("build-", turn)}, "engine", false)
		return err
	})
	measure("queue", func() error {
		for after := int64(0); ; {
			answered, err := s.AnsweredPackages(b.Context(), after, 5000)
			if err != nil || len(answered) == 0 {
				return err
			}
			after = answered[len(answered)-1].ID
			var ids []int64
			for _, p := range answered {
				if p.ID <= int64(packages) {
					ids = append(ids, p.ID)
				}
			}
			if err := s.QueuePackages(b.Context(), next.Number, ids); err != nil {
				return err
			}
		}
	})
	measure("matching", func() error { return s.StartMatching(b.Context(), next.Number) })
	for from := 1; from <= packages; from += 200 {
		measure("save", func() error { saveFleet(b, s, next.Number, from, 200, turn); return nil })
	}
	measure("scores", func() error { return stageFleet(b, s, next.Number, turn) })
	measure("switch", func() error {
		switched, err := s.Switch(b.Context(), next.Number)
		if turn == 1 || packages == fleetPackages {
			b.Logf("%d packages matched: %+v", switched.Matched, switched.Changes)
		}
		return err
	})
	images, findings := store.ImageQuery{Sort: store.SortSeverity}, store.FindingQuery{}
	measure("images", func() error {
		page, err := s.ListImages(b.Context(), store.AllNamespaces(), images)
		if err == nil {
			findings.Image = page.Images[0].Key
		}
		return err
	})
	measure("findings", func() error { _, err := s.Findings(b.Context(), store.AllNamespaces(), findings); return err })
	measure("changes", func() error { _, err := s.Changes(b.Context(), store.AllNamespaces(), store.ChangeQuery{}); return err })
}

// stageFleet gives every vulnerability another probability.
func stageFleet(b *testing.B, s *Store, resultSet int64, turn int) error {
	b.Helper()
	for after := int64(0); ; {
		page, err := s.Vulnerabilities(b.Context(), after, 5000)
		if err != nil || len(page) == 0 {
			return err
		}
		after = page[len(page)-1].ID
		for i := range page {
			epss := *page[i].EPSS
			epss.Score += float64(turn) / 1e5
			page[i].EPSS = &epss
		}
		if err := s.StageScores(b.Context(), resultSet, page); err != nil {
			return err
		}
	}
}
