package scanner

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// How long a Job that was created here may be missing from the cache before the API server is asked.
const cacheLag = 5 * time.Second

// Jobs catalogues each image in a Kubernetes Job.
type Jobs struct {
	client  client.Client
	live    client.Reader
	clock   clock.Clock
	options scanjob.Options

	mu sync.Mutex
	// created holds the Jobs of this process that the cache has not shown yet: without them a cache that lags would let
	// more Jobs start than the limit allows.
	created map[types.NamespacedName]createdJob
	// troubles says of Jobs under way why their pods do not start: at its deadline a Job takes its pods with it, and the reason would
	// be gone. outcomes holds the ends of failed Jobs, which never change.
	troubles, outcomes map[types.UID]vuln.Outcome
}

type createdJob struct {
	at      time.Time
	attempt Attempt
}

// NewJobs returns a Cataloguer that creates Jobs. live reads from the API server, not from a cache.
func NewJobs(c client.Client, live client.Reader, clk clock.Clock, options scanjob.Options) *Jobs {
	return &Jobs{
		client: c, live: live, clock: clk, options: options, created: map[types.NamespacedName]createdJob{},
		troubles: map[types.UID]vuln.Outcome{}, outcomes: map[types.UID]vuln.Outcome{},
	}
}

// Attempts implements Cataloguer.
func (j *Jobs) Attempts(ctx context.Context) (map[string]Attempt, error) {
	var jobs batchv1.JobList
	if err := j.client.List(ctx, &jobs, client.HasLabels{scanjob.LabelScan}); err != nil {
		return nil, fmt.Errorf("list scan Jobs: %w", err)
	}
	attempts := make(map[string]Attempt, len(jobs.Items))
	seen := make(map[types.NamespacedName]bool, len(jobs.Items))
	uids := make(map[types.UID]bool, len(jobs.Items))
	for i := range jobs.Items {
		job := &jobs.Items[i]
		seen[client.ObjectKeyFromObject(job)], uids[job.UID] = true, true
		attempt, err := j.attempt(ctx, job)
		if err != nil {
			return nil, err
		}
		attempts[job.Name] = attempt
	}
	j.forget(uids)
	if err := j.addCreated(ctx, seen, attempts); err != nil {
		return nil, err
	}
	return attempts, nil
}

func (j *Jobs) attempt(ctx context.Context, job *batchv1.Job) (Attempt, error) {
	attempt := Attempt{Key: scanjob.Key(job), ScannerUID: job.Labels[scanjob.LabelScanner], Done: scanjob.Finished(job)}
	var err error
	attempt.Outcome, err = j.outcome(ctx, job, attempt.Done)
	return attempt, err
}

// outcome says how a Job ended, and remembers what its pods say for as long as they are there.
func (j *Jobs) outcome(ctx context.Context, job *batchv1.Job, done bool) (vuln.Outcome, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if outcome, known := j.outcomes[job.UID]; known {
		return outcome, nil
	}
	var pods corev1.PodList
	ofJob := []client.ListOption{client.InNamespace(job.Namespace), client.MatchingLabels{scanjob.LabelScan: job.Name}}
	if err := j.client.List(ctx, &pods, ofJob...); err != nil {
		return vuln.Outcome{}, fmt.Errorf("list the pods of Job %s/%s: %w", job.Namespace, job.Name, err)
	}
	trouble, told := scanjob.Told(pods.Items)
	if !done {
		delete(j.troubles, job.UID)
		if told {
			j.troubles[job.UID] = trouble
		}
		return vuln.Outcome{}, nil
	}
	outcome := scanjob.Outcome(job, pods.Items)
	if outcome.Succeeded() {
		return outcome, nil
	}
	if !told {
		// Jobs and pods arrive in the cache independently: that of the pods may not show the end yet.
		if err := j.live.List(ctx, &pods, ofJob...); err != nil {
			return vuln.Outcome{}, fmt.Errorf("list the pods of Job %s/%s: %w", job.Namespace, job.Name, err)
		}
		outcome = scanjob.Outcome(job, pods.Items)
	}
	if before, known := j.troubles[job.UID]; known && outcome.Reason == vuln.ReasonDeadlineExceeded && len(pods.Items) == 0 {
		outcome = before
	}
	j.outcomes[job.UID] = outcome
	return outcome, nil
}

// forget drops what is remembered of Jobs that are gone.
func (j *Jobs) forget(exist map[types.UID]bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	gone := func(uid types.UID, _ vuln.Outcome) bool { return !exist[uid] }
	maps.DeleteFunc(j.troubles, gone)
	maps.DeleteFunc(j.outcomes, gone)
}

// addCreated adds the Jobs that were created here and that the cache does not show. After some seconds the API server is asked
// whether they still exist.
func (j *Jobs) addCreated(ctx context.Context, seen map[types.NamespacedName]bool, attempts map[string]Attempt) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for key, created := range j.created {
		if seen[key] {
			delete(j.created, key)
			continue
		}
		if j.clock.Since(created.at) > cacheLag {
			var job batchv1.Job
			switch err := j.live.Get(ctx, key, &job); {
			case apierrors.IsNotFound(err):
				delete(j.created, key)
				continue
			case err != nil:
				return fmt.Errorf("get scan Job %s: %w", key, err)
			}
		}
		attempts[key.Name] = created.attempt
	}
	return nil
}

// Start implements Cataloguer. The Scanner owns the Job when both are in one namespace.
func (j *Jobs) Start(ctx context.Context, owner types.NamespacedName, req scanjob.Request) error {
	job := scanjob.Build(req, j.options)
	if owner.Namespace == req.Namespace {
		var scanner scannerv1.Scanner
		if err := j.client.Get(ctx, owner, &scanner); err != nil {
			return fmt.Errorf("get the Scanner that owns the Job: %w", err)
		}
		if err := controllerutil.SetControllerReference(&scanner, job, j.client.Scheme()); err != nil {
			return fmt.Errorf("set the owner of the Job: %w", err)
		}
	}
	switch err := j.client.Create(ctx, job); {
	case err == nil, apierrors.IsAlreadyExists(err):
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsNotFound(err):
		// A quota, an admission policy, a namespace that is being deleted, a Job that is not valid: only this one is concerned.
		return &RefusedError{vuln.Outcome{
			Reason: vuln.ReasonUnschedulable, Message: fmt.Sprintf("namespace %s does not take the scan Job: %v", req.Namespace, err),
		}}
	default:
		return fmt.Errorf("create a scan Job in namespace %s: %w", req.Namespace, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.created[client.ObjectKeyFromObject(job)] = createdJob{
		at: j.clock.Now(), attempt: Attempt{Key: req.Key, ScannerUID: req.ScannerUID},
	}
	return nil
}
