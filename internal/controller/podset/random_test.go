package podset

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
)

// TestNeverMoreThanWanted plays random histories: pods start, end and are deleted, the PodSet changes, requests fail or their answers are
// lost, the process restarts, a second leader is at work, and their caches lag behind by random amounts. After no creation may there be more
// pods than wanted, and in the end all is as wanted, and nothing is written any more.
func TestNeverMoreThanWanted(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { playRandom(t, seed) })
	}
}

func playRandom(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t, podSet(int32(1+rng.IntN(10)), "a:1"))
	w.seed = seed
	w.created = func() {
		if n := countActive(w.ownedBy(w.set())); n > int(w.set().Spec.Replicas) {
			t.Errorf("%d pods, %d are wanted; writes %q", n, w.set().Spec.Replicas, w.writes)
		}
	}
	w.refuse = func(verb, name string) error {
		if w.chance(10, verb, name) {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name, errors.New("exceeded quota"))
		}
		return nil
	}
	w.lose = func(verb, name string) error {
		if w.chance(5, "lose", verb, name) {
			return errors.New("connection reset")
		}
		return nil
	}
	leaders := []*leader{newLeader(w), newLeader(w)}
	for range 150 {
		l := leaders[rng.IntN(len(leaders))]
		randomStep(l, rng)
		if behind := len(w.pods) - 1 - l.podAt; behind > 0 && rng.IntN(3) == 0 {
			l.podAt += 1 + rng.IntN(behind)
		}
		if behind := len(w.sets) - 1 - l.psAt; behind > 0 && rng.IntN(3) == 0 {
			l.psAt += 1 + rng.IntN(behind)
		}
		if t.Failed() {
			return
		}
	}
	l := leaders[0]
	w.refuse, w.lose = nil, nil
	l.settle()
	checkSettled(t, l)
}

func randomStep(l *leader, rng *rand.Rand) {
	w, step := l.w, rng.IntN(100)
	pods := w.live()
	var pod *corev1.Pod
	if len(pods) > 0 {
		pod = &pods[rng.IntN(len(pods))]
	}
	switch {
	case step < 50:
		_, _ = l.reconcile()
	case step < 70 && pod != nil:
		w.stepPod(pod)
	case step < 76 && pod != nil && active(pod):
		w.end(pod, corev1.PodFailed)
	case step < 82 && pod != nil && pod.DeletionTimestamp.IsZero():
		w.change(func(ctx context.Context, c client.Client) error { return c.Delete(ctx, pod) })
	case step < 86:
		w.changeSet(func(ps *appv1alpha1.PodSet) { ps.Spec.Replicas = int32(1 + rng.IntN(10)) })
	case step < 90:
		w.changeSet(func(ps *appv1alpha1.PodSet) { setImage(ps, fmt.Sprint("a:", rng.IntN(3))) })
	case step < 92:
		l.restart()
	default:
		w.clock.Step(time.Duration(rng.IntN(8)) * time.Second)
	}
}

// TestTwoLeadersAtOnce has two of them create the same pods at the same time.
func TestTwoLeadersAtOnce(t *testing.T) {
	w := newWorld(t, podSet(10, "a:1"))
	var wg sync.WaitGroup
	for _, l := range []*leader{newLeader(w), newLeader(w)} {
		wg.Go(func() {
			if _, err := l.reconcile(); err != nil {
				t.Errorf("Reconcile: %v", err)
			}
		})
	}
	wg.Wait()
	if pods := w.live(); len(pods) != 10 {
		t.Errorf("%d pods, want 10", len(pods))
	}
	l := newLeader(w)
	l.settle()
	checkSettled(t, l)
}

// reconcilesAfter reconciles a PodSet of three pods that another leader has just reconciled, and wants no pod too many.
func (l *leader) reconcilesAfter(other *leader) {
	t, w := l.w.t, l.w
	t.Helper()
	if _, err := l.reconcile(); err != nil {
		t.Fatal(err)
	}
	if n := countActive(w.live()); n != 3 {
		t.Errorf("%d pods after %q, want 3", n, w.writes)
	}
	other.settle()
	checkSettled(t, other)
}

// TestTwoLeadersAfterDeletion has one of them replace pods while they end, and the other one after they are gone, both before they see what the
// other one made.
func TestTwoLeadersAfterDeletion(t *testing.T) {
	w := newWorld(t, podSet(3, ""))
	first, second := newLeader(w), newLeader(w)
	first.once()
	second.once()
	w.deleteAll(false, true)
	first.once()
	for _, pod := range w.live() {
		if !active(&pod) {
			w.stepPod(&pod)
		}
	}
	second.podAt, second.r.Live = 0, staleLive{w.truth}
	second.reconcilesAfter(first)
}

// TestTwoLeadersOneBehind has one of them replace pods that come and go while the other one watches them and is busy with other PodSets. Then both
// replace the same pods, before they see what the other one made.
func TestTwoLeadersOneBehind(t *testing.T) {
	w := newWorld(t, podSet(3, ""))
	first, second := newLeader(w), newLeader(w)
	first.once()
	second.once()
	w.clock.Step(2 * earlyDeletion)
	w.deleteAll(false, false)
	first.once()
	second.sync()
	w.clock.Step(2 * earlyDeletion)
	w.deleteAll(false, false)
	second.sync()
	first.once()
	second.r.Live = staleLive{w.truth}
	second.reconcilesAfter(first)
}

// overtakenLive lists what is there, and then something happens before the list is used.
type overtakenLive struct {
	client.Reader
	happens func()
}

func (l overtakenLive) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := l.Reader.List(ctx, list, opts...)
	l.happens()
	return err
}

// TestTwoLeadersOvertaken has one of them replace pods after the other one has listed them, and the watch show that before the other one continues.
func TestTwoLeadersOvertaken(t *testing.T) {
	w := newWorld(t, podSet(3, ""))
	first, second := newLeader(w), newLeader(w)
	first.once()
	second.once()
	w.clock.Step(2 * earlyDeletion)
	w.deleteAll(false, false)
	second.sync()
	second.r.Live = overtakenLive{w.truth, func() {
		first.once()
		second.sync()
	}}
	second.reconcilesAfter(first)
}

func (w *world) changeSet(mutate func(ps *appv1alpha1.PodSet)) {
	w.change(func(ctx context.Context, c client.Client) error {
		var ps appv1alpha1.PodSet
		if err := c.Get(ctx, ours, &ps); err != nil {
			return err
		}
		mutate(&ps)
		ps.Generation++
		return c.Update(ctx, &ps)
	})
}

// ownedBy returns the pods as they are that a PodSet controls.
func (w *world) ownedBy(ps *appv1alpha1.PodSet) []corev1.Pod {
	var pods []corev1.Pod
	for _, pod := range w.pods[len(w.pods)-1] {
		if _, uid, owned := controllerOf(&pod); owned && uid == ps.UID {
			pods = append(pods, pod)
		}
	}
	return pods
}

// checkSettled expects as many pods as wanted, all ready and, unless they were adopted, of the current template, the status that says so, and no further write.
func checkSettled(t *testing.T, l *leader) {
	t.Helper()
	w := l.w
	ps, pods := w.set(), w.live()
	template, err := Template(ps)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := hashOf(template)
	if err != nil {
		t.Fatal(err)
	}
	if len(pods) != int(ps.Spec.Replicas) {
		t.Errorf("%d pods, want %d", len(pods), ps.Spec.Replicas)
	}
	for i := range pods {
		pod := &pods[i]
		if made, has := pod.Labels[appv1alpha1.LabelTemplateHash]; !active(pod) || !ready(pod) || has && made != hash {
			t.Errorf("pod %s is not active, ready and current: %+v %+v", pod.Name, pod.ObjectMeta, pod.Status)
		}
	}
	status := &ps.Status
	if !meta.IsStatusConditionTrue(status.Conditions, appv1alpha1.ConditionReady) || status.ObservedGeneration != ps.Generation ||
		len(status.PodNames) != len(pods) || int(status.AvailableReplicas) != len(pods) || int(status.ReadyReplicas) != len(pods) ||
		int(status.UpdatedReplicas) != len(pods) {
		t.Errorf("status = %+v, want %d pods", status, len(pods))
	}
	writes := len(w.writes)
	for range 3 {
		l.sync()
		if result, err := l.reconcile(); err != nil || !result.IsZero() {
			t.Errorf("reconciled once more: %+v, %v", result, err)
		}
	}
	if len(w.writes) != writes {
		t.Errorf("writes of a settled PodSet: %q", w.writes[writes:])
	}
}
