package scanner

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// maxSpecError is the maximum length in bytes of the message about an error in a spec.
const maxSpecError = 1024

// specError is an error in the spec of a Scanner. Its message is for the users of the Scanner.
type specError struct{ message string }

func (e *specError) Error() string { return truncate.Ellipsis(e.message, maxSpecError) }

// jobFields are the fields of a Job that come from spec.job, below its prefix there.
var jobFields = map[string][]string{
	"spec.template.spec.":               {"nodeSelector", "tolerations", "priorityClassName"},
	"spec.template.spec.containers[0].": {"resources"},
}

// invalidJobSpec says what is wrong with spec.job of a Scanner, if that is why the API server rejects a Job. imageVolume: the Job has one. pullSecrets are those
// of spec.job: what is wrong with others comes from pods, whose creators must not stop the Scanner.
func invalidJobSpec(err error, imageVolume bool, pullSecrets []corev1.LocalObjectReference) (*specError, bool) {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || !apierrors.IsInvalid(err) || status.ErrStatus.Details == nil {
		return nil, false
	}
	if imageVolume && droppedVolume(status) {
		return &specError{"spec.job.source: this cluster does not support image volumes; use Registry, or Kubernetes 1.35 or later"}, true
	}
	var problems []string
	for _, cause := range status.ErrStatus.Details.Causes {
		for prefix, fields := range jobFields {
			field, found := strings.CutPrefix(cause.Field, prefix)
			if found && slices.ContainsFunc(fields, func(name string) bool { return strings.HasPrefix(field, name) }) {
				problems = append(problems, "spec.job."+field+": "+cause.Message)
			}
		}
		if isPullSecret(&cause) && slices.ContainsFunc(pullSecrets, func(ref corev1.LocalObjectReference) bool { return names(&cause, ref.Name) }) {
			problems = append(problems, "spec.job.imagePullSecrets: "+cause.Message)
		}
	}
	// The API server repeats a problem for each field that it concerns.
	slices.Sort(problems)
	return &specError{strings.Join(slices.Compact(problems), "; ")}, len(problems) > 0
}

// isPullSecret reports whether a problem of a Job is about pull secrets, or about the volume that has them.
func isPullSecret(cause *metav1.StatusCause) bool {
	return strings.HasPrefix(cause.Field, "spec.template.spec.volumes[") || strings.HasPrefix(cause.Field, "spec.template.spec.imagePullSecrets[")
}

// names reports whether a problem of a Job is about a Secret: a value is its name or a path that begins with it, or it has no name.
func names(cause *metav1.StatusCause, secret string) bool {
	return strings.Contains(cause.Message, `"`+secret+`"`) || strings.Contains(cause.Message, `"`+secret+`/`) ||
		secret == "" && cause.Type == metav1.CauseTypeFieldValueRequired && strings.HasSuffix(cause.Field, ".name")
}

// droppedVolume reports whether a Job lacks its image volume. An API server that does not know image volumes drops the type of the volume, and misses
// it then. One that knows them and has them disabled drops the whole volume, which the admission policy for scan Jobs misses.
func droppedVolume(status *apierrors.StatusError) bool {
	return strings.Contains(status.ErrStatus.Message, "API servers keep image volumes since Kubernetes 1.35") ||
		slices.ContainsFunc(status.ErrStatus.Details.Causes, func(cause metav1.StatusCause) bool {
			return strings.HasPrefix(cause.Field, "spec.template.spec.volumes[") && strings.Contains(cause.Message, "must specify a volume type")
		})
}

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
