package podset

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

var (
	now  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	ours = types.NamespacedName{Namespace: "ns", Name: "set"}
)

// kubelet is the finalizer that keeps pods while they end.
const kubelet = "test/kubelet"

func testScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), appv1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return scheme
}

func podSet(replicas int32, image string) *appv1alpha1.PodSet {
	ps := &appv1alpha1.PodSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: ours.Namespace, Name: ours.Name, UID: "uid", Generation: 1},
		Spec:       appv1alpha1.PodSetSpec{Replicas: replicas},
	}
	setImage(ps, image)
	return ps
}

func setImage(ps *appv1alpha1.PodSet, image string) {
	ps.Spec.Template = nil
	if image != "" {
		ps.Spec.Template = &runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"a","image":"` + image + `"}]}}`)}
	}
}

// world is an API server with a history that caches show later.
type world struct {
	t     *testing.T
	seed  uint64
	clock *testclock.FakeClock
	truth client.WithWatch

	mu   sync.Mutex
	pods [][]corev1.Pod
	sets []*appv1alpha1.PodSet
	uids int
	// writes are the changes that went through, by whomever.
	writes []string
	// refuse and lose say of a request, before and after it was carried out, with which error it ends.
	refuse, lose func(verb, name string) error
	// created is called after each creation.
	created func()
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{t: t, clock: testclock.NewFakeClock(now)}
	scheme := testScheme(t)
	// The default tracker keeps managed fields, which takes ten times as long.
	tracker := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	w.truth = fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(tracker).
		WithStatusSubresource(&appv1alpha1.PodSet{}, &corev1.Pod{}).WithObjects(objects...).Build()
	w.snapshot()
	return w
}

// snapshot adds what is there now to the history.
func (w *world) snapshot() {
	w.t.Helper()
	var pods corev1.PodList
	if err := w.truth.List(w.t.Context(), &pods); err != nil {
		w.t.Fatal(err)
	}
	ps := &appv1alpha1.PodSet{}
	if err := w.truth.Get(w.t.Context(), ours, ps); apierrors.IsNotFound(err) {
		ps = nil
	} else if err != nil {
		w.t.Fatal(err)
	}
	w.pods, w.sets = append(w.pods, pods.Items), append(w.sets, ps)
}

// change changes an object as somebody else would.
func (w *world) change(write func(ctx context.Context, c client.Client) error) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := write(w.t.Context(), w.truth); err != nil {
		w.t.Fatal(err)
	}
	w.snapshot()
}

// live returns the pods of the PodSet as they are.
func (w *world) live() []corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.pods[len(w.pods)-1]), func(pod corev1.Pod) bool {
		_, uid, owned := controllerOf(&pod)
		return !owned || w.set() == nil || uid != w.set().UID
	})
}

func (w *world) set() *appv1alpha1.PodSet { return w.sets[len(w.sets)-1] }

func countActive(pods []corev1.Pod) int {
	n := 0
	for i := range pods {
		if active(&pods[i]) {
			n++
		}
	}
	return n
}

// chance is true in so many of 100 cases. It depends on the seed, what is asked about and how much has happened, not on the order of goroutines.
func (w *world) chance(percent int, what ...string) bool {
	sum := fnv.New64a()
	_, _ = fmt.Fprint(sum, w.seed, len(w.writes), what)
	return rand.New(rand.NewPCG(w.seed, sum.Sum64())).IntN(100) < percent
}

func (w *world) write(verb string, obj client.Object, act func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse != nil {
		if err := w.refuse(verb, obj.GetName()); err != nil {
			return err
		}
	}
	if err := act(); err != nil {
		return err
	}
	w.writes = append(w.writes, verb+" "+obj.GetName())
	w.snapshot()
	if w.lose != nil {
		return w.lose(verb, obj.GetName())
	}
	return nil
}

// leader is a process with a controller and a cache that lags.
type leader struct {
	w           *world
	r           *Reconciler
	podAt, psAt int
	recorder    *events.FakeRecorder
	told        []store.ObjectChange
	// logs are the messages at the level info.
	logs []string
}

func (l *leader) RecordChange(_ context.Context, change store.ObjectChange) error {
	l.told = append(l.told, change)
	return change.Validate()
}

func newLeader(w *world) *leader {
	l := &leader{w: w, recorder: events.NewFakeRecorder(10_000)}
	l.restart()
	return l
}

// restart forgets what the process knew.
func (l *leader) restart() {
	l.sync()
	l.r = &Reconciler{Client: interceptor.NewClient(l.w.truth, l.funcs()), Live: l.w.truth, Changes: l, Recorder: l.recorder, Clock: l.w.clock}
}

// sync lets the cache catch up, which handles each change of a pod, as a watch does.
func (l *leader) sync() {
	before := l.podAt
	l.podAt, l.psAt = len(l.w.pods)-1, len(l.w.sets)-1
	if l.r == nil {
		return
	}
	for _, pods := range l.w.pods[min(before+1, len(l.w.pods)):] {
		for i := range pods {
			l.r.podSetOf(l.w.t.Context(), &pods[i])
		}
	}
}

func (l *leader) seen() *appv1alpha1.PodSet { return l.w.sets[l.psAt] }

func (l *leader) reconcile() (ctrl.Result, error) {
	var mu sync.Mutex // Pods are created at the same time.
	record := func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		l.logs = append(l.logs, args)
	}
	ctx := logr.NewContext(l.w.t.Context(), funcr.New(record, funcr.Options{}))
	result, err := l.r.Reconcile(ctx, ctrl.Request{NamespacedName: ours})
	if result.RequeueAfter == kube.SeenAgain {
		result.RequeueAfter = 0 // Nothing is left to do.
	}
	return result, err
}

func (l *leader) funcs() interceptor.Funcs {
	w := l.w
	return interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			ps, isSet := obj.(*appv1alpha1.PodSet)
			if !isSet || l.seen() == nil || key != ours {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "podsets"}, key.Name)
			}
			l.seen().DeepCopyInto(ps)
			return nil
		},
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			options := (&client.ListOptions{}).ApplyOptions(opts)
			value, _ := options.FieldSelector.RequiresExactMatch(indexPodSet)
			pods := list.(*corev1.PodList)
			for i := range w.pods[l.podAt] {
				if pod := &w.pods[l.podAt][i]; pod.Namespace == options.Namespace && slices.Contains(indexed(pod), value) {
					pods.Items = append(pods.Items, *pod)
				}
			}
			return nil
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			pod := obj.(*corev1.Pod)
			if len((&client.CreateOptions{}).ApplyOptions(opts).DryRun) > 0 {
				if w.refuse != nil {
					return w.refuse("try", pod.Name)
				}
				return nil
			}
			return w.write("create", pod, func() error {
				w.uids++
				pod.UID, pod.CreationTimestamp = types.UID(fmt.Sprint("pod-", w.uids)), metav1.NewTime(w.clock.Now())
				pod.Finalizers, pod.Status.Phase = append(pod.Finalizers, kubelet), corev1.PodPending
				if err := c.Create(ctx, pod, opts...); err != nil {
					return err
				}
				if w.created != nil {
					w.snapshot()
					w.created()
				}
				return nil
			})
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return w.write("delete", obj, func() error {
				var pod corev1.Pod
				if err := c.Get(ctx, client.ObjectKeyFromObject(obj), &pod); err != nil {
					return err
				}
				if seen := (&client.DeleteOptions{}).ApplyOptions(opts).Preconditions; seen == nil || seen.UID == nil || *seen.UID != pod.UID {
					return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, obj.GetName(), errors.New("another UID"))
				}
				return c.Delete(ctx, obj.DeepCopyObject().(client.Object), opts...)
			})
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return w.write("patch", obj, func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return w.write(name, obj, func() error { return c.SubResource(name).Patch(ctx, obj, patch, opts...) })
		},
	}
}

// settle lets caches catch up and pods start until nothing is written any more.
func (l *leader) settle() {
	w := l.w
	w.t.Helper()
	for range 100 {
		before := len(w.writes)
		l.sync()
		result, err := l.reconcile()
		moved := w.runKubelet()
		if err == nil && result.IsZero() && !moved && before == len(w.writes) {
			return
		}
		w.clock.Step(max(result.RequeueAfter, time.Second))
	}
	w.t.Fatalf("it does not settle:\n%s", strings.Join(w.writes[max(0, len(w.writes)-30):], "\n"))
}

// runKubelet lets pending pods run and get ready, and terminating ones vanish.
func (w *world) runKubelet() (moved bool) {
	for _, pod := range w.live() {
		moved = w.stepPod(&pod) || moved
	}
	return moved
}

func (w *world) stepPod(pod *corev1.Pod) bool {
	switch {
	case !pod.DeletionTimestamp.IsZero():
		w.change(func(ctx context.Context, c client.Client) error {
			pod.Finalizers = nil
			return c.Update(ctx, pod)
		})
	case pod.Status.Phase == corev1.PodPending:
		w.change(func(ctx context.Context, c client.Client) error {
			pod.Spec.NodeName = "node"
			if err := c.Update(ctx, pod); err != nil {
				return err
			}
			pod.Status.Phase = corev1.PodRunning
			pod.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.clock.Now()),
			}}
			return c.Status().Update(ctx, pod)
		})
	default:
		return false
	}
	return true
}

// end lets a pod end.
func (w *world) end(pod *corev1.Pod, phase corev1.PodPhase) {
	w.change(func(ctx context.Context, c client.Client) error {
		pod.Status.Phase = phase
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(w.clock.Now()),
		}}
		return c.Status().Update(ctx, pod)
	})
}
