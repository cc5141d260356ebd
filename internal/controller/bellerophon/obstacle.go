package bellerophon

import (
	"fmt"
	"strings"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
)

// maxNote is the limit that Kubernetes puts on the note of an event, in bytes. Messages of conditions keep to it too.
const maxNote = 1024

// obstacleError is something in the way of a shero that does not go by trying again at once.
type obstacleError struct {
	// reason is that of the Ready condition.
	reason, message string
}

func (e *obstacleError) Error() string { return e.message }

// warns says whether somebody has to do something about it.
func (e *obstacleError) warns() bool { return e.reason != stablev444beta989.ReasonProgressing }

// notOurs says why an object of the name that is wanted is left alone.
func notOurs(shero *stablev444beta989.BellerophonSimple, object *unstructured.Unstructured, live metav1.Object) error {
	owner := metav1.GetControllerOf(live)
	if owner != nil && owner.Kind == "BellerophonSimple" && owner.Name == shero.Name && strings.HasPrefix(owner.APIVersion, stablev444beta989.GroupVersion.Group+"/") {
		return &obstacleError{stablev444beta989.ReasonProgressing, fmt.Sprintf(
			"%s of a deleted BellerophonSimple of the same name is still there; it is made anew when the garbage collector has removed it.", title(object))}
	}
	whose := "nobody"
	if owner != nil {
		whose = owner.Kind + " " + owner.Name
	}
	return &obstacleError{stablev444beta989.ReasonNameTaken, cut(fmt.Sprintf(
		"%s exists and is controlled by %s, so it is left alone. Delete it, or make the BellerophonSimple under another name.", title(object), whose), maxNote)}
}

// refused says what it means that an object could not be applied.
func refused(object *unstructured.Unstructured, err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) {
		return &obstacleError{stablev444beta989.ReasonRefused, cut(fmt.Sprintf("%s is refused: %v", title(object), err), maxNote)}
	}
	return fmt.Errorf("apply %s: %w", title(object), err)
}

// cut shortens a text to a number of bytes, at a rune.
func cut(text string, limit int) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= limit {
		return text
	}
	for !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
