package podset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
)

// maxForeign bounds how many names that others have taken are tried for one pod. Pods that a user released, to look into them, keep theirs.
const maxForeign = 20

// act brings the pods nearer to what is wanted, and keeps the look true. It goes on after an error: what could not be deleted still
// counts.
func (r *Reconciler) act(ctx context.Context, ps *appv1alpha1.PodSet, template *corev1.PodTemplateSpec, l *look) error {
	errs := []error{r.deleteAll(ctx, ps, l, surplus(l))}
	errs = append(errs, r.replace(ctx, ps, template, l))
	errs = append(errs, r.fill(ctx, ps, template, l))
	errs = append(errs, r.deleteAll(ctx, ps, l, spent(l)))
	return errors.Join(errs...)
}

// deleteAll deletes pods, and marks those that are on their way. It goes on after an error.
func (r *Reconciler) deleteAll(ctx context.Context, ps *appv1alpha1.PodSet, l *look, pods []*corev1.Pod) error {
	var errs []error
	for _, pod := range pods {
		l.births.forget(pod)
		if err := r.delete(ctx, ps, pod); err != nil {
			errs = append(errs, err)
			continue
		}
		pod.DeletionTimestamp = &metav1.Time{Time: l.now}
	}
	return errors.Join(errs...)
}

// delete deletes a pod unless it has changed since it was seen: it may have become ready, and then another one goes first. What has ended
// does not change any more.
func (r *Reconciler) delete(ctx context.Context, ps *appv1alpha1.PodSet, pod *corev1.Pod) error {
	seen := client.Preconditions{UID: &pod.UID}
	if !finished(pod) {
		seen.ResourceVersion = &pod.ResourceVersion
	}
	err := r.Client.Delete(ctx, pod, seen)
	switch {
	case apierrors.IsNotFound(err):
	case apierrors.IsConflict(err):
		return fmt.Errorf("delete pod %s: %w", pod.Name, err)
	case err != nil:
		r.Recorder.Eventf(ps, pod, corev1.EventTypeWarning, "FailedDelete", "Delete", "%s", cut("Error deleting pod "+pod.Name+": "+err.Error()))
		return fmt.Errorf("delete pod %s: %w", pod.Name, err)
	default:
		r.Recorder.Eventf(ps, pod, corev1.EventTypeNormal, "SuccessfulDelete", "Delete", "Deleted pod: %s", pod.Name)
	}
	return nil
}

// replace deletes the next pods of an earlier template. It asks first whether the API server would take a new one: a template that it
// refuses must not cost a pod that runs.
func (r *Reconciler) replace(ctx context.Context, ps *appv1alpha1.PodSet, template *corev1.PodTemplateSpec, l *look) error {
	pods := replaceable(l)
	if len(pods) == 0 {
		return nil
	}
	slot, _ := slotOf(pods[0])
	trial := newPod(ps, template, l.hash, vacancy{slot: slot, incarnation: incarnationOf(pods[0]) + 1})
	if err := r.Client.Create(ctx, trial, client.DryRunAll); err != nil && !passes(err) {
		return r.refused(ps, err)
	}
	return r.deleteAll(ctx, ps, l, pods)
}

// passes says of the refusal of a trial that it does not concern the template: the pod that goes makes room in a quota, and for a name that
// is taken there is another one.
func passes(err error) bool {
	return apierrors.IsAlreadyExists(err) || apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

// fill creates the pods that are missing and due, and adds them to the look. It begins with one and doubles the number as long as all is
// well, so that what is refused is not asked for ten times.
func (r *Reconciler) fill(ctx context.Context, ps *appv1alpha1.PodSet, template *corev1.PodTemplateSpec, l *look) error {
	due := fillable(l)
	for batch := 1; len(due) > 0; batch *= 2 {
		batch = min(batch, len(due))
		created, err := r.createAll(ctx, ps, template, l.hash, due[:batch])
		l.pods = append(l.pods, created...)
		l.births.add(created, l.now)
		l.last.see(ps, created)
		if err != nil {
			return err
		}
		due = due[batch:]
	}
	return nil
}

// createAll creates pods at the same time.
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

// create makes the pod that fills a vacancy. When a pod of that name exists and is the PodSet's own, somebody else has just made it, and that
// one is returned; when it is another's or on its way out, the next name is tried. It returns nil when the namespace is being deleted.
func (r *Reconciler) create(
	ctx context.Context, ps *appv1alpha1.PodSet, template *corev1.PodTemplateSpec, hash string, v vacancy,
) (*corev1.Pod, error) {
	var name string
	for range maxForeign {
		pod := newPod(ps, template, hash, v)
		name = pod.Name
		switch err := r.Client.Create(ctx, pod); {
		case err == nil:
			r.Recorder.Eventf(ps, pod, corev1.EventTypeNormal, "SuccessfulCreate", "Create", "Created pod: %s", name)
			return pod, nil
		case !apierrors.IsAlreadyExists(err):
			return nil, r.refused(ps, err)
		}
		if own, err := r.findOwn(ctx, ps, name); err != nil || own != nil {
			return own, err
		}
		v.incarnation++
	}
	return nil, r.refused(ps, fmt.Errorf("the last %d names that were tried, such as %s, are taken by pods of others or that are being deleted", maxForeign, name))
}

// findOwn asks the API server for a pod of the PodSet by its name; nil when it is another's, or is being deleted: a list by labels does not
// show one that has lost them, and a finalizer may keep it for ever.
func (r *Reconciler) findOwn(ctx context.Context, ps *appv1alpha1.PodSet, name string) (*corev1.Pod, error) {
	var pod corev1.Pod
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: ps.Namespace, Name: name}, &pod); err != nil {
		return nil, fmt.Errorf("get pod %s, which exists already: %w", name, err)
	}
	if !metav1.IsControlledBy(&pod, ps) || !pod.DeletionTimestamp.IsZero() {
		return nil, nil //nolint:nilnil // no pod to count, as documented
	}
	return &pod, nil
}

// refused tells that a pod was not created. In a namespace that is being deleted that is no error, and nobody needs to know.
func (r *Reconciler) refused(ps *appv1alpha1.PodSet, err error) error {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	r.Recorder.Eventf(ps, nil, corev1.EventTypeWarning, "FailedCreate", "Create", "%s", cut("Error creating: "+err.Error()))
	return fmt.Errorf("create a pod: %w", err)
}
