package notificationrules

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/notify"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// maxMessage bounds the message of a condition, in bytes.
const maxMessage = 1024

// writeStatuses writes the statuses that have changed. It returns when to write those that are left, 0 if none is.
func (r *Reconciler) writeStatuses(ctx context.Context, objects []object, beyond map[types.UID]bool) time.Duration {
	states := r.engine.States()
	changes := make([]kube.StatusChange, 0, len(objects))
	for _, o := range objects {
		before, isObject := o.DeepCopyObject().(client.Object)
		if !isObject {
			continue // Not for a type of the API.
		}
		from := slices.Clone(o.status.Conditions)
		r.setStatus(o, states[string(o.GetUID())], beyond[o.GetUID()])
		changes = append(changes, kube.StatusChange{Before: before, After: o.Object, From: from, To: o.status.Conditions})
	}
	return r.statuses.Write(ctx, changes)
}

// setStatus says whether a rule is in effect, and what became of its messages.
func (r *Reconciler) setStatus(o object, state notify.State, beyond bool) {
	status := o.status
	status.ObservedGeneration = o.GetGeneration()
	set := func(kind string, value metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: value, Reason: reason, Message: truncate.Ellipsis(message, maxMessage), ObservedGeneration: o.GetGeneration(),
		})
	}
	problem := r.compiled[o.GetUID()].problem
	active := !beyond && problem == nil
	switch {
	case beyond:
		set(scannerv1alpha1.ConditionValid, metav1.ConditionFalse, scannerv1alpha1.ReasonRuleTooMany,
			fmt.Sprintf("There are more than %d rules in the namespace, %d of the cluster or %d in all: the oldest ones are in effect. Delete rules.",
				notify.MaxRulesPerNamespace, notify.MaxClusterRules, notify.MaxRules))
	case problem != nil:
		set(scannerv1alpha1.ConditionValid, metav1.ConditionFalse, scannerv1alpha1.ReasonRuleInvalid, problem.Error())
	case state.Failure != "":
		set(scannerv1alpha1.ConditionValid, metav1.ConditionTrue, scannerv1alpha1.ReasonRuleEvaluationFailed, state.Failure)
	default:
		set(scannerv1alpha1.ConditionValid, metav1.ConditionTrue, scannerv1alpha1.ReasonRuleActive, "Changes that match are reported.")
	}
	failing := r.setSinks(o, state)
	switch {
	case !active:
		set(scannerv1alpha1.ConditionDelivering, metav1.ConditionFalse, scannerv1alpha1.ReasonRuleNotActive, "The rule is not in effect: see the condition Valid.")
	case failing != "":
		set(scannerv1alpha1.ConditionDelivering, metav1.ConditionFalse, scannerv1alpha1.ReasonDeliveryFailed, failing)
	default:
		set(scannerv1alpha1.ConditionDelivering, metav1.ConditionTrue, scannerv1alpha1.ReasonDelivering, "No message waits because of a failure.")
	}
}

// setSinks sets what became of the messages of each sink, and returns the problem of the first sink that has one.
func (r *Reconciler) setSinks(o object, state notify.State) (failing string) {
	status, now := o.status, r.clock.Now()
	status.Pending, status.OldestPendingTime, status.Sinks = 0, nil, nil
	for i := range o.spec.Sinks {
		name := o.spec.Sinks[i].Name
		queue, sink := state.Queues[name], scannerv1alpha1.NotificationSinkStatus{Name: name}
		sink.Pending, sink.Delivered, sink.Dropped = int32(queue.Pending), queue.Delivered, queue.Dropped //nolint:gosec // bounded by the engine
		sink.Error = state.Problems[name]
		sink.LastDeliveryTime = timeOf(queue.DeliveredAt)
		status.Pending += sink.Pending
		if last := sink.LastDeliveryTime; last != nil && (status.LastDeliveryTime == nil || status.LastDeliveryTime.Before(last)) {
			status.LastDeliveryTime = last
		}
		if due := queue.NextReady; queue.Pending > 0 && !due.After(now) && (status.OldestPendingTime == nil || due.Before(status.OldestPendingTime.Time)) {
			status.OldestPendingTime = timeOf(due)
		}
		if sink.Error != "" && failing == "" {
			failing = fmt.Sprintf("Sink %s: %s", name, sink.Error)
		}
		status.Sinks = append(status.Sinks, sink)
	}
	return failing
}

// timeOf is a time as objects have it, nil for the zero time.
func timeOf(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return new(metav1.NewTime(t.Truncate(time.Second)))
}
