package bellerophon

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// blockedError means that a shero cannot be reconciled until another object changes.
type blockedError struct {
	// reason is the reason of the Ready condition.
	reason, message string
}

func (e *blockedError) Error() string { return e.message }

// needsUser returns whether a user has to act.
func (e *blockedError) needsUser() bool { return e.reason != stablev444beta989.ReasonProgressing }

// notControlled returns the error about an existing object that the shero does not control.
func notControlled(shero *stablev444beta989.BellerophonSimple, object *unstructured.Unstructured, live metav1.Object) error {
	owner := metav1.GetControllerOf(live)
	if owner != nil && owner.Kind == "BellerophonSimple" && owner.Name == shero.Name && strings.HasPrefix(owner.APIVersion, stablev444beta989.GroupVersion.Group+"/") {
		return &blockedError{stablev444beta989.ReasonProgressing, fmt.Sprintf(
			"%s of a deleted BellerophonSimple with the same name still exists; it is created again after the garbage collector has deleted it.", objectName(object))}
	}
	controller := "has no controller"
	if owner != nil {
		controller = "is controlled by " + owner.Kind + " " + owner.Name
	}
	return &blockedError{stablev444beta989.ReasonNameTaken, truncate.Ellipsis(fmt.Sprintf(
		"%s already exists and %s, so the operator does not change it. Delete it, or create the BellerophonSimple with another name.", objectName(object), controller), kube.MaxNote)}
}

// applyFailed returns the error about an object that could not be applied.
func applyFailed(object *unstructured.Unstructured, err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) {
		return &blockedError{stablev444beta989.ReasonRefused, truncate.Ellipsis(fmt.Sprintf("The API server rejected %s: %v", objectName(object), err), kube.MaxNote)}
	}
	return fmt.Errorf("apply %s: %w", objectName(object), err)
}
