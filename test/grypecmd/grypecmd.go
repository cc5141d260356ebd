// Package grypecmd builds and runs the grype command, and builds the syft command, so that tests and benchmarks can compare with it.
package grypecmd

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

// Grype and Syft are the packages of the commands.
const (
	Grype = "github.com/anchore/grype/cmd/grype"
	Syft  = "github.com/anchore/syft/cmd/syft"
)

// Programs builds packages of the module in a folder, commands that it pins or its own, and returns the folder that holds
// them. They are kept in the user's cache, outside of the source tree, and built again when the module changes. The first
// build takes minutes. One process at a time may build.
func Programs(module string, packages ...string) (string, error) {
	hash := sha256.New()
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		data, err := os.ReadFile(filepath.Join(module, name))
		if err != nil && (name != "main.go" || !os.IsNotExist(err)) {
			return "", fmt.Errorf("build the commands of %s: %w", module, err)
		}
		hash.Write(data)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("build the commands of %s: %w", module, err)
	}
	dir := filepath.Join(cache, "scanner-operator-parity", hex.EncodeToString(hash.Sum(nil))[:16])
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	tmp := dir + ".tmp"
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return "", fmt.Errorf("build the commands of %s: %w", module, err)
	}
	build := exec.Command("go", append([]string{"build", "-trimpath", "-o", tmp + string(filepath.Separator)}, packages...)...)
	build.Dir = module
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("build the commands of %s: %w", module, err)
	}
	return dir, os.Rename(tmp, dir)
}

// Environment makes the grype command use a database as it is, and no network. home is a folder without a configuration
// file, in which the command is to be run.
func Environment(home string, installed vulndb.Installed) []string {
	return []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"),
		"GRYPE_DB_CACHE_DIR=" + installed.Dir,
		"GRYPE_DB_AUTO_UPDATE=false",
		"GRYPE_DB_VALIDATE_AGE=false",
		"GRYPE_CHECK_FOR_APP_UPDATE=false",
	}
}
