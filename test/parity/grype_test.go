package parity_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/anchore/grype/grype/presenter/models"

	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

// grypeCommand builds the grype command once per version, outside of the source tree.
var grypeCommand = sync.OnceValues(func() (string, error) {
	hash := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join("grypecli", name))
		if err != nil {
			return "", err
		}
		hash.Write(data)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "scanner-operator-parity")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "grype-"+hex.EncodeToString(hash.Sum(nil))[:16])
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	tmp := binary + ".tmp"
	build := exec.Command("go", "build", "-trimpath", "-o", tmp, "github.com/anchore/grype/cmd/grype")
	build.Dir = "grypecli"
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return "", err
	}
	return binary, os.Rename(tmp, binary)
})

// report is the part of Grype's JSON report that we keep.
type report struct {
	Matches []struct {
		Vulnerability          models.Vulnerability           `json:"vulnerability"`
		RelatedVulnerabilities []models.VulnerabilityMetadata `json:"relatedVulnerabilities"`
		MatchDetails           []struct {
			Type       string          `json:"type"`
			Matcher    string          `json:"matcher"`
			SearchedBy json.RawMessage `json:"searchedBy"`
			Found      json.RawMessage `json:"found"`
		} `json:"matchDetails"`
		Artifact struct {
			Name      string `json:"name"`
			Version   string `json:"version"`
			Type      string `json:"type"`
			Language  string `json:"language"`
			PURL      string `json:"purl"`
			Locations []struct {
				Path  string `json:"path"`
				Layer string `json:"layerID"`
			} `json:"locations"`
			Licenses []string `json:"licenses"`
			CPEs     []string `json:"cpes"`
		} `json:"artifact"`
	} `json:"matches"`
}

// runGrype runs the grype command on an SBOM.
func runGrype(t *testing.T, installed vulndb.Installed, sbom []byte) report {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sbom.json")
	if err := os.WriteFile(file, sbom, 0o600); err != nil {
		t.Fatal(err)
	}
	return runGrypeOn(t, installed, "sbom:"+file)
}

// runGrypeOn runs the grype command with its defaults, except that it must use the given database and no network.
func runGrypeOn(t *testing.T, installed vulndb.Installed, input string) report {
	t.Helper()
	binary, err := grypeCommand()
	if err != nil {
		t.Fatalf("build the grype command: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	run := exec.CommandContext(ctx, binary, input, "-o", "json")
	run.Dir = t.TempDir() // no configuration file
	run.Env = []string{
		"HOME=" + run.Dir, "PATH=" + os.Getenv("PATH"),
		"GRYPE_DB_CACHE_DIR=" + installed.Dir,
		"GRYPE_DB_AUTO_UPDATE=false",
		"GRYPE_DB_VALIDATE_AGE=false",
		"GRYPE_CHECK_FOR_APP_UPDATE=false",
	}
	run.Stdout, run.Stderr = &stdout, &stderr
	if err := run.Run(); err != nil {
		t.Fatalf("grype: %v\n%s", err, stderr.String())
	}
	var r report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatalf("read the report of grype: %v", err)
	}
	return r
}
