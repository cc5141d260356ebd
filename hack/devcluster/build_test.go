package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestVersionFlags(t *testing.T) {
	flags, err := versionFlags("v1.36.3")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"-s -w", "-X k8s.io/component-base/version.gitVersion=v1.36.3", "-X k8s.io/component-base/version.gitMajor=1",
		"-X k8s.io/component-base/version.gitMinor=36", "-X k8s.io/client-go/pkg/version.gitVersion=v1.36.3",
	} {
		if !strings.Contains(flags, want) {
			t.Errorf("%q lacks %q", flags, want)
		}
	}
	for _, version := range []string{"", "v1", "v1.36", "1.36.3"} {
		if _, err := versionFlags(version); err == nil {
			t.Errorf("the version %q is taken", version)
		}
	}
}

func TestBuiltName(t *testing.T) {
	for _, test := range []struct {
		target target
		want   string
	}{
		{target{pkg: "go.etcd.io/etcd/server/v3"}, "server"},
		{target{pkg: "k8s.io/kubernetes/cmd/kubelet"}, "kubelet"},
		{target{pkg: "./pause"}, "pause"},
		{target{pkg: ".", dir: "coredns"}, "coredns"},
		{target{pkg: "example.org/a/v"}, "v"},
		{target{pkg: "example.org/a/vault"}, "vault"},
		{target{pkg: "example.org/a/v2x"}, "v2x"},
	} {
		if got := builtName(test.target); got != test.want {
			t.Errorf("%+v: got %q, want %q", test.target, got, test.want)
		}
	}
}

// go.mod must name them as tools: otherwise go mod tidy drops what they need.
func TestTargetsAreTools(t *testing.T) {
	data, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range slices.Concat(simulatedTargets, realTargets) {
		if !strings.HasPrefix(target.pkg, ".") && !strings.Contains(string(data), "\t"+target.pkg+"\n") {
			t.Errorf("go.mod has no tool %s", target.pkg)
		}
		if info, err := os.Stat(filepath.Join(target.dir, target.pkg)); strings.HasPrefix(target.pkg, ".") && (err != nil || !info.IsDir()) {
			t.Errorf("%+v is no folder: %v", target, err)
		}
	}
	if got := selectTargets(simulatedTargets, assetNames); len(got) != len(assetNames) {
		t.Errorf("the assets %q are the targets %+v", assetNames, got)
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
	got := missing(dir, []target{{name: "built"}, {name: "partial"}, {name: "folder"}, {name: "absent"}})
	if want := []target{{name: "partial"}, {name: "folder"}, {name: "absent"}}; !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestLastLines(t *testing.T) {
	if got := lastLines("a\nb\nc\n\n", 2); got != "b\nc" {
		t.Errorf("got %q", got)
	}
	if got := lastLines("a", 2); got != "a" {
		t.Errorf("got %q", got)
	}
}
