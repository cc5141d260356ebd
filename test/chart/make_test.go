package chart_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// run runs make at the root of the repository with no other configuration than this environment, and returns what it printed.
func run(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	for _, program := range []string{"make", "bash"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	// go test remembers a result by the files that tests read, not by those that make reads.
	for _, file := range []string{"Makefile", "make/deploy.mk", "make/tools.mk", "hack/kind/cluster.sh", "charts/scanner-operator/values.yaml"} {
		if _, err := os.ReadFile(filepath.Join("../..", file)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "make", append([]string{"-C", "../.."}, args...)...)
	cmd.Env = append([]string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}, env...)
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// TestMakeHelm: the chart that make helm copies is installed as it is.
func TestMakeHelm(t *testing.T) {
	for img, want := range map[string]string{
		"":                         "localhost/scanner-operator:dev",
		"kind.example/scanner:1.0": "kind.example/scanner:1.0",
		"registry.example.com:5000/team/scanner-operator:v2": "registry.example.com:5000/team/scanner-operator:v2",
	} {
		dir := filepath.Join(t.TempDir(), "chart")
		args := []string{"chart-copy", "CHART_COPY=" + dir}
		if img != "" {
			args = append(args, "IMG="+img)
		}
		if output, err := run(t, nil, args...); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		text, err := helm(t, "template", "scanner", dir, "-n", namespace)
		if err != nil {
			t.Errorf("IMG=%s: %v", img, err)
			continue
		}
		if got := decode(t, text).container().Image; got != want {
			t.Errorf("IMG=%s: the image is %s, want %s", img, got, want)
		}
	}
}

// TestMakeDeploy: an image that is named nowhere is only in the nodes of the local cluster.
func TestMakeDeploy(t *testing.T) {
	bin := t.TempDir()
	for name, script := range map[string]string{
		"docker": "exit 0", "kind": `test "$1 $2 $3 $4" = "get kubeconfig --name kind" && echo local`,
		"kustomize": `test "$1" = edit || echo "all of it"; test "$1" = build || echo "$@" >>"$APPLIED"`,
		"kubectl":   `case "$1" in config) cat "$KUBECONFIG" ;; *) cat >>"$APPLIED" ;; esac`,
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/usr/bin/env bash\n"+script+"\n"), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		cluster, img, want, wantErr string
	}{
		"the local cluster":          {cluster: "local", want: "controller=localhost/scanner-operator:dev"},
		"another cluster":            {cluster: "production", wantErr: "set IMG=REGISTRY/REPOSITORY:TAG"},
		"another cluster, and image": {cluster: "production", img: "registry.example.com/scanner:1", want: "controller=registry.example.com/scanner:1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			kubeconfig, applied := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "applied")
			if err := os.WriteFile(kubeconfig, []byte(test.cluster+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			env := []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "KUBECONFIG=" + kubeconfig, "CLUSTER=kind", "APPLIED=" + applied}
			args := []string{"deploy", "KUSTOMIZE=" + filepath.Join(bin, "kustomize")}
			if test.img != "" {
				args = append(args, "IMG="+test.img)
			}
			output, err := run(t, env, args...)
			written, _ := os.ReadFile(applied) //nolint:errcheck // Nothing was applied without it.
			if test.wantErr != "" {
				if err == nil || !strings.Contains(output, test.wantErr) || len(written) > 0 {
					t.Errorf("got %v, %s, and %q is applied; want an error with %q", err, output, written, test.wantErr)
				}
				return
			}
			if want := fmt.Sprintf("edit set image %s\nall of it\n", test.want); err != nil || string(written) != want {
				t.Errorf("got %v, %s, and %q is applied; want %q", err, output, written, want)
			}
		})
	}
}
