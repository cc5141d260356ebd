package scanner

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Owners says where the owners of workloads are found: in the labels and annotations of their pods, of their Deployments and of their namespaces, in this
// order.
type Owners struct {
	// Keys are those of the labels and annotations; without any, workloads have no owners.
	Keys inventory.OwnerKeys
	// Deployments says that the operator watches Deployments.
	Deployments bool
}

func (o *Owners) fromDeployments() bool { return o.Deployments && len(o.Keys) > 0 }

// maxInvalidOwners bounds the objects with invalid owners that are logged.
const maxInvalidOwners = 1000

// invalidOwners has the objects whose owners were logged as invalid. The zero value is ready.
type invalidOwners struct {
	mu     sync.Mutex
	logged map[string]bool
}

// first reports whether an object is to be logged: once, and until there are too many.
func (i *invalidOwners) first(object string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.logged[object] || len(i.logged) >= maxInvalidOwners {
		return false
	}
	if i.logged == nil {
		i.logged = map[string]bool{}
	}
	i.logged[object] = true
	return true
}

// ownerOf returns the owner that an object names, "" for none.
func (r *Reconciler) ownerOf(ctx context.Context, kind string, object client.Object) string {
	owner, invalid := r.Owners.Keys.Of(object.GetLabels(), object.GetAnnotations())
	for _, key := range invalid {
		if r.invalid.first(strings.Join([]string{kind, object.GetNamespace(), object.GetName(), key}, "/")) {
			logr.FromContextOrDiscard(ctx).Info("Ignored an invalid owner: it must have at most 253 bytes and only printable characters",
				"kind", kind, "namespace", object.GetNamespace(), "name", object.GetName(), "key", key)
		}
	}
	return owner
}

// owners returns the owners of the workloads of pods, which are ordered by age: the newest pod decides.
func (r *Reconciler) owners(ctx context.Context, within scope, pods []podContainers) (map[store.Workload]string, error) {
	if len(r.Owners.Keys) == 0 {
		return nil, nil
	}
	owners := map[store.Workload]string{}
	for i := range pods {
		owners[workloadOf(&pods[i].containers[0])] = pods[i].owner
	}
	deployments, err := r.ownersOfDeployments(ctx, within)
	if err != nil {
		return nil, err
	}
	namespaces, err := r.ownersOfNamespaces(ctx, within)
	if err != nil {
		return nil, err
	}
	for workload, owner := range owners {
		if owner == "" {
			owner = deployments[workload]
		}
		if owner == "" {
			owner = namespaces[workload.Namespace]
		}
		owners[workload] = owner
	}
	return owners, nil
}

func (r *Reconciler) ownersOfDeployments(ctx context.Context, within scope) (map[store.Workload]string, error) {
	owners := map[store.Workload]string{}
	if !r.Owners.fromDeployments() {
		return owners, nil
	}
	for namespace := range within.namespaces {
		var list appsv1.DeploymentList
		if err := r.Client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list Deployments: %w", err)
		}
		for i := range list.Items {
			d := &list.Items[i]
			if owner := r.ownerOf(ctx, "Deployment", d); owner != "" {
				owners[store.Workload{Namespace: d.Namespace, Kind: "Deployment", Name: d.Name}] = owner
			}
		}
	}
	return owners, nil
}

func (r *Reconciler) ownersOfNamespaces(ctx context.Context, within scope) (map[string]string, error) {
	owners := map[string]string{}
	for name := range within.namespaces {
		namespace := &metav1.PartialObjectMetadata{}
		namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, namespace, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read the namespace %s: %w", name, err)
		} else if err == nil {
			owners[name] = r.ownerOf(ctx, "Namespace", namespace)
		}
	}
	return owners, nil
}

// ownerChanged passes objects that name another owner than before.
func (r *Reconciler) ownerChanged() predicate.Predicate {
	owner := func(object client.Object) string {
		name, _ := r.Owners.Keys.Of(object.GetLabels(), object.GetAnnotations())
		return name
	}
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return owner(e.Object) != "" },
		UpdateFunc:  func(e event.UpdateEvent) bool { return owner(e.ObjectOld) != owner(e.ObjectNew) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}
