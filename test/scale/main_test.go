//go:build scale

// Package scale runs the operator on a real control plane with simulated nodes and thousands of pods. Nothing runs on these nodes: the
// tests play the scan pods.
package scale

import (
	"cmp"
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
	patience = 15 * time.Minute
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

// load is what TestChurn runs; with -short, a sample.
var load = loads{pods: 30_000, images: 2000, churn: 100, duration: 5 * time.Minute, newImageEvery: 100, events: time.Minute, quiet: 30 * time.Second}

type loads struct {
	pods, images int
	// churn is how many pods are replaced in a second, for a duration. Of them, each newImageEvery-th runs an image that did not run before.
	churn         int
	duration      time.Duration
	newImageEvery int
	// events is how long there is one event in a second, quiet how long a settled operator must not write.
	events, quiet time.Duration
}

func (l *loads) deployments() int { return l.pods / podsPerDeployment }

var (
	clusterName = flag.String("cluster", "scale", "name of the local cluster")
	report      = flag.String("report", "", "file for the measured values of TestChurn")
	profiles    = flag.String("profiles", "", "folder for a CPU and a memory profile of the operator in TestChurn, and for its data")
	// What TestChurn runs instead of its load; 0 for no change.
	otherPods     = flag.Int("pods", 0, "pods of TestChurn")
	otherImages   = flag.Int("images", 0, "images of TestChurn")
	otherChurn    = flag.Int("churn", 0, "pods that TestChurn replaces in a second, as far as the machine can")
	otherDuration = flag.Duration("churn-for", 0, "how long TestChurn replaces pods")
)

type kinds struct{ failures, deletions, evictions, unreadies int }

func TestMain(m *testing.M) {
	flag.Parse()
	if options := os.Getenv(managerVariable); options != "" {
		if err := runManager(options); err != nil {
			fmt.Fprintln(os.Stderr, "run the operator:", err)
			os.Exit(1)
		}
		return
	}
	if testing.Short() {
		pods, podSets = 600, 60
		disruptions = kinds{failures: 75, deletions: 75, evictions: 45, unreadies: 45}
		load = loads{pods: 600, images: 40, churn: 20, duration: 10 * time.Second, newImageEvery: 10, events: 6 * time.Second, quiet: 2 * time.Second}
	}
	load.pods, load.images = cmp.Or(*otherPods, load.pods), cmp.Or(*otherImages, load.images)
	load.churn, load.duration = cmp.Or(*otherChurn, load.churn), cmp.Or(*otherDuration, load.duration)
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	code := 1
	if err := runTests(m, &code); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M, code *int) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Minute)
	defer cancel()
	local, err := localcluster.Start(ctx, *clusterName, localcluster.Simulated)
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
