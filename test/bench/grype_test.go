package bench

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/scanner-operator/scanner-operator/internal/vulndb"
	"github.com/scanner-operator/scanner-operator/test/grypecmd"
)

var grypePrograms = sync.OnceValues(func() (string, error) {
	return grypecmd.Programs(filepath.Join("..", "parity", "grypecli"), grypecmd.Grype, ".")
})

// grype prepares a run of the grype command on an SBOM.
func grype(tb testing.TB, installed vulndb.Installed, sbom string) *exec.Cmd {
	tb.Helper()
	dir, err := grypePrograms()
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), 5*time.Minute)
	tb.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "grype"), "sbom:"+sbom, "-o", "json")
	cmd.Dir = tb.TempDir()
	cmd.Env = grypecmd.Environment(cmd.Dir, installed)
	return cmd
}

// run measures a command and discards what it says.
func run(tb testing.TB, cmd *exec.Cmd) usage {
	tb.Helper()
	u, _, err := measure(cmd)
	if err != nil {
		tb.Fatal(err)
	}
	return u
}

// decompress writes a compressed SBOM of a fleet as a file that commands can read.
func decompress(tb testing.TB, compressed string) string {
	tb.Helper()
	content, err := os.ReadFile(compressed)
	if err != nil {
		tb.Fatal(err)
	}
	decoder, err := zstd.NewReader(nil)
	if err != nil {
		tb.Fatal(err)
	}
	defer decoder.Close()
	document, err := decoder.DecodeAll(content, nil)
	if err != nil {
		tb.Fatal(err)
	}
	file := filepath.Join(tb.TempDir(), "sbom.json")
	if err := os.WriteFile(file, document, 0o600); err != nil {
		tb.Fatal(err)
	}
	return file
}
