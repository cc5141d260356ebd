package scanner

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// pausing is a Store that keeps paused registries.
type pausing struct {
	memory
	pauses *[]store.RegistryPause
}

func (p pausing) PauseRegistry(_ context.Context, pause store.RegistryPause) error {
	*p.pauses = append(*p.pauses, pause)
	return nil
}

func (p pausing) RegistryPauses(context.Context) ([]store.RegistryPause, error) {
	return slices.Clone(*p.pauses), nil
}

// tenant returns a Scanner and a pod in the namespace of a tenant.
func tenant(namespace, image string) (*scannerv1.Scanner, *corev1.Pod) {
	s := scannerWith(nil)
	s.Namespace, s.UID = namespace, types.UID(namespace)
	pod := podOf("app", imageKey(image).ImageID, time.Hour)
	pod.Namespace = namespace
	return s, pod
}

func reconcileIn(t *testing.T, r *Reconciler, namespace string) {
	t.Helper()
	name := types.NamespacedName{Namespace: namespace, Name: "s"}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: name}); err != nil {
		t.Fatal(err)
	}
}

// What a pod of a tenant says of a registry concerns the scans in its namespace.
func TestATenantPausesARegistryForItself(t *testing.T) {
	known, cataloger := pausing{memory{}, &[]store.RegistryPause{}}, &starter{attempts: map[string]Attempt{}}
	shop, shopPod := tenant("shop", "a")
	bank, bankPod := tenant("bank", "b")
	r, _ := newReconciler(t, known, cataloger, shop, shopPod, bank, bankPod)
	reconcileIn(t, r, "shop")
	cataloger.fail(t, known.memory, imageKey("a"), model.Outcome{Reason: model.ReasonRegistryRateLimited, Message: "429", RetryAfter: time.Hour})
	reconcileIn(t, r, "shop")
	if len(*known.pauses) != 1 || (*known.pauses)[0].Namespace != "shop" {
		t.Errorf("pauses %+v, want one of the namespace", *known.pauses)
	}
	reconcileIn(t, r, "bank")
	if name := scanjob.Name(imageKey("b"), "nonce", 0); cataloger.attempts[name].Namespace != "bank" {
		t.Errorf("started %v, want the image of the other tenant too", cataloger.started)
	}
}
