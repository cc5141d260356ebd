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
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/hack/sampleimages"
	"github.com/scanner-operator/scanner-operator/internal/setup"
)

const (
	clusterName       = "e2e"
	operatorNamespace = "scanner-system"
	operatorImage     = "scanner-operator:e2e"
	patience          = 3 * time.Minute
	tick              = 500 * time.Millisecond
	scanDeadline      = 90 * time.Second
)

// suite is what all tests share.
type suite struct {
	root       string
	kubeconfig string
	client     client.Client
	// registry serves the samples without credentials, private the same with.
	registry, private *registry
	samples           map[string]sampleimages.Image
}

var e2e suite

func TestMain(m *testing.M) {
	// The tests wait for the cluster far more than they compute.
	if err := flag.Set("test.parallel", "16"); err != nil {
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
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Minute)
	defer cancel()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return err
	}
	e2e.root = root

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
	if err := command(ctx, root, devcluster, "up", "--mode=real", "--name="+clusterName); err != nil {
		return err
	}
	if err := connect(ctx, devcluster); err != nil {
		return err
	}
	if err := loadOperator(ctx, devcluster); err != nil {
		return err
	}
	if err := serveSamples(ctx); err != nil {
		return err
	}
	defer e2e.registry.close()
	defer e2e.private.close()
	if err := install(ctx); err != nil {
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

func connect(ctx context.Context, devcluster string) error {
	path, err := exec.CommandContext(ctx, devcluster, "kubeconfig", "--name="+clusterName).Output()
	if err != nil {
		return fmt.Errorf("ask for the kubeconfig: %w", err)
	}
	e2e.kubeconfig = strings.TrimSpace(string(path))
	config, err := clientcmd.BuildConfigFromFlags("", e2e.kubeconfig)
	if err != nil {
		return err
	}
	e2e.client, err = client.New(config, client.Options{Scheme: setup.Scheme()})
	return err
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

func loadOperator(ctx context.Context, devcluster string) error {
	archive := filepath.Join(e2e.root, "dist", "scanner-operator-e2e.tar")
	if err := command(ctx, e2e.root, "go", "run", "./hack/image", "--output="+archive, "--name="+operatorImage); err != nil {
		return err
	}
	return command(ctx, e2e.root, devcluster, "load", archive, "--name="+clusterName)
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
func install(ctx context.Context) error {
	helm := os.Getenv("HELM")
	if helm == "" {
		return errors.New("HELM does not name the helm binary; make e2e does")
	}
	return command(ctx, e2e.root, helm, "install", "scanner", "charts/scanner-operator",
		"--kubeconfig="+e2e.kubeconfig, "--namespace="+operatorNamespace, "--create-namespace", "--wait", "--timeout=4m",
		"--set=image.registry=docker.io", "--set=image.repository=library/scanner-operator", "--set=image.tag=e2e",
		"--set=persistence.enabled=false",
		// Short enough to wait for, and long enough for the operator to be started again in between.
		"--set=scans.deadline="+scanDeadline.String(),
		// Twice what TestOutOfMemory begins with; what a Scanner asks for itself is not cut.
		"--set=scans.maxMemory="+largeMemory,
		// Scans that are held up must not keep others waiting.
		"--set=scans.concurrency=20", "--set=scans.registryConcurrency=20",
		"--set=vulnerabilityDatabase.updateURL=none", "--set=vulnerabilityDatabase.sample=true",
		"--set=plainHTTPRegistries={"+e2e.registry.host+","+e2e.private.host+"}")
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

func command(ctx context.Context, dir, name string, args ...string) error {
	fmt.Println("+", name, strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

// diagnose prints what helps to understand a failure.
func diagnose() {
	for _, args := range [][]string{
		{"get", "all", "-A", "-o", "wide"},
		{"get", "events", "-A", "--sort-by=.lastTimestamp"},
		{"get", "scanners", "-A", "-o", "yaml"},
		{"logs", "-n", operatorNamespace, "-l", "app.kubernetes.io/name=scanner-operator", "--tail=200"},
	} {
		_ = command(context.Background(), e2e.root, "kubectl", append([]string{"--kubeconfig=" + e2e.kubeconfig}, args...)...)
	}
}
