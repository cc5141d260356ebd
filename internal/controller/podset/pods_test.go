package podset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
)

func orphan(name string, mutate ...func(*corev1.Pod)) *corev1.Pod {
	return podIn(0, append([]func(*corev1.Pod){called(name), adopted, func(pod *corev1.Pod) { pod.OwnerReferences = nil }}, mutate...)...)
}

func TestAdoption(t *testing.T) {
	controlled := orphan("of-another", func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", UID: "rs", Controller: new(true)}}
	})
	ownedToo := orphan("with-owner", func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "cm", UID: "cm"}}
	})
	other := orphan("other-labels", func(pod *corev1.Pod) { pod.Labels["version"] = "v2" })
	over := orphan("over", ended(corev1.PodSucceeded, time.Hour, 0, 0))
	w := newWorld(t, podSet(3, ""), controlled, ownedToo, other, over, orphan("free"))
	l := newLeader(w)
	l.settle()
	checkSettled(t, l)
	if w.count("create") != 1 || w.count("patch") != 2 || w.count("delete") != 0 {
		t.Errorf("writes %q, want two pods adopted and one made", w.writes)
	}
	for _, pod := range w.live() {
		if pod.Name == "with-owner" && len(pod.OwnerReferences) != 2 {
			t.Errorf("owners %+v, want the other one kept", pod.OwnerReferences)
		}
	}
}

func TestAdoptedSurplusGoesByRank(t *testing.T) {
	w := newWorld(t, podSet(2, ""))
	l := newLeader(w)
	l.settle()
	w.change(func(ctx context.Context, c client.Client) error { return c.Create(ctx, orphan("starting", notReady)) })
	l.settle()
	checkSettled(t, l)
	if last := w.writes[len(w.writes)-1]; w.count("delete") != 1 || !slices.Contains(w.writes, "delete starting") {
		t.Errorf("writes %q, the last %s; want the one deleted that is not ready", w.writes, last)
	}
}

func TestRelease(t *testing.T) {
	w := newWorld(t, podSet(2, ""))
	l := newLeader(w)
	l.settle()
	freed := w.live()[0]
	w.change(func(ctx context.Context, c client.Client) error {
		pod := freed.DeepCopy()
		pod.Labels["app"] = "mine"
		return c.Update(ctx, pod)
	})
	l.settle()
	checkSettled(t, l)
	var pod corev1.Pod
	if err := w.truth.Get(t.Context(), client.ObjectKeyFromObject(&freed), &pod); err != nil || len(pod.OwnerReferences) != 0 || !active(&pod) {
		t.Errorf("the released pod: owners %+v, %v", pod.OwnerReferences, err)
	}
}

// TestLabelsAreTakenFromATerminatingPod has a pod that keeps the first name of its slot and that no list by labels shows.
func TestLabelsAreTakenFromATerminatingPod(t *testing.T) {
	w := newWorld(t, podSet(1, ""))
	l := newLeader(w)
	l.settle()
	stripped := w.live()[0]
	w.change(func(ctx context.Context, c client.Client) error {
		stripped.Labels = nil
		return errors.Join(c.Update(ctx, &stripped), c.Delete(ctx, &stripped))
	})
	l.once()
	pods := slices.DeleteFunc(w.live(), func(pod corev1.Pod) bool { return !active(&pod) })
	if len(pods) != 1 || pods[0].Name != podName(w.set(), 0, 1) {
		t.Errorf("writes %q, want a pod with the second name while the first is held", w.writes)
	}
	l.settle()
	checkSettled(t, l)
}

// TestFailingPods lets every pod fail at once for an hour.
func TestFailingPods(t *testing.T) {
	w := newWorld(t, podSet(1, ""))
	l := newLeader(w)
	for end := w.clock.Now().Add(time.Hour); w.clock.Now().Before(end); {
		result := l.once()
		if n := len(w.live()); n > 3 {
			t.Fatalf("%d pods are kept", n)
		}
		for _, pod := range w.live() {
			if active(&pod) {
				w.end(&pod, corev1.PodFailed)
			} else {
				w.stepPod(&pod)
			}
		}
		if result.RequeueAfter > 0 {
			if c := readyOf(w.set()); c.Reason != appv1alpha1.ReasonPodsEnded {
				t.Fatalf("Ready: %+v", c)
			}
		}
		w.clock.Step(max(time.Second, result.RequeueAfter))
	}
	// Pauses of 10, 20, 40, 80 and 160 seconds, then of 5 minutes.
	if n := w.count("create"); n < 15 || n > 19 {
		t.Errorf("%d pods were made in an hour, want about 17", n)
	}
	w.changeSet(func(ps *appv1alpha1.PodSet) { setImage(ps, "b:1") })
	before := w.clock.Now()
	l.once()
	if n := countActive(w.live()); n != 1 || !w.clock.Now().Equal(before) {
		t.Errorf("%d pods, want a pod of the new template at once", n)
	}
	l.settle()
	checkSettled(t, l)
}

// TestPodsThatAreDeletedAtOnce has somebody else delete all pods as soon as they are made, as the taint of a node does. They may vanish at
// once, take their time, or have ended first.
func TestPodsThatAreDeletedAtOnce(t *testing.T) {
	const replicas = 3
	tests := map[string]struct{ fail, stay bool }{"vanish": {}, "stay": {stay: true}, "fail first": {fail: true}}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, podSet(replicas, ""))
			l := newLeader(w)
			for range 50 {
				l.once()
				w.deleteAll(tt.fail, tt.stay)
			}
			// The first of each slot is replaced at once.
			if n := w.count("create"); n != 2*replicas {
				t.Fatalf("%d pods were made while the clock stood still, want %d", n, 2*replicas)
			}
			if c := readyOf(w.set()); c.Reason != appv1alpha1.ReasonPodsEnded {
				t.Errorf("Ready: %+v", c)
			}
			for end := w.clock.Now().Add(time.Hour); w.clock.Now().Before(end); {
				result := l.once()
				w.deleteAll(tt.fail, tt.stay)
				w.clock.Step(max(time.Second, result.RequeueAfter))
			}
			// As pods that end: about 17 of each slot in an hour.
			if n := w.count("create") / replicas; n < 15 || n > 19 {
				t.Errorf("%d pods of each slot were made in an hour, want about 17", n)
			}
			w.changeSet(func(ps *appv1alpha1.PodSet) { setImage(ps, "b:1") })
			l.once()
			if n := countActive(w.live()); n != replicas {
				t.Errorf("%d pods, want those of the new template at once", n)
			}
			l.settle()
			checkSettled(t, l)
		})
	}
}

// deleteAll deletes the active pods as somebody else; those that do not stay are gone then.
func (w *world) deleteAll(fail, stay bool) {
	for _, pod := range w.live() {
		if stay && !pod.DeletionTimestamp.IsZero() {
			continue
		}
		if active(&pod) && fail {
			w.end(&pod, corev1.PodFailed)
		}
		w.change(func(ctx context.Context, c client.Client) error {
			if !stay {
				pod.Finalizers = nil
				if err := c.Update(ctx, &pod); err != nil {
					return err
				}
			}
			return client.IgnoreNotFound(c.Delete(ctx, &pod))
		})
	}
}

// TestReplacedAtOnce deletes pods again and again in ways that are no row of short lives.
func TestReplacedAtOnce(t *testing.T) {
	const replicas = 3
	tests := map[string]func(w *world, l *leader, round int){
		"by others after a while": func(w *world, l *leader, _ int) {
			w.clock.Step(earlyDeletion)
			w.deleteAll(false, false)
			l.once()
		},
		"scaled down and up": func(w *world, l *leader, _ int) {
			for _, n := range []int32{1, replicas} {
				w.changeSet(func(ps *appv1alpha1.PodSet) { ps.Spec.Replicas = n })
				l.once()
			}
		},
		"rolled out": func(w *world, l *leader, round int) {
			w.changeSet(func(ps *appv1alpha1.PodSet) { setImage(ps, fmt.Sprint("a:", round%2)) })
			l.once()
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, podSet(replicas, ""))
			l := newLeader(w)
			l.once()
			for round := range 5 {
				before := w.count("create")
				change(w, l, round)
				if n := countActive(w.live()); n != replicas || w.count("create") == before {
					t.Fatalf("round %d: %d pods after %q, want %d", round, n, w.writes, replicas)
				}
			}
		})
	}
}

// TestForgetsPodSets keeps no memory of a PodSet that is gone, and gives none to another one of its name.
func TestForgetsPodSets(t *testing.T) {
	w := newWorld(t, podSet(1, ""))
	l := newLeader(w)
	l.once()
	other := podSet(1, "")
	other.UID = "other"
	if mine, others := len(l.r.creationsOf(podSet(1, ""))), len(l.r.creationsOf(other)); mine != 1 || others != 0 {
		t.Errorf("%d creations are remembered, and %d of another PodSet", mine, others)
	}
	w.change(func(ctx context.Context, c client.Client) error { return c.Delete(ctx, w.set().DeepCopy()) })
	if l.once(); len(l.r.histories) != 0 {
		t.Errorf("the history of a deleted PodSet is remembered: %v", l.r.histories)
	}
}

// TestRollout changes the image: never is more than one pod away that was ready.
func TestRollout(t *testing.T) {
	w := newWorld(t, podSet(4, "a:1"))
	l := newLeader(w)
	l.settle()
	w.changeSet(func(ps *appv1alpha1.PodSet) { setImage(ps, "a:2") })
	least := 4
	w.created = func() {
		if n := countActive(w.ownedBy(w.set())); n > 4 {
			t.Errorf("%d pods, want 4 at most", n)
		}
	}
	for range 30 {
		l.once()
		readyNow := 0
		for _, pod := range w.live() {
			if active(&pod) && ready(&pod) {
				readyNow++
			}
		}
		least = min(least, readyNow)
		w.runKubelet()
	}
	if least != 3 {
		t.Errorf("%d pods were ready at least, want 3", least)
	}
	l.settle()
	checkSettled(t, l)
	if w.count("delete") != 4 {
		t.Errorf("writes %q, want 4 pods replaced", w.writes)
	}
}

// TestRefusedTemplateCostsNoPod keeps the pods of the earlier template.
func TestRefusedTemplateCostsNoPod(t *testing.T) {
	w := newWorld(t, podSet(2, "a:1"))
	l := newLeader(w)
	l.settle()
	w.changeSet(func(ps *appv1alpha1.PodSet) { setImage(ps, "-") })
	w.refuse = func(verb, name string) error {
		if verb == "try" || verb == "create" {
			return apierrors.NewForbidden(podResource, name, errors.New("violates PodSecurity"))
		}
		return nil
	}
	l.sync()
	if _, err := l.reconcile(); err == nil {
		t.Fatal("no error")
	}
	if w.count("delete") != 0 {
		t.Errorf("writes %q", w.writes)
	}
	c := readyOf(w.set())
	if c.Reason != appv1alpha1.ReasonReplicaFailure || !strings.Contains(c.Message, "violates PodSecurity") || w.set().Status.ReadyReplicas != 2 {
		t.Errorf("status %+v", w.set().Status)
	}
	writes := len(w.writes)
	l.sync()
	if _, err := l.reconcile(); err == nil || len(w.writes) != writes {
		t.Errorf("%v; the next try wrote %q", err, w.writes[writes:])
	}
	w.refuse = func(verb, name string) error {
		if verb == "try" {
			return apierrors.NewForbidden(podResource, name, errors.New("exceeded quota"))
		}
		return nil
	}
	l.settle()
	checkSettled(t, l)
}
