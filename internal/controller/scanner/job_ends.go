package scanner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// deleteAgain is when a Job that the operator may not delete is deleted again.
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
	if again, kept := j.kept[job.UID]; kept && j.clock.Now().Before(again) {
		return nil
	}
	err := j.client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationForeground), client.Preconditions{UID: &job.UID})
	switch {
	case apierrors.IsForbidden(err), apierrors.IsInternalError(err) && strings.Contains(err.Error(), "webhook"): // Admission, or missing rights in the namespace.
		j.kept[job.UID] = j.clock.Now().Add(deleteAgain)
		logr.FromContextOrDiscard(ctx).Error(err, "Failed to delete a scan Job that is over; it holds no slot", "namespace", job.Namespace, "job", job.Name)
		return nil
	case client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err):
		return fmt.Errorf("delete scan Job %s/%s: %w", job.Namespace, job.Name, err)
	case err == nil:
		logr.FromContextOrDiscard(ctx).Info("Deleted scan Job", "namespace", job.Namespace, "job", job.Name, "sbomStored", record.SBOMSHA256 != "")
	}
	delete(j.kept, job.UID)
	return nil
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
