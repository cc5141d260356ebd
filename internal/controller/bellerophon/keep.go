package bellerophon

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
)

// fieldOwner owns the fields that we look after.
const fieldOwner = client.FieldOwner("scanner-operator-bellerophonsimple")

// What events say about the objects of a shero, and what was done.
const (
	reasonCreated  = "SuccessfulCreate"
	reasonUpdated  = "SuccessfulUpdate"
	reasonRepaired = "Repaired"
	actionApply    = "Apply"
	// maxAction is the limit that Kubernetes puts on the action of an event, in bytes.
	maxAction = 128
)

// deed is what an event tells. Events with the same reason and action about the same objects are counted as one.
type deed struct{ reason, action, note string }

// keep makes one object as it is wanted, and writes nothing when it is. It returns the object as it is then; nil when there is none and none
// is to be created.
func (r *Reconciler) keep(
	ctx context.Context, shero *stablev444beta989.BellerophonSimple, object *unstructured.Unstructured, create bool,
) (client.Object, error) {
	cached := emptyLike(object)
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(object), cached)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read %s from the cache: %w", title(object), err)
	}
	if err == nil && metav1.IsControlledBy(cached, shero) && cached.GetDeletionTimestamp().IsZero() {
		if path, err := differs(object, cached); err != nil || path == "" {
			return cached, err
		}
	}
	live := emptyLike(object)
	err = r.Live.Get(ctx, client.ObjectKeyFromObject(object), live)
	switch {
	case apierrors.IsNotFound(err) && !create:
		return nil, nil //nolint:nilnil // that there is none is an answer
	case apierrors.IsNotFound(err):
		return r.create(ctx, shero, object)
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", title(object), err)
	case !metav1.IsControlledBy(live, shero):
		return nil, notOurs(shero, object, live)
	case !live.GetDeletionTimestamp().IsZero():
		// It is made again when it is gone, which is an event.
		return live, nil
	}
	return r.update(ctx, shero, object, live)
}

// create applies an object that was not there a moment ago. It does not force: if somebody has made one of that name since, it has other
// values in fields that are ours, and the API server refuses to mix the two.
func (r *Reconciler) create(ctx context.Context, shero *stablev444beta989.BellerophonSimple, object *unstructured.Unstructured) (client.Object, error) {
	return r.apply(ctx, shero, object, deed{reasonCreated, actionApply, "Created " + title(object)})
}

// update applies an object that is ours, unless it is as wanted. The version that was looked at must still be there: another object of the
// name, or one that was let go since, is left alone.
func (r *Reconciler) update(
	ctx context.Context, shero *stablev444beta989.BellerophonSimple, object *unstructured.Unstructured, live client.Object,
) (client.Object, error) {
	path, err := differs(object, live)
	if err != nil || path == "" {
		return live, err
	}
	done := deed{reasonUpdated, actionApply, "Updated " + title(object)}
	if live.GetAnnotations()[annotationApplied] == object.GetAnnotations()[annotationApplied] {
		done = deed{reasonRepaired, cut(path, maxAction), fmt.Sprintf("Repaired %s: somebody had changed %s", title(object), path)}
	}
	object = object.DeepCopy()
	object.SetUID(live.GetUID())
	object.SetResourceVersion(live.GetResourceVersion())
	applied, err := r.apply(ctx, shero, object, done, client.ForceOwnership)
	if err != nil {
		return live, err
	}
	return applied, nil
}

// apply writes the fields of an object and tells so. It returns the whole object.
func (r *Reconciler) apply(
	ctx context.Context, shero *stablev444beta989.BellerophonSimple, object *unstructured.Unstructured, done deed, opts ...client.ApplyOption,
) (client.Object, error) {
	applied := object.DeepCopy()
	if err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), append(opts, fieldOwner)...); err != nil {
		return nil, refused(object, err)
	}
	whole := emptyLike(object)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(applied.Object, whole); err != nil {
		return nil, fmt.Errorf("read the answer about %s: %w", title(object), err)
	}
	related := &corev1.ObjectReference{
		APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName(), UID: whole.GetUID(),
	}
	r.Recorder.Eventf(shero, related, corev1.EventTypeNormal, done.reason, done.action, "%s", cut(done.note, maxNote))
	return whole, nil
}

// differs returns the path of a field that is not as wanted, "" when all are.
func differs(object *unstructured.Unstructured, live client.Object) (string, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return "", fmt.Errorf("read the fields of %s: %w", title(object), err)
	}
	// What is read from a cache or an API server does not always say its kind.
	fields["apiVersion"], fields["kind"] = object.GetAPIVersion(), object.GetKind()
	return firstDifference(object.Object, fields), nil
}

// emptyLike returns an empty object of the Go type of another one; only those types are cached.
func emptyLike(object *unstructured.Unstructured) client.Object {
	switch object.GetKind() {
	case "StatefulSet":
		return &appsv1.StatefulSet{}
	case "Service":
		return &corev1.Service{}
	default:
		return &policyv1.PodDisruptionBudget{}
	}
}

// title is how messages name an object.
func title(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + object.GetName()
}
