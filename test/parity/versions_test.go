package parity_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The command must be made of what this module is made of, or the comparison compares versions.
func TestVersionsAreTheSame(t *testing.T) {
	ours := requirements(t, filepath.Join("..", "..", "go.mod"))
	theirs := requirements(t, filepath.Join("grypecli", "go.mod"))
	for _, module := range []string{
		"github.com/anchore/grype", "github.com/anchore/syft", "github.com/anchore/stereoscope", "github.com/anchore/packageurl-go",
		"github.com/Masterminds/semver/v3", "github.com/aquasecurity/go-pep440-version", "github.com/aquasecurity/go-version",
		"github.com/knqyf263/go-apk-version", "github.com/knqyf263/go-deb-version",
		"github.com/masahiro331/go-mvn-version", "github.com/pandatix/go-cvss", "github.com/facebookincubator/nvdtools",
	} {
		if ours[module] == "" || ours[module] != theirs[module] {
			t.Errorf("%s is %q here and %q in grypecli: change test/parity/grypecli/go.mod", module, ours[module], theirs[module])
		}
	}
	benchmarked := requirements(t, filepath.Join("..", "bench", "syftcli", "go.mod"))
	for _, module := range []string{"github.com/anchore/syft", "github.com/anchore/stereoscope"} {
		if ours[module] != benchmarked[module] {
			t.Errorf("%s is %q here and %q in syftcli: change test/bench/syftcli/go.mod", module, ours[module], benchmarked[module])
		}
	}
}

func requirements(t *testing.T, file string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) >= 2 && strings.HasPrefix(fields[1], "v") {
			out[fields[0]] = fields[1]
		}
	}
	return out
}
