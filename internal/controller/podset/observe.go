package podset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
)

// indexPodSet finds pods in the cache: by the UID of the PodSet that controls them; those without a controller by the name of the PodSet
// that may adopt them, after orphanOf.
const (
	indexPodSet = "podset"
	orphanOf    = "orphan/"
)

// indexed returns what a pod is found by.
func indexed(obj client.Object) []string {
	if _, uid, ours := controllerOf(obj); ours {
		return []string{string(uid)}
	}
	if name, may := adoptable(obj); may {
		return []string{orphanOf + name}
	}
	return nil
}

// adoptable returns the name of the PodSet that a pod without a controller would belong to.
func adoptable(pod metav1.Object) (string, bool) {
	if metav1.GetControllerOfNoCopy(pod) != nil {
		return "", false
	}
	name, has := pod.GetLabels()[appv1alpha1.LabelApp]
	return name, has && pod.GetLabels()[appv1alpha1.LabelVersion] == appv1alpha1.Version
}

// view is the pods that concern a PodSet.
type view struct {
	owned []*corev1.Pod
	// orphans have the labels of its pods and no controller.
	orphans []*corev1.Pod
}

// cached returns what the cache shows.
func (r *Reconciler) cached(ctx context.Context, ps *appv1alpha1.PodSet) (view, error) {
	var owned, orphans corev1.PodList
	err := errors.Join(
		r.Client.List(ctx, &owned, client.InNamespace(ps.Namespace), client.MatchingFields{indexPodSet: string(ps.UID)}),
		r.Client.List(ctx, &orphans, client.InNamespace(ps.Namespace), client.MatchingFields{indexPodSet: orphanOf + ps.Name}),
	)
	if err != nil {
		return view{}, fmt.Errorf("list the pods of %s in the cache: %w", nameOf(ps), err)
	}
	return viewOf(ps, owned.Items, orphans.Items), nil
}

// live returns what the API server says. It is errStale when the PodSet itself is not as the cache shows it any more.
func (r *Reconciler) live(ctx context.Context, ps *appv1alpha1.PodSet) (view, error) {
	var current appv1alpha1.PodSet
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(ps), &current)
	if err != nil && !apierrors.IsNotFound(err) {
		return view{}, fmt.Errorf("get %s: %w", nameOf(ps), err)
	}
	if err != nil || current.UID != ps.UID || current.Generation != ps.Generation || !current.DeletionTimestamp.IsZero() {
		return view{}, errStale
	}
	var pods corev1.PodList
	if err := r.Live.List(ctx, &pods, client.InNamespace(ps.Namespace), client.MatchingLabels(selectorOf(ps))); err != nil {
		return view{}, fmt.Errorf("list the pods of %s: %w", nameOf(ps), err)
	}
	return viewOf(ps, pods.Items), nil
}

func viewOf(ps *appv1alpha1.PodSet, lists ...[]corev1.Pod) view {
	var v view
	for _, pods := range lists {
		for i := range pods {
			pod := &pods[i]
			if metav1.IsControlledBy(pod, ps) {
				v.owned = append(v.owned, pod)
			} else if _, may := adoptable(pod); may && active(pod) {
				v.orphans = append(v.orphans, pod)
			}
		}
	}
	return v
}

// strays returns the pods that belong to the PodSet and whose labels do not match any more.
func (v *view) strays(ps *appv1alpha1.PodSet) []*corev1.Pod {
	selector := labels.SelectorFromSet(selectorOf(ps))
	var pods []*corev1.Pod
	for _, pod := range v.owned {
		if !selector.Matches(labels.Set(pod.Labels)) && pod.DeletionTimestamp.IsZero() {
			pods = append(pods, pod)
		}
	}
	return pods
}

// claim adds the orphans to the pods of the PodSet, by the rules of a ReplicaSet. What it adopts stays: the API server has just said that
// the PodSet is not being deleted.
func (r *Reconciler) claim(ctx context.Context, ps *appv1alpha1.PodSet, v view) ([]*corev1.Pod, error) {
	pods := v.owned
	for _, orphan := range v.orphans {
		adopted, err := r.patchOwner(ctx, orphan, ownerReference(ps))
		if err != nil {
			return nil, fmt.Errorf("adopt pod %s: %w", orphan.Name, err)
		}
		if adopted != nil {
			pods = append(pods, adopted)
		}
	}
	return pods, nil
}

// release gives pods up.
func (r *Reconciler) release(ctx context.Context, ps *appv1alpha1.PodSet, pods []*corev1.Pod) error {
	for _, pod := range pods {
		if _, err := r.patchOwner(ctx, pod, map[string]any{"$patch": "delete", "uid": ps.UID}); err != nil {
			return fmt.Errorf("release pod %s: %w", pod.Name, err)
		}
	}
	return nil
}

// patchOwner adds or removes an owner of a pod. It returns nil when there is nothing to do any more: the pod is gone, is another one of
// the same name, or has another controller.
func (r *Reconciler) patchOwner(ctx context.Context, pod *corev1.Pod, owner any) (*corev1.Pod, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "ownerReferences": []any{owner}}})
	if err != nil {
		return nil, fmt.Errorf("encode the patch: %w", err)
	}
	patched := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err = r.Client.Patch(ctx, patched, client.RawPatch(types.StrategicMergePatchType, patch))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
		return nil, nil //nolint:nilnil // nothing to do, as documented
	}
	return patched, err
}
