package places

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	// MaxLivePods is the most pods that a Resolver reads from the API server.
	MaxLivePods = 10_000
	// livePage is the most objects of one answer of the API server.
	livePage = 500
)

// ErrTooManyPods says that there are more than MaxLivePods pods in the selected namespaces.
var ErrTooManyPods = fmt.Errorf("the selected namespaces have more than %d pods", MaxLivePods)

// running selects the pods that have not ended.
var running = fields.AndSelectors(
	fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)), fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
)

// Resolver resolves selections. It remembers what it has read, so that it is for one moment only.
type Resolver struct {
	// Reader reads namespaces and pods: from the cache of the manager, or from the API server if Live is true.
	Reader client.Reader
	Live   bool
	// In says which namespaces matter, nil for all.
	In func(namespace string) bool

	namespaces map[string]labels.Set
	workloads  map[string][]workload
	livePods   int
}

// workload is a workload with the labels of its pods that have not ended.
type workload struct {
	store.Workload
	pods []labels.Set
}

// Resolve returns the places that a selection selects now: namespaces as a whole or, with a selector of workloads, workloads.
func (r *Resolver) Resolve(ctx context.Context, s *Selection) (*store.DecisionPlaces, error) {
	selected := &store.DecisionPlaces{Selector: s.Text}
	namespaces, err := r.namespacesOf(ctx, s)
	if err != nil {
		return nil, err
	}
	if s.workloads == nil {
		selected.Namespaces = namespaces
		return selected, nil
	}
	for _, namespace := range namespaces {
		workloads, err := r.workloadsIn(ctx, namespace)
		if err != nil {
			return nil, err
		}
		for i := range workloads {
			differs := func(pod labels.Set) bool { return !s.workloads.Matches(pod) }
			if !slices.ContainsFunc(workloads[i].pods, differs) {
				selected.Workloads = append(selected.Workloads, workloads[i].Workload)
			}
		}
	}
	return selected, nil
}

// namespacesOf lists the namespaces of a selection by name.
func (r *Resolver) namespacesOf(ctx context.Context, s *Selection) ([]string, error) {
	if s.Namespace != "" {
		if r.In != nil && !r.In(s.Namespace) {
			return nil, nil
		}
		return []string{s.Namespace}, nil
	}
	if err := r.readNamespaces(ctx); err != nil {
		return nil, err
	}
	var names []string
	for name, of := range r.namespaces {
		if s.namespaces == nil || s.namespaces.Matches(of) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (r *Resolver) readNamespaces(ctx context.Context) error {
	if r.namespaces != nil {
		return nil
	}
	found := map[string]labels.Set{}
	err := r.list(ctx, "Namespace", func(object *metav1.PartialObjectMetadata) error {
		if r.In == nil || r.In(object.Name) {
			found[object.Name] = object.Labels
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list namespaces: %w", err)
	}
	r.namespaces = found
	return nil
}

// workloadsIn lists the workloads of a namespace by kind and name.
func (r *Resolver) workloadsIn(ctx context.Context, namespace string) ([]workload, error) {
	if known, read := r.workloads[namespace]; read {
		return known, nil
	}
	found := map[store.Workload]*workload{}
	add := func(pod metav1.Object) {
		of := labels.Set(pod.GetLabels())
		if _, scan := of[scanjob.LabelScan]; scan {
			return
		}
		owner := inventory.OwnerOf(pod)
		if owner.Name == "" {
			owner = inventory.Owner{Kind: "Pod", Name: pod.GetName()}
		}
		name := store.Workload{Namespace: namespace, Kind: owner.Kind, Name: owner.Name}
		known := found[name]
		if known == nil {
			known = &workload{Workload: name}
			found[name] = known
		}
		// Most pods of a workload have the same labels.
		if n := len(known.pods); n == 0 || !maps.Equal(of, known.pods[n-1]) {
			known.pods = append(known.pods, of)
		}
	}
	if err := r.pods(ctx, namespace, add); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	list := make([]workload, 0, len(found))
	for _, one := range found {
		list = append(list, *one)
	}
	slices.SortFunc(list, func(a, b workload) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	if r.workloads == nil {
		r.workloads = map[string][]workload{}
	}
	r.workloads[namespace] = list
	return list, nil
}

// pods calls add for each pod in a namespace that has not ended.
func (r *Resolver) pods(ctx context.Context, namespace string, add func(metav1.Object)) error {
	if r.Live {
		return r.list(ctx, "Pod", func(pod *metav1.PartialObjectMetadata) error {
			if r.livePods++; r.livePods > MaxLivePods {
				return ErrTooManyPods
			}
			add(pod)
			return nil
		}, client.InNamespace(namespace), client.MatchingFieldsSelector{Selector: running})
	}
	// The cache holds whole pods; metadata alone would be a cache of its own.
	var list corev1.PodList
	if err := r.Reader.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	for i := range list.Items {
		if !Ended(&list.Items[i]) {
			add(&list.Items[i])
		}
	}
	return nil
}

// Ended reports whether a pod has ended.
func Ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// list calls add with the metadata of each object of a kind of Kubernetes, until it fails.
func (r *Resolver) list(ctx context.Context, kind string, add func(*metav1.PartialObjectMetadata) error, opts ...client.ListOption) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind + "List"))
	if !r.Live {
		opts = append(opts, client.UnsafeDisableDeepCopy)
	}
	for {
		page := opts
		if r.Live {
			page = append(slices.Clone(opts), client.Limit(livePage), client.Continue(list.Continue))
		}
		if err := r.Reader.List(ctx, list, page...); err != nil {
			return err
		}
		for i := range list.Items {
			if err := add(&list.Items[i]); err != nil {
				return err
			}
		}
		// Caches have no pages, and say so with a token that they do not take.
		if list.Continue == "" || !r.Live {
			return nil
		}
	}
}

// Equal reports whether two selections resolved to the same places.
func Equal(a, b *store.DecisionPlaces) bool {
	return a.Selector == b.Selector && slices.Equal(a.Namespaces, b.Namespaces) && slices.Equal(a.Workloads, b.Workloads)
}
