package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/anchore/syft/syft/format/syftjson"
	syftpkg "github.com/anchore/syft/syft/pkg"
	"github.com/anchore/syft/syft/sbom"

	"github.com/scanner-operator/scanner-operator/hack/sampleimages"
)

// runScan runs the command with the sample database, and without network for databases.
func runScan(t *testing.T, dir string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	command := newScanCommand()
	var out, errs bytes.Buffer
	command.SetOut(&out)
	command.SetErr(&errs)
	command.SilenceUsage, command.SilenceErrors = true, true
	command.SetArgs(append([]string{"--data-dir", dir, "--vulnerability-database-url", "none"}, args...))
	err = command.ExecuteContext(t.Context())
	if left, readErr := os.ReadDir(temp); readErr != nil || len(left) != 0 {
		t.Errorf("the temporary folder holds %v (%v)", left, readErr)
	}
	return out.String(), errs.String(), err
}

// sbomFile writes an SBOM with the Java packages that are given as "group:name:version".
func sbomFile(t *testing.T, packages ...string) string {
	t.Helper()
	collection := syftpkg.NewCollection()
	for _, spec := range packages {
		parts := strings.Split(spec, ":")
		p := syftpkg.Package{
			Name: parts[1], Version: parts[2], Type: syftpkg.JavaPkg, Language: syftpkg.Java,
			PURL: fmt.Sprintf("pkg:maven/%s/%s@%s", parts[0], parts[1], parts[2]),
		}
		p.SetID()
		collection.Add(p)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "sbom.json"))
	if err != nil {
		t.Fatal(err)
	}
	err = syftjson.NewFormatEncoder().Encode(file, sbom.SBOM{Artifacts: sbom.Artifacts{Packages: collection}})
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	return file.Name()
}

const log4j = "org.apache.logging.log4j:log4j-core:2.14.1"

func TestScanSBOM(t *testing.T) {
	dir, vulnerable, clean := t.TempDir(), sbomFile(t, log4j), sbomFile(t, "org.example:nothing:1.0")
	out, stderr, err := runScan(t, dir, vulnerable, "--sample-database")
	if err != nil || !strings.Contains(out, "GHSA-jfh8-c2jp-5v3q") && !strings.Contains(out, "CVE-2021-44228") {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(stderr, "sample database") {
		t.Errorf("there is no warning about the sample: %q", stderr)
	}
	if out, _, err := runScan(t, dir, clean, "--sample-database", "--fail-on", "unknown"); err != nil || out != "No vulnerabilities found.\n" {
		t.Errorf("without vulnerabilities: %v, %q", err, out)
	}
	for _, format := range []string{"json", "cyclonedx-json", "spdx-json", "sarif"} {
		out, _, err := runScan(t, dir, vulnerable, "--sample-database", "-o", format)
		if err != nil || !json.Valid([]byte(out)) || !strings.Contains(out, "log4j-core") {
			t.Errorf("%s: %v, %.300s", format, err, out)
		}
	}
	if out, _, err := runScan(t, dir, vulnerable, "--sample-database", "-o", "csv"); err != nil || !strings.Contains(out, "log4j-core") {
		t.Errorf("csv: %v, %.300s", err, out)
	}
}

func TestScanFailOn(t *testing.T) {
	dir, vulnerable := t.TempDir(), sbomFile(t, log4j)
	for _, severity := range []string{"critical", "High", "low", "unknown"} {
		out, stderr, err := runScan(t, dir, vulnerable, "--sample-database", "--fail-on", severity)
		var exit exitError
		if !errors.As(err, &exit) || exit != 2 {
			t.Errorf("%s: %v", severity, err)
		}
		if !strings.Contains(out, "log4j-core") || !strings.Contains(stderr, "or higher: ") {
			t.Errorf("%s: the report is missing: %q, %q", severity, out, stderr)
		}
	}
	high := sbomFile(t, "org.yaml:snakeyaml:1.29")
	if out, stderr, err := runScan(t, dir, high, "--sample-database", "--fail-on", "critical"); err != nil || !strings.Contains(out, "High") || strings.Contains(stderr, "or higher") {
		t.Errorf("below the threshold: %v, %q, %q", err, out, stderr)
	}
}

func TestScanErrors(t *testing.T) {
	dir, good, empty := t.TempDir(), sbomFile(t, log4j), t.TempDir()
	noSBOM := filepath.Join(t.TempDir(), "other.json")
	if err := os.WriteFile(noSBOM, []byte(` {"bomFormat":"CycloneDX"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := runScan(t, dir, good, "--sample-database"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		dir  string
		args []string
		want string
	}{
		"no database":    {empty, []string{good}, "no vulnerability database is installed"},
		"only a sample":  {dir, []string{good}, "set --sample-database"},
		"format":         {dir, []string{good, "--sample-database", "-o", "xml"}, "output format"},
		"severity":       {dir, []string{good, "--sample-database", "--fail-on", "bad"}, "--fail-on"},
		"platform":       {dir, []string{good, "--sample-database", "--platform", "x"}, "--platform"},
		"missing SBOM":   {dir, []string{"nowhere.json", "--sample-database"}, "nowhere.json"},
		"missing image":  {dir, []string{"./nowhere.tar", "--sample-database"}, "ImageNotFound"},
		"foreign SBOM":   {dir, []string{noSBOM, "--sample-database"}, "syft-json"},
		"empty folder":   {dir, []string{empty, "--sample-database"}, "OCI image layout"},
		"no argument":    {dir, nil, "arg"},
		"two arguments":  {dir, []string{good, good}, "arg"},
		"closed network": {dir, []string{"127.0.0.1:1/a@sha256:" + strings.Repeat("0", 64), "--sample-database", "--timeout", "1s"}, "127.0.0.1:1"},
	} {
		out, _, err := runScan(t, c.dir, c.args...)
		var exit exitError
		if err == nil || errors.As(err, &exit) || !strings.Contains(err.Error(), c.want) || out != "" {
			t.Errorf("%s: %v, %q", name, err, out)
		}
	}
}

// TestScanFetchesADatabase shows that a scan without database asks for one, and says why it got none.
func TestScanFetchesADatabase(t *testing.T) {
	asked := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked = true
		http.Error(w, "no", http.StatusNotFound)
	}))
	defer server.Close()
	_, _, err := runScan(t, t.TempDir(), sbomFile(t, log4j), "--vulnerability-database-url", server.URL)
	if !asked || err == nil || !strings.Contains(err.Error(), "download failed") {
		t.Errorf("asked %v: %v", asked, err)
	}
	out, stderr, err := runScan(t, t.TempDir(), sbomFile(t, log4j), "--vulnerability-database-url", server.URL, "--sample-database")
	if err != nil || !strings.Contains(out, "log4j-core") || !strings.Contains(stderr, "sample") {
		t.Errorf("with the sample: %v, %q, %q", err, out, stderr)
	}
}

// TestScanImage scans one sample image in each form in which it can be had; every form has the same vulnerabilities.
func TestScanImage(t *testing.T) {
	if testing.Short() {
		t.Skip("builds images, which takes up to a minute")
	}
	images, err := sampleimages.Build(t.Context(), "", t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	var image sampleimages.Image
	for _, candidate := range images {
		if candidate.Name == "samples/java-app" {
			image = candidate
		}
	}
	folder, dir := t.TempDir(), t.TempDir()
	layout, oci, docker := filepath.Join(folder, "layout"), filepath.Join(folder, "oci.tar"), filepath.Join(folder, "docker.tar")
	if err := errors.Join(image.WriteLayout(layout), image.WriteOCIArchive(oci), image.WriteDockerArchive(docker)); err != nil {
		t.Fatal(err)
	}
	server, err := sampleimages.Serve(t.Context(), "127.0.0.1:0", []sampleimages.Image{image})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	want, stderr, err := runScan(t, dir, docker, "--sample-database")
	if err != nil || !strings.Contains(want, "log4j-core") || !strings.Contains(want, "Critical") {
		t.Fatalf("%v, %q, %s", err, stderr, want)
	}
	for _, source := range []string{layout, oci, "oci-archive:" + oci, server.References[0], server.Tagged[0]} {
		if got, _, err := runScan(t, dir, source, "--sample-database"); err != nil || got != want {
			t.Errorf("%s: %v, %s", source, err, got)
		}
	}
	out, _, err := runScan(t, dir, server.Tagged[0], "--sample-database", "-o", "json", "--fail-on", "critical")
	var exit exitError
	if !errors.As(err, &exit) || exit != 2 {
		t.Errorf("--fail-on: %v", err)
	}
	var page struct{ ImageID, Platform string }
	if err := json.Unmarshal([]byte(out), &page); err != nil {
		t.Fatal(err)
	}
	if page.ImageID != server.References[0] || page.Platform == "" {
		t.Errorf("the tag is reported as %+v, not as %s", page, server.References[0])
	}
}

func TestScanInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer server.Close()
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	command := newScanCommand()
	command.SetOut(io.Discard)
	command.SetErr(io.Discard)
	command.SilenceUsage, command.SilenceErrors = true, true
	command.SetArgs([]string{strings.TrimPrefix(server.URL, "http://") + "/a:b", "--sample-database", "--vulnerability-database-url", "none", "--data-dir", t.TempDir()})
	if err := command.ExecuteContext(ctx); err == nil || err.Error() != "interrupted" {
		t.Errorf("an interrupted scan says %v", err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("the temporary folder holds %v (%v)", left, err)
	}
}
