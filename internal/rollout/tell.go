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

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// +kubebuilder:rbac:groups=apps,resources=statefulsets;daemonsets,verbs=get
// +kubebuilder:rbac:groups=app.example.com,resources=podsets,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create

const (
	reasonJudged = "RolloutJudged"
	actionJudge  = "Judge"
	reporter     = "scanner-operator"
	// maxNote bounds the text of an Event, maxObjectName its name, as the API server does; in bytes.
	maxNote       = 1000
	maxObjectName = 253
	// maxNamed is how many vulnerabilities an Event names.
	maxNamed = 5
	// sheroKind and sheroGroup are those of the owner of a shero's StatefulSet.
	sheroKind  = "BellerophonSimple"
	sheroGroup = "stable.simple-bellerophon.io"
)

// workloadKinds are the kinds of workloads that are told.
var workloadKinds = map[string]schema.GroupVersion{
	"Deployment":  {Group: "apps", Version: "v1"},
	"StatefulSet": {Group: "apps", Version: "v1"},
	"DaemonSet":   {Group: "apps", Version: "v1"},
	"PodSet":      {Group: "app.example.com", Version: "v1alpha1"},
}

// tell creates Events on the workload of a rollout and on the shero that owns it, if any. A workload that is gone, or of another kind,
// needs none. Events have names that follow from the rollout: one that is there already was created by an earlier attempt.
func (j *Judge) tell(ctx context.Context, r *store.RolloutDetail) error {
	version, known := workloadKinds[r.Workload.Kind]
	if !known {
		return nil
	}
	workload := &metav1.PartialObjectMetadata{}
	workload.SetGroupVersionKind(version.WithKind(r.Workload.Kind))
	err := j.Live.Get(ctx, client.ObjectKey{Namespace: r.Workload.Namespace, Name: r.Workload.Name}, workload)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the workload: %w", err)
	}
	for _, object := range affected(version, r.Workload.Kind, workload) {
		err := j.Client.Create(ctx, j.event(object, r))
		if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return fmt.Errorf("create an Event on %s %s: %w", object.Kind, object.Name, err)
		}
	}
	return nil
}

// affected is the workload and the shero that owns it, if any.
func affected(version schema.GroupVersion, kind string, workload *metav1.PartialObjectMetadata) []corev1.ObjectReference {
	objects := []corev1.ObjectReference{{
		APIVersion: version.String(), Kind: kind, Namespace: workload.Namespace, Name: workload.Name, UID: workload.UID,
	}}
	owner := metav1.GetControllerOf(workload)
	if owner == nil || owner.Kind != sheroKind || !strings.HasPrefix(owner.APIVersion, sheroGroup+"/") {
		return objects
	}
	return append(objects, corev1.ObjectReference{
		APIVersion: owner.APIVersion, Kind: owner.Kind, Namespace: workload.Namespace, Name: owner.Name, UID: owner.UID,
	})
}

func (j *Judge) event(object corev1.ObjectReference, r *store.RolloutDetail) *eventsv1.Event {
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: eventName(object, r)},
		EventTime:  metav1.NewMicroTime(j.Clock.Now()), ReportingController: reporter, ReportingInstance: j.Instance,
		Reason: reasonJudged, Action: actionJudge, Regarding: object, Type: corev1.EventTypeNormal, Note: note(r),
	}
	if r.Verdict.Opened.Critical+r.Verdict.Opened.High > 0 {
		event.Type = corev1.EventTypeWarning
	}
	return event
}

// eventName follows from the rollout and the object. The time tells rollouts of the same number apart, after the database was made anew.
func eventName(object corev1.ObjectReference, r *store.RolloutDetail) string {
	suffix := fmt.Sprintf(".%s-%d-%x", strings.ToLower(object.Kind), r.ID, r.At.UnixMicro())
	return strings.TrimRight(object.Name[:min(len(object.Name), maxObjectName-len(suffix))], ".-") + suffix
}

// note says what a rollout did, such as "rollout closed 12 findings, opened 1 critical: CVE-2026-1 (container app)".
func note(r *store.RolloutDetail) string {
	opened, closed := r.Verdict.Opened, r.Verdict.Closed.Total()
	var news []string
	switch closed {
	case 0:
	case 1:
		news = append(news, "closed 1 finding")
	default:
		news = append(news, fmt.Sprintf("closed %d findings", closed))
	}
	if opened.Total() > 0 {
		news = append(news, "opened "+bySeverity(opened)+": "+named(r.WorstOpened))
	}
	if len(news) == 0 {
		news = append(news, "opened and closed no findings")
	}
	where := fmt.Sprintf(" (container %s)", r.Container)
	return shortened("rollout "+strings.Join(news, ", "), maxNote-len(where)) + where
}

// bySeverity lists the counts that are not 0, the worst first.
func bySeverity(counts vuln.SeverityCounts) string {
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

// named lists the worst vulnerabilities, each once.
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
