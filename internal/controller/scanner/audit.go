package scanner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/metrics"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// DefaultSettle is long enough for a cache to show what happened during an audit.
const DefaultSettle = 10 * time.Second

// auditPage is how many objects are asked for at a time.
const auditPage = 500

// Auditor compares the caches of pods and of scan Jobs with the API server from time to time: a watch event that was lost would
// otherwise stay unnoticed until the object changes again. It runs on the leader.
type Auditor struct {
	// Cached reads the caches, Live the API server.
	Cached, Live client.Reader
	// Namespaces are those that the caches hold, none means all.
	Namespaces []string
	// Relist has the caches of a resource read everything anew.
	Relist   func(resource string)
	Interval time.Duration
	// Settle is the time between two looks.
	Settle  time.Duration
	Clock   clock.WithTicker
	Metrics *metrics.Scans
	Log     logr.Logger
}

// audited is a kind of object that is compared.
type audited struct {
	resource string
	kind     schema.GroupVersionKind
	options  []client.ListOption
	// cached reads the versions of objects from the cache.
	cached func(context.Context, client.Reader, ...client.ListOption) (versions, error)
}

// version tells states of an object apart.
type version struct {
	uid             types.UID
	resourceVersion string
}

type versions map[types.NamespacedName]version

func (v versions) add(o client.Object) {
	v[client.ObjectKeyFromObject(o)] = version{o.GetUID(), o.GetResourceVersion()}
}

var auditedKinds = []audited{
	{resource: "pods", kind: corev1.SchemeGroupVersion.WithKind("PodList"), cached: cachedPods},
	{
		resource: "jobs", kind: batchv1.SchemeGroupVersion.WithKind("JobList"), cached: cachedJobs,
		options: []client.ListOption{client.HasLabels{scanjob.LabelScan}},
	},
}

func cachedPods(ctx context.Context, reader client.Reader, options ...client.ListOption) (versions, error) {
	var list corev1.PodList
	err := reader.List(ctx, &list, options...)
	found := make(versions, len(list.Items))
	for i := range list.Items {
		found.add(&list.Items[i])
	}
	return found, err
}

func cachedJobs(ctx context.Context, reader client.Reader, options ...client.ListOption) (versions, error) {
	var list batchv1.JobList
	err := reader.List(ctx, &list, options...)
	found := make(versions, len(list.Items))
	for i := range list.Items {
		found.add(&list.Items[i])
	}
	return found, err
}

// Start audits until ctx ends. It implements manager.Runnable.
func (a *Auditor) Start(ctx context.Context) error {
	ticker := a.Clock.NewTicker(a.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		for _, kind := range auditedKinds {
			if err := a.audit(ctx, kind); err != nil && ctx.Err() == nil {
				a.Log.Error(err, "Failed to compare a cache with the API server", "resource", kind.resource)
			}
		}
	}
}

// audit looks twice: what differs because it is changing just now does not differ in the same way a while later. A namespace that cannot be read does not keep
// the others from being compared.
func (a *Auditor) audit(ctx context.Context, kind audited) error {
	before, failed := a.differences(ctx, kind)
	if len(before) == 0 {
		return failed
	}
	select {
	case <-ctx.Done():
		return nil
	case <-a.Clock.After(a.Settle):
	}
	after, err := a.differences(ctx, kind)
	if err != nil {
		failed = err // Most often the same.
	}
	lost := slices.Collect(maps.Keys(after))
	lost = slices.DeleteFunc(lost, func(name types.NamespacedName) bool {
		first, differed := before[name]
		return !differed || first != after[name]
	})
	if len(lost) == 0 {
		return failed
	}
	a.Log.Info("Cache differs from the API server; rebuilding it", "resource", kind.resource, "objects", len(lost), "one", lost[0].String())
	a.Metrics.Repaired(kind.resource)
	a.Relist(kind.resource)
	return failed
}

// differences returns, by name, what the cache holds of objects that the API server has in another version or not at all, or that the
// cache lacks, and what failed. Namespaces that cannot be read do not count.
func (a *Auditor) differences(ctx context.Context, kind audited) (versions, error) {
	live, unread, failed := a.live(ctx, kind)
	if unread[metav1.NamespaceAll] {
		return nil, failed
	}
	cached, err := kind.cached(ctx, a.Cached, append([]client.ListOption{client.UnsafeDisableDeepCopy}, kind.options...)...)
	if err != nil {
		return nil, errors.Join(failed, fmt.Errorf("read the cache of %s: %w", kind.resource, err))
	}
	different := versions{}
	for name, version := range live {
		if cached[name] != version {
			different[name] = cached[name]
		}
	}
	for name, version := range cached {
		if _, exists := live[name]; !exists && !unread[name.Namespace] {
			different[name] = version
		}
	}
	return different, failed
}

// live reads the versions of all objects from the API server, some at a time. It returns the namespaces that could not be read, and why: it has nothing of them.
func (a *Auditor) live(ctx context.Context, kind audited) (found versions, unread map[string]bool, failed error) {
	namespaces := a.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	found, unread = versions{}, map[string]bool{}
	for _, namespace := range namespaces {
		of, err := a.liveIn(ctx, kind, namespace)
		if err != nil {
			unread[namespace] = true
			failed = errors.Join(failed, err)
			continue
		}
		maps.Copy(found, of)
	}
	return found, unread, failed
}

func (a *Auditor) liveIn(ctx context.Context, kind audited, namespace string) (versions, error) {
	found := versions{}
	for token, more := "", true; more; more = token != "" {
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(kind.kind)
		options := append([]client.ListOption{client.InNamespace(namespace), client.Limit(auditPage), client.Continue(token)}, kind.options...)
		if err := a.Live.List(ctx, page, options...); err != nil {
			return nil, fmt.Errorf("list %s in namespace %q: %w", kind.resource, namespace, err)
		}
		for i := range page.Items {
			found.add(&page.Items[i])
		}
		token = page.Continue
	}
	return found, nil
}
