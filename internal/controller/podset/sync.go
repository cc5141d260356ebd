package podset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// maxNames is the maximum number of names that are tried for one pod when other objects have taken them. Pods that a user released keep theirs.
const maxNames = 20

// sync deletes and creates pods to bring the observed state closer to the desired state, and updates the observed state. It continues after an
// error: a pod that could not be deleted still counts.
func (r *Reconciler) sync(ctx context.Context, ps *appv1alpha1.PodSet, template *corev1.PodTemplateSpec, s *state) error {
	from := len(s.active())
	errs := []error{r.deleteAll(ctx, ps, s, surplus(s))}
	errs = append(errs, r.deleteOutdated(ctx, ps, template, s))
	errs = append(errs, r.createMissing(ctx, ps, template, s))
	errs = append(errs, r.deleteAll(ctx, ps, s, finishedToDelete(s)))
	if to := len(s.active()); to != from {
		logr.FromContextOrDiscard(ctx).Info("Scaled PodSet", "from", from, "to", to)
	}
	return errors.Join(errs...)
}

// deleteAll deletes pods and marks them as terminating. It continues after an error.
func (r *Reconciler) deleteAll(ctx context.Context, ps *appv1alpha1.PodSet, s *state, pods []*corev1.Pod) error {
	var errs []error
	for _, pod := range pods {
		s.creations.remove(pod)
		if err := r.delete(ctx, ps, pod); err != nil {
			errs = append(errs, err)
			continue
		}
		pod.DeletionTimestamp = &metav1.Time{Time: s.now}
	}
	return errors.Join(errs...)
}

// delete deletes a pod unless it has changed since it was observed: it may have become ready, and then another one is deleted first. A finished
// pod does not change any more.
func (r *Reconciler) delete(ctx context.Context, ps *appv1alpha1.PodSet, pod *corev1.Pod) error {
	observed := client.Preconditions{UID: &pod.UID}
	if !finished(pod) {
		observed.ResourceVersion = &pod.ResourceVersion
	}
	err := r.Client.Delete(ctx, pod, observed)
	switch {
	case apierrors.IsNotFound(err):
	case apierrors.IsConflict(err):
		return fmt.Errorf("delete pod %s: %w", pod.Name, err)
	case err != nil:
		r.Recorder.Eventf(ps, pod, corev1.EventTypeWarning, "FailedDelete", "Delete", "%s",
			truncate.Ellipsis("Error deleting pod "+pod.Name+": "+err.Error(), kube.MaxNote))
		return fmt.Errorf("delete pod %s: %w", pod.Name, err)
	default:
		logr.FromContextOrDiscard(ctx).Info("Deleted pod", "pod", pod.Name)
		r.Recorder.Eventf(ps, pod, corev1.EventTypeNormal, "SuccessfulDelete", "Delete", "Deleted pod: %s", pod.Name)
	}
	return nil
}

// deleteOutdated deletes the next pods of a previous template. First a dry run checks that the API server accepts a new pod: a template that it
// rejects must not cost a running pod.
func (r *Reconciler) deleteOutdated(ctx context.Context, ps *appv1alpha1.PodSet, template *corev1.PodTemplateSpec, s *state) error {
	pods := replaceable(s)
	if len(pods) == 0 {
		return nil
	}
	slot, _ := slotOf(pods[0])
	dryRun := newPod(ps, template, s.hash, vacancy{slot: slot, replacement: replacementOf(pods[0]) + 1})
	if err := r.Client.Create(ctx, dryRun, client.DryRunAll); err != nil && !unrelatedToTemplate(err) {
		return r.createFailed(ps, err)
	}
	return r.deleteAll(ctx, ps, s, pods)
}

// unrelatedToTemplate returns whether the error of a dry run has another cause than the template: the deleted pod releases its share of a quota,
// and when a name is taken the next one is tried.
func unrelatedToTemplate(err error) bool {
	return apierrors.IsAlreadyExists(err) || apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

// createMissing creates the missing pods that are due, and adds them to the observed state. It starts with one pod and doubles the number as
// long as all succeed, so that a request that is rejected is not sent ten times.
func (r *Reconciler) createMissing(ctx context.Context, ps *appv1alpha1.PodSet, template *corev1.PodTemplateSpec, s *state) error {
	vacancies := due(s)
	for batch := 1; len(vacancies) > 0; batch *= 2 {
		batch = min(batch, len(vacancies))
		created, err := r.createAll(ctx, ps, template, s.hash, vacancies[:batch])
		s.pods = append(s.pods, created...)
		s.creations.add(created, s.now)
		r.observe(ps, created...)
		if err != nil {
			return err
		}
		vacancies = vacancies[batch:]
	}
	return nil
}

// createAll creates pods in parallel.
func (r *Reconciler) createAll(
	ctx context.Context, ps *appv1alpha1.PodSet, template *corev1.PodTemplateSpec, hash string, vacancies []vacancy,
) ([]*corev1.Pod, error) {
	var wg sync.WaitGroup
	pods, errs := make([]*corev1.Pod, len(vacancies)), make([]error, len(vacancies))
	for i, v := range vacancies {
		wg.Go(func() { pods[i], errs[i] = r.create(ctx, ps, template, hash, v) })
	}
	wg.Wait()
	var created []*corev1.Pod
	for _, pod := range pods {
		if pod != nil {
			created = append(created, pod)
		}
	}
	return created, errors.Join(errs...)
}

// create creates the pod for a vacancy. When a pod of that name exists and belongs to the PodSet, another process has just created it, and
// create returns that pod; when it belongs to another controller or is terminating, create tries the next name. It returns nil when the
// namespace is being deleted.
func (r *Reconciler) create(
	ctx context.Context, ps *appv1alpha1.PodSet, template *corev1.PodTemplateSpec, hash string, v vacancy,
) (*corev1.Pod, error) {
	var name string
	for range maxNames {
		pod := newPod(ps, template, hash, v)
		name = pod.Name
		switch err := r.Client.Create(ctx, pod); {
		case err == nil:
			logr.FromContextOrDiscard(ctx).Info("Created pod", "pod", name)
			r.Recorder.Eventf(ps, pod, corev1.EventTypeNormal, "SuccessfulCreate", "Create", "Created pod: %s", name)
			return pod, nil
		case !apierrors.IsAlreadyExists(err):
			return nil, r.createFailed(ps, err)
		}
		if own, err := r.findOwn(ctx, ps, name); err != nil || own != nil {
			return own, err
		}
		v.replacement++
	}
	return nil, r.createFailed(ps, fmt.Errorf("%d names, the last one %s, are taken by terminating pods or by pods of other controllers", maxNames, name))
}

// findOwn reads a pod of the PodSet by name from the API server; nil when the pod belongs to another controller, or is terminating. A list by
// labels does not show a pod that has lost its labels, and a finalizer may keep a terminating pod for a long time.
func (r *Reconciler) findOwn(ctx context.Context, ps *appv1alpha1.PodSet, name string) (*corev1.Pod, error) {
	var pod corev1.Pod
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: ps.Namespace, Name: name}, &pod); err != nil {
		return nil, fmt.Errorf("get the existing pod %s: %w", name, err)
	}
	if !metav1.IsControlledBy(&pod, ps) || !pod.DeletionTimestamp.IsZero() {
		return nil, nil //nolint:nilnil // There is no pod to count, as documented.
	}
	return &pod, nil
}

// createFailed reports that a pod was not created. When the namespace is being deleted, that is not an error.
func (r *Reconciler) createFailed(ps *appv1alpha1.PodSet, err error) error {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	r.Recorder.Eventf(ps, nil, corev1.EventTypeWarning, "FailedCreate", "Create", "%s", truncate.Ellipsis("Error creating: "+err.Error(), kube.MaxNote))
	return fmt.Errorf("create a pod: %w", err)
}
