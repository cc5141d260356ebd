package scanner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// Ten Scanners of one tenant get no more than its share, however often they ask.
func TestManyScannersOfATenantLeaveSlotsToOthers(t *testing.T) {
	known, cataloger := memory{}, &starter{attempts: map[string]Attempt{}}
	var objects []client.Object
	for i := range 40 {
		_, pod := tenant("shop", fmt.Sprint("shop-", i))
		pod.Name = fmt.Sprint("shop-", i)
		objects = append(objects, pod)
	}
	for i := range 8 {
		_, pod := tenant("bank", fmt.Sprint("bank-", i))
		pod.Name = fmt.Sprint("bank-", i)
		objects = append(objects, pod)
	}
	scanners := []types.NamespacedName{}
	for i := range 10 {
		s, _ := tenant("shop", "")
		s.Name, s.UID = fmt.Sprint("s", i), types.UID(fmt.Sprint("shop-", i))
		objects = append(objects, s)
		scanners = append(scanners, client.ObjectKeyFromObject(s))
	}
	all := scannerWith(func(s *scannerv1.Scanner) {
		s.Namespace, s.Spec.NamespaceSelector, s.Spec.Concurrency = "operator", &metav1.LabelSelector{}, new(int32(50))
	})
	for _, namespace := range []string{"shop", "bank"} {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	}
	scanners = append(scanners, client.ObjectKeyFromObject(all))
	r, _ := newReconciler(t, known, cataloger, append(objects, all)...)
	r.Limits = Limits{Scans: 10, PerRegistry: 100}
	for range 6 {
		for _, name := range scanners {
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: name}); err != nil {
				t.Fatal(err)
			}
		}
		// The oldest scan of the tenant ends, and makes room for one more.
		for _, key := range cataloger.started {
			name := scanjob.Name(key, "nonce", 0)
			if attempt := cataloger.attempts[name]; attempt.Namespace == "shop" && !attempt.Done {
				cataloger.fail(t, known, key, model.Outcome{Reason: model.ReasonImageTooLarge})
				break
			}
		}
	}
	started := map[string]int{}
	for _, attempt := range cataloger.attempts {
		started[attempt.Namespace]++
	}
	if diff := cmp.Diff(map[string]int{"shop": 10, "bank": 5}, started); diff != "" {
		t.Errorf("scans by namespace (-want +got):\n%s", diff)
	}
}

// A Scanner that cannot be reconciled starts nothing: others must not wait for what it wanted to start.
func TestAScannerThatFailsWaitsForNothing(t *testing.T) {
	shop, pod := tenant("shop", "a")
	shop.Spec.NamespaceSelector = &metav1.LabelSelector{}
	r, _ := newReconciler(t, memory{}, &starter{attempts: map[string]Attempt{}}, shop, pod)
	name := client.ObjectKeyFromObject(shop)
	r.queues.set(name, demand{limitOperator: {"shop": 1}})
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: name}); err == nil {
		t.Error("a tenant selects other namespaces")
	}
	if waiting, _ := r.queues.get(types.NamespacedName{}, nil); len(waiting) > 0 {
		t.Errorf("%v wait", waiting)
	}
}

// An image runs in two namespaces, and its scan fails in one of them.
func TestFailureDetailsGoToScannersOfTheNamespace(t *testing.T) {
	const secret = `tried the pull credentials "team" of the user bob in namespace shop`
	for namespace, want := range map[string]bool{"shop": true, "bank": false} {
		t.Run(namespace, func(t *testing.T) {
			known, cataloger := memory{}, &starter{attempts: map[string]Attempt{}}
			shop, shopPod := tenant("shop", "a")
			bank, bankPod := tenant("bank", "a")
			r, recorder := newReconciler(t, known, cataloger, shop, shopPod, bank, bankPod)
			reconcileIn(t, r, "shop")
			cataloger.fail(t, known, imageKey("a"), model.Outcome{Reason: model.ReasonImagePullDenied, Message: secret})
			reconcileIn(t, r, namespace)
			select {
			case event := <-recorder.Events:
				if strings.Contains(event, secret) != want || !want && (strings.Contains(event, "bob") || strings.Contains(event, "shop")) {
					t.Errorf("the Event of the Scanner in %s: %s", namespace, event)
				}
				if !strings.Contains(event, "ImagePullDenied") || !strings.Contains(event, imageKey("a").ImageID) {
					t.Errorf("the Event names no image or no reason: %s", event)
				}
			default:
				t.Error("no Event")
			}
			var scanner scannerv1.Scanner
			if err := r.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "s"}, &scanner); err != nil {
				t.Fatal(err)
			}
			for _, condition := range scanner.Status.Conditions {
				if strings.Contains(condition.Message, "bob") {
					t.Errorf("a condition of the Scanner in %s: %s", namespace, condition.Message)
				}
			}
		})
	}
}
