// Package policyreports writes objects of the kind Report (openreports.io) into the namespaces of workloads, for the sinks of the type policyReport.
package policyreports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/sinks"
)

// LabelSink is the label of the objects with the name of their ReportSink.
const LabelSink = "scanner.zoltankerezsi.xyz/report-sink"

// kind is that of the objects.
var kind = schema.GroupVersionKind{Group: "openreports.io", Version: "v1alpha1", Kind: "Report"}

// Writer implements sinks.PolicyObjects.
type Writer struct {
	// Client writes objects, and Live reads them from the API server: the cache has none.
	Client client.Writer
	Live   client.Reader
	// Log is told at level info what was written.
	Log logr.Logger
}

// The chart grants these if reportSinks.policyReports is true.
//
// +kubebuilder:rbac:groups=openreports.io,resources=reports,verbs=get;create;update;delete

// Put implements sinks.PolicyObjects.
func (w *Writer) Put(ctx context.Context, report *sinks.PolicyObject) error {
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(report.Content, &object.Object); err != nil {
		return fmt.Errorf("encode a Report: %w", err)
	}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(report.Namespace)
	object.SetName(report.Name)
	object.SetLabels(map[string]string{kube.LabelManagedBy: kube.ManagedBy, LabelSink: labelOf(report.Owner.Name)})
	object.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: scannerv1alpha1.GroupVersion.String(), Kind: "ReportSink", Name: report.Owner.Name, UID: types.UID(report.Owner.UID),
	}})
	log := w.Log.WithValues("namespace", report.Namespace, "object", report.Name, "sink", report.Owner.Name)
	err := w.Client.Create(ctx, object)
	if err == nil {
		log.Info("Created Report", "to", summaryOf(object))
	}
	if !apierrors.IsAlreadyExists(err) {
		return problem(err)
	}
	known, err := w.owned(ctx, report.Owner, report.Namespace, report.Name)
	if err != nil {
		return problem(err)
	}
	if known == nil {
		return errors.New("the Report was deleted meanwhile")
	}
	object.SetResourceVersion(known.GetResourceVersion())
	if err := w.Client.Update(ctx, object); err != nil {
		return problem(err)
	}
	// The API server gives an object that is equal no new version.
	if object.GetResourceVersion() != known.GetResourceVersion() {
		log.Info("Updated Report", "from", summaryOf(known), "to", summaryOf(object))
	}
	return nil
}

// summaryOf returns how many workloads' findings of each result an object states, such as "fail=2 warn=1", for a log.
func summaryOf(object *unstructured.Unstructured) string {
	counts, _, _ := unstructured.NestedMap(object.Object, "summary")
	var texts []string
	for _, result := range slices.Sorted(maps.Keys(counts)) {
		if number, isNumber := counts[result].(int64); isNumber && number > 0 {
			texts = append(texts, fmt.Sprintf("%s=%d", result, number))
		}
	}
	return strings.Join(texts, " ")
}

// Delete implements sinks.PolicyObjects.
func (w *Writer) Delete(ctx context.Context, sink sinks.Owner, namespace, name string) error {
	known, err := w.owned(ctx, sink, namespace, name)
	if err != nil || known == nil {
		return problem(err)
	}
	// The object that was read, and no other one of this name.
	uid := known.GetUID()
	if err := w.Client.Delete(ctx, known, client.Preconditions{UID: &uid}); err != nil {
		return problem(client.IgnoreNotFound(err))
	}
	w.Log.Info("Deleted Report", "namespace", namespace, "object", name, "sink", sink.Name, "from", summaryOf(known))
	return nil
}

// errForeign says that an object belongs to someone else.
var errForeign = errors.New("there is a Report of this name that the sink does not own: delete it")

// owned returns an object of a sink, nil if there is none.
func (w *Writer) owned(ctx context.Context, sink sinks.Owner, namespace, name string) (*unstructured.Unstructured, error) {
	known := &unstructured.Unstructured{}
	known.SetGroupVersionKind(kind)
	if err := w.Live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, known); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !slices.ContainsFunc(known.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return string(o.UID) == sink.UID }) {
		return nil, errForeign
	}
	return known, nil
}

// problem says what an error of the API server means for a sink.
func problem(err error) error {
	switch {
	case err == nil:
		return nil
	case meta.IsNoMatchError(err):
		return fmt.Errorf("%w: the cluster has no kind Report of openreports.io/v1alpha1: install its CRD", sinks.ErrUnavailable)
	case errors.Is(err, errForeign), apierrors.IsInvalid(err), apierrors.IsNotFound(err), apierrors.IsRequestEntityTooLargeError(err):
		// A namespace that is gone or is being deleted, or an object that the API server does not accept.
		return fmt.Errorf("%w: %w", sinks.ErrRefused, err)
	case apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, "NamespaceTerminating"):
		return fmt.Errorf("%w: the namespace is being deleted", sinks.ErrRefused)
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "admission webhook"):
		return fmt.Errorf("%w: %w", sinks.ErrRefused, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: the operator may not write Reports: set the chart value reportSinks.policyReports", sinks.ErrUnavailable)
	default:
		return err
	}
}

// labelOf is a name as the value of a label, which is shorter than names of objects can be, and ends with a letter or a digit.
func labelOf(name string) string {
	const longest = 63
	return strings.TrimRight(name[:min(len(name), longest)], "-.")
}
