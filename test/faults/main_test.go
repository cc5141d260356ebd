//go:build faults

// Package faults disturbs the operator at every request that it makes, and compares what comes out with an undisturbed run. The operator is
// a process of its own. It reaches a real API server through a proxy, which injects one fault per run. Nothing runs on the node: the tests
// play the kubelet, the workload controllers of Kubernetes, and the scan pods, past the proxy.
//
// A point is a scenario, a request or watch event of it, and a fault. Each is a test of its own, such as
//
//	go test -tags faults ./test/faults -run 'TestFaults/new-image/create-jobs-1/kill-committed$'
package faults

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/scanner-operator/scanner-operator/internal/store/storetest/dbserver"
)

var (
	quietPeriod = flag.Duration("quiet", 0, "how long the operator must not write after a fault; 0 for a minute, and for 3s with -short")
	reportFile  = flag.String("report", "", "file to write the report to, as Markdown; none by default")
	resultsFile = flag.String("results", "", "file to append a line to for each point, as JSON, when it is finished; none by default")
	resume      = flag.Bool("resume", false, "leave out the points that -results shows as finished with the same operator")
	part        = shard{1, 1}
	runs        = flag.Int("runs", 4, "how many operators are disturbed at a time; those that are only watched for writes do not count")
	binary      = flag.String("manager", "", "program to test; by default it is built")
	detectRaces = flag.Bool("detect-races", true, "build the operator with the race detector, except for points in transactions without -short; it takes several times the processor time")
)

func init() {
	flag.Var(&part, "shard", "part of the points to run, as i/n: the first of four parts is 1/4")
}

// What all tests share.
var (
	// common is the control plane of runs that do not disturb it, own are those of the others.
	common *plane
	own    planes
	// active bounds the operators that are disturbed at a time.
	active chan struct{}
	// forRequests and forTransactions are the programs that are tested: without -short, the operator of points in transactions, which are most, has no race detector.
	forRequests, forTransactions string
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *quietPeriod == 0 {
		// Whatever the operator would write again and again, it does at once, or after an error, with a backoff of up to 30 seconds.
		// The sample finds the first kind only.
		*quietPeriod = time.Minute
		if testing.Short() {
			*quietPeriod = 3 * time.Second
		}
	}
	active, own.busy = make(chan struct{}, *runs), make(chan struct{}, 2**runs)
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	code := 1
	if err := run(m, &code); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M, code *int) (err error) {
	if err := results.open(*resultsFile); err != nil {
		return err
	}
	defer func() {
		if common != nil {
			err = errors.Join(err, common.stop())
		}
		err = errors.Join(err, own.stop(), removeInstalled())
	}()
	*code = dbserver.Main{M: m}.Run()
	r := newReport(results.current())
	fmt.Println("faults:", r.summary())
	if *reportFile != "" {
		err = r.write(*reportFile)
	}
	if !testing.Short() {
		// The sample has too few points of a kind.
		err = errors.Join(err, r.unreached())
	}
	return err
}

// setUp builds the operator and starts the common control plane, when the first test needs them: the report can be made without.
var setUp = sync.OnceValue(func() (err error) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return err
	}
	if err := programs(root); err != nil {
		return err
	}
	if err := results.use(forRequests, forTransactions); err != nil {
		return err
	}
	p, err := newPlane()
	if err != nil {
		return err
	}
	common = p
	return p.observe()
})

// programs sets the programs that are tested, and builds those that no flag names.
func programs(root string) error {
	forRequests, forTransactions = *binary, *binary
	if *binary != "" {
		return nil
	}
	forRequests = filepath.Join(root, "bin", "scanner-operator-faults")
	forTransactions = forRequests
	if *detectRaces && !testing.Short() {
		forTransactions += "-plain"
		if err := build(root, forTransactions, false); err != nil {
			return err
		}
	}
	return build(root, forRequests, *detectRaces)
}

// build builds the operator with the flags of "make test-integration", so that most of it is in the cache.
func build(root, program string, races bool) error {
	args, cgo := []string{"build", "-tags=faults", "-ldflags=-w"}, "CGO_ENABLED=0"
	if races {
		args = append(args, "-race", "-gcflags=modernc.org/sqlite/lib=-race=false", "-gcflags=modernc.org/libc=-race=false")
		cgo = "CGO_ENABLED=1"
	}
	cmd := exec.CommandContext(context.Background(), "go", append(args, "-o", program, "./cmd/scanner-operator")...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), cgo)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build the operator: %w", err)
	}
	return nil
}
