package scanner

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// refusal says why a namespace does not take a scan Job. It is false for errors that do not concern this Job alone.
func refusal(err error, namespace string) (vuln.Outcome, bool) {
	var why string
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		why = "it is being deleted"
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		why = "its quota is used up; raise it or make room"
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		why = "an admission policy or the API server refuses it; allow scan Jobs there"
	case apierrors.IsNotFound(err):
		why = "it is gone"
	// What a webhook that cannot be reached looks like.
	case apierrors.IsInternalError(err) && strings.Contains(err.Error(), "webhook"):
		why = "an admission webhook does not answer"
	default:
		return vuln.Outcome{}, false
	}
	return vuln.Outcome{
		Reason: vuln.ReasonUnschedulable, Message: fmt.Sprintf("namespace %s does not take the scan Job, %s: %v", namespace, why, err),
	}, true
}
