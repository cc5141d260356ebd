package scanner

import (
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

// conclude ends an attempt whose SBOM has arrived, or for which nobody waits any more. If the Job continues although the scan does not, because its
// pod never started or because containers that others added to it do not end, it holds no slot and is deleted. It goes after its pods, which are
// known as those of a scan as long as it exists.
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
	return j.deleteEnded(ctx, job, attempt, record.SBOMSHA256 != "")
}

// deletions are those of Jobs that are over. The zero value is ready.
type deletions struct {
	// kept are the Jobs that could not be deleted.
	kept map[types.UID]keptJob
	// hanging has when Jobs of a namespace may be deleted again, after a deletion there that took long.
	hanging map[string]time.Time
	// spent is how long deletions took since the attempts are read.
	spent time.Duration
}

// keptJob is when a Job is deleted again, and how long it waits for that.
type keptJob struct {
	again time.Time
	wait  time.Duration
}

// begin begins to count the time.
func (d *deletions) begin(now time.Time) {
	if d.spent = 0; d.kept == nil {
		d.kept, d.hanging = map[types.UID]keptJob{}, map[string]time.Time{}
	}
	maps.DeleteFunc(d.hanging, func(_ string, until time.Time) bool { return !now.Before(until) })
}

// keep has a Job wait for its next deletion: longer each time, and longest after a rejection or a deletion that took long.
func (d *deletions) keep(job *batchv1.Job, rejected bool, took time.Duration, now time.Time) {
	wait := min(max(2*d.kept[job.UID].wait, retryRead), deleteAgain)
	if took >= slowStart {
		d.hanging[job.Namespace] = now.Add(deleteAgain)
	}
	if rejected || took >= slowStart {
		wait = deleteAgain
	}
	d.kept[job.UID] = keptJob{now.Add(wait), wait}
}

// deleteEnded deletes a Job that is over; stored says that its SBOM is. All scans wait for it, so that it takes little time: a webhook may hang.
func (j *Jobs) deleteEnded(ctx context.Context, job *batchv1.Job, attempt *Attempt, stored bool) error {
	began := j.clock.Now()
	if began.Before(j.deletions.kept[job.UID].again) || began.Before(j.deletions.hanging[job.Namespace]) {
		return nil
	}
	if j.deletions.spent >= slowStart {
		attempt.Retry = true
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, slowStart-j.deletions.spent)
	defer cancel()
	err := j.client.Delete(limited, job, client.PropagationPolicy(metav1.DeletePropagationForeground), client.Preconditions{UID: &job.UID})
	took := j.clock.Since(began)
	j.deletions.spent += took
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		delete(j.deletions.kept, job.UID)
		if err == nil {
			logr.FromContextOrDiscard(ctx).Info("Deleted scan Job", "namespace", job.Namespace, "job", job.Name, "sbomStored", stored)
		}
		return nil
	}
	// Admission, or missing rights in the namespace.
	rejected := apierrors.IsForbidden(err) || apierrors.IsInternalError(err) && strings.Contains(err.Error(), "webhook")
	j.deletions.keep(job, rejected, took, j.clock.Now())
	if rejected {
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to delete a scan Job that is over; it holds no slot", "namespace", job.Namespace, "job", job.Name)
		return nil
	}
	return fmt.Errorf("delete scan Job %s/%s: %w", job.Namespace, job.Name, err)
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
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to read or delete a scan Job; other scans continue", "job", name)
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
