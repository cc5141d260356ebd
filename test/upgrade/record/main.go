// Command record writes what this version leaves to the next one, for the tests of package upgrade: a sqlite database as SQL
// statements and what the store returns of it as text, the checksums of the migrations, and the values of the chart with the
// fields that an upgrade must not change. It needs the commands sqlite3 and, in the variable HELM, helm.
//
//	HELM=helm go run ./test/upgrade/record test/upgrade/testdata/v1.2.3
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
	"github.com/scanner-operator/scanner-operator/test/upgrade"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: record DIR")
		os.Exit(1)
	}
	ctx, dir := context.Background(), os.Args[1]
	if err := errors.Join(recordDatabase(ctx, dir), recordMigrations(dir), recordChart(ctx, dir)); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func recordDatabase(ctx context.Context, dir string) (err error) {
	work, err := os.MkdirTemp("", "upgrade-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	file := filepath.Join(work, "scanner.db")
	clk := clocktesting.NewFakePassiveClock(upgrade.Day.Add(8 * time.Hour))
	s, err := sqlstore.Open(ctx, sqlstore.Config{DSN: file, Clock: clk, Cluster: "production"})
	if err != nil {
		return err
	}
	r := &recorder{Store: s, clock: clk}
	var text bytes.Buffer
	if err := errors.Join(r.record(ctx), upgrade.Describe(ctx, s, &text), s.Close()); err != nil {
		return err
	}
	dump, err := exec.CommandContext(ctx, "sqlite3", file, ".dump").Output()
	if err != nil {
		return fmt.Errorf("sqlite3: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "scanner.sql"), dump, 0o644),
		os.WriteFile(filepath.Join(dir, "scanner.txt"), text.Bytes(), 0o644),
	)
}

var (
	amd64 = model.Platform{OS: "linux", Architecture: "amd64"}
	first = model.DatabaseBuild{
		ID: "xxh64:1", SchemaVersion: "v6.1.0", Built: upgrade.Day.Add(-6 * time.Hour), Source: model.DatabaseSourceOfficial,
	}
	second = model.DatabaseBuild{
		ID: "xxh64:2", SchemaVersion: "v6.1.0", Built: upgrade.Day.Add(18 * time.Hour), Source: model.DatabaseSourceOfficial,
	}

	web1    = image("web", 1)
	web2    = image("web", 2)
	broken  = image("broken", 3)
	waiting = image("waiting", 4)
)

const reported = "registry.example/reported@sha256:5555555555555555555555555555555555555555555555555555555555555555"

func image(name string, n int) model.ImageKey {
	return model.ImageKey{ImageID: fmt.Sprintf("registry.example/%s@sha256:%064x", name, n), Platform: amd64}
}

// recorder fills a store with something of everything.
type recorder struct {
	store.Store
	clock *clocktesting.FakePassiveClock
}

func (r *recorder) record(ctx context.Context) error {
	for _, step := range []func(context.Context) error{r.scan, r.use, r.fail, r.update} {
		if err := step(ctx); err != nil {
			return err
		}
		r.clock.SetTime(r.clock.Now().Add(time.Hour))
	}
	return r.RecordDay(ctx)
}

// scan catalogs two images that share a package and matches them.
func (r *recorder) scan(ctx context.Context) error {
	if _, err := r.StartResultSet(ctx, first, "grype v0.116.0", true); err != nil {
		return err
	}
	if _, err := r.WantImages(ctx, []model.ImageKey{web1, web2, broken, waiting}); err != nil {
		return err
	}
	findings := map[string][]model.PackageFinding{
		"openssl": {finding("CVE-2026-1", model.SeverityCritical, "3.0.2"), finding("CVE-2026-2", model.SeverityLow)},
		"zlib":    {finding("CVE-2026-3", model.SeverityHigh)},
	}
	for _, c := range []struct {
		key   model.ImageKey
		names []string
	}{{web1, []string{"openssl", "zlib"}}, {web2, []string{"openssl", "curl"}}} {
		key, digest := c.key, c.key.Digest()[len("sha256:"):]
		sbom := store.SBOM{MediaType: "application/vnd.syft+json", Content: []byte("\x00zstd\xff" + key.ImageID), SHA256: digest, Size: 99}
		if err := r.SaveSBOM(ctx, key, sbom, catalogOf(c.names...)); err != nil {
			return err
		}
		if err := storetest.Match(ctx, r.Store, key, digest, findings); err != nil {
			return err
		}
	}
	return r.SaveReport(ctx, store.AllNamespaces(), reported, store.Report{Content: []byte(`{"bomFormat":"CycloneDX"}`)})
}

// use runs one image and then the other in a workload.
func (r *recorder) use(ctx context.Context) error {
	workload := store.Workload{Namespace: "shop", Kind: "Deployment", Name: "web"}
	for _, key := range []model.ImageKey{web1, web2} {
		if err := r.RecordUses(ctx, "scanner", []store.Use{{Image: key, Workload: workload, Container: "web"}}); err != nil {
			return err
		}
		r.clock.SetTime(r.clock.Now().Add(time.Hour))
	}
	return r.RecordCoverage(ctx, "scanner", []store.ContainerCoverage{
		{Workload: workload, Container: "web", Image: web2, Reference: "registry.example/web:2", Pods: 3, State: "Scanned"},
		{
			Workload: workload, Container: "sidecar", Image: broken, Reference: "registry.example/broken:1", Pods: 3,
			State: "Failed", Reason: string(model.ReasonImagePullDenied), Message: "no credentials",
		},
	})
}

func (r *recorder) fail(ctx context.Context) error {
	next := r.clock.Now().Add(time.Minute)
	outcome := model.Outcome{Reason: model.ReasonImagePullDenied, Message: "no credentials"}
	if _, err := r.RecordFailure(ctx, broken, 0, outcome, next); err != nil {
		return err
	}
	if err := r.RaiseSizeClass(ctx, "registry.example/web", model.SizeMedium); err != nil {
		return err
	}
	return r.PauseRegistry(ctx, store.RegistryPause{Host: "registry.example", Until: next, Reason: "too many requests"})
}

// update makes another build of the vulnerability database current: it closes a finding, opens one and changes one.
func (r *recorder) update(ctx context.Context) error {
	findings := map[string][]model.PackageFinding{
		"openssl": {finding("CVE-2026-1", model.SeverityHigh, "3.0.2", "3.1.1"), finding("CVE-2026-4", model.SeverityMedium)},
		"zlib":    {finding("CVE-2026-3", model.SeverityHigh)},
	}
	next, err := r.StartResultSet(ctx, second, "grype v0.116.0", false)
	if err != nil {
		return err
	}
	answered, err := r.AnsweredPackages(ctx, 0, store.MaxKeys)
	if err != nil {
		return err
	}
	var ids []int64
	for _, p := range answered {
		ids = append(ids, p.ID)
	}
	if err := errors.Join(r.QueuePackages(ctx, next.Number, ids), r.StartMatching(ctx, next.Number)); err != nil {
		return err
	}
	queued, err := r.QueuedPackages(ctx, next.Number, store.MaxKeys)
	if err != nil {
		return err
	}
	answers := map[int64]model.PackageAnswer{}
	for _, p := range queued {
		answers[p.ID] = model.PackageAnswer{Findings: findings[p.Name], SearchKeys: []model.SearchKey{1}}
	}
	if err := r.SaveAnswers(ctx, next.Number, answers); err != nil {
		return err
	}
	_, err = r.Switch(ctx, next.Number)
	return err
}

func catalogOf(names ...string) model.Catalog {
	catalog := model.Catalog{Distro: "debian:12", Size: 12345}
	for _, name := range names {
		catalog.Packages = append(catalog.Packages, model.HeldPackage{
			Package: model.Package{
				Fingerprint: fmt.Sprintf("%064x", name), Name: name, Version: "1.0", Type: "deb", Language: "c",
				PURL: "pkg:deb/debian/" + name + "@1.0", Distro: "debian:12", Licenses: []string{"MIT"},
				CPEs: []string{"cpe:2.3:a:" + name + ":" + name + ":1.0:*:*:*:*:*:*:*"}, MatchInput: json.RawMessage(`{"upstreams":[]}`),
			},
			Locations: []model.Location{{Path: "/usr/lib/" + name, Layer: "sha256:1"}},
		})
	}
	return catalog
}

func finding(id string, severity model.Severity, fix ...string) model.PackageFinding {
	f := model.PackageFinding{
		Vulnerability: model.Vulnerability{
			ID: id, Namespace: "debian:distro:debian:12", Severity: severity, Risk: 42.125, Description: "A flaw.", Aliases: []string{"GHSA-" + id},
			URLs: []string{"https://example.org/" + id}, CVSS: []model.CVSS{{Version: "3.1", Vector: "AV:N", Score: 7.5}},
			EPSS: &model.EPSS{CVE: id, Score: 0.5, Percentile: 0.9}, KEV: []model.KnownExploited{{CVE: id}},
		},
		Fix:     model.Fix{State: model.FixStateNotFixed},
		Details: []model.MatchDetail{{Type: "exact-direct-match", Matcher: "dpkg-matcher", Found: json.RawMessage(`{"constraint":"< 2"}`)}},
	}
	if len(fix) > 0 {
		f.Fix = model.Fix{State: model.FixStateFixed, Versions: fix}
	}
	return f
}
