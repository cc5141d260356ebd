// Package localcluster gives tests a cluster of hack/devcluster.
package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/scanner-operator/scanner-operator/hack/gobuild"
)

// Modes of a cluster.
const (
	// Real has a kubelet and a container runtime; it needs Linux and root.
	Real = "real"
	// Simulated has nodes on which nothing runs.
	Simulated = "simulated"
)

// stopTimeout is how long a cluster may take to stop.
const stopTimeout = 3 * time.Minute

// Cluster is a cluster that runs.
type Cluster struct {
	// Root is the root of the checkout.
	Root string
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string

	name, program string
}

// Start builds devcluster and starts a cluster, with further flags of "devcluster up". Stop stops it.
func Start(ctx context.Context, name, mode string, flags ...string) (*Cluster, error) {
	// Tests run in the folder of their package, such as test/e2e.
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return nil, err
	}
	c := &Cluster{Root: root, name: name, program: filepath.Join(root, "bin", "devcluster")}
	build := gobuild.Build{
		Title: "devcluster", Dir: filepath.Join(root, "hack", "devcluster"), Output: c.program, Packages: []string{"."}, Progress: os.Stderr,
	}
	if err := build.Run(ctx); err != nil {
		return nil, err
	}
	// The cluster of a killed run must not answer in place of this one.
	if err := c.devcluster(ctx, "down"); err != nil {
		return nil, err
	}
	if err := c.up(ctx, mode, flags); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

func (c *Cluster) up(ctx context.Context, mode string, flags []string) error {
	if err := c.devcluster(ctx, append([]string{"up", "--mode=" + mode}, flags...)...); err != nil {
		return err
	}
	path, err := exec.CommandContext(ctx, c.program, "kubeconfig", "--name="+c.name).Output()
	if err != nil {
		return fmt.Errorf("get the path of the kubeconfig: %w", err)
	}
	c.Kubeconfig = strings.TrimSpace(string(path))
	return nil
}

// Stop stops the cluster and removes everything that it created.
func (c *Cluster) Stop() error {
	// Not by the context of the tests, which may have ended.
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return c.devcluster(ctx, "down")
}

// Load imports the images of an archive into the node.
func (c *Cluster) Load(ctx context.Context, archive string) error {
	return c.devcluster(ctx, "load", archive)
}

// Config is the administrator's client configuration.
func (c *Cluster) Config() (*rest.Config, error) {
	return clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
}

func (c *Cluster) devcluster(ctx context.Context, args ...string) error {
	return c.Run(ctx, c.program, append(args, "--name="+c.name)...)
}

// Run runs a command in the root of the checkout and shows its output.
func (c *Cluster) Run(ctx context.Context, name string, args ...string) error {
	fmt.Println("+", name, strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.Root, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}
