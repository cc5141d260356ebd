package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

const repository = "https://github.com/scanner-operator/scanner-operator"

// source is the commit that a release is made of.
type source struct {
	// Root is the folder of the checkout.
	Root string
	// Version begins with "v", as the tag does.
	Version string
	Commit  string
	// Time is the commit's, and the only time in a release.
	Time time.Time
	// Go is the version of Go that go.mod names, such as go1.26.8.
	Go string
}

// openSource checks that the checkout is a commit without changes, that version or the tag of the commit is a semantic
// version, and that Go is exactly the version of go.mod.
func openSource(ctx context.Context, version string) (*source, error) {
	root, err := output(ctx, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	src := &source{Root: root, Version: version}
	changes, err := output(ctx, "git", "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	if changes != "" {
		return nil, fmt.Errorf("the working tree has changes; commit or remove them, because a release is built from a commit:\n%.2000s", changes)
	}
	if src.Version == "" {
		if src.Version, err = output(ctx, "git", "describe", "--tags", "--exact-match", "--match", "v*"); err != nil {
			return nil, errors.New("the commit has no tag such as v1.2.3; create one, or set VERSION")
		}
	}
	if semver.Canonical(src.Version) != src.Version {
		return nil, fmt.Errorf("the version %q is not a semantic version such as v1.2.3 or v1.2.3-rc.1", src.Version)
	}
	if src.Commit, err = output(ctx, "git", "rev-parse", "HEAD"); err != nil {
		return nil, err
	}
	seconds, err := output(ctx, "git", "show", "--no-patch", "--format=%ct", "HEAD")
	if err != nil {
		return nil, err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("read the time of the commit: %w", err)
	}
	src.Time = time.Unix(unix, 0).UTC()
	if src.Go, err = checkGo(ctx, root); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(root, "web/dist/index.html")); err != nil {
		return nil, errors.New("web/dist has no UI; install Node and run \"make ui\"")
	}
	return src, nil
}

// checkGo compares the version of Go with the one in go.mod: another compiler makes other binaries.
func checkGo(ctx context.Context, root string) (string, error) {
	content, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", err
	}
	file, err := modfile.ParseLax("go.mod", content, nil)
	if err != nil {
		return "", err
	}
	if file.Go == nil {
		return "", errors.New("go.mod names no version of Go")
	}
	have, err := output(ctx, "go", "env", "GOVERSION")
	if err != nil {
		return "", err
	}
	if want := "go" + file.Go.Version; have != want {
		return "", fmt.Errorf("this is %s, and go.mod names %s; set GOTOOLCHAIN=%s", have, want, want)
	}
	return have, nil
}

// output runs a command and returns what it prints, without the line end.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}
