// Package reportsinks applies ReportSinks: it gives them to the engine that delivers reports, and writes into their status what became of the reports.
package reportsinks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/report"
	"github.com/scanner-operator/scanner-operator/internal/sinks"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// How often something is done.
const (
	// resync is the longest time between two reconciles.
	resync = 5 * time.Minute
	// patchesPerSecond is how many statuses are written in a second at most.
	patchesPerSecond = 5
)

// Engine is what delivers the reports.
type Engine interface {
	SetSinks(ctx context.Context, sinks []*sinks.Sink, known []string) error
	States() map[string]sinks.State
}

// Reconciler reconciles all sinks at once: the engine takes a complete list. NewReconciler makes one.
type Reconciler struct {
	client  client.Client
	engine  Engine
	factory *sinks.Factory
	clock   clock.PassiveClock

	statuses *kube.StatusWriter
	// compiled are the sinks of the last reconcile, so that unchanged ones stay the same.
	compiled map[types.UID]compiled
	// selecting says that a sink selects namespaces by their labels. A predicate reads it.
	selecting atomic.Bool
}

// compiled is a sink in one of its generations and for some namespaces, or why it is none.
type compiled struct {
	generation int64
	namespaces string
	sink       *sinks.Sink
	problem    error
}

// NewReconciler returns a Reconciler that reads sinks and namespaces from a cache.
func NewReconciler(c client.Client, engine Engine, factory *sinks.Factory, now clock.PassiveClock) *Reconciler {
	return &Reconciler{
		client: c, engine: engine, factory: factory, clock: now, statuses: kube.NewStatusWriter(c, patchesPerSecond, now), compiled: map[types.UID]compiled{},
	}
}

// +kubebuilder:rbac:groups=scanner.zoltankerezsi.xyz,resources=reportsinks,verbs=list;watch
// +kubebuilder:rbac:groups=scanner.zoltankerezsi.xyz,resources=reportsinks/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=list;watch

// Reconcile applies all sinks that exist, and none besides, and writes their statuses.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	objects, err := r.list(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	r.selecting.Store(slices.ContainsFunc(objects, func(o scannerv1alpha1.ReportSink) bool { return o.Spec.NamespaceSelector != nil }))
	var known []string
	var active []*sinks.Sink
	all := make(map[types.UID]compiled, len(objects))
	for i := range objects {
		o := &objects[i]
		known = append(known, string(o.UID))
		if i >= sinks.MaxSinks {
			continue
		}
		namespaces, err := r.namespaces(ctx, o.Spec.NamespaceSelector)
		if err != nil {
			return ctrl.Result{}, err
		}
		one, found := r.compiled[o.UID]
		if !found || one.generation != o.Generation || one.namespaces != namespaces.Digest() {
			one = compiled{generation: o.Generation, namespaces: namespaces.Digest()}
			one.sink, one.problem = r.factory.NewSink(definition(o, namespaces))
		}
		all[o.UID] = one
		if one.problem == nil {
			active = append(active, one.sink)
		}
	}
	r.compiled = all
	if err := r.engine.SetSinks(ctx, active, known); err != nil {
		return ctrl.Result{}, fmt.Errorf("apply the report sinks: %w", err)
	}
	if left := r.writeStatuses(ctx, objects); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	return ctrl.Result{RequeueAfter: resync}, nil
}

// list returns the sinks that are not being deleted, the oldest first: it has precedence when there are too many.
func (r *Reconciler) list(ctx context.Context) ([]scannerv1alpha1.ReportSink, error) {
	var list scannerv1alpha1.ReportSinkList
	if err := r.client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list the ReportSinks: %w", err)
	}
	objects := slices.DeleteFunc(list.Items, func(o scannerv1alpha1.ReportSink) bool { return !o.DeletionTimestamp.IsZero() })
	slices.SortFunc(objects, func(a, b scannerv1alpha1.ReportSink) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return objects, nil
}

// namespaces returns those that a selector selects, all without one.
func (r *Reconciler) namespaces(ctx context.Context, selector *metav1.LabelSelector) (store.Namespaces, error) {
	if selector == nil {
		return store.AllNamespaces(), nil
	}
	selects, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		// The API server accepts only valid ones; one that is not selects nothing.
		selects = labels.Nothing()
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := r.client.List(ctx, list, client.MatchingLabelsSelector{Selector: selects}); err != nil {
		return store.Namespaces{}, fmt.Errorf("list the namespaces: %w", err)
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	return store.OnlyNamespaces(names...), nil
}

// formats are those of package report, by those of objects.
var formats = map[scannerv1alpha1.ReportFormat]report.Format{
	scannerv1alpha1.ReportFormatCycloneDX: report.FormatCycloneDX, scannerv1alpha1.ReportFormatSPDX: report.FormatSPDX,
	scannerv1alpha1.ReportFormatSARIF: report.FormatSARIF, scannerv1alpha1.ReportFormatCSV: report.FormatCSV,
}

// definition is what the engine needs to know of a sink.
func definition(o *scannerv1alpha1.ReportSink, namespaces store.Namespaces) sinks.Definition {
	spec := &o.Spec
	d := sinks.Definition{UID: string(o.UID), Name: o.Name, Namespaces: namespaces, Images: spec.Images, PerMinute: int(spec.DeliveriesPerMinute)}
	if spec.ResyncInterval != nil {
		d.Resync = spec.ResyncInterval.Duration
	}
	switch {
	case spec.DependencyTrack != nil:
		s := spec.DependencyTrack
		d.DependencyTrack = &sinks.DependencyTrack{Credential: string(s.Credential), ProjectName: string(s.ProjectName)}
		if s.ProjectVersion != nil {
			d.DependencyTrack.ProjectVersion = string(*s.ProjectVersion)
		}
		for _, tag := range s.Tags {
			d.DependencyTrack.Tags = append(d.DependencyTrack.Tags, string(tag))
		}
		if s.Parent != nil {
			d.DependencyTrack.ParentName, d.DependencyTrack.ParentVersion = s.Parent.Name, s.Parent.Version
		}
	case spec.DefectDojo != nil:
		s := spec.DefectDojo
		d.DefectDojo = &sinks.DefectDojo{
			Credential: string(s.Credential), ProductType: s.ProductType, Product: string(s.Product), Engagement: string(s.Engagement), Test: string(s.Test),
			MinSeverity: s.MinSeverity,
		}
	case spec.PolicyReport != nil:
		d.PolicyReport = &sinks.PolicyReport{MaxResults: int(spec.PolicyReport.MaxResults), MaxObjects: int(spec.PolicyReport.MaxObjects)}
	case spec.S3 != nil:
		s := spec.S3
		d.S3 = &sinks.S3{
			Credential: string(s.Credential), Bucket: s.Bucket, Region: s.Region, Key: string(s.Key), Delete: s.RemovalPolicy == scannerv1alpha1.S3Delete,
		}
		for _, format := range s.Formats {
			d.S3.Formats = append(d.S3.Formats, formats[format])
		}
	}
	return d
}
