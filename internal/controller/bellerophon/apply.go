package bellerophon

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// fieldOwner is the field manager of the fields that the controller applies.
const fieldOwner = client.FieldOwner("scanner-operator-bellerophonsimple")

// The reasons and the action of Events about the objects of a shero.
const (
	reasonCreated  = "SuccessfulCreate"
	reasonUpdated  = "SuccessfulUpdate"
	reasonRepaired = "Repaired"
	actionApply    = "Apply"
)

// change is a change of an object. Kubernetes counts Events with the same reason and action about the same objects as one.
type change struct {
	reason, action, note string
	// log is the message in the log, with the changed field if it is known.
	log, field string
}

// reconcileObject creates or updates one object, and writes nothing when it has the desired fields already. It returns the observed object; nil when
// it does not exist and must not be created.
func (r *Reconciler) reconcileObject(
	ctx context.Context, shero *stablev444beta989.BellerophonSimple, object *unstructured.Unstructured, create bool,
) (client.Object, error) {
	cached := emptyLike(object)
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(object), cached)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("get %s from the cache: %w", objectName(object), err)
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
		return nil, nil //nolint:nilnil // There is no object, as documented.
	case apierrors.IsNotFound(err):
		return r.create(ctx, shero, object)
	case err != nil:
		return nil, fmt.Errorf("get %s: %w", objectName(object), err)
	case !metav1.IsControlledBy(live, shero):
		return nil, notControlled(shero, object, live)
	case !live.GetDeletionTimestamp().IsZero():
		// Its deletion is an event, which creates it again.
		return live, nil
	}
	return r.update(ctx, shero, object, live)
}

// create applies an object that did not exist a moment ago. It does not force: when another object with that name was created since, the API server
// rejects the conflicting fields.
func (r *Reconciler) create(ctx context.Context, shero *stablev444beta989.BellerophonSimple, object *unstructured.Unstructured) (client.Object, error) {
	return r.apply(ctx, shero, object, change{reason: reasonCreated, action: actionApply, note: "Created " + objectName(object), log: "Created object"})
}

// update applies an object that the shero controls, unless it has the desired fields already. The API server rejects the update when the object has
// changed since it was read.
func (r *Reconciler) update(
	ctx context.Context, shero *stablev444beta989.BellerophonSimple, object *unstructured.Unstructured, live client.Object,
) (client.Object, error) {
	path, err := differs(object, live)
	if err != nil || path == "" {
		return live, err
	}
	done := change{reason: reasonUpdated, action: actionApply, note: "Updated " + objectName(object), log: "Updated object", field: path}
	if live.GetAnnotations()[annotationApplied] == object.GetAnnotations()[annotationApplied] {
		done.reason, done.action, done.log = reasonRepaired, truncate.Ellipsis(path, kube.MaxAction), "Repaired object"
		done.note = fmt.Sprintf("Repaired %s: another client had changed %s", objectName(object), path)
	}
	object = object.DeepCopy()
	object.SetUID(live.GetUID())
	object.SetResourceVersion(live.GetResourceVersion())
	applied, err := r.apply(ctx, shero, object, done, client.ForceOwnership)
	if err != nil {
		return live, err
	}
	logScaled(ctx, live, applied)
	return applied, nil
}

// apply writes the fields of an object and creates an Event about it. It returns the whole object.
func (r *Reconciler) apply(
	ctx context.Context, shero *stablev444beta989.BellerophonSimple, object *unstructured.Unstructured, done change, opts ...client.ApplyOption,
) (client.Object, error) {
	applied := object.DeepCopy()
	if err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), append(opts, fieldOwner)...); err != nil {
		return nil, applyFailed(object, err)
	}
	whole := emptyLike(object)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(applied.Object, whole); err != nil {
		return nil, fmt.Errorf("decode the applied %s: %w", objectName(object), err)
	}
	related := &corev1.ObjectReference{
		APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName(), UID: whole.GetUID(),
	}
	logr.FromContextOrDiscard(ctx).Info(done.log, "kind", object.GetKind(), "object", object.GetName(), "field", done.field)
	r.Recorder.Eventf(shero, related, corev1.EventTypeNormal, done.reason, done.action, "%s", truncate.Ellipsis(done.note, kube.MaxNote))
	return whole, nil
}

// differs returns the path of a field that differs from the desired one, "" when there is none.
func differs(object *unstructured.Unstructured, live client.Object) (string, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return "", fmt.Errorf("convert %s: %w", objectName(object), err)
	}
	// Typed objects do not always have their kind set.
	fields["apiVersion"], fields["kind"] = object.GetAPIVersion(), object.GetKind()
	return firstDifference(object.Object, fields), nil
}

// emptyLike returns an empty object of the Go type of another object. Only these types are cached.
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

// objectName returns the kind and the name of an object, for messages.
func objectName(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + object.GetName()
}

// logScaled logs a change of the number of replicas of a StatefulSet.
func logScaled(ctx context.Context, before, after client.Object) {
	old, ok := before.(*appsv1.StatefulSet)
	current, same := after.(*appsv1.StatefulSet)
	if !ok || !same {
		return
	}
	if from, to := replicasOf(old), replicasOf(current); from != to {
		logr.FromContextOrDiscard(ctx).Info("Scaled StatefulSet", "object", current.Name, "from", from, "to", to)
	}
}

func replicasOf(set *appsv1.StatefulSet) int32 {
	if set.Spec.Replicas == nil {
		return 1
	}
	return *set.Spec.Replicas
}
