// Package setuptest runs whole operators in tests, against a real API server. It has what the tests of several packages share; those of decisions, scans and
// rights are packages of their own below it, so that they run at the same time as others.
package setuptest

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/setup"
	"github.com/scanner-operator/scanner-operator/internal/store/storetest/storefile"
	"github.com/scanner-operator/scanner-operator/internal/vulndb/dbtest"
)

// How long tests wait for something to happen, and how often they look.
const (
	Patience = controllertest.Patience
	Tick     = controllertest.Tick
)

// Cluster returns an administrator of the API server that the tests of a package share.
func Cluster(t *testing.T) client.Client {
	t.Helper()
	return administrator(t, controllertest.Config(t))
}

// StrictCluster starts an API server for one test. It asks whether one may give an object an owner that blocks its deletion, and has caches list
// objects before they watch them, as older ones do.
func StrictCluster(t *testing.T) (*rest.Config, client.Client) {
	t.Helper()
	config := controllertest.Another(t, controllertest.OwnersAreGuarded, controllertest.ListsBeforeWatches)
	return config, administrator(t, config)
}

func administrator(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: setup.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Operator starts an operator and returns the address of its API.
func Operator(t *testing.T, namespace string, mutate func(*setup.Options)) string {
	t.Helper()
	url, _ := StartOperator(t, namespace, t.TempDir(), mutate)
	return url
}

// StartOperator starts an operator on a data directory; stop ends it and waits.
func StartOperator(t *testing.T, namespace, dataDir string, mutate func(*setup.Options)) (url string, stop func()) {
	t.Helper()
	return StartOperatorOn(t, controllertest.Config(t), namespace, dataDir, mutate)
}

// prepare puts into a new data directory what an operator would make at its first start, which takes longer than most tests: the tables, and the
// sample database if the operator may use it. TestInProcess goes without.
func prepare(t *testing.T, opts *setup.Options) {
	t.Helper()
	if opts.Catalog == setup.CatalogInProcess {
		return
	}
	if opts.DatabaseType == "" {
		storefile.Put(t, filepath.Join(opts.DataDir, "scanner-operator.db"))
	}
	if opts.VulnerabilityDatabase.Sample {
		dbtest.PutSample(t, filepath.Join(opts.DataDir, "db"))
	}
}

// starting is held while an operator is set up: all operators of a process register the same metrics.
var starting sync.Mutex

// StartOperatorOn is StartOperator with a way to the API server.
func StartOperatorOn(t *testing.T, config *rest.Config, namespace, dataDir string, mutate func(*setup.Options)) (url string, stop func()) {
	t.Helper()
	opts := setup.Options{
		Namespace: namespace, WatchNamespaces: []string{namespace},
		Catalog: setup.CatalogJob, Auth: setup.AuthKubernetes, APIAddress: "127.0.0.1:0", MetricsAddress: "0", HealthAddress: "0",
		DataDir: dataDir, ScanImage: "operator:test", APIURL: "http://operator.invalid:8000", Log: testr.New(t),
		VulnerabilityDatabase: setup.VulnerabilityDatabase{URL: "none", Sample: true},
	}
	if mutate != nil {
		mutate(&opts)
	}
	prepare(t, &opts)
	ctx, cancel := context.WithCancel(context.Background())
	starting.Lock()
	o, err := setup.New(ctx, config, opts)
	starting.Unlock()
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- o.Start(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the operator ended with %v", err)
			}
		case <-time.After(Patience):
			t.Errorf("the operator did not stop within %s", Patience)
		}
	}
	t.Cleanup(stop)
	g := gomega.NewWithT(t)
	g.Eventually(o.APIAddr, Patience, Tick).ShouldNot(gomega.BeEmpty())
	if opts.TLS.Mode != "" && opts.TLS.Mode != setup.TLSOff {
		return "https://" + o.APIAddr(), stop
	}
	return "http://" + o.APIAddr(), stop
}
