package scanner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

const (
	// cacheLag is how long a new Job may be missing from the cache before it is read from the API server.
	cacheLag = 5 * time.Second
	// keepDeleted is how long a deleted Job is remembered, so that the Scanner of its image observes the deletion.
	keepDeleted = time.Hour
)

// Jobs catalogs each image in a Kubernetes Job.
type Jobs struct {
	// UploadCA returns in PEM the CAs that a scan pod trusts for the upload besides those of its system. It may be nil.
	UploadCA func() (string, error)

	client  client.Client
	live    client.Reader
	clock   clock.Clock
	options scanjob.Options
	// namespaces are those that the operator looks at, none means all.
	namespaces []string

	mu sync.Mutex
	// open holds, by name, the Jobs that have not ended as far as this process knows: without those that it created and the
	// cache has not shown yet, a cache that lags would let more Jobs start than the limit allows; and one that is not there any more was
	// deleted by somebody.
	open map[string]openJob
	// deleted holds, by name, the attempts whose Jobs were deleted before they had ended.
	deleted map[string]deletedJob
	// problems holds the problems of the pods of running Jobs: at its deadline a Job deletes its pods, and the reason with
	// them. outcomes holds the outcomes of failed Jobs, which never change.
	problems, outcomes map[types.UID]model.Outcome
}

// openJob is a Job that is under way. createdAt is zero once the cache or the API server has shown it.
type openJob struct {
	key       types.NamespacedName
	createdAt time.Time
	attempt   Attempt
}

type deletedJob struct {
	at      time.Time
	attempt Attempt
}

// NewJobs returns a Cataloger that creates Jobs in these namespaces, in all when there are none. live reads from the API server, not
// from a cache.
func NewJobs(c client.Client, live client.Reader, clk clock.Clock, options scanjob.Options, namespaces ...string) *Jobs {
	return &Jobs{
		client: c, live: live, clock: clk, options: options, namespaces: namespaces, open: map[string]openJob{},
		deleted: map[string]deletedJob{}, problems: map[types.UID]model.Outcome{}, outcomes: map[types.UID]model.Outcome{},
	}
}

// Grow implements Cataloger.
func (j *Jobs) Grow(wanted corev1.ResourceRequirements, class model.SizeClass) (model.SizeClass, bool) {
	return j.options.Grow(wanted, class)
}

// Attempts implements Cataloger.
func (j *Jobs) Attempts(ctx context.Context) (map[string]Attempt, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var jobs batchv1.JobList
	if err := j.client.List(ctx, &jobs, client.HasLabels{scanjob.LabelScan}); err != nil {
		return nil, fmt.Errorf("list scan Jobs: %w", err)
	}
	attempts := make(map[string]Attempt, len(jobs.Items))
	uids := make(map[types.UID]bool, len(jobs.Items))
	for i := range jobs.Items {
		uids[jobs.Items[i].UID] = true
		if err := j.add(ctx, &jobs.Items[i], attempts); err != nil {
			return nil, err
		}
	}
	if err := j.addMissing(ctx, attempts, uids); err != nil {
		return nil, err
	}
	maps.DeleteFunc(j.deleted, func(_ string, d deletedJob) bool { return j.clock.Since(d.at) > keepDeleted })
	for name, d := range j.deleted {
		if _, there := attempts[name]; !there {
			attempts[name] = d.attempt
		}
	}
	gone := func(uid types.UID, _ model.Outcome) bool { return !uids[uid] }
	maps.DeleteFunc(j.problems, gone)
	maps.DeleteFunc(j.outcomes, gone)
	return attempts, nil
}

// add adds the attempt of a Job.
func (j *Jobs) add(ctx context.Context, job *batchv1.Job, attempts map[string]Attempt) error {
	evaluation, err := j.evaluate(ctx, job)
	if err != nil {
		return err
	}
	attempt := Attempt{
		Key: scanjob.Key(job), ScannerUID: job.Labels[scanjob.LabelScanner], SizeClass: scanjob.SizeClass(job), Namespace: job.Namespace,
		For: scanjob.For(job), Created: job.CreationTimestamp.Time, Started: evaluation.Started,
		Done: evaluation.Done, Outcome: evaluation.Outcome,
	}
	attempts[job.Name] = attempt
	if attempt.Done {
		delete(j.open, job.Name)
	} else {
		j.open[job.Name] = openJob{key: client.ObjectKeyFromObject(job), attempt: attempt}
	}
	return nil
}

// evaluate returns the state of a Job, and remembers the problems of its pods.
func (j *Jobs) evaluate(ctx context.Context, job *batchv1.Job) (scanjob.Evaluation, error) {
	if outcome, known := j.outcomes[job.UID]; known {
		return scanjob.Evaluation{Done: true, Outcome: outcome}, nil
	}
	finished := scanjob.Finished(job)
	pods, err := podsOf(ctx, j.client, job)
	if err != nil {
		return scanjob.Evaluation{}, err
	}
	evaluation := scanjob.Evaluate(job, pods, j.clock.Now())
	if !evaluation.Done {
		switch {
		case !evaluation.Outcome.Succeeded():
			j.problems[job.UID] = evaluation.Outcome
		case len(pods) > 0: // Pods that have gone leave what they said.
			delete(j.problems, job.UID)
		}
		return evaluation, nil
	}
	if !finished || evaluation.Outcome.Succeeded() {
		return evaluation, nil
	}
	// Jobs and pods arrive in the cache independently: that of the pods may not show the end yet.
	if pods, err = podsOf(ctx, j.live, job); err != nil {
		return scanjob.Evaluation{}, err
	}
	evaluation = scanjob.Evaluate(job, pods, j.clock.Now())
	if before, known := j.problems[job.UID]; known && len(pods) == 0 {
		evaluation.Outcome = before
	}
	j.outcomes[job.UID] = evaluation.Outcome
	return evaluation, nil
}

// podsOf lists the pods that a Job controls. The label only selects candidates: anyone with the right to create pods can set it.
func podsOf(ctx context.Context, reader client.Reader, job *batchv1.Job) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := reader.List(ctx, &pods, client.InNamespace(job.Namespace), client.MatchingLabels{scanjob.LabelScan: job.Name})
	if err != nil {
		return nil, fmt.Errorf("list the pods of Job %s/%s: %w", job.Namespace, job.Name, err)
	}
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !metav1.IsControlledBy(&pod, job) }), nil
}

// addMissing adds the Jobs that should be there and that the cache does not show: the API server is asked whether they still exist, about
// new ones after some seconds only.
func (j *Jobs) addMissing(ctx context.Context, attempts map[string]Attempt, uids map[types.UID]bool) error {
	for name, open := range j.open {
		if _, shown := attempts[name]; shown {
			continue
		}
		if !open.createdAt.IsZero() && j.clock.Since(open.createdAt) <= cacheLag {
			attempts[name] = open.attempt
			continue
		}
		var job batchv1.Job
		switch err := j.live.Get(ctx, open.key, &job); {
		case apierrors.IsNotFound(err):
			delete(j.open, name)
			open.attempt.Done, open.attempt.Outcome = true, scanjob.Deleted(open.key.Namespace, name)
			j.deleted[name] = deletedJob{at: j.clock.Now(), attempt: open.attempt}
		case err != nil:
			return fmt.Errorf("get scan Job %s: %w", open.key, err)
		default:
			uids[job.UID] = true
			if err := j.add(ctx, &job, attempts); err != nil {
				return err
			}
		}
	}
	return nil
}

// Start implements Cataloger. The Scanner owns the Job when both are in one namespace.
func (j *Jobs) Start(ctx context.Context, owner types.NamespacedName, req scanjob.Request) error {
	if req.Resumed {
		// Names collide within a namespace only, and the one that was chosen then need not be the one that is chosen now.
		started, err := j.findStarted(ctx, req.Name)
		if err != nil || started {
			return err
		}
	}
	options := j.options
	if j.UploadCA != nil {
		var err error
		if options.UploadCA, err = j.UploadCA(); err != nil {
			return fmt.Errorf("create a scan Job: %w", err)
		}
	}
	job := scanjob.Build(req, options)
	if owner.Namespace == req.Namespace {
		var scanner scannerv1.Scanner
		if err := j.client.Get(ctx, owner, &scanner); err != nil {
			return fmt.Errorf("get the Scanner that owns the Job: %w", err)
		}
		if err := controllerutil.SetControllerReference(&scanner, job, j.client.Scheme()); err != nil {
			return fmt.Errorf("set the owner of the Job: %w", err)
		}
	}
	if err := j.client.Create(ctx, job); err != nil && !apierrors.IsAlreadyExists(err) {
		if outcome, refused := refusal(err, req.Namespace); refused {
			return &RefusedError{outcome}
		}
		return fmt.Errorf("create a scan Job in namespace %s: %w", req.Namespace, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open[job.Name] = openJob{
		key: client.ObjectKeyFromObject(job), createdAt: j.clock.Now(),
		attempt: Attempt{
			Key: req.Key, ScannerUID: req.ScannerUID, SizeClass: req.SizeClass.OrSmall(), Namespace: req.Namespace, For: req.For, Created: j.clock.Now(),
		},
	}
	return nil
}

// findStarted finds a Job in all namespaces, and adds it to the open Jobs.
func (j *Jobs) findStarted(ctx context.Context, name string) (bool, error) {
	namespaces := j.namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		var jobs batchv1.JobList
		err := j.live.List(ctx, &jobs, client.InNamespace(namespace), client.MatchingLabels{scanjob.LabelScan: name}, client.Limit(1))
		if err != nil {
			return false, fmt.Errorf("look for scan Job %s: %w", name, err)
		}
		for i := range jobs.Items {
			j.mu.Lock()
			err := j.add(ctx, &jobs.Items[i], map[string]Attempt{})
			j.mu.Unlock()
			return true, err
		}
	}
	return false, nil
}
