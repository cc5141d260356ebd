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
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/scanner-operator/scanner-operator/internal/setup"
	"github.com/scanner-operator/scanner-operator/test/localcluster"
)

const (
	patience = 5 * time.Minute
	tick     = 500 * time.Millisecond
)

// cluster is the way to the API server, c a client of it. Nothing limits the rate of requests, as in the program.
var (
	cluster *rest.Config
	c       client.WithWatch
)

// What the tests run. With -short they are samples: the same things happen to fewer pods.
var (
	pods    = 2000
	podSets = 200
	// disruptions is how often each kind of disruption happens to the pods of PodSets.
	disruptions = kinds{failures: 250, deletions: 250, evictions: 150, unreadies: 150}
)

type kinds struct{ failures, deletions, evictions, unreadies int }

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		pods, podSets = 600, 60
		disruptions = kinds{failures: 75, deletions: 75, evictions: 45, unreadies: 45}
	}
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
	local, err := localcluster.Start(ctx, "scale", localcluster.Simulated)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, local.Stop()) }()
	if cluster, err = local.Config(); err != nil {
		return err
	}
	cluster.QPS = -1
	if c, err = client.NewWithWatch(cluster, client.Options{Scheme: setup.Scheme()}); err != nil {
		return err
	}
	if _, err := envtest.InstallCRDs(cluster, envtest.CRDInstallOptions{
		Paths: []string{filepath.Join(local.Root, "config", "crd", "bases")}, ErrorIfPathMissing: true,
	}); err != nil {
		return err
	}
	*code = m.Run()
	return nil
}
