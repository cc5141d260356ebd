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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

const (
	// cacheLag is how long a Job that was created here may be missing from the cache before the API server is asked.
	cacheLag = 5 * time.Second
	// keepDeleted is how long a Job that somebody deleted is remembered, for the Scanner that wants its image to learn of it.
	keepDeleted = time.Hour
)

// Jobs catalogues each image in a Kubernetes Job.
type Jobs struct {
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
	// troubles says of Jobs under way what their pods say: at its deadline a Job takes its pods with it, and the reason would
	// be gone. outcomes holds the ends of failed Jobs, which never change.
	troubles, outcomes map[types.UID]vuln.Outcome
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

// NewJobs returns a Cataloguer that creates Jobs in these namespaces, in all when there are none. live reads from the API server, not
// from a cache.
func NewJobs(c client.Client, live client.Reader, clk clock.Clock, options scanjob.Options, namespaces ...string) *Jobs {
	return &Jobs{
		client: c, live: live, clock: clk, options: options, namespaces: namespaces, open: map[string]openJob{},
		deleted: map[string]deletedJob{}, troubles: map[types.UID]vuln.Outcome{}, outcomes: map[types.UID]vuln.Outcome{},
	}
}

// Grow implements Cataloguer.
func (j *Jobs) Grow(wanted corev1.ResourceRequirements, class vuln.SizeClass) (vuln.SizeClass, bool) {
	return j.options.Grow(wanted, class)
}

// Attempts implements Cataloguer.
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
	gone := func(uid types.UID, _ vuln.Outcome) bool { return !uids[uid] }
	maps.DeleteFunc(j.troubles, gone)
	maps.DeleteFunc(j.outcomes, gone)
	return attempts, nil
}

// add says of a Job how far it is.
func (j *Jobs) add(ctx context.Context, job *batchv1.Job, attempts map[string]Attempt) error {
	verdict, err := j.judge(ctx, job)
	if err != nil {
		return err
	}
	attempt := Attempt{
		Key: scanjob.Key(job), ScannerUID: job.Labels[scanjob.LabelScanner], SizeClass: scanjob.SizeClass(job),
		Done: verdict.Done, Outcome: verdict.Outcome,
	}
	attempts[job.Name] = attempt
	if attempt.Done {
		delete(j.open, job.Name)
	} else {
		j.open[job.Name] = openJob{key: client.ObjectKeyFromObject(job), attempt: attempt}
	}
	return nil
}

// judge says how far a Job is, and remembers what its pods say for as long as they are there.
func (j *Jobs) judge(ctx context.Context, job *batchv1.Job) (scanjob.Verdict, error) {
	if outcome, known := j.outcomes[job.UID]; known {
		return scanjob.Verdict{Done: true, Outcome: outcome}, nil
	}
	finished := scanjob.Finished(job)
	pods, err := podsOf(ctx, j.client, job)
	if err != nil {
		return scanjob.Verdict{}, err
	}
	verdict := scanjob.Judge(job, pods, j.clock.Now())
	if !verdict.Done {
		switch {
		case !verdict.Outcome.Succeeded():
			j.troubles[job.UID] = verdict.Outcome
		case len(pods) > 0: // Pods that have gone leave what they said.
			delete(j.troubles, job.UID)
		}
		return verdict, nil
	}
	if !finished || verdict.Outcome.Succeeded() {
		return verdict, nil
	}
	// Jobs and pods arrive in the cache independently: that of the pods may not show the end yet.
	if pods, err = podsOf(ctx, j.live, job); err != nil {
		return scanjob.Verdict{}, err
	}
	verdict = scanjob.Judge(job, pods, j.clock.Now())
	if before, known := j.troubles[job.UID]; known && len(pods) == 0 {
		verdict.Outcome = before
	}
	j.outcomes[job.UID] = verdict.Outcome
	return verdict, nil
}

func podsOf(ctx context.Context, reader client.Reader, job *batchv1.Job) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := reader.List(ctx, &pods, client.InNamespace(job.Namespace), client.MatchingLabels{scanjob.LabelScan: job.Name})
	if err != nil {
		return nil, fmt.Errorf("list the pods of Job %s/%s: %w", job.Namespace, job.Name, err)
	}
	return pods.Items, nil
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

// Start implements Cataloguer. The Scanner owns the Job when both are in one namespace.
func (j *Jobs) Start(ctx context.Context, owner types.NamespacedName, req scanjob.Request) error {
	if req.Resumed {
		// Names collide within a namespace only, and the one that was chosen then need not be the one that is chosen now.
		begun, err := j.begun(ctx, req.Name)
		if err != nil || begun {
			return err
		}
	}
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
		attempt: Attempt{Key: req.Key, ScannerUID: req.ScannerUID, SizeClass: req.SizeClass.OrSmall()},
	}
	return nil
}

// begun asks the API server for a Job in all namespaces, and takes it up.
func (j *Jobs) begun(ctx context.Context, name string) (bool, error) {
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
