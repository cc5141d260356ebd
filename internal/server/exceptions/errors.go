package exceptions

import (
	"context"
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// maxMessage bounds what is shown of an error of the API server, in bytes.
const maxMessage = 2 << 10

// answer maps an error of the API server to what the user is told.
func answer(err error, ref Ref) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case apierrors.IsNotFound(err) && isAbout(err, "namespaces"):
		return problem.New(http.StatusUnprocessableEntity, "the namespace %s does not exist", ref.Namespace)
	case apierrors.IsNotFound(err):
		return problem.New(http.StatusNotFound, "%s %s does not exist", ref.Kind.Name, ref)
	case apierrors.IsAlreadyExists(err):
		return problem.New(http.StatusConflict, "%s %s exists already; choose another name", ref.Kind.Name, ref)
	case apierrors.IsConflict(err):
		return problem.New(http.StatusConflict, "%s %s has changed since you read it; read it again", ref.Kind.Name, ref)
	case apierrors.IsInvalid(err):
		return problem.New(http.StatusUnprocessableEntity, "%s", causes(err))
	case apierrors.IsBadRequest(err), apierrors.IsForbidden(err), apierrors.IsRequestEntityTooLargeError(err):
		// Forbidden are changes that an admission policy refuses, or all if the operator lacks the permission.
		return &problem.Error{
			Status: http.StatusUnprocessableEntity, Detail: "the Kubernetes API server refuses the exception: " + truncate.Ellipsis(err.Error(), maxMessage), Cause: err,
		}
	default:
		return problem.Unavailable(err, "the Kubernetes API server is unavailable; try again")
	}
}

// isAbout reports whether an error of the API server is about a resource.
func isAbout(err error, resource string) bool {
	status, found := errors.AsType[*apierrors.StatusError](err)
	return found && status.ErrStatus.Details != nil && status.ErrStatus.Details.Kind == resource
}

// causes lists what is wrong with an object, one sentence for each field.
func causes(err error) string {
	var all []string
	if status, found := errors.AsType[*apierrors.StatusError](err); found && status.ErrStatus.Details != nil {
		for _, cause := range status.ErrStatus.Details.Causes {
			text := cause.Message
			if cause.Field != "" && cause.Field != "<nil>" {
				text = cause.Field + ": " + text
			}
			all = append(all, text)
		}
	}
	if len(all) == 0 {
		all = []string{err.Error()}
	}
	return truncate.Ellipsis("the exception is invalid: "+strings.Join(all, "; "), maxMessage)
}
