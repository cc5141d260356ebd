package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets;daemonsets,verbs=get
// +kubebuilder:rbac:groups=app.example.com,resources=podsets,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create

const (
	reasonEvaluated = "RolloutEvaluated"
	actionEvaluate  = "Evaluate"
	// reportingController is the name of the operator in Events.
	reportingController = "scanner-operator"
	// maxObjectName is the maximum length of the name of an Event, in bytes.
	maxObjectName = 253
	// maxNamed is the maximum number of vulnerabilities that an Event names.
	maxNamed = 5
)

// report creates an Event on the workload of a rollout, and on the BellerophonSimple that owns the workload, if any. A workload that does not
// exist, or of another kind, gets no Event. The name of an Event follows from the rollout: one that already exists was created by an earlier
// attempt.
func (e *Evaluator) report(ctx context.Context, r *store.RolloutDetail) error {
	kind, known := kube.WorkloadKind(r.Workload.Kind)
	if !known {
		return nil
	}
	workload := &metav1.PartialObjectMetadata{}
	workload.SetGroupVersionKind(kind.GroupVersionKind)
	err := e.Live.Get(ctx, client.ObjectKey{Namespace: r.Workload.Namespace, Name: r.Workload.Name}, workload)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get %s %s/%s: %w", r.Workload.Kind, r.Workload.Namespace, r.Workload.Name, err)
	}
	for _, object := range affected(kind.GroupVersionKind, workload) {
		err := e.Client.Create(ctx, e.event(object, r))
		if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return fmt.Errorf("create an Event on %s %s: %w", object.Kind, object.Name, err)
		}
	}
	return nil
}

// affected returns the workload and the BellerophonSimple that owns it, if any.
func affected(kind schema.GroupVersionKind, workload *metav1.PartialObjectMetadata) []corev1.ObjectReference {
	objects := []corev1.ObjectReference{{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: workload.Namespace, Name: workload.Name, UID: workload.UID,
	}}
	owner := metav1.GetControllerOf(workload)
	shero := kube.KindBellerophonSimple
	if owner == nil || owner.Kind != shero.Kind || !strings.HasPrefix(owner.APIVersion, shero.Group+"/") {
		return objects
	}
	return append(objects, corev1.ObjectReference{
		APIVersion: owner.APIVersion, Kind: owner.Kind, Namespace: workload.Namespace, Name: owner.Name, UID: owner.UID,
	})
}

func (e *Evaluator) event(object corev1.ObjectReference, r *store.RolloutDetail) *eventsv1.Event {
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: eventName(object, r)},
		EventTime:  metav1.NewMicroTime(e.Clock.Now()), ReportingController: reportingController, ReportingInstance: e.Instance,
		Reason: reasonEvaluated, Action: actionEvaluate, Regarding: object, Type: corev1.EventTypeNormal, Note: note(r),
	}
	if r.Evaluation.Opened.Critical+r.Evaluation.Opened.High > 0 {
		event.Type = corev1.EventTypeWarning
	}
	return event
}

// eventName returns the name of the Event, which follows from the rollout and the object. The time distinguishes rollouts with the same ID of a
// new database.
func eventName(object corev1.ObjectReference, r *store.RolloutDetail) string {
	suffix := fmt.Sprintf(".%s-%d-%x", strings.ToLower(object.Kind), r.ID, r.At.UnixMicro())
	return strings.TrimRight(object.Name[:min(len(object.Name), maxObjectName-len(suffix))], ".-") + suffix
}

// note describes the result of a rollout, such as "rollout closed 12 findings, opened 1 critical: CVE-2026-1 (container app)".
func note(r *store.RolloutDetail) string {
	opened, closed := r.Evaluation.Opened, r.Evaluation.Closed.Total()
	var parts []string
	switch closed {
	case 0:
	case 1:
		parts = append(parts, "closed 1 finding")
	default:
		parts = append(parts, fmt.Sprintf("closed %d findings", closed))
	}
	if opened.Total() > 0 {
		parts = append(parts, "opened "+bySeverity(opened)+": "+named(r.WorstOpened))
	}
	if len(parts) == 0 {
		parts = append(parts, "opened and closed no findings")
	}
	container := fmt.Sprintf(" (container %s)", r.Container)
	return truncate.Ellipsis("rollout "+strings.Join(parts, ", "), kube.MaxNote-len(container)) + container
}

// bySeverity lists the counts that are not 0, the highest severity first.
func bySeverity(counts model.SeverityCounts) string {
	var list []string
	for _, part := range []struct {
		count    int
		severity string
	}{
		{counts.Critical, "critical"}, {counts.High, "high"}, {counts.Medium, "medium"}, {counts.Low, "low"},
		{counts.Negligible, "negligible"}, {counts.Unknown, "unknown"},
	} {
		if part.count > 0 {
			list = append(list, fmt.Sprintf("%d %s", part.count, part.severity))
		}
	}
	return strings.Join(list, ", ")
}

// named lists the most severe vulnerabilities, each once.
func named(findings []store.RolloutFinding) string {
	var ids []string
	for _, f := range findings {
		if !slices.Contains(ids, f.VulnerabilityID) {
			ids = append(ids, f.VulnerabilityID)
		}
	}
	if len(ids) > maxNamed {
		return strings.Join(ids[:maxNamed], ", ") + ", …"
	}
	return strings.Join(ids, ", ")
}
