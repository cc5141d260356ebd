package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	v6 "github.com/anchore/grype/grype/db/v6"

	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

// runs is how often a command is run; the run of the median CPU time counts.
const runs = 5

// BenchmarkOneImage finds the vulnerabilities of the SBOM of one image with our command and with the grype command. Cold means
// that the pages of the program, the database and the SBOM are not in the page cache; warm that they are.
func BenchmarkOneImage(b *testing.B) {
	installed := database(b)
	f := &fleet{dir: b.TempDir(), images: 1, before: installed}
	sbom := decompress(b, f.generate(b).sbomFile(0))
	program, dataDir, used := ourCommand(b, installed)
	ours := func() *exec.Cmd {
		return exec.CommandContext(b.Context(), program, "scan", sbom, "-o", "json", "--data-dir", dataDir, "--vulnerability-database-url", vulndb.UpdateURLNone)
	}
	theirs := func() *exec.Cmd { return grype(b, installed, sbom) }
	database := filepath.Join(used.SQLiteDir(), v6.VulnerabilityDBFileName)
	for _, kind := range []string{"cold", "warm"} {
		b.Run(kind, func(b *testing.B) {
			var files []string
			if kind == "cold" {
				files = []string{sbom, database, program}
			}
			o := median(b, ours, files)
			if kind == "cold" {
				files = []string{sbom, filepath.Join(installed.SQLiteDir(), v6.VulnerabilityDBFileName), theirs().Path}
			}
			g := median(b, theirs, files)
			group := "one image, database of " + sizeOf(installed)
			table.add(b, row{group, kind, o, fmt.Sprintf("grype: %s wall, %s CPU", seconds(g.Wall), seconds(g.CPU)), g.Wall.Seconds() / o.Wall.Seconds()})
		})
	}
}

// median runs a command several times, each time after the files were put out of the page cache.
func median(b *testing.B, command func() *exec.Cmd, files []string) usage {
	b.Helper()
	if files == nil {
		run(b, command())
	}
	var all []usage
	for range runs {
		for _, file := range files {
			if err := evict(file); err != nil {
				b.Skipf("cannot put files out of the page cache: %v", err)
			}
		}
		all = append(all, run(b, command()))
	}
	slices.SortFunc(all, func(x, y usage) int { return int(x.Wall - y.Wall) })
	return all[runs/2]
}

// buildOurCommand builds our command as a release does.
func buildOurCommand(b *testing.B) string {
	b.Helper()
	program := filepath.Join(b.TempDir(), "scanner-operator")
	build := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "./cmd/scanner-operator")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build our command: %v\n%s", err, output)
	}
	return program
}

// ourCommand builds our command, and installs the database for it.
func ourCommand(b *testing.B, installed vulndb.Installed) (program, dataDir string, used vulndb.Installed) {
	b.Helper()
	program, dataDir = buildOurCommand(b), filepath.Join(b.TempDir(), "data")
	library, err := vulndb.New(vulndb.Config{Dir: filepath.Join(dataDir, "db"), UpdateURL: vulndb.UpdateURLNone})
	if err != nil {
		b.Fatal(err)
	}
	if used, err = library.Import(b.Context(), installed.Dir); err != nil {
		b.Fatal(err)
	}
	return program, dataDir, used
}
