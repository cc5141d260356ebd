// Command align gives the modules of this repository the same versions of the modules that they share, so that Go
// compiles a shared package once for all programs. It raises the lower version; without -write it lists what differs.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// rounds bounds how often versions are raised: raising one may raise others.
const rounds = 5

func main() {
	write := flag.Bool("write", false, "change the go.mod files")
	flag.Parse()
	if err := run(*write); err != nil {
		fmt.Fprintln(os.Stderr, "align:", err)
		os.Exit(1)
	}
}

// lag is a module of this repository that uses a lower version of a module than another one does.
type lag struct{ dir, module, have, want string }

func run(write bool) error {
	dirs, err := modules()
	if err != nil {
		return err
	}
	for range rounds {
		lags, err := compare(dirs)
		if err != nil {
			return err
		}
		if len(lags) == 0 {
			return nil
		}
		if !write {
			for _, l := range lags {
				fmt.Fprintf(os.Stderr, "%s: %s is at %s, elsewhere at %s\n", filepath.Join(l.dir, "go.mod"), l.module, l.have, l.want)
			}
			return errors.New("modules share packages at different versions: run 'make align'")
		}
		if err := raise(lags); err != nil {
			return err
		}
	}
	return fmt.Errorf("versions still differ after %d rounds", rounds)
}

// others are the folders of modules that stand for those of others, and the oldest API server, which shares no version with the others.
var others = []string{
	"hack/brotli", "hack/containerd", "hack/go-crypto", "hack/go-cty", "hack/go-getter", "hack/go-git", "hack/go-sqlite", "hack/hcl", "hack/minlz", "hack/sprig",
	"hack/devcluster/oldest",
}

// modules returns the folders of the modules that compile programs.
func modules() ([]string, error) {
	out, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "go.mod", "**/go.mod").Output() //nolint:noctx // a build tool
	if err != nil {
		return nil, fmt.Errorf("list the go.mod files: %w", err)
	}
	var dirs []string
	for file := range strings.Lines(string(out)) {
		if dir := filepath.Dir(strings.TrimSpace(file)); !slices.Contains(others, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// compare finds the lags among the modules that bring packages to programs, tools and tests.
func compare(dirs []string) ([]lag, error) {
	used := map[string]map[string]string{}
	highest := map[string]string{}
	for _, dir := range dirs {
		versions, err := versionsOf(dir)
		if err != nil {
			return nil, err
		}
		used[dir] = versions
		for module, version := range versions {
			if semver.Compare(version, highest[module]) > 0 {
				highest[module] = version
			}
		}
	}
	var lags []lag
	for dir, versions := range used {
		for module, version := range versions {
			if want := highest[module]; version != want {
				lags = append(lags, lag{dir, module, version, want})
			}
		}
	}
	slices.SortFunc(lags, func(a, b lag) int { return cmp.Or(cmp.Compare(a.dir, b.dir), cmp.Compare(a.module, b.module)) })
	return lags, nil
}

// versionsOf returns the versions of the modules whose packages are compiled for the module in dir.
func versionsOf(dir string) (map[string]string, error) {
	const format = "{{with .Module}}{{if .Replace}}{{.Path}} {{.Replace.Version}}{{else}}{{.Path}} {{.Version}}{{end}}{{end}}"
	versions := map[string]string{}
	for _, what := range []string{"./...", "tool"} {
		list := exec.Command("go", "list", "-deps", "-test", "-f", format, what) //nolint:gosec,noctx // fixed arguments
		list.Dir = dir
		out, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("list the packages of %s: %w", dir, err)
		}
		for line := range strings.Lines(string(out)) {
			if module, version, ok := strings.Cut(strings.TrimSpace(line), " "); ok && version != "" {
				versions[module] = version
			}
		}
	}
	return versions, nil
}

// raise edits the go.mod files. "go get" would ask for the content of modules that nothing compiles.
func raise(lags []lag) error {
	edits := map[string][]string{}
	for _, l := range lags {
		edits[l.dir] = append(edits[l.dir], "-require="+l.module+"@"+l.want)
	}
	for dir, wanted := range edits {
		for _, command := range [][]string{append([]string{"mod", "edit"}, wanted...), {"mod", "tidy"}} {
			cmd := exec.Command("go", command...) //nolint:gosec,noctx // fixed arguments and versions from go.mod files
			cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stderr, os.Stderr
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("go mod %s in %s: %w", command[1], dir, err)
			}
		}
	}
	return nil
}
