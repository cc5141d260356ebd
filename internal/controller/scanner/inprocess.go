package scanner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

const (
	// childMemoryLimit is the soft memory limit in bytes of a child process in the smallest size class; the Go runtime collects harder
	// when near.
	childMemoryLimit = 768 << 20
	// killDelay is how long a child may take to clean up after it was asked to end.
	killDelay = 15 * time.Second
	// maxChildLog bounds what is kept of the beginning and of the end of a child's standard error, in bytes.
	maxChildLog = 8 << 10
	// childOverhead is the part of its memory that a child may need beyond the soft limit: it ends when it has a tenth more.
	childOverhead = 11
	// spareChildMemory is what a child may have in bytes beyond a quarter more than its soft limit: the runtime takes memory in large parts.
	spareChildMemory = 192 << 20
	// keepOutcomes bounds the outcomes that are kept for the controller to collect.
	keepOutcomes = 1000
)

// IngestFunc keeps the uncompressed Syft JSON document in a file as the SBOM of an image.
type IngestFunc func(ctx context.Context, key model.ImageKey, path string) error

// InProcess catalogs each image in a child process of the manager, which runs the same command as a Job does.
type InProcess struct {
	// Executable is the program, Directory where children put their scratch and results.
	Executable string
	Directory  string
	Timeout    time.Duration
	PlainHTTP  []string
	// MaxMemory bounds, in bytes, what a size class makes of the memory limit of a child.
	MaxMemory int64
	// Memory is what all children share, in bytes; they wait for each other. 0 is no limit.
	Memory int64
	// Journal is the directory with a file for each attempt under way; see Recover.
	Journal string
	Ingest  IngestFunc
	// Ended is called after each attempt.
	Ended func()
	// Tracer records a trace of each attempt; nil records none.
	Tracer trace.Tracer
	Log    logr.Logger

	mu       sync.Mutex
	attempts map[string]Attempt
	order    []string
	memory   *semaphore.Weighted
	wait     sync.WaitGroup
	ctx      context.Context //nolint:containedctx // children live as long as the manager, not as one call of Start
}

// Run lets children start until ctx ends, and waits for the last of them. From then on, other processes of the same user cannot read
// the memory and environment of this one. It implements manager.Runnable.
func (p *InProcess) Run(ctx context.Context) error {
	if err := hideMemory(); err != nil {
		return err
	}
	if err := canConfine(); err != nil {
		p.Log.Info("Scans in child processes can read the files of the operator, such as its token: use Linux 5.13 or newer with Landlock, or --catalog=job",
			"error", err.Error())
	}
	p.mu.Lock()
	p.ctx = ctx
	p.mu.Unlock()
	<-ctx.Done()
	p.wait.Wait()
	return nil
}

// Attempts implements Cataloger.
func (p *InProcess) Attempts(context.Context) (map[string]Attempt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	attempts := make(map[string]Attempt, len(p.attempts))
	maps.Copy(attempts, p.attempts)
	return attempts, nil
}

// DeleteEnded implements Cataloger. Attempts leave nothing.
func (*InProcess) DeleteEnded(context.Context) time.Duration { return 0 }

// Made implements Cataloger: there are no pods.
func (*InProcess) Made(*corev1.Pod) bool { return false }

// Grow implements Cataloger. What a Scanner wants for Jobs does not matter here.
func (p *InProcess) Grow(_ corev1.ResourceRequirements, class model.SizeClass) (model.SizeClass, bool) {
	next, more := class.OrSmall().Next()
	return next, more && childMemoryLimit*next.Factor() <= p.MaxMemory && p.limit(class) < p.limit(next)
}

// Mounts implements Cataloger.
func (*InProcess) Mounts(string) bool { return false }

// limit is the soft memory limit in bytes of a child of a size class.
func (p *InProcess) limit(class model.SizeClass) int64 {
	limit := childMemoryLimit * class.OrSmall().Factor()
	if p.Memory > 0 {
		limit = min(limit, p.Memory-p.Memory/childOverhead)
	}
	return limit
}

// maxChildMemory is what the kernel gives to a child with a soft memory limit. It is more than the child takes before it ends by itself, which it
// notices within 50 milliseconds.
func maxChildMemory(limit int64) int64 { return limit + limit/4 + spareChildMemory }

// reserve waits until the other children leave enough memory for one of a size class.
func (p *InProcess) reserve(ctx context.Context, class model.SizeClass) (release func(), err error) {
	if p.Memory <= 0 {
		return func() {}, nil
	}
	limit := p.limit(class)
	size := min(limit+limit/(childOverhead-1)+1, p.Memory)
	if err := p.memory.Acquire(ctx, size); err != nil {
		return nil, err
	}
	return func() { p.memory.Release(size) }, nil
}

// Start implements Cataloger.
func (p *InProcess) Start(_ context.Context, _ types.NamespacedName, req scanjob.Request) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx == nil || p.ctx.Err() != nil {
		return errors.New("the manager is not running")
	}
	if _, started := p.attempts[req.Name]; started {
		return nil
	}
	if req.Volume != nil {
		return &specError{"spec.job.source: ImageVolume requires scan Jobs; use Registry or Auto, or run the operator with --catalog=job"}
	}
	if p.attempts == nil {
		p.attempts = map[string]Attempt{}
	}
	if p.memory == nil {
		p.memory = semaphore.NewWeighted(p.Memory)
	}
	if err := p.begin(req); err != nil {
		return err
	}
	p.attempts[req.Name] = childAttempt(req)
	ctx := p.ctx
	p.wait.Go(func() {
		ctx, span := startScan(ctx, p.Tracer, req.Key)
		outcome := p.run(ctx, req)
		endScan(span, outcome)
		p.finish(req, outcome)
	})
	return nil
}

// childAttempt is the attempt of a child process, which begins at once.
func childAttempt(req scanjob.Request) Attempt {
	return Attempt{Key: req.Key, ScannerUID: req.ScannerUID, SizeClass: req.SizeClass, For: req.For, Started: true}
}

func (p *InProcess) finish(req scanjob.Request, outcome model.Outcome) {
	attempt := childAttempt(req)
	attempt.Done, attempt.Outcome = true, outcome
	p.mu.Lock()
	p.attempts[req.Name] = attempt
	p.order = append(p.order, req.Name)
	if len(p.order) > keepOutcomes {
		delete(p.attempts, p.order[0])
		p.order = p.order[1:]
	}
	if err := p.end(req.Name); err != nil {
		p.Log.Error(err, "Failed to record the end of a scan")
	}
	p.mu.Unlock()
	if p.Ended != nil {
		p.Ended()
	}
}

func (p *InProcess) run(ctx context.Context, req scanjob.Request) model.Outcome {
	log := p.Log.WithValues("image", req.Key.ImageID, "platform", req.Key.Platform.String())
	dir, err := os.MkdirTemp(p.Directory, "catalog-")
	if err != nil {
		return model.Outcome{Reason: model.ReasonOutOfDisk, Message: "create a scratch directory: " + err.Error()}
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			log.Error(err, "Failed to delete a scratch directory")
		}
	}()

	release, err := p.reserve(ctx, req.SizeClass)
	if err != nil {
		return model.Outcome{Reason: model.ReasonDeadlineExceeded, Message: "the operator ended before the scan began"}
	}
	defer release()
	log.V(1).Info("Cataloging")
	result, outcome := p.catalog(ctx, req, dir)
	if !outcome.Succeeded() {
		return outcome
	}
	if err := p.Ingest(ctx, req.Key, result); err != nil {
		return model.Outcome{Reason: model.ReasonUploadFailed, Message: err.Error()}
	}
	return model.Outcome{}
}

// catalog runs the child and returns the path of the SBOM.
func (p *InProcess) catalog(ctx context.Context, req scanjob.Request, dir string) (string, model.Outcome) {
	result, termination := filepath.Join(dir, "sbom.json"), filepath.Join(dir, "termination")
	if err := os.WriteFile(termination, nil, 0o600); err != nil {
		return "", model.Outcome{Reason: model.ReasonOutOfDisk, Message: "create a scratch file: " + err.Error()}
	}
	args := []string{
		"catalog", req.Key.ImageID, "--file=" + result, "--scratch-dir=" + dir,
		"--termination-message-path=" + termination, "--timeout=" + p.Timeout.String(),
	}
	if platform := req.Key.Platform.String(); platform != "" {
		args = append(args, "--platform="+platform)
	}
	for _, repository := range req.Fallbacks {
		args = append(args, "--fallback-repository="+repository)
	}
	for _, host := range p.PlainHTTP {
		args = append(args, "--plain-http-registries="+host)
	}

	// The child bounds itself; this is for a child that hangs.
	ctx, cancel := context.WithTimeout(ctx, p.Timeout+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.Executable, args...) //nolint:gosec // our own program
	cmd.Env = childEnvironment(dir, p.limit(req.SizeClass))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = killDelay
	var stderr output
	cmd.Stderr = &stderr
	err := runBound(cmd, childFiles(p.Executable, dir), maxChildMemory(p.limit(req.SizeClass)))
	if err == nil {
		return result, model.Outcome{}
	}
	var told model.Outcome
	if message, readErr := os.ReadFile(termination); readErr == nil {
		if json.Unmarshal(message, &told) == nil && told.Reason.Valid() {
			return "", told
		}
	}
	if ctx.Err() != nil {
		return "", model.Outcome{Reason: model.ReasonDeadlineExceeded, Message: "the scan did not finish before its deadline"}
	}
	return "", outcomeOf(err, &stderr)
}

// outcomeOf is the outcome of a child that gave none.
func outcomeOf(err error, stderr *output) model.Outcome {
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
		return model.Outcome{Reason: model.ReasonOutOfMemory, Message: "the scan was killed, most likely because it ran out of memory"}
	case exit != nil && stderr.outOfMemory():
		return model.Outcome{Reason: model.ReasonOutOfMemory, Message: "the scan ran out of memory; increase the memory of its scan"}
	default:
		return model.Outcome{Reason: model.ReasonCatalogFailed, Message: fmt.Sprintf("the scan failed without a reason: %v: %s", err, stderr.last())}
	}
}

// output keeps the beginning and the end of what is written to it.
type output struct{ begin, end bytes.Buffer }

func (o *output) Write(p []byte) (int, error) {
	o.begin.Write(p[:min(len(p), maxChildLog-o.begin.Len())])
	o.end.Write(p)
	if over := o.end.Len() - maxChildLog; over > 0 {
		o.end.Next(over)
	}
	return len(p), nil
}

// outOfMemory reports whether the Go runtime got no more memory. Its message is followed by all goroutines.
func (o *output) outOfMemory() bool {
	return bytes.Contains(o.begin.Bytes(), []byte("out of memory")) || bytes.Contains(o.begin.Bytes(), []byte("cannot allocate memory"))
}

// last returns the end of the last line. What is kept can begin within a character.
func (o *output) last() string {
	lines := bytes.Split(bytes.TrimSpace(o.end.Bytes()), []byte("\n"))
	return truncate.Last(string(lines[len(lines)-1]), maxChildLog-utf8.UTFMax)
}
