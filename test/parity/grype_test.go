package parity_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/anchore/grype/grype/presenter/models"

	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/test/grypecmd"
)

// grypePrograms is the folder of the grype command and its stand-in.
var grypePrograms = sync.OnceValues(func() (string, error) { return grypecmd.Programs("grypecli", grypecmd.Grype, ".") })

func grypeProgram(t *testing.T, name string) string {
	t.Helper()
	dir, err := grypePrograms()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

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

func readReport(t *testing.T, raw []byte) report {
	t.Helper()
	var r report
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatalf("read the report of grype: %v", err)
	}
	return r
}

// sbomFile writes an SBOM to where Grype can read it.
func sbomFile(t *testing.T, sbom []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sbom.json")
	if err := os.WriteFile(file, sbom, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// runGrype runs the grype command on an SBOM.
func runGrype(t *testing.T, installed vulndb.Installed, sbom []byte) report {
	t.Helper()
	return readReport(t, runGrypeOn(t, installed, "sbom:"+sbomFile(t, sbom)))
}

// runGrypeOn runs the grype command with its defaults and some flags, except that it must use the given database and no network. It collects garbage as
// this process does. It returns the command's report.
func runGrypeOn(t *testing.T, installed vulndb.Installed, input string, flags ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	run := exec.CommandContext(ctx, grypeProgram(t, "grype"), append([]string{input, "-o", "json"}, flags...)...)
	run.Dir = t.TempDir()
	run.Env = append(grypecmd.Environment(run.Dir, installed), "GOGC="+os.Getenv("GOGC"))
	run.Stdout, run.Stderr = &stdout, &stderr
	if err := run.Run(); err != nil {
		t.Fatalf("grype: %v\n%s", err, stderr.String())
	}
	return stdout.Bytes()
}

// standIn is the program in grypecli: Grype's own code, started once for many SBOMs. It serves one goroutine.
type standIn struct {
	in     io.WriteCloser
	out    *bufio.Reader
	file   string
	stderr *bytes.Buffer
}

func startStandIn(t *testing.T, installed vulndb.Installed) *standIn {
	t.Helper()
	dir := t.TempDir()
	run := exec.CommandContext(t.Context(), grypeProgram(t, "grypecli"), installed.Dir)
	run.Dir = dir
	run.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "GOGC=" + os.Getenv("GOGC")}
	s := &standIn{file: filepath.Join(dir, "sbom.json"), stderr: &bytes.Buffer{}}
	run.Stderr = s.stderr
	in, err := run.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.in, s.out = in, bufio.NewReaderSize(out, 1<<20)
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = run.Wait()
	})
	return s
}

// ask hands an SBOM over. The answer has to be taken before the next question.
func (s *standIn) ask(sbom []byte) error {
	if err := os.WriteFile(s.file, sbom, 0o600); err != nil {
		return err
	}
	_, err := fmt.Fprintln(s.in, s.file)
	return err
}

// errGrypeFails says that the grype command would end without a report.
var errGrypeFails = errors.New("grype has no report")

// answer is the report of the last question, as the grype command writes it.
func (s *standIn) answer() (json.RawMessage, error) {
	line, err := s.out.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("the stand-in for grype ended: %w: %s", err, s.stderr.String())
	}
	var a struct {
		Error  string
		Report json.RawMessage
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return nil, err
	}
	if a.Error != "" {
		return nil, fmt.Errorf("%w: %s", errGrypeFails, a.Error)
	}
	return a.Report, nil
}
