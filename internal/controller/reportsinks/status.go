package reportsinks

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/sinks"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// maxMessage bounds the message of a condition, in bytes.
const maxMessage = 1024

// writeStatuses writes the statuses that have changed. It returns when to write those that are left, 0 if none is.
func (r *Reconciler) writeStatuses(ctx context.Context, objects []scannerv1alpha1.ReportSink) time.Duration {
	states := r.engine.States()
	changes := make([]kube.StatusChange, 0, len(objects))
	for i := range objects {
		before := &objects[i]
		after := before.DeepCopy()
		r.setStatus(after, states[string(after.UID)], i >= sinks.MaxSinks)
		changes = append(changes, kube.StatusChange{Before: before, After: after, From: before.Status.Conditions, To: after.Status.Conditions})
	}
	return r.statuses.Write(ctx, changes)
}

// setStatus says whether a sink is in effect, and what became of its reports.
func (r *Reconciler) setStatus(o *scannerv1alpha1.ReportSink, state sinks.State, beyond bool) {
	status := &o.Status
	status.ObservedGeneration = o.Generation
	set := func(kind string, value metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: value, Reason: reason, Message: truncate.Ellipsis(message, maxMessage), ObservedGeneration: o.Generation,
		})
	}
	problem := r.compiled[o.UID].problem
	switch {
	case beyond:
		set(scannerv1alpha1.ConditionValid, metav1.ConditionFalse, scannerv1alpha1.ReasonSinkTooMany,
			fmt.Sprintf("There are more than %d ReportSinks: the oldest ones are in effect. Delete ReportSinks.", sinks.MaxSinks))
	case problem != nil:
		set(scannerv1alpha1.ConditionValid, metav1.ConditionFalse, scannerv1alpha1.ReasonSinkInvalid, problem.Error())
	default:
		set(scannerv1alpha1.ConditionValid, metav1.ConditionTrue, scannerv1alpha1.ReasonSinkActive, "Reports are delivered when they change.")
	}
	if beyond || problem != nil {
		set(scannerv1alpha1.ConditionDelivering, metav1.ConditionFalse, scannerv1alpha1.ReasonSinkNotActive, "The sink is not in effect: see the condition Valid.")
		return
	}
	if state.Planned {
		//nolint:gosec // bounded by the store
		status.Items, status.Pending, status.Failed, status.Omitted = int32(state.Items), int32(state.Pending), int32(state.Failed), int32(state.Omitted)
	}
	if !state.DeliveredAt.IsZero() {
		status.LastDeliveryTime = new(metav1.NewTime(state.DeliveredAt.Truncate(time.Second)))
	}
	switch {
	case state.Problem != "":
		set(scannerv1alpha1.ConditionDelivering, metav1.ConditionFalse, scannerv1alpha1.ReasonDeliveryFailed, state.Problem)
	case !state.Planned:
		// The replica has not led for long. What the status says is what the previous one knew.
	case state.Omitted > 0:
		set(scannerv1alpha1.ConditionDelivering, metav1.ConditionFalse, scannerv1alpha1.ReasonSinkLimited,
			fmt.Sprintf("%d items are beyond the maximum, towards which items count that are still to be removed, and are not delivered. "+
				"Select fewer namespaces or images, or use templates that put more images into one item.",
				state.Omitted))
	case state.Pending > 0:
		set(scannerv1alpha1.ConditionDelivering, metav1.ConditionTrue, scannerv1alpha1.ReasonSinkSyncing, "Reports that changed are being delivered.")
	default:
		set(scannerv1alpha1.ConditionDelivering, metav1.ConditionTrue, scannerv1alpha1.ReasonDelivering, "Everything is delivered.")
	}
}
