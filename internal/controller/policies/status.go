package policies

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// writeStatuses writes the statuses that have changed. It returns when to write those that are left, 0 if none is.
func (r *Reconciler) writeStatuses(
	ctx context.Context, policies []scannerv1alpha1.VulnerabilityPolicy, problems map[string]store.PolicyProblem,
) time.Duration {
	changes := make([]kube.StatusChange, 0, len(policies))
	for i := range policies {
		before := &policies[i]
		after := before.DeepCopy()
		r.setStatus(after, problems[before.Name])
		changes = append(changes, kube.StatusChange{Before: before, After: after, From: before.Status.Conditions, To: after.Status.Conditions})
	}
	return r.statuses.Write(ctx, changes)
}

// setStatus says whether a policy applies, and what is due because of it.
func (r *Reconciler) setStatus(p *scannerv1alpha1.VulnerabilityPolicy, problem store.PolicyProblem) {
	condition := metav1.Condition{Type: scannerv1alpha1.ConditionValid, ObservedGeneration: p.Generation}
	switch {
	case !applies(problem):
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, string(problem.Reason), problem.Message
		p.Status.DueFindings, p.Status.OverdueFindings = nil, nil
	case problem.Reason == store.PolicyEvaluationFailed:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, string(scannerv1alpha1.PolicyEvaluationFailed), problem.Message
	default:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, string(scannerv1alpha1.PolicyApplied), "Findings that match are due."
	}
	if counted, found := r.counts[p.UID]; found && applies(problem) {
		p.Status.DueFindings, p.Status.OverdueFindings = new(int64(counted.due)), new(int64(counted.overdue))
	}
	p.Status.ObservedGeneration = p.Generation
	meta.SetStatusCondition(&p.Status.Conditions, condition)
}
