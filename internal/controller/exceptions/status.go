package exceptions

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// unusedAfter is how long an exception applies without a match before it is unused.
const unusedAfter = 24 * time.Hour

// writeStatuses writes the statuses that have changed. It returns when to write those that are left, 0 if none is.
func (r *Reconciler) writeStatuses(ctx context.Context, exceptions []exception, problems map[store.DecisionObject]store.DecisionProblem) time.Duration {
	var changes []kube.StatusChange
	for _, before := range exceptions {
		after := before.copied()
		problem, refused := problems[before.name()]
		if refused {
			setNotApplied(after, problem)
		} else {
			r.setApplied(after)
		}
		if equality.Semantic.DeepEqual(before.status, after.status) && !kube.IsBehind(before.Object) {
			continue
		}
		but := *after.status
		but.MatchedFindings, but.SuppressedFindings = before.status.MatchedFindings, before.status.SuppressedFindings
		changes = append(changes, kube.StatusChange{
			Before: before.Object, After: after.Object, From: before.status.Conditions, To: after.status.Conditions,
			Minor: equality.Semantic.DeepEqual(*before.status, but),
		})
	}
	return r.statuses.Write(ctx, changes)
}

// setNotApplied says why an exception is not in effect.
func setNotApplied(e exception, problem store.DecisionProblem) {
	e.status.ObservedGeneration = e.GetGeneration()
	e.status.MatchedFindings, e.status.SuppressedFindings, e.status.Unused = nil, nil, false
	e.status.Expired = problem.Reason == store.DecisionExpired
	setCondition(e, scannerv1alpha1.ConditionApplied, metav1.ConditionFalse, string(problem.Reason), problem.Message)
	setCondition(e, scannerv1alpha1.ConditionUsed, metav1.ConditionFalse, scannerv1alpha1.ReasonNotInEffect, "The exception is not in effect.")
}

// setApplied says what an exception does that the store has taken.
func (r *Reconciler) setApplied(e exception) {
	counted, found := r.counts[e.GetUID()]
	if !found {
		// It ended while it was counted.
		return
	}
	e.status.ObservedGeneration, e.status.Expired = e.GetGeneration(), false
	e.status.MatchedFindings, e.status.SuppressedFindings = new(int64(counted.Matched)), new(int64(counted.Suppressed))
	e.status.Unused = counted.Matched == 0 && r.clock.Since(counted.Since) >= unusedAfter
	switch {
	case e.spec.Mode == scannerv1alpha1.ModeDryRun:
		setCondition(e, scannerv1alpha1.ConditionApplied, metav1.ConditionFalse, string(scannerv1alpha1.DryRun),
			"Dry run: findings that match are counted and not suppressed.")
	case e.spec.Status == scannerv1alpha1.UnderInvestigation:
		setCondition(e, scannerv1alpha1.ConditionApplied, metav1.ConditionTrue, string(scannerv1alpha1.Applied),
			"The exception is shown with the findings that match; status UnderInvestigation suppresses none.")
	default:
		setCondition(e, scannerv1alpha1.ConditionApplied, metav1.ConditionTrue, string(scannerv1alpha1.Applied), "Findings that match are suppressed.")
	}
	if counted.Matched > 0 {
		setCondition(e, scannerv1alpha1.ConditionUsed, metav1.ConditionTrue, scannerv1alpha1.ReasonFindingsMatched, "Findings match.")
	} else {
		setCondition(e, scannerv1alpha1.ConditionUsed, metav1.ConditionFalse, scannerv1alpha1.ReasonNoFindings, "No finding matches.")
	}
}

func setCondition(e exception, kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&e.status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: e.GetGeneration(),
	})
}
