package podset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
)

// indexPodSet indexes the pods in the cache: by the UID of the PodSet that controls them; those without a controller by orphanOf and the name of
// the PodSet that may adopt them.
const (
	indexPodSet = "podset"
	orphanOf    = "orphan/"
)

// indexed returns the values of indexPodSet for a pod.
func indexed(obj client.Object) []string {
	if _, uid, ours := controllerOf(obj); ours {
		return []string{string(uid)}
	}
	if name, may := adoptable(obj); may {
		return []string{orphanOf + name}
	}
	return nil
}

// adoptable returns the name of the PodSet that may adopt a pod, false when none may.
func adoptable(pod metav1.Object) (string, bool) {
	if metav1.GetControllerOfNoCopy(pod) != nil {
		return "", false
	}
	name, found := pod.GetLabels()[appv1alpha1.LabelApp]
	return name, found && pod.GetLabels()[appv1alpha1.LabelVersion] == appv1alpha1.Version
}

// podLists are the pods that concern a PodSet.
type podLists struct {
	owned []*corev1.Pod
	// orphans have the labels of the PodSet and no controller.
	orphans []*corev1.Pod
}

// cachedPods lists the pods from the cache.
func (r *Reconciler) cachedPods(ctx context.Context, ps *appv1alpha1.PodSet) (podLists, error) {
	var owned, orphans corev1.PodList
	err := errors.Join(
		r.Client.List(ctx, &owned, client.InNamespace(ps.Namespace), client.MatchingFields{indexPodSet: string(ps.UID)}),
		r.Client.List(ctx, &orphans, client.InNamespace(ps.Namespace), client.MatchingFields{indexPodSet: orphanOf + ps.Name}),
	)
	if err != nil {
		return podLists{}, fmt.Errorf("list the pods of %s in the cache: %w", nameOf(ps), err)
	}
	return newPodLists(ps, owned.Items, orphans.Items), nil
}

// livePods lists the pods from the API server. It returns errStale when the cache does not show the current PodSet.
func (r *Reconciler) livePods(ctx context.Context, ps *appv1alpha1.PodSet) (podLists, error) {
	var current appv1alpha1.PodSet
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(ps), &current)
	if err != nil && !apierrors.IsNotFound(err) {
		return podLists{}, fmt.Errorf("get %s: %w", nameOf(ps), err)
	}
	if err != nil || current.UID != ps.UID || current.Generation != ps.Generation || !current.DeletionTimestamp.IsZero() {
		return podLists{}, errStale
	}
	var pods corev1.PodList
	if err := r.Live.List(ctx, &pods, client.InNamespace(ps.Namespace), client.MatchingLabels(selectorOf(ps))); err != nil {
		return podLists{}, fmt.Errorf("list the pods of %s: %w", nameOf(ps), err)
	}
	return newPodLists(ps, pods.Items), nil
}

func newPodLists(ps *appv1alpha1.PodSet, lists ...[]corev1.Pod) podLists {
	var found podLists
	for _, pods := range lists {
		for i := range pods {
			pod := &pods[i]
			if metav1.IsControlledBy(pod, ps) {
				found.owned = append(found.owned, pod)
			} else if _, may := adoptable(pod); may && active(pod) {
				found.orphans = append(found.orphans, pod)
			}
		}
	}
	return found
}

// mismatched returns the pods of the PodSet whose labels do not match its selector any more.
func (l *podLists) mismatched(ps *appv1alpha1.PodSet) []*corev1.Pod {
	selector := labels.SelectorFromSet(selectorOf(ps))
	var pods []*corev1.Pod
	for _, pod := range l.owned {
		if !selector.Matches(labels.Set(pod.Labels)) && pod.DeletionTimestamp.IsZero() {
			pods = append(pods, pod)
		}
	}
	return pods
}

// adopt adopts the orphans, by the rules of a ReplicaSet, and returns all pods of the PodSet. The PodSet was just read from the API server and is
// not being deleted.
func (r *Reconciler) adopt(ctx context.Context, ps *appv1alpha1.PodSet, lists podLists) ([]*corev1.Pod, error) {
	pods := lists.owned
	for _, orphan := range lists.orphans {
		adopted, err := r.patchOwner(ctx, orphan, ownerReference(ps))
		if err != nil {
			return nil, fmt.Errorf("adopt pod %s: %w", orphan.Name, err)
		}
		if adopted != nil {
			logr.FromContextOrDiscard(ctx).Info("Adopted pod", "pod", orphan.Name)
			pods = append(pods, adopted)
		}
	}
	return pods, nil
}

// release removes the owner reference from pods.
func (r *Reconciler) release(ctx context.Context, ps *appv1alpha1.PodSet, pods []*corev1.Pod) error {
	for _, pod := range pods {
		released, err := r.patchOwner(ctx, pod, map[string]any{"$patch": "delete", "uid": ps.UID})
		if err != nil {
			return fmt.Errorf("release pod %s: %w", pod.Name, err)
		}
		if released != nil {
			logr.FromContextOrDiscard(ctx).Info("Released pod", "pod", pod.Name)
		}
	}
	return nil
}

// patchOwner adds or removes an owner of a pod. It returns nil when there is nothing to do any more: the pod does not exist, is another pod with
// the same name, or has another controller.
func (r *Reconciler) patchOwner(ctx context.Context, pod *corev1.Pod, owner any) (*corev1.Pod, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "ownerReferences": []any{owner}}})
	if err != nil {
		return nil, fmt.Errorf("encode the patch: %w", err)
	}
	patched := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err = r.Client.Patch(ctx, patched, client.RawPatch(types.StrategicMergePatchType, patch))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
		return nil, nil //nolint:nilnil // There is nothing to do, as documented.
	}
	return patched, err
}
