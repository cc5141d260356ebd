package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/scanner-operator/scanner-operator/hack/gobuild"
)

const (
	modeSimulated = "simulated"
	modeReal      = "real"

	buildTimeout = 60 * time.Minute
	cacheMaxAge  = 30 * 24 * time.Hour

	// buildTag keeps the programs that hold all of Kubernetes out of "go test ./..." and the linters.
	buildTag = "kubernetes"
)

// target is one binary of the cluster.
type target struct {
	name string
	pkg  string
	// dir is the nested module that builds it, relative to the module; empty for the module itself.
	dir string
	// components are the names that a binary of several components is started by; links with these names point to it.
	components []string
	// cgo says that the binary has C code, and tags are build tags of its own.
	cgo  bool
	tags string
}

var (
	controlPlaneTarget = target{name: "controlplane", pkg: "./controlplane", components: []string{
		"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", imageResolver,
	}}
	kubectlTarget = target{name: "kubectl", pkg: "k8s.io/kubernetes/cmd/kubectl"}

	simulatedTargets = []target{controlPlaneTarget}
	realTargets      = []target{
		controlPlaneTarget,
		{name: "node", pkg: "./node", components: []string{"kubelet", "kube-proxy"}},
		{name: "pause", pkg: "./pause"},
		{name: "coredns", pkg: ".", dir: "coredns"},
		{name: "containerd", pkg: "./containerd", dir: "runtime", components: []string{"ctr"}},
		{name: "containerd-shim-runc-v2", pkg: "./shim", dir: "runtime"},
		{name: "runc", pkg: "github.com/opencontainers/runc", dir: "runtime", cgo: true, tags: "seccomp,urfave_cli_no_docs"},
	}
	// assetTargets hold what controller-runtime's envtest looks for: etcd, kube-apiserver and kubectl.
	assetTargets = []target{controlPlaneTarget, kubectlTarget}
)

func targetsFor(mode string) []target {
	if mode == modeReal {
		return realTargets
	}
	return simulatedTargets
}

// builder compiles the cluster's binaries once per set of versions, for all clones of the repository.
type builder struct {
	moduleDir string
	cacheRoot string
	progress  io.Writer
}

func (b *builder) goOutput(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.moduleDir
	cmd.Env = gobuild.Environment()
	cmd.WaitDelay = 5 * time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// versionFlags are the linker flags without which the server reports a version that kubectl cannot parse.
func versionFlags(kubernetes string) (string, error) {
	parts := strings.Split(strings.TrimPrefix(kubernetes, "v"), ".")
	if len(parts) < 3 || !strings.HasPrefix(kubernetes, "v") {
		return "", fmt.Errorf("unexpected version of k8s.io/kubernetes: %q", kubernetes)
	}
	var flags []string
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

// sources are the files of this module that the binaries are built from.
var sources = []string{"controlplane/*.go", "node/*.go", "imageresolver/*.go", "pause/*.go", "coredns/*.go", "runtime/containerd/*.go", "runtime/shim/*.go"}

// key names the folder of the cache: everything that decides what is built.
func (b *builder) key(ctx context.Context) (string, error) {
	goVersion, err := b.goOutput(ctx, "env", "GOVERSION")
	if err != nil {
		return "", fmt.Errorf("%w; Go must be installed and on the PATH", err)
	}
	h := sha256.New()
	fmt.Fprintf(h, "v2 %s %s/%s\n", goVersion, runtime.GOOS, runtime.GOARCH)
	names := []string{"go.mod", "go.sum", "coredns/go.mod", "coredns/go.sum", "runtime/go.mod", "runtime/go.sum"}
	for _, pattern := range sources {
		found, err := filepath.Glob(filepath.Join(b.moduleDir, filepath.FromSlash(pattern)))
		if err != nil {
			return "", err
		}
		for _, path := range found {
			if !strings.HasSuffix(path, "_test.go") {
				names = append(names, pattern[:strings.LastIndex(pattern, "/")+1]+filepath.Base(path))
			}
		}
	}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(b.moduleDir, filepath.FromSlash(name)))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n", name, len(data))
		h.Write(data)
	}
	return hex.EncodeToString(h.Sum(nil))[:20], nil
}

// missing returns the targets of which dir does not hold the binary and all links.
func missing(dir string, targets []target) []target {
	var out []target
	for _, t := range targets {
		for _, name := range append([]string{t.name}, t.components...) {
			if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !info.Mode().IsRegular() || info.Mode()&0o100 == 0 {
				out = append(out, t)
				break
			}
		}
	}
	return out
}

// ensure builds the missing targets and returns the folder that holds them.
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
	kubernetes, err := b.goOutput(ctx, "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	if err != nil {
		return err
	}
	ldflags, err := versionFlags(kubernetes)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(dir, ".build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	for _, t := range todo {
		build := gobuild.Build{
			Title: t.title(kubernetes), Dir: filepath.Join(b.moduleDir, t.dir), Output: filepath.Join(tmp, t.name), Packages: []string{t.pkg},
			Tags: buildTag, LDFlags: ldflags, Progress: b.progress,
		}
		if t.tags != "" {
			build.Tags += "," + t.tags
		}
		if t.cgo {
			build.Env = []string{"CGO_ENABLED=1"}
		}
		if err := build.Run(ctx); err != nil {
			return err
		}
		for _, component := range t.components {
			if err := os.Symlink(t.name, filepath.Join(tmp, component)); err != nil {
				return err
			}
		}
		// The links come last: whoever sees them finds the binary.
		for _, name := range append([]string{t.name}, t.components...) {
			if err := os.Rename(filepath.Join(tmp, name), filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// title says in progress lines what is built.
func (t target) title(kubernetes string) string {
	if t.name == controlPlaneTarget.name {
		return "the local Kubernetes " + kubernetes
	}
	return t.name + " of the local Kubernetes"
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
