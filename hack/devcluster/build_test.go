package main

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestVersionFlags(t *testing.T) {
	flags, err := versionFlags("v1.37.1")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"-X k8s.io/component-base/version.gitVersion=v1.37.1", "-X k8s.io/component-base/version.gitMajor=1",
		"-X k8s.io/component-base/version.gitMinor=37", "-X k8s.io/client-go/pkg/version.gitVersion=v1.37.1",
	} {
		if !strings.Contains(flags, want) {
			t.Errorf("%q lacks %q", flags, want)
		}
	}
	for _, version := range []string{"", "v1", "v1.37", "1.37.1"} {
		if _, err := versionFlags(version); err == nil {
			t.Errorf("the version %q is taken", version)
		}
	}
}

// go.mod must name as a tool what is another module's program: otherwise go mod tidy drops what it needs.
func TestTargets(t *testing.T) {
	for _, target := range slices.Concat(simulatedTargets, realTargets, assetTargets) {
		data, err := os.ReadFile(filepath.Join(target.dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(target.pkg, ".") && !strings.Contains(string(data), "tool "+target.pkg+"\n") {
			t.Errorf("go.mod has no tool %s", target.pkg)
		}
		if info, err := os.Stat(filepath.Join(target.dir, target.pkg)); strings.HasPrefix(target.pkg, ".") && (err != nil || !info.IsDir()) {
			t.Errorf("%+v is no folder: %v", target, err)
		}
		if pattern := path.Join(target.dir, target.pkg, "*.go"); strings.HasPrefix(target.pkg, ".") && !slices.Contains(sources, pattern) {
			t.Errorf("a change of %s builds nothing anew", pattern)
		}
	}
}

func TestMissing(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"built": 0o755, "partial": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("built", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, target := range missing(dir, []target{
		{name: "built", components: []string{"link"}}, {name: "partial"}, {name: "folder"}, {name: "absent"},
		{name: "built", components: []string{"link", "no link"}},
	}) {
		got = append(got, target.name)
	}
	if want := []string{"partial", "folder", "absent", "built"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
