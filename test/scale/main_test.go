//go:build scale

// Package scale runs the operator on a real control plane with simulated nodes and thousands of pods. Nothing runs on these nodes: the
// tests play the scan pods.
package scale

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/scanner-operator/scanner-operator/internal/setup"
)

const (
	clusterName = "scale"
	patience    = 5 * time.Minute
	tick        = 500 * time.Millisecond
)

// cluster is the way to the API server, c a client of it. Nothing limits the rate of requests, as in the program.
var (
	cluster *rest.Config
	c       client.WithWatch
)

func TestMain(m *testing.M) {
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	code := 1
	if err := run(m, &code); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M, code *int) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return err
	}
	devcluster := filepath.Join(root, "bin", "devcluster")
	if err := command(ctx, root, "go", "build", "-C", "hack/devcluster", "-trimpath", "-ldflags=-s -w", "-o", devcluster, "."); err != nil {
		return err
	}
	// What a killed run left behind must not answer in place of this one.
	if err := command(ctx, root, devcluster, "down", "--name="+clusterName); err != nil {
		return err
	}
	defer func() {
		// Not by ctx, which may have ended.
		err = errors.Join(err, command(context.Background(), root, devcluster, "down", "--name="+clusterName))
	}()
	if err := command(ctx, root, devcluster, "up", "--mode=simulated", "--name="+clusterName); err != nil {
		return err
	}
	if err := connect(ctx, devcluster); err != nil {
		return err
	}
	if _, err := envtest.InstallCRDs(cluster, envtest.CRDInstallOptions{
		Paths: []string{filepath.Join(root, "config", "crd", "bases")}, ErrorIfPathMissing: true,
	}); err != nil {
		return err
	}
	*code = m.Run()
	return nil
}

func connect(ctx context.Context, devcluster string) error {
	path, err := exec.CommandContext(ctx, devcluster, "kubeconfig", "--name="+clusterName).Output()
	if err != nil {
		return fmt.Errorf("ask for the kubeconfig: %w", err)
	}
	if cluster, err = clientcmd.BuildConfigFromFlags("", strings.TrimSpace(string(path))); err != nil {
		return err
	}
	cluster.QPS = -1
	c, err = client.NewWithWatch(cluster, client.Options{Scheme: setup.Scheme()})
	return err
}

func command(ctx context.Context, dir, name string, args ...string) error {
	fmt.Println("+", name, strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}
