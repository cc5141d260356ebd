//go:build scale

package scale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
)

const (
	fleetNamespaces = 4
	fleetNodes      = 24
	strauss         = "quay.io/amacdona/strauss"
	fleetLabel      = "fleet"
	fleetPrefix     = "fleet-"
)

// member is a PodSet of the fleet, and what it is wanted to be.
type member struct {
	key client.ObjectKey
	// mu is held while the PodSet is changed, so that what is wanted is what was written last.
	mu       sync.Mutex
	replicas int
	// version is that of the template, 0 when it has none.
	version int
}

func (p *member) image() string {
	if p.version == 0 {
		return strauss
	}
	return fmt.Sprintf("registry.example/fleet:v%d", p.version)
}

// template returns spec.template, nil when the member has none.
func (p *member) template() (*runtime.RawExtension, error) {
	if p.version == 0 {
		return nil, nil //nolint:nilnil // as documented
	}
	raw, err := json.Marshal(corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: p.image()}}}})
	return &runtime.RawExtension{Raw: raw}, err
}

// fleet is many PodSets in several namespaces.
type fleet struct {
	members []*member
	mirror  *mirror
	mu      sync.Mutex
	// lost are the nodes that have gone away.
	lost map[string]bool
}

// newFleet makes namespaces and nodes, which go with the test, and follows what will be there. There are no PodSets yet.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{lost: map[string]bool{}}
	t.Cleanup(func() { removeFleet(t) })
	var namespaceNames []string
	for i := range fleetNamespaces {
		namespaceNames = append(namespaceNames, fmt.Sprint(fleetPrefix, i))
	}
	createNamespaces(t, map[string]string{fleetLabel: "yes"}, namespaceNames...)
	for i := range fleetNodes {
		createNode(t, fmt.Sprint(fleetPrefix, i), "amd64", map[string]string{fleetLabel: "yes"})
	}
	f.mirror = newMirror(t)
	for i := range podSets {
		p := &member{key: client.ObjectKey{Namespace: namespaceNames[i%fleetNamespaces], Name: fmt.Sprint("set-", i)}, replicas: maxReplicas}
		if i%2 == 0 {
			p.version = 1
		}
		f.members = append(f.members, p)
	}
	return f
}

// removeFleet leaves the cluster to the next test as it was. Nobody makes pods any more.
func removeFleet(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	var errs []error
	for i := range fleetNamespaces {
		namespace := client.InNamespace(fmt.Sprint(fleetPrefix, i))
		errs = append(errs, c.DeleteAllOf(ctx, &appv1alpha1.PodSet{}, namespace), c.DeleteAllOf(ctx, &corev1.Pod{}, namespace, client.GracePeriodSeconds(0)))
		errs = append(errs, c.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: string(namespace)}}))
	}
	errs = append(errs, c.DeleteAllOf(ctx, &corev1.Node{}, client.HasLabels{fleetLabel}))
	if err := errors.Join(errs...); err != nil {
		t.Errorf("remove the PodSets: %v", err)
	}
}

// create makes all PodSets at once.
func (f *fleet) create(t *testing.T) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(creators)
	for _, p := range f.members {
		template, err := p.template()
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() error {
			return c.Create(ctx, &appv1alpha1.PodSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: p.key.Namespace, Name: p.key.Name},
				Spec:       appv1alpha1.PodSetSpec{Replicas: int32(p.replicas), Template: template}, //nolint:gosec // 10 at most
			})
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// settle waits until each PodSet was what it is wanted to be at one time at least, and holds it to that number of pods from now on. Not all of
// them at the same time: when the machine is busy, heartbeats of nodes are late, and pods not ready for a while.
func (f *fleet) settle(t *testing.T) {
	t.Helper()
	left := slices.Clone(f.members)
	eventually(t, func() error {
		if err := f.mirror.checkLimits(); err != nil {
			return gomega.StopTrying(err.Error())
		}
		if t.Failed() {
			return gomega.StopTrying("the test has failed before, maybe without seeing all events")
		}
		var first error
		left = slices.DeleteFunc(left, func(p *member) bool {
			err := f.check(p)
			if err != nil && first == nil {
				first = fmt.Errorf("PodSet %s: %w", p.key, err)
			}
			return err == nil
		})
		if len(left) == 0 {
			return nil
		}
		n := f.mirror.counts()
		err := fmt.Errorf("%d PodSets have not settled; of %d pods %d are not ready; %w", len(left), n.active, n.unready, first)
		return errors.Join(err, f.recover(t.Context(), left))
	})
	for _, p := range f.members {
		set, _ := f.mirror.of(p.key)
		f.mirror.limit(set.UID, p.replicas)
	}
}

// recover makes the pods ready that run and are not, as kubelets do and kwok does not.
func (f *fleet) recover(ctx context.Context, members []*member) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for _, p := range members {
		_, pods := f.mirror.of(p.key)
		for _, pod := range pods {
			if active(pod) && pod.Status.Phase == corev1.PodRunning && !isReady(pod) && !f.isLost(pod.Spec.NodeName) {
				group.Go(func() error { return patchPod(ctx, pod, readiness(corev1.ConditionTrue)) })
			}
		}
	}
	return group.Wait()
}

func (f *fleet) isLost(node string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost[node]
}

// check wants a PodSet to have the right number of pods and no others, all of them ready and of the newest template, and to say so.
func (f *fleet) check(p *member) error {
	set, pods := f.mirror.of(p.key)
	if set == nil || len(pods) != p.replicas {
		return fmt.Errorf("%d pods are there, want %d", len(pods), p.replicas)
	}
	names := []string{}
	for _, pod := range pods {
		if !active(pod) || !isReady(pod) || f.isLost(pod.Spec.NodeName) {
			return fmt.Errorf("pod %s on %s is %s and ready=%t, deleted at %v", pod.Name, pod.Spec.NodeName, pod.Status.Phase, isReady(pod), pod.DeletionTimestamp)
		}
		if got := pod.Spec.Containers[0].Image; got != p.image() {
			return fmt.Errorf("pod %s runs %s, want %s", pod.Name, got, p.image())
		}
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	count := int32(p.replicas) //nolint:gosec // 10 at most
	want := appv1alpha1.PodSetStatus{
		PodNames: names, AvailableReplicas: count, ReadyReplicas: count, UpdatedReplicas: count, Selector: "app=" + p.key.Name + ",version=v0.1",
		ObservedGeneration: set.Generation, Conditions: []metav1.Condition{{
			Type: appv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: appv1alpha1.ReasonAllReady,
			Message: fmt.Sprintf("%d of %d pods are ready.", count, count), ObservedGeneration: set.Generation,
		}},
	}
	if diff := cmp.Diff(want, set.Status, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
		return fmt.Errorf("the status differs (-want +got):\n%s", diff)
	}
	if int(set.Spec.Replicas) != p.replicas {
		return fmt.Errorf("%d replicas are wanted, %d was the last to be written", set.Spec.Replicas, p.replicas)
	}
	return nil
}

// checkServer wants the API server to list the pods that events reported, and no others.
func (f *fleet) checkServer(t *testing.T) {
	t.Helper()
	want, got := map[types.UID]string{}, map[types.UID]string{}
	for _, p := range f.members {
		_, pods := f.mirror.of(p.key)
		for _, pod := range pods {
			want[pod.UID] = pod.Namespace + "/" + pod.Name
		}
	}
	for i := range fleetNamespaces {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		if err := c.List(t.Context(), &list, client.InNamespace(fmt.Sprint(fleetPrefix, i))); err != nil {
			t.Fatal(err)
		}
		for _, pod := range list.Items {
			got[pod.UID] = pod.Namespace + "/" + pod.Name
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
}

// readiness is the status of a pod that runs.
func readiness(status corev1.ConditionStatus) map[string]any {
	ready := map[string]any{"type": corev1.PodReady, "status": status, "lastTransitionTime": metav1.Now()}
	return map[string]any{"status": map[string]any{"conditions": []any{ready}}}
}

// patchPod changes the status of a pod, unless it is gone or another one has its name.
func patchPod(ctx context.Context, pod *corev1.Pod, change map[string]any) error {
	change["metadata"] = map[string]any{"uid": pod.UID}
	patch, err := json.Marshal(change)
	if err != nil {
		return err
	}
	patched := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err = c.Status().Patch(ctx, patched, client.RawPatch(types.StrategicMergePatchType, patch))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
		return nil
	}
	return err
}
