// Package controllertest runs controllers against a real API server in tests, with no more rights than they ask for.
package controllertest

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/scanner-operator/scanner-operator/internal/kube"
)

// How long tests wait for something to happen, and how often they look.
const (
	Patience = 2 * time.Minute
	Tick     = 50 * time.Millisecond
)

// cluster is the API server of this process; nil where there is none.
var cluster *rest.Config

// signingKey is the file with the key that it signs tokens with.
var signingKey string

// emulatedVersion names a minor version of Kubernetes, such as 1.34, that the API server emulates; it is that of the server otherwise. A
// server emulates its own and the three minor versions before: the APIs, the fields and the features that these have.
const emulatedVersion = "KUBE_EMULATED_VERSION"

// Option changes the configuration of an API server.
type Option func(*envtest.APIServer)

// OwnersAreGuarded switches on an admission plugin that OpenShift has switched on: who sets an owner that blocks its deletion needs the right to set
// finalizers of the owner.
func OwnersAreGuarded(server *envtest.APIServer) {
	server.Configure().Append("enable-admission-plugins", "OwnerReferencesPermissionEnforcement")
}

// ListsBeforeWatches has caches list objects before they watch them, as with older API servers.
func ListsBeforeWatches(server *envtest.APIServer) {
	server.Configure().Append("feature-gates", "WatchList=false")
}

// serverTimeout is how long etcd and kube-apiserver may take to start, to stop, and to serve the CRDs, each: they start within seconds on an idle machine,
// but took longer than the 20 s of envtest on a slow one, beside other tests.
const serverTimeout = 3 * time.Minute

// newEnvironment returns an API server that has all CRDs. It has not been started.
func newEnvironment(options []Option) *envtest.Environment {
	env := &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join(Root(), "config", "crd", "bases")}, ErrorIfCRDPathMissing: true,
		CRDInstallOptions:        envtest.CRDInstallOptions{MaxTime: serverTimeout},
		ControlPlaneStartTimeout: serverTimeout, ControlPlaneStopTimeout: serverTimeout,
	}
	for _, option := range options {
		option(env.ControlPlane.GetAPIServer())
	}
	return env
}

// Main runs the tests of a package with an API server that has all CRDs, if KUBEBUILDER_ASSETS names one. It returns the exit code.
func Main(m *testing.M, options ...Option) int {
	flag.Parse()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return m.Run()
	}
	env := newEnvironment(options)
	if version := os.Getenv(emulatedVersion); version != "" {
		env.ControlPlane.GetAPIServer().Configure().Append("emulated-version", version)
	}
	started, err := env.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "start the API server:", err)
		return 1
	}
	cluster, signingKey = started, filepath.Join(env.ControlPlane.GetAPIServer().CertDir, "sa-signer.key")
	code := m.Run()
	if err := env.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the API server:", err)
		return 1
	}
	return code
}

// Another starts an API server for one test, with all CRDs, and returns the way of an administrator to it. It ends with the test.
func Another(t *testing.T, options ...Option) *rest.Config {
	t.Helper()
	Config(t)
	env := newEnvironment(options)
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	return config
}

// Root is the folder of the module, seen from the package whose tests run.
func Root() string {
	folder := "."
	for range 10 {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			break
		}
		folder = filepath.Join(folder, "..")
	}
	return folder
}

// Config is the way of an administrator to the API server. Without one the test is skipped, or fails where nothing may be skipped.
func Config(t *testing.T) *rest.Config {
	t.Helper()
	// Asked here, too: go test remembers a result by the variables that tests read, not by those that TestMain reads.
	_ = os.Getenv(emulatedVersion)
	if os.Getenv("KUBEBUILDER_ASSETS") == "" || cluster == nil {
		const message = "KUBEBUILDER_ASSETS does not name a kube-apiserver and an etcd; make test-integration does"
		if os.Getenv("CI") == "true" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	return rest.CopyConfig(cluster)
}

// Version returns the minor version of Kubernetes that the API server is, or emulates.
func Version(t *testing.T) *version.Version {
	t.Helper()
	discovered, err := discovery.NewDiscoveryClientForConfigOrDie(Config(t)).ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	minor := cmp.Or(discovered.EmulationMinor, discovered.Minor)
	parsed, err := version.ParseGeneric(discovered.Major + "." + minor)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// SigningKey is the file with the key that the API server signs tokens with, a private key in PEM and PKCS #8. There is one once Config returned.
func SigningKey() string { return signingKey }

// Scheme returns the types of Kubernetes and those that are added.
func Scheme(t *testing.T, add ...func(*runtime.Scheme) error) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, f := range append(add, clientgoscheme.AddToScheme) {
		if err := f(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// Namespace makes a namespace.
func Namespace(t *testing.T, c client.Client) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	if err := c.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

// OwnerKeys are the keys of owners that the cache of Start keeps.
func OwnerKeys() []string { return []string{"team", "example.com/owner"} }

// Start runs a manager with the operator's cache on some namespaces until the test ends, or until stop.
func Start(t *testing.T, cluster *rest.Config, scheme *runtime.Scheme, namespaces []string, add func(ctrl.Manager) error) (stop func()) {
	t.Helper()
	cacheOptions, err := kube.CacheOptions(namespaces, OwnerKeys())
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(cluster, ctrl.Options{
		Scheme: scheme, Cache: cacheOptions, Logger: logger(t), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := add(mgr); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the manager ended with %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("the manager did not stop within a minute")
		}
	})
	t.Cleanup(stop)
	return stop
}

// logger logs to a test. Managers still do when they have stopped, which the testing package does not take; that is dropped.
func logger(t *testing.T) logr.Logger {
	t.Helper()
	var mu sync.Mutex
	ended := false
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		ended = true
	})
	return funcr.New(func(prefix, args string) {
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			t.Log(prefix, args)
		}
	}, funcr.Options{})
}

// Writes remembers the requests that change something, events included.
type Writes struct {
	mu   sync.Mutex
	seen []string
}

// Wrap lets requests through; it is a wrapper for rest.Config.Wrap.
func (w *Writes) Wrap(next http.RoundTripper) http.RoundTripper {
	return RoundTripper(func(request *http.Request) (*http.Response, error) {
		switch request.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions:
		default:
			w.mu.Lock()
			w.seen = append(w.seen, request.Method+" "+request.URL.Path)
			w.mu.Unlock()
		}
		return next.RoundTrip(request)
	})
}

// Seen returns the method and the path of each, in order.
func (w *Writes) Seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

// RoundTripper sends requests as the function does.
type RoundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f RoundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
