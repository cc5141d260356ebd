//go:build e2e

// Package e2e runs the operator's own image on a real kubelet, installed by the Helm chart, as a user would.
package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/hack/sampleimages"
	"github.com/scanner-operator/scanner-operator/internal/setup"
	"github.com/scanner-operator/scanner-operator/test/dexserver"
	"github.com/scanner-operator/scanner-operator/test/localcluster"
)

const (
	operatorNamespace = "scanner-system"
	operatorImage     = "scanner-operator:e2e"
	// patience bounds each wait. On two slow processors, single waits exceeded three minutes.
	patience = 8 * time.Minute
	tick     = 500 * time.Millisecond
	// commandTick is the interval of repeated commands, each of which takes a third of a second of CPU time.
	commandTick  = 2 * time.Second
	scanDeadline = 90 * time.Second
)

// suite is what all tests share.
type suite struct {
	*localcluster.Cluster
	client client.Client
	// registry serves the samples without credentials, private the same with.
	registry, private *registry
	samples           map[string]sampleimages.Image
	// node are the registries that the operator is not configured for.
	node *nodeRegistries
	// dex is the identity provider.
	dex *dexserver.Server
}

var e2e suite

func TestMain(m *testing.M) {
	// The tests wait for the cluster more than they compute; but with more of them, two processors start pods later than the tests wait.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	flag.Parse()
	code := 1
	if err := run(m, &code); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M, code *int) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 80*time.Minute)
	defer cancel()
	if e2e.node, err = newNodeRegistries(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e2e.node.close()) }()
	cluster, err := localcluster.Start(ctx, "e2e", localcluster.Real, e2e.node.flags()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	e2e.Cluster = cluster
	config, err := cluster.Config()
	if err != nil {
		return err
	}
	// The tests that run at the same time share the client.
	config.QPS = -1
	if e2e.client, err = client.New(config, client.Options{Scheme: setup.Scheme()}); err != nil {
		return err
	}
	if err := loadOperator(ctx); err != nil {
		return err
	}
	if err := provideVolume(ctx); err != nil {
		return err
	}
	if err := serveSamples(ctx); err != nil {
		return err
	}
	defer e2e.registry.close()
	defer e2e.private.close()
	provider, err := startProvider(ctx)
	if e2e.dex != nil {
		defer func() { err = errors.Join(err, e2e.dex.Close()) }()
	}
	if err != nil {
		return err
	}
	if err := install(ctx, provider...); err != nil {
		return err
	}
	if err := trustOperator(ctx); err != nil {
		return err
	}
	if err := waitForService(ctx); err != nil {
		return err
	}
	*code = m.Run()
	if *code != 0 {
		diagnose()
	}
	return nil
}

// nodeAddress is where the node, and pods, reach this process.
func nodeAddress(ctx context.Context) (string, error) {
	var nodes corev1.NodeList
	if err := e2e.client.List(ctx, &nodes); err != nil {
		return "", err
	}
	for _, node := range nodes.Items {
		for _, address := range node.Status.Addresses {
			if address.Type == corev1.NodeInternalIP {
				return address.Address, nil
			}
		}
	}
	return "", errors.New("no node has an internal address")
}

func loadOperator(ctx context.Context) error {
	archive := filepath.Join(e2e.Root, "dist", "scanner-operator-e2e.tar")
	if err := e2e.Run(ctx, "go", "run", "./hack/image", "--output="+archive, "--name="+operatorImage); err != nil {
		return err
	}
	return e2e.Load(ctx, archive)
}

// provideVolume makes the volume that the operator's claim asks for: a folder of this machine, which is the node.
func provideVolume(ctx context.Context) error {
	folder := filepath.Join(filepath.Dir(e2e.Kubeconfig), "operator-data")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	return e2e.client.Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "operator-data"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: folder}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelOSStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"linux"}}},
			}}}},
		},
	})
}

func serveSamples(ctx context.Context) error {
	address, err := nodeAddress(ctx)
	if err != nil {
		return err
	}
	if e2e.registry, err = newRegistry(address, 5000, ""); err != nil {
		return err
	}
	if e2e.private, err = newRegistry(address, 5001, "user:secret"); err != nil {
		return err
	}
	if err := e2e.node.serve(address); err != nil {
		return err
	}
	images, err := sampleimages.Build(ctx, "", func(format string, args ...any) { fmt.Printf(format+"\n", args...) })
	if err != nil {
		return err
	}
	e2e.samples = map[string]sampleimages.Image{}
	for _, image := range images {
		if image.Image != nil {
			e2e.samples[strings.TrimPrefix(image.Name, "samples/")] = image
		}
	}
	return nil
}

// install installs the chart as the README says, with values for this cluster.
func install(ctx context.Context, values ...string) error {
	helm := os.Getenv("HELM")
	if helm == "" {
		return errors.New("HELM does not name the helm binary; make e2e does")
	}
	return e2e.Run(ctx, helm, append(values, "install", "scanner", "charts/scanner-operator",
		"--kubeconfig="+e2e.Kubeconfig, "--namespace="+operatorNamespace, "--create-namespace", "--wait", "--timeout=4m",
		"--set=image.registry=docker.io", "--set=image.repository=library/scanner-operator", "--set=image.tag=e2e",
		// Short enough to wait for, and long enough for the operator to be started again in between.
		"--set=scans.deadline="+scanDeadline.String(),
		// Twice what TestOutOfMemory begins with; what a Scanner asks for itself is not cut.
		"--set=scans.maxMemory="+largeMemory,
		// Scans that are held up must not keep others waiting.
		"--set=scans.concurrency=20", "--set=scans.registryConcurrency=20", "--set=scans.nodeConcurrency=20",
		"--set=vulnerabilityDatabase.updateURL=none", "--set=vulnerabilityDatabase.sample=true",
		"--set=plainHTTPRegistries={"+e2e.registry.host+"}", "--set=scans.registries[0].host="+e2e.private.host, "--set=scans.registries[0].plainHTTP=true")...)
}

// waitForService waits until the node sends the Service's connections to the pod: that comes some time after the pod is ready.
func waitForService(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	address, err := serviceAddress(ctx)
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, tick, true, func(ctx context.Context) (bool, error) {
		status, _, err := api{base: address}.do(ctx, http.MethodGet, "/api/v1/session")
		return err == nil && status == http.StatusOK, nil
	})
}

// diagnose prints what helps to understand a failure.
func diagnose() {
	for _, args := range [][]string{
		{"get", "all", "-A", "-o", "wide"},
		{"get", "events", "-A", "--sort-by=.lastTimestamp"},
		{"get", "scanners", "-A", "-o", "yaml"},
		{"logs", "-n", operatorNamespace, "-l", "app.kubernetes.io/name=scanner-operator", "--tail=200"},
	} {
		_ = e2e.Run(context.Background(), "kubectl", append([]string{"--kubeconfig=" + e2e.Kubeconfig}, args...)...)
	}
}
