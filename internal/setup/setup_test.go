package setup_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/setup"
)

const (
	patience = 30 * time.Second
	tick     = 50 * time.Millisecond
)

func TestMain(m *testing.M) { os.Exit(controllertest.Main(m)) }

// needCluster returns an administrator of the API server that the tests of this package share.
func needCluster(t *testing.T) client.Client {
	t.Helper()
	c, err := client.New(controllertest.Config(t), client.Options{Scheme: setup.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// namespace makes a namespace with the service account that a controller manager would make.
func namespace(t *testing.T, c client.Client) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	create(t, c, ns)
	create(t, c, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "default"}})
	return ns.Name
}

func create(t *testing.T, c client.Client, obj client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), obj); err != nil {
		t.Fatalf("create %T: %v", obj, err)
	}
}

// operator starts an operator and returns the address of its API.
func operator(t *testing.T, namespace string, mutate func(*setup.Options)) string {
	t.Helper()
	url, _ := startOperator(t, namespace, t.TempDir(), mutate)
	return url
}

// startOperator starts an operator on a data directory; stop ends it and waits.
func startOperator(t *testing.T, namespace, dataDir string, mutate func(*setup.Options)) (url string, stop func()) {
	t.Helper()
	return startOperatorOn(t, controllertest.Config(t), namespace, dataDir, mutate)
}

// starting is held while an operator is set up: all operators of a process register the same metrics.
var starting sync.Mutex

// startOperatorOn is startOperator with a way to the API server.
func startOperatorOn(t *testing.T, config *rest.Config, namespace, dataDir string, mutate func(*setup.Options)) (url string, stop func()) {
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
		case <-time.After(time.Minute):
			t.Error("the operator did not stop within a minute")
		}
	}
	t.Cleanup(stop)
	g := gomega.NewWithT(t)
	g.Eventually(o.APIAddr, patience, tick).ShouldNot(gomega.BeEmpty())
	if opts.TLS.Mode != "" && opts.TLS.Mode != setup.TLSOff {
		return "https://" + o.APIAddr(), stop
	}
	return "http://" + o.APIAddr(), stop
}

// sampleScanner reads the sample manifest.
func sampleScanner(t *testing.T, namespace string) *scannerv1.Scanner {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "config", "samples", "scanner_v1_scanner.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var s scannerv1.Scanner
	if err := yaml.UnmarshalStrict(content, &s); err != nil {
		t.Fatal(err)
	}
	s.Namespace = namespace
	return &s
}

// runningPod makes a pod that runs an image on a node, as a kubelet would report it.
func runningPod(t *testing.T, c client.Client, namespace, name, imageID string, mutate ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
	}
	for _, m := range mutate {
		m(pod)
	}
	create(t, c, pod)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Image: "app:1", ImageID: imageID}}
	if err := c.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}
