package scanner

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// After the SBOM has arrived and the scan container has ended, the Job controller has slotGrace to end the Job until its slot is free anyway, and
// deleteGrace until the Job is deleted.
const (
	slotGrace   = 10 * time.Second
	deleteGrace = time.Minute
)

const (
	// deleteAgain is when a Job that the operator may not delete is deleted again, and for how long none is deleted in a namespace after a deletion that took
	// slowStart.
	deleteAgain = 5 * time.Minute
	// forgetAfter is the age at which a Job for which nobody waits is forgotten although it exists, because of a finalizer for example. Its pods have ended:
	// the deadline of a Job is a day at most.
	forgetAfter = 48 * time.Hour
)

// evaluate returns the state of a Job, and remembers the problems of its pods.
func (j *Jobs) evaluate(ctx context.Context, job *batchv1.Job) (scanjob.Evaluation, error) {
	if outcome, known := j.outcomes[job.UID]; known {
		return scanjob.Evaluation{Done: true, Outcome: outcome}, nil
	}
	finished := scanjob.Finished(job)
	if finished {
		// Their number is that of the scans of some minutes, and each list goes over all pods of the namespace.
		if evaluation := scanjob.Evaluate(job, nil, j.clock.Now()); evaluation.Outcome.Succeeded() {
			return evaluation, nil
		}
	}
	pods, err := j.podsOf(ctx, job)
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

// conclude ends an attempt whose SBOM has arrived, or for which nobody waits any more. If the Job continues although the scan does not, because its
// pod never started or because containers that others added to it do not end, it holds no slot and is deleted. It goes after its pods, which are
// known as those of a scan as long as it exists. The caller holds the lock.
func (j *Jobs) conclude(ctx context.Context, record *store.ScanJob, job *batchv1.Job, attempt *Attempt) error {
	if scanjob.Finished(job) || job.DeletionTimestamp != nil {
		attempt.Done = true
		return nil
	}
	if record.SBOMSHA256 != "" {
		pods, err := j.podsOf(ctx, job)
		if err != nil {
			return err
		}
		stopped := func(grace time.Duration) bool {
			return slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return scanjob.Stopped(&pod, j.clock.Now().Add(-grace)) })
		}
		attempt.Done = attempt.Done || stopped(slotGrace)
		if !stopped(deleteGrace) {
			return nil
		}
	}
	attempt.Done = true
	j.ended[job.UID] = endedJob{job, record.SBOMSHA256 != ""}
	return nil
}

// endedJob is a Job to be deleted; stored says that its SBOM is.
type endedJob struct {
	job    *batchv1.Job
	stored bool
}

// deletions are those of Jobs that are over. The zero value is ready.
type deletions struct {
	// kept are the Jobs that could not be deleted.
	kept map[types.UID]later
	// hanging has when Jobs of a namespace may be deleted again, after a deletion there that took long.
	hanging map[string]time.Time
}

// later is when something is tried again, and how long it waits for that.
type later struct {
	again time.Time
	wait  time.Duration
}

// again returns when a Job may be deleted.
func (d *deletions) again(job *batchv1.Job) time.Time {
	again := d.kept[job.UID].again
	if hanging := d.hanging[job.Namespace]; hanging.After(again) {
		again = hanging
	}
	return again
}

// keep has a Job wait for its next deletion: longer each time, and longest after a rejection or a deletion that took long.
func (d *deletions) keep(job *batchv1.Job, rejected bool, took time.Duration, now time.Time) {
	if d.kept == nil {
		d.kept, d.hanging = map[types.UID]later{}, map[string]time.Time{}
	}
	maps.DeleteFunc(d.hanging, func(_ string, until time.Time) bool { return !now.Before(until) })
	wait := min(max(2*d.kept[job.UID].wait, retryRead), deleteAgain)
	if took >= slowStart {
		d.hanging[job.Namespace] = now.Add(deleteAgain)
	}
	if rejected || took >= slowStart {
		wait = deleteAgain
	}
	d.kept[job.UID] = later{now.Add(wait), wait}
}

// DeleteEnded implements Cataloger. A webhook may hang: each deletion takes at most slowStart, none begins after that time, and they hold no lock.
func (j *Jobs) DeleteEnded(ctx context.Context) time.Duration {
	var next time.Duration
	wait := func(until time.Duration) {
		if until = max(until, time.Second); next == 0 || until < next {
			next = until
		}
	}
	began := j.clock.Now()
	for _, ended := range j.over() {
		j.mu.Lock()
		again := j.deletions.again(ended.job)
		j.mu.Unlock()
		switch now := j.clock.Now(); {
		case again.After(now):
			wait(again.Sub(now))
		case now.Sub(began) >= slowStart:
			wait(retryRead)
		default:
			if again := j.deleteEnded(ctx, ended); again > 0 {
				wait(again)
			}
		}
	}
	return next
}

// over lists the Jobs that are over, in the order of their names.
func (j *Jobs) over() []endedJob {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.SortedFunc(maps.Values(j.ended), func(a, b endedJob) int {
		return cmp.Or(strings.Compare(a.job.Name, b.job.Name), strings.Compare(a.job.Namespace, b.job.Namespace))
	})
}

// deleteEnded deletes a Job that is over, and returns when to try again, 0 if it is deleted.
func (j *Jobs) deleteEnded(ctx context.Context, ended endedJob) time.Duration {
	job, began := ended.job, j.clock.Now()
	limited, cancel := context.WithTimeout(ctx, slowStart)
	defer cancel()
	err := j.client.Delete(limited, job, client.PropagationPolicy(metav1.DeletePropagationForeground), client.Preconditions{UID: &job.UID})
	log, took := logr.FromContextOrDiscard(ctx), j.clock.Since(began)
	if ctx.Err() != nil {
		return 0 // The operator ends.
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		delete(j.ended, job.UID)
		delete(j.deletions.kept, job.UID)
		if err == nil {
			log.Info("Deleted scan Job", "namespace", job.Namespace, "job", job.Name, "sbomStored", ended.stored)
		}
		return 0
	}
	// Admission, or missing rights in the namespace.
	rejected := apierrors.IsForbidden(err) || apierrors.IsInternalError(err) && strings.Contains(err.Error(), "webhook")
	j.deletions.keep(job, rejected, took, j.clock.Now())
	log.Error(err, "Failed to delete a scan Job that is over; it holds no slot", "namespace", job.Namespace, "job", job.Name)
	return j.deletions.kept[job.UID].wait
}

// unreadable is the outcome of an attempt whose Job the operator may not read: nobody knows how it ends.
func unreadable(namespace string, err error) model.Outcome {
	return model.Outcome{Reason: model.ReasonUnschedulable, Message: fmt.Sprintf("the operator may not read the scan Job in namespace %s: %v", namespace, err)}
}

// report logs what fails about a recorded Job, once.
func (j *Jobs) report(ctx context.Context, name string, err error) {
	switch {
	case err == nil:
		delete(j.failing, name)
	case j.failing[name] != err.Error():
		j.failing[name] = err.Error()
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to read a scan Job; other scans continue", "job", name)
	}
}

// podsOf lists the pods that a Job controls, from the API server if the cache does not have its namespace.
func (j *Jobs) podsOf(ctx context.Context, job *batchv1.Job) ([]corev1.Pod, error) {
	pods, err := podsOf(ctx, j.client, job)
	if err != nil {
		return podsOf(ctx, j.live, job)
	}
	return pods, nil
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
