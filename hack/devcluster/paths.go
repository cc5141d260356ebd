package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

const modulePath = "github.com/scanner-operator/scanner-operator/hack/devcluster"

var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

func xdg(variable, fallback string) (string, error) {
	base := os.Getenv(variable)
	if base == "" || !filepath.IsAbs(base) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find a home directory: %w; set HOME or %s", err, variable)
		}
		base = filepath.Join(home, fallback)
	}
	return filepath.Join(base, "scanner-operator", "devcluster"), nil
}

func cacheRoot() (string, error) { return xdg("XDG_CACHE_HOME", ".cache") }

// Linux limits the path of a socket to 107 bytes. longestSocket is the longest one below the directory of a real cluster.
const (
	maxSocketPath = 107
	longestSocket = "kubelet/device-plugins/kubelet.sock"
	shortRoot     = "/var/lib/scanner-operator"
)

// stateDir returns the directory of a cluster. If a real cluster, which only root can start, could not have its sockets below the home
// directory because its path is too long, the directory is below shortRoot.
func stateDir(name string) (string, error) {
	root, err := xdg("XDG_STATE_HOME", ".local/state")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, name)
	if os.Geteuid() == 0 && len(filepath.Join(dir, longestSocket)) > maxSocketPath {
		sum := sha256.Sum256([]byte(root))
		dir = filepath.Join(shortRoot, "devcluster-"+hex.EncodeToString(sum[:6]), name)
	}
	return dir, nil
}

// isModuleDir says whether dir holds this module, so that no other go.mod is ever built by mistake.
func isModuleDir(dir string) bool {
	f, err := os.Open(filepath.Join(dir, "go.mod"))
	if err != nil {
		return false
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) == 2 && fields[0] == "module" {
			return fields[1] == modulePath
		}
	}
	return false
}

// findModuleDir looks at the flag's value, then upwards from the working directory and from the executable, then where
// the program was compiled.
func findModuleDir(flag string) (string, error) {
	if flag != "" {
		dir, err := filepath.Abs(flag)
		if err != nil {
			return "", err
		}
		if !isModuleDir(dir) {
			return "", fmt.Errorf("--module-dir %s does not hold the module %s", dir, modulePath)
		}
		return dir, nil
	}
	var starts []string
	if wd, err := os.Getwd(); err == nil {
		starts = append(starts, wd)
	}
	if exe, err := os.Executable(); err == nil {
		if resolved, err := filepath.EvalSymlinks(exe); err == nil {
			exe = resolved
		}
		starts = append(starts, filepath.Dir(exe))
	}
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		starts = append(starts, filepath.Dir(file))
	}
	for _, start := range starts {
		for dir := start; ; dir = filepath.Dir(dir) {
			for _, candidate := range []string{dir, filepath.Join(dir, "hack", "devcluster")} {
				if isModuleDir(candidate) {
					return candidate, nil
				}
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", errors.New("cannot find hack/devcluster; run inside the repository or name it with --module-dir")
}
