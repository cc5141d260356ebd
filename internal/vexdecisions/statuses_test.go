package vexdecisions_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/semver"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest"
	"github.com/scanner-operator/scanner-operator/internal/vex"
	"github.com/scanner-operator/scanner-operator/internal/vexdecisions"
)

// semantic compares versions as https://semver.org says.
type semantic struct{}

func (semantic) Satisfies(_, version, constraint string) (bool, error) {
	operand := strings.TrimLeft(constraint, "<>=")
	a, b := "v"+version, "v"+operand
	if !semver.IsValid(a) || !semver.IsValid(b) {
		return false, fmt.Errorf("%s or %s is no semantic version", version, operand)
	}
	c := semver.Compare(a, b)
	switch strings.TrimSuffix(constraint, operand) {
	case "<":
		return c < 0, nil
	case "<=":
		return c <= 0, nil
	case ">":
		return c > 0, nil
	case ">=":
		return c >= 0, nil
	default:
		return c == 0, nil
	}
}

// migrated is the file of an empty database. Migrations take longer than most of what the tests do.
var migrated = sync.OnceValues(func() (_ []byte, err error) {
	folder, err := os.MkdirTemp("", "scanner-operator-vexdecisions-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	file := filepath.Join(folder, "test.db")
	s, err := sqlstore.Open(context.Background(), sqlstore.Config{DSN: file})
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
})

func open(t *testing.T) *sqlstore.Store {
	t.Helper()
	return openAt(t, clock.RealClock{})
}

// openAt opens a store with a clock.
func openAt(t *testing.T, clk clock.PassiveClock) *sqlstore.Store {
	t.Helper()
	content, err := migrated()
	must(t, err)
	file := filepath.Join(t.TempDir(), "test.db")
	must(t, os.WriteFile(file, content, 0o600))
	s, err := sqlstore.Open(t.Context(), sqlstore.Config{DSN: file, Clock: clk, Rules: &vex.Evaluator{Versions: semantic{}, Arch: match.Arch}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// packages are those of the image, with the PURLs that Syft gives them.
var packages = []model.Package{
	{Type: "deb", Name: "openssl", Version: "3.0.15-1~deb12u1", Distro: "debian:12", PURL: "pkg:deb/debian/openssl@3.0.15-1~deb12u1?arch=amd64&distro=debian-12", CPEs: []string{"cpe:2.3:a:openssl:openssl:3.0.15-1\\~deb12u1:*:*:*:*:*:*:*"}},
	{
		Type: "rpm", Name: "openssl-libs", Version: "1:3.0.7-24.el9", Distro: "rhel:9.4", PURL: "pkg:rpm/redhat/openssl-libs@3.0.7-24.el9?arch=x86_64&distro=rhel-9.4&epoch=1&upstream=openssl-3.0.7-24.el9.src.rpm",
		MatchInput: json.RawMessage(`{"rpm":{"epoch":1,"arch":"x86_64"}}`),
	},
	{Type: "apk", Name: "busybox", Version: "1.36.1-r2", Distro: "alpine:3.18.4", PURL: "pkg:apk/alpine/busybox@1.36.1-r2?arch=aarch64&distro=alpine-3.18.4", MatchInput: json.RawMessage(`{"apk":{"arch":"aarch64"}}`)},
	{Type: "npm", Name: "@angular/core", Version: "1.2.3", PURL: "pkg:npm/%40angular/core@1.2.3", CPEs: []string{"cpe:2.3:a:angular:core:1.2.3:*:*:*:*:node.js:*:*"}},
	{Type: "npm", Name: "lodash", Version: "4.17.20", PURL: "pkg:npm/lodash@4.17.20", CPEs: []string{"cpe:2.3:a:lodash:lodash:4.17.20:*:*:*:*:node.js:*:*"}},
	{Type: "go-module", Name: "github.com/Docker/docker", Version: "v20.10.7", PURL: "pkg:golang/github.com/docker/docker@v20.10.7"},
	{Type: "python", Name: "Flask_Login", Version: "0.6.3", PURL: "pkg:pypi/flask-login@0.6.3"},
	{Type: "java-archive", Name: "log4j-core", Version: "2.14.1", PURL: "pkg:maven/org.apache.logging.log4j/log4j-core@2.14.1"},
}

// products are what statements may be about: some of the packages, and others.
var products = []string{
	"pkg:deb/debian/openssl", "pkg:deb/debian/openssl@3.0.15-1~deb12u1", "pkg:deb/debian/openssl?distro=debian-12", "pkg:deb/debian/openssl?distro=debian-11",
	"pkg:rpm/redhat/openssl-libs@3.0.7-24.el9?arch=x86_64&epoch=1", "pkg:rpm/redhat/openssl-libs?arch=s390x", "pkg:rpm/redhat/openssl-libs?epoch=2",
	"pkg:rpm/redhat/openssl-libs", "pkg:apk/alpine/busybox?arch=aarch64", "pkg:apk/wolfi/busybox", "pkg:npm/%40angular/core", "pkg:npm/%40angular/core@1.2.3",
	"pkg:npm/lodash", "pkg:npm/lodash@4.17.20", "pkg:npm/lodash@4.17.21", "pkg:golang/github.com/docker/docker", "pkg:golang/github.com/docker/docker@v20.10.7",
	"pkg:pypi/flask-login", "pkg:pypi/Flask_Login@0.6.3", "pkg:maven/org.apache.logging.log4j/log4j-core@2.14.1", "pkg:maven/other/log4j-core",
	"cpe:2.3:a:lodash:lodash:*:*:*:*:*:*:*:*", "cpe:2.3:a:angular:core:1.2.3:*:*:*:*:*:*:*", "cpe:2.3:a:openssl:openssl:*:*:*:*:*:*:*:*",
}

var timestamps = []string{"2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// openVEX is a document with random statements.
func openVEX(r *rand.Rand, name string) store.VEXContent {
	var statements []any
	for range 1 + r.IntN(8) {
		vulnerability := map[string]any{"name": pick(r, []string{"CVE-2026-1", "cve-2026-2", "GHSA-1", "GHSA-3", "ALAS-1", "CVE-2026-5"})}
		if r.IntN(3) == 0 {
			vulnerability["aliases"] = []string{pick(r, []string{"CVE-2026-1", "GHSA-2", "CVE-2026-6"})}
		}
		var list []any
		for range 1 + r.IntN(3) {
			list = append(list, product(r))
		}
		status := pick(r, []string{"not_affected", "affected", "fixed", "under_investigation"})
		statement := map[string]any{"vulnerability": vulnerability, "status": status, "products": list}
		switch status {
		case "not_affected":
			statement["justification"] = "component_not_present"
		case "affected":
			statement["action_statement"] = "Upgrade."
		}
		if r.IntN(2) == 0 {
			statement["timestamp"] = pick(r, timestamps)
		}
		statements = append(statements, statement)
	}
	content, _ := json.Marshal(map[string]any{
		"@context": "https://openvex.dev/ns/v0.2.0", "@id": fmt.Sprint("https://example.com/", r.IntN(3)), "author": pick(r, []string{"Vendor", "Other"}), "timestamp": pick(r, timestamps),
		"version": 1 + r.IntN(2), "statements": statements,
	})
	return store.VEXContent{Name: name, Content: content}
}

func product(r *rand.Rand) map[string]any {
	text := pick(r, products)
	one := map[string]any{"@id": text}
	if strings.HasPrefix(text, "cpe:") {
		one = map[string]any{"identifiers": map[string]string{"cpe23": text}}
	}
	if r.IntN(4) == 0 {
		return map[string]any{"identifiers": map[string]string{"cpe22": pick(r, []string{"cpe:/o:redhat:enterprise_linux:9", "cpe:/o:redhat:enterprise_linux:8"})}, "subcomponents": []any{one}}
	}
	return one
}

// cycloneDX is a document with random ranges.
func cycloneDX(r *rand.Rand, name string) store.VEXContent {
	var components, vulnerabilities []any
	for i, purl := range []string{"pkg:npm/lodash", "pkg:npm/%40angular/core", "pkg:pypi/flask-login"} {
		components = append(components, map[string]any{"type": "library", "name": "x", "bom-ref": fmt.Sprint(i), "purl": purl})
	}
	for range 1 + r.IntN(4) {
		var affects []any
		for range 1 + r.IntN(2) {
			one := map[string]any{"ref": fmt.Sprint(r.IntN(3))}
			if r.IntN(3) > 0 {
				one["versions"] = []any{map[string]any{
					"range":  pick(r, []string{"vers:npm/>=1.0.0|<4.17.21", "vers:npm/<1.0.0", "vers:npm/!=4.17.20", "vers:npm/4.17.20", "vers:npm/*"}),
					"status": pick(r, []string{"affected", "unaffected", "unknown"}),
				}}
			}
			affects = append(affects, one)
		}
		vulnerabilities = append(vulnerabilities, map[string]any{
			"id": pick(r, []string{"CVE-2026-1", "GHSA-2", "CVE-2026-3"}), "affects": affects,
			"analysis": map[string]any{"state": pick(r, []string{"not_affected", "exploitable", "in_triage", "resolved", "false_positive"}), "justification": "code_not_present"},
		})
	}
	content, _ := json.Marshal(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": "urn:uuid:1", "metadata": map[string]any{"timestamp": pick(r, timestamps), "supplier": map[string]any{"name": "Vendor"}},
		"components": components, "vulnerabilities": vulnerabilities,
	})
	return store.VEXContent{Name: name, Content: content}
}

// findings are those of each package: with an alias, and of an advisory that combines several CVEs.
func findings() map[string][]model.PackageFinding {
	all := map[string][]model.PackageFinding{}
	for i := range packages {
		for _, v := range []model.Vulnerability{
			{ID: "CVE-2026-1", Aliases: []string{"GHSA-1"}}, {ID: "GHSA-2", Aliases: []string{"CVE-2026-2"}}, {ID: "CVE-2026-3"},
			{ID: "ALAS-1", Aliases: []string{"CVE-2026-1", "CVE-2026-5"}},
		} {
			v.Severity, v.Namespace = model.SeverityHigh, "x"
			all[packages[i].Name] = append(all[packages[i].Name], model.PackageFinding{Vulnerability: v})
		}
	}
	return all
}

// scanned says what "scan --vex" makes of the documents of all sources.
func scanned(t *testing.T, sources map[string][]store.VEXContent, distribution string) map[string]string {
	t.Helper()
	var documents []*vex.Document
	for name, contents := range sources {
		for _, content := range contents {
			d, err := vexdecisions.Read(store.VEXKindSource, name, content)
			must(t, err)
			d.Trust = name
			documents = append(documents, d)
		}
	}
	set, err := vex.NewSet(documents)
	must(t, err)
	var all []model.Finding
	for i := range packages {
		for _, f := range findings()[packages[i].Name] {
			all = append(all, model.Finding{PackageFinding: f, Package: packages[i]})
		}
	}
	result, err := set.Apply(t.Context(), model.ImageNames{CPE: distribution}, all, semantic{}, time.Now())
	must(t, err)
	statuses := map[string]string{}
	for _, f := range result.Open {
		statuses[f.Vulnerability.ID+" "+f.Package.Name] = "open"
	}
	for _, f := range result.Suppressed {
		statuses[f.Vulnerability.ID+" "+f.Package.Name] = f.Suppression.Status
	}
	return statuses
}

// stored says what the store makes of them.
func stored(t *testing.T, s *sqlstore.Store, key model.ImageKey) map[string]string {
	t.Helper()
	list, err := s.Findings(t.Context(), store.AllNamespaces(), store.FindingQuery{Image: key, Suppressed: true, Page: store.Page{Size: store.MaxPageSize}})
	must(t, err)
	statuses := map[string]string{}
	for _, f := range list.Findings {
		name := f.Vulnerability.ID + " " + f.Package.Name
		statuses[name] = "open"
		if len(f.Decisions) > 1 {
			t.Errorf("%s has %d decisions", name, len(f.Decisions))
		}
		if f.Suppressed {
			statuses[name] = map[model.DecisionStatus]string{model.DecisionNotAffected: "not_affected", model.DecisionFixed: "fixed"}[f.Decisions[0].Status]
		}
	}
	return statuses
}

func init() {
	for i := range packages {
		packages[i].Fingerprint = fmt.Sprint("package-", i)
	}
}

// TestStatusesAsInScans compares what the store makes of random documents with what "scan --vex" does, whenever documents come, change and go, and
// whether findings are there before or come later.
func TestStatusesAsInScans(t *testing.T) {
	t.Parallel()
	rhel := "cpe:/o:redhat:enterprise_linux:9::baseos"
	suppressed := 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		s := open(t)
		applier := vexdecisions.NewApplier(s, clock.RealClock{}, nil)
		key := model.ImageKey{ImageID: "registry.example/shop@sha256:" + strings.Repeat("a", 64), Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
		_, err := s.StartResultSet(t.Context(), model.DatabaseBuild{ID: "1"}, "", true)
		must(t, err)
		match := func() {
			_, err := s.WantImages(t.Context(), []model.ImageKey{key})
			must(t, err)
			var catalog model.Catalog
			for i := range packages {
				catalog.Packages = append(catalog.Packages, model.HeldPackage{Package: packages[i]})
			}
			must(t, s.SaveSBOM(t.Context(), key, store.SBOM{SHA256: "d", Size: 1}, catalog))
			must(t, storetest.Match(t.Context(), s, key, "d", findings()))
		}
		sources := map[string][]store.VEXContent{}
		later := r.IntN(2) == 0
		if !later {
			match()
		}
		for step := range 4 {
			name := fmt.Sprint("s", r.IntN(3))
			if step > 0 && r.IntN(4) == 0 {
				_, err := s.DeleteVEX(t.Context(), store.VEXKindSource, name, "")
				must(t, err)
				delete(sources, name)
			} else {
				contents := []store.VEXContent{openVEX(r, "a"), cycloneDX(r, "b"), openVEX(r, "c")}[:1+r.IntN(3)]
				must(t, s.SaveVEX(t.Context(), store.VEXSource{Kind: store.VEXKindSource, Name: name}, contents))
				sources[name] = contents
			}
			if _, err := applier.Apply(t.Context()); err != nil {
				t.Fatal(err)
			}
			if later && step == 2 {
				match()
				later = false
			}
			if later {
				continue
			}
			// The packages of RHEL are in the distribution, and the others are not.
			want, inRHEL := scanned(t, sources, ""), scanned(t, sources, rhel)
			for name, status := range inRHEL {
				if strings.HasSuffix(name, " openssl-libs") {
					want[name] = status
				}
			}
			if diff := cmp.Diff(want, stored(t, s, key)); diff != "" {
				t.Fatalf("seed %d, step %d (-scan +store): %s", seed, step, diff)
			}
			for _, status := range want {
				if status != "open" {
					suppressed++
				}
			}
		}
	}
	if suppressed < 200 {
		t.Errorf("only %d findings were suppressed", suppressed)
	}
}
