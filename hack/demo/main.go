// Command demo is "make run": it starts a local Kubernetes with simulated nodes, a registry with sample images and the
// operator, applies the samples, and stops all of it on Ctrl-C. With KUBECONFIG set it uses that cluster and starts the
// operator alone. "demo watch" prints the events of the operator as they happen.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/scanner-operator/scanner-operator/hack/gobuild"
	"github.com/scanner-operator/scanner-operator/hack/sampleimages"
)

const (
	readyTimeout   = 2 * time.Minute
	resultsTimeout = 3 * time.Minute
	stopTimeout    = 30 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// What its clients log is in their errors too.
	log.SetLogger(logr.Discard())
	var d demo
	flag.StringVar(&d.api, "address", "127.0.0.1:8000", "address of the UI and the API")
	flag.StringVar(&d.registry, "registry", "127.0.0.1:5001", "address of the local registry")
	flag.StringVar(&d.until, "until", "", "stop after the first-result or after all-results of the sample images (default: on Ctrl-C)")
	flag.Parse()
	start := d.run
	if flag.Arg(0) == "watch" {
		start = d.watch
	}
	if err := start(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "\nmake run:", err)
		os.Exit(1)
	}
}

// process is a program that was started; err is how it ended, once ended is closed.
type process struct {
	ended chan struct{}
	err   error
}

type demo struct {
	api, registry string
	until         string

	started time.Time
	// undo stops what was started, last first.
	undo []func() error
}

func (d *demo) say(format string, args ...any) {
	fmt.Printf("[%5.1fs] %s\n", time.Since(d.started).Seconds(), fmt.Sprintf(format, args...))
}

// Values of --until.
const (
	firstResult = "first-result"
	allResults  = "all-results"
)

func (d *demo) run(ctx context.Context) (err error) {
	if !slices.Contains([]string{"", firstResult, allResults}, d.until) {
		return fmt.Errorf("--until=%s: use %s or %s", d.until, firstResult, allResults)
	}
	d.started = time.Now()
	defer func() {
		for _, v := range slices.Backward(d.undo) {
			err = errors.Join(err, v())
		}
	}()

	d.say("Building the operator (the first build takes several minutes)")
	operator, err := goBuild(ctx, "the operator", ".", "bin/scanner-operator", "./cmd/scanner-operator")
	if err != nil {
		return err
	}
	kubeconfig, simulated := os.Getenv("KUBECONFIG"), false
	var images []sample
	if kubeconfig == "" {
		simulated = true
		if kubeconfig, err = d.startCluster(ctx); err != nil {
			return err
		}
		if images, err = d.serveImages(ctx); err != nil {
			return err
		}
	} else {
		d.say("Using the cluster that KUBECONFIG names: %s", kubeconfig)
	}
	c, err := newClient(kubeconfig)
	if err != nil {
		return err
	}
	d.say("Applying the CRDs and the samples")
	if err := d.applySamples(ctx, c, simulated, images); err != nil {
		return err
	}
	running, err := d.startOperator(ctx, operator, kubeconfig)
	if err != nil {
		return err
	}
	d.printReady(kubeconfig, simulated)
	return d.follow(ctx, running, len(images) > 0)
}

func (d *demo) startCluster(ctx context.Context) (string, error) {
	d.say("Starting a local Kubernetes with simulated nodes (the first build takes several minutes)")
	devcluster, err := goBuild(ctx, "devcluster", "hack/devcluster", "bin/devcluster", ".")
	if err != nil {
		return "", err
	}
	up := exec.CommandContext(ctx, devcluster, "up", "--mode=simulated", "--name=demo", "--resolve-images") //nolint:gosec // our own program
	up.Stdout, up.Stderr = os.Stderr, os.Stderr
	d.undo = append(d.undo, func() error {
		d.say("Stopping the local Kubernetes")
		down := exec.Command(devcluster, "down", "--name=demo") //nolint:gosec,noctx // runs when ctx has ended
		down.Stdout, down.Stderr = os.Stderr, os.Stderr
		return down.Run()
	})
	if err := up.Run(); err != nil {
		return "", fmt.Errorf("start the local Kubernetes: %w", err)
	}
	path, err := exec.CommandContext(ctx, devcluster, "kubeconfig", "--name=demo").Output() //nolint:gosec // our own program
	if err != nil {
		return "", fmt.Errorf("ask for the kubeconfig: %w", err)
	}
	return strings.TrimSpace(string(path)), nil
}

// serveImages builds the sample images and serves them.
func (d *demo) serveImages(ctx context.Context) ([]sample, error) {
	d.say("Building the sample images")
	images, err := sampleimages.Build(ctx, "", d.say)
	if err != nil {
		return nil, fmt.Errorf("build the sample images: %w", err)
	}
	served, err := sampleimages.Serve(ctx, d.registry, images)
	if err != nil {
		return nil, fmt.Errorf("serve the sample images: %w", err)
	}
	d.undo = append(d.undo, served.Close)
	samples := make([]sample, 0, len(images))
	for i, image := range images {
		samples = append(samples, sample{
			name: image.Name[strings.LastIndex(image.Name, "/")+1:], reference: served.Tagged[i], platforms: image.Index != nil,
		})
	}
	return samples, nil
}

func (d *demo) startOperator(ctx context.Context, program, kubeconfig string) (*process, error) {
	data, err := d.dataDir()
	if err != nil {
		return nil, err
	}
	logFile := filepath.Join(data, "operator.log")
	log, err := os.Create(logFile)
	if err != nil {
		return nil, fmt.Errorf("create the log file of the operator: %w", err)
	}
	d.say("Starting the operator; log file: %s", logFile)
	cmd := exec.Command(program, "manager", //nolint:gosec,noctx // stopped by undo, so that it can shut down
		"--catalog=in-process", "--auth=none", "--sample-database", "--api-bind-address="+d.api,
		"--metrics-bind-address=0", "--health-probe-bind-address=0", "--data-dir="+data, "--namespace=default")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	cmd.Stdout, cmd.Stderr = log, log
	// Ctrl-C in a terminal goes to the whole group; the operator is told to stop in its turn.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the operator: %w", err)
	}
	operator := &process{ended: make(chan struct{})}
	go func() {
		operator.err = cmd.Wait()
		close(operator.ended)
	}()
	d.undo = append(d.undo, func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-operator.ended:
		case <-time.After(stopTimeout):
			_ = cmd.Process.Kill()
		}
		return log.Close()
	})
	wait, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		if reachable(wait, "http://"+d.api+"/api/v1/overview") {
			return operator, nil
		}
		select {
		case <-operator.ended:
			return nil, fmt.Errorf("the operator exited (%v); log file: %s", operator.err, logFile) //nolint:errorlint // may be nil
		case <-wait.Done():
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, fmt.Errorf("the operator was not ready within %s; log file: %s", readyTimeout, logFile)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// dataDir is emptied at every start, but for the vulnerability databases: a new cluster has nothing in common with the
// results of the last one.
func (d *demo) dataDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory of the user: %w", err)
	}
	dir := filepath.Join(cache, "scanner-operator", "demo")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		if entry.Name() == "db" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return "", err
		}
	}
	return dir, nil
}

func (d *demo) applySamples(ctx context.Context, c client.Client, simulated bool, images []sample) error {
	if err := applyFiles(ctx, c, "config/crd/bases"); err != nil {
		return err
	}
	if err := waitForCRDs(ctx, c); err != nil {
		return err
	}
	if !simulated {
		return applyFiles(ctx, c, "config/samples/scanner_v1_scanner.yaml")
	}
	if err := applyFiles(ctx, c, "config/samples", withImages(images)); err != nil {
		return err
	}
	return applyWorkloads(ctx, c, images)
}

func reachable(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close() //nolint:errcheck // nothing was read
	return res.StatusCode == http.StatusOK
}

// goBuild builds a program of this repository.
func goBuild(ctx context.Context, title, module, output, pkg string) (string, error) {
	path, err := filepath.Abs(output)
	if err != nil {
		return "", err
	}
	build := gobuild.Build{Title: title, Dir: module, Output: path, Packages: []string{pkg}, Progress: os.Stderr}
	return path, build.Run(ctx)
}
