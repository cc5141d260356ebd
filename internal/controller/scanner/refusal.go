package scanner

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// refusal says why a namespace does not take a scan Job. It is false for errors that do not concern this Job alone.
func refusal(err error, namespace string) (model.Outcome, bool) {
	var why string
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		why = "the namespace is being deleted"
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		why = "its quota is exhausted; increase it or free resources"
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		why = "an admission policy or the API server denies it; allow scan Jobs in the namespace"
	case apierrors.IsNotFound(err):
		why = "the namespace does not exist"
	// What a webhook that cannot be reached looks like.
	case apierrors.IsInternalError(err) && strings.Contains(err.Error(), "webhook"):
		why = "an admission webhook does not respond"
	default:
		return model.Outcome{}, false
	}
	return model.Outcome{
		Reason: model.ReasonUnschedulable, Message: fmt.Sprintf("namespace %s rejects the scan Job: %s: %v", namespace, why, err),
	}, true
}
