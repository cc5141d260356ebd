package scanner

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
)

// maxScanners is the maximum number of Scanners that are in effect in a namespace, the oldest ones: each is reconciled and takes memory. The operator's own
// namespace has no maximum.
const maxScanners = 10

// beyond returns the Scanners of a list that are not in effect.
func (r *Reconciler) beyond(scanners []scannerv1.Scanner) map[types.NamespacedName]bool {
	byNamespace := map[string][]*scannerv1.Scanner{}
	for i := range scanners {
		if namespace := scanners[i].Namespace; namespace != r.Namespace {
			byNamespace[namespace] = append(byNamespace[namespace], &scanners[i])
		}
	}
	beyond := map[types.NamespacedName]bool{}
	for _, list := range byNamespace {
		if len(list) <= maxScanners {
			continue
		}
		slices.SortFunc(list, func(a, b *scannerv1.Scanner) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
		for _, scanner := range list[maxScanners:] {
			beyond[client.ObjectKeyFromObject(scanner)] = true
		}
	}
	return beyond
}

// inEffect reports whether a Scanner is one of the oldest in its namespace.
func (r *Reconciler) inEffect(ctx context.Context, scanner types.NamespacedName) (bool, error) {
	now := r.Clock.Now()
	if beyond, known := r.numbers.recent(scanner, now); known {
		return !beyond, nil
	}
	var list scannerv1.ScannerList
	if err := r.Client.List(ctx, &list, client.InNamespace(scanner.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list the Scanners of the namespace: %w", err)
	}
	beyond := r.beyond(list.Items)
	r.numbers.note(scanner.Namespace, len(list.Items), beyond, now)
	return !beyond[scanner], nil
}

// numbersHold is the time for which the Scanners beyond the maximum are not computed again, so that many of them take little time.
const numbersHold = time.Second

// numbers has the Scanners beyond the maximum of the namespaces that have any. The zero value is ready.
type numbers struct {
	mu         sync.Mutex
	namespaces map[string]number
}

type number struct {
	at     time.Time
	beyond map[types.NamespacedName]bool
}

// recent reports whether a Scanner was beyond the maximum not long ago; known is false if that is to be computed.
func (n *numbers) recent(scanner types.NamespacedName, now time.Time) (beyond, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	last, found := n.namespaces[scanner.Namespace]
	if !found || now.Sub(last.at) >= numbersHold || now.Before(last.at) {
		return false, false
	}
	return last.beyond[scanner], last.beyond[scanner]
}

// forget has the Scanners beyond the maximum of a namespace computed again.
func (n *numbers) forget(namespace string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.namespaces, namespace)
}

// note keeps the Scanners beyond the maximum of a namespace.
func (n *numbers) note(namespace string, count int, beyond map[types.NamespacedName]bool, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.namespaces == nil {
		n.namespaces = map[string]number{}
	}
	if count <= maxScanners {
		delete(n.namespaces, namespace)
		return
	}
	n.namespaces[namespace] = number{now, beyond}
}

// suspendBeyond says in the status of a Scanner that it is not in effect, and deletes its records when that begins.
func (r *Reconciler) suspendBeyond(ctx context.Context, scanner *scannerv1.Scanner) error {
	message := fmt.Sprintf("The namespace has more than %d Scanners, and only the %d oldest are in effect. Delete Scanners that are not needed: one covers all pods of the namespace.",
		maxScanners, maxScanners)
	ready := meta.FindStatusCondition(scanner.Status.Conditions, scannerv1.ConditionReady)
	if ready == nil || ready.Message != message {
		if err := r.forget(ctx, client.ObjectKeyFromObject(scanner)); err != nil {
			return err
		}
	}
	scanner.Status = scannerv1.ScannerStatus{ObservedGeneration: scanner.Generation}
	if ready != nil {
		scanner.Status.Conditions = []metav1.Condition{*ready}
	}
	setCondition(scanner, scannerv1.ConditionReady, metav1.ConditionFalse, string(scannerv1.Failed), message)
	return nil
}
