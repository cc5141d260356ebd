package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const (
	modeSimulated = "simulated"
	modeReal      = "real"

	buildTimeout = 60 * time.Minute
	cacheMaxAge  = 30 * 24 * time.Hour
)

// target is one binary of the cluster.
type target struct {
	name string
	pkg  string
	// dir is the nested module that builds it, relative to the module; empty for the module itself.
	dir string
}

var simulatedTargets = []target{
	{name: "etcd", pkg: "go.etcd.io/etcd/server/v3"},
	{name: "kube-apiserver", pkg: "k8s.io/kubernetes/cmd/kube-apiserver"},
	{name: "kube-controller-manager", pkg: "k8s.io/kubernetes/cmd/kube-controller-manager"},
	{name: "kube-scheduler", pkg: "k8s.io/kubernetes/cmd/kube-scheduler"},
	{name: "kubectl", pkg: "k8s.io/kubernetes/cmd/kubectl"},
	{name: "kwok", pkg: "sigs.k8s.io/kwok/cmd/kwok"},
}

// assetNames are what controller-runtime's envtest looks for.
var assetNames = []string{"etcd", "kube-apiserver", "kubectl"}

var realTargets = []target{
	{name: "etcd", pkg: "go.etcd.io/etcd/server/v3"},
	{name: "kube-apiserver", pkg: "k8s.io/kubernetes/cmd/kube-apiserver"},
	{name: "kube-controller-manager", pkg: "k8s.io/kubernetes/cmd/kube-controller-manager"},
	{name: "kube-scheduler", pkg: "k8s.io/kubernetes/cmd/kube-scheduler"},
	{name: "kubectl", pkg: "k8s.io/kubernetes/cmd/kubectl"},
	{name: "kubelet", pkg: "k8s.io/kubernetes/cmd/kubelet"},
	{name: "kube-proxy", pkg: "k8s.io/kubernetes/cmd/kube-proxy"},
	{name: "pause", pkg: "./pause"},
	{name: "coredns", pkg: ".", dir: "coredns"},
}

func targetsFor(mode string) []target {
	if mode == modeReal {
		return realTargets
	}
	return simulatedTargets
}

func selectTargets(all []target, names []string) []target {
	var out []target
	for _, t := range all {
		for _, n := range names {
			if t.name == n {
				out = append(out, t)
			}
		}
	}
	return out
}

// builder compiles the cluster's binaries once per set of versions, for all clones of the repository.
type builder struct {
	moduleDir string
	cacheRoot string
	progress  io.Writer
}

// goCommand runs go in the module without any setting of the user's that could change what is built.
func (b *builder) goCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.moduleDir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false",
		"GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

func (b *builder) goOutput(ctx context.Context, args ...string) (string, error) {
	cmd := b.goCommand(ctx, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// moduleVersions reads the versions of the given modules from go.mod, in order.
func (b *builder) moduleVersions(ctx context.Context, modules ...string) ([]string, error) {
	out, err := b.goOutput(ctx, append([]string{"list", "-m", "-f", "{{.Version}}"}, modules...)...)
	if err != nil {
		return nil, err
	}
	versions := strings.Fields(out)
	if len(versions) != len(modules) {
		return nil, fmt.Errorf("go list -m %v printed %q", modules, out)
	}
	return versions, nil
}

// versionFlags are the linker flags without which the server reports a version that kubectl cannot parse.
func versionFlags(kubernetes string) (string, error) {
	parts := strings.Split(strings.TrimPrefix(kubernetes, "v"), ".")
	if len(parts) < 3 || !strings.HasPrefix(kubernetes, "v") {
		return "", fmt.Errorf("unexpected version of k8s.io/kubernetes: %q", kubernetes)
	}
	flags := []string{"-s", "-w"}
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, kv := range [][2]string{
			{"gitVersion", kubernetes}, {"gitMajor", parts[0]}, {"gitMinor", parts[1]},
			// A module has no commit; its tag names one, and its content is what go.sum says.
			{"gitCommit", kubernetes}, {"gitTreeState", "archive"},
			// Fixed, so that equal sources give equal binaries.
			{"buildDate", "1970-01-01T00:00:00Z"},
		} {
			flags = append(flags, "-X", pkg+"."+kv[0]+"="+kv[1])
		}
	}
	return strings.Join(flags, " "), nil
}

// key names the folder of the cache: everything that decides what is built.
func (b *builder) key(ctx context.Context) (string, error) {
	goVersion, err := b.goOutput(ctx, "env", "GOVERSION")
	if err != nil {
		return "", fmt.Errorf("%w; Go must be installed and on the PATH", err)
	}
	h := sha256.New()
	fmt.Fprintf(h, "v1 %s %s/%s\n", goVersion, runtime.GOOS, runtime.GOARCH)
	for _, name := range []string{"go.mod", "go.sum", "pause/main.go", "coredns/go.mod", "coredns/go.sum", "coredns/main.go"} {
		data, err := os.ReadFile(filepath.Join(b.moduleDir, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n", name, len(data))
		h.Write(data)
	}
	return hex.EncodeToString(h.Sum(nil))[:20], nil
}

func missing(dir string, targets []target) []target {
	var out []target
	for _, t := range targets {
		if info, err := os.Stat(filepath.Join(dir, t.name)); err != nil || !info.Mode().IsRegular() || info.Mode()&0o100 == 0 {
			out = append(out, t)
		}
	}
	return out
}

// ensure builds what lacks of targets and returns the folder that holds them.
func (b *builder) ensure(ctx context.Context, targets []target) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	key, err := b.key(ctx)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(b.cacheRoot, key)
	if len(missing(dir, targets)) == 0 {
		now := time.Now()
		_ = os.Chtimes(dir, now, now)
		return dir, nil
	}
	lock, err := acquireLock(ctx, dir+".lock", func() {
		fmt.Fprintln(b.progress, "devcluster: another devcluster is building the same binaries; waiting for it")
	})
	if err != nil {
		return "", err
	}
	defer lock.release()
	todo := missing(dir, targets)
	if len(todo) == 0 {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	b.prune(dir)
	if err := b.build(ctx, dir, todo); err != nil {
		return "", err
	}
	return dir, nil
}

func (b *builder) build(ctx context.Context, dir string, todo []target) error {
	versions, err := b.moduleVersions(ctx, "k8s.io/kubernetes", "go.etcd.io/etcd/server/v3", "sigs.k8s.io/kwok")
	if err != nil {
		return err
	}
	ldflags, err := versionFlags(versions[0])
	if err != nil {
		return err
	}
	var names []string
	groups := map[string][]target{}
	var dirs []string
	for _, t := range todo {
		names = append(names, t.name)
		if _, seen := groups[t.dir]; !seen {
			dirs = append(dirs, t.dir)
		}
		groups[t.dir] = append(groups[t.dir], t)
	}
	fmt.Fprintf(b.progress, "devcluster: building %s (kubernetes %s, etcd %s, kwok %s) into %s; the first build takes minutes\n",
		strings.Join(names, ", "), versions[0], versions[1], versions[2], dir)
	tmp, err := os.MkdirTemp(dir, ".build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)

	stop := b.tick(dir, tmp)
	defer stop()
	for _, sub := range dirs {
		out := filepath.Join(tmp, "out-"+filepath.Base("x"+sub))
		if err := os.Mkdir(out, 0o755); err != nil {
			return err
		}
		args := []string{"build", "-trimpath", "-ldflags", ldflags, "-o", out + string(filepath.Separator)}
		for _, t := range groups[sub] {
			args = append(args, t.pkg)
		}
		cmd := b.goCommand(ctx, args...)
		cmd.Dir = filepath.Join(b.moduleDir, sub)
		var output bytes.Buffer
		cmd.Stdout, cmd.Stderr = &output, &output
		if err := cmd.Run(); err != nil {
			if ctx.Err() != nil {
				err = errors.Join(err, ctx.Err())
			}
			return fmt.Errorf("build %s in %s: %w\n%s", strings.Join(names, ", "), cmd.Dir, err, lastLines(output.String(), 30))
		}
		for _, t := range groups[sub] {
			if err := os.Rename(filepath.Join(out, builtName(t)), filepath.Join(dir, t.name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// builtName is the file name that `go build -o dir/` gives to a target's binary.
func builtName(t target) string {
	if t.pkg == "." {
		return filepath.Base(t.dir)
	}
	parts := strings.Split(t.pkg, "/")
	last := parts[len(parts)-1]
	if len(last) > 1 && last[0] == 'v' && strings.Trim(last[1:], "0123456789") == "" {
		return parts[len(parts)-2]
	}
	return last
}

// tick reports elapsed time until it is stopped.
func (b *builder) tick(dir, tmp string) (stop func()) {
	start := time.Now()
	done, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		t := time.NewTicker(15 * time.Second)
		defer t.Stop()
		for {
			select {
			case <-done:
				fmt.Fprintf(b.progress, "devcluster: build ended after %d s\n", int(time.Since(start).Seconds()))
				return
			case <-t.C:
				built, _ := filepath.Glob(filepath.Join(tmp, "out-*", "*"))
				ready, _ := filepath.Glob(filepath.Join(dir, "[a-z]*"))
				fmt.Fprintf(b.progress, "devcluster: still building, %d s, %d binaries linked\n",
					int(time.Since(start).Seconds()), len(built)+len(ready))
			}
		}
	}()
	return func() { close(done); <-finished }
}

// prune removes builds of other versions that nobody asked for in a month.
func (b *builder) prune(keep string) {
	entries, err := os.ReadDir(b.cacheRoot)
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(b.cacheRoot, e.Name())
		info, err := e.Info()
		if err != nil || !e.IsDir() || path == keep || time.Since(info.ModTime()) < cacheMaxAge {
			continue
		}
		lock, err := tryLock(path + ".lock")
		if err != nil || lock == nil {
			continue
		}
		os.RemoveAll(path)
		lock.remove()
	}
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
}
