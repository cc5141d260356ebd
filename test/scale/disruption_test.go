//go:build scale

package scale

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
)

// What happens to the PodSets, and how often. Half of them are scaled, a quarter get new templates.
const (
	lostNodes = 2
	// scalings and templates are those of each PodSet that is chosen for them.
	scalings  = 2
	templates = 2
	// disruptors is how many things happen at the same time, as long as at most maxMissing pods are missing: few, so that two operators
	// have time to do the same thing at the same moment, instead of each its own part of a long queue.
	disruptors = 4
	maxMissing = 40
)

// step is something that happens to the fleet; dice decides to which part of it.
type step func(ctx context.Context, f *fleet, dice int) error

// disruption is what happens to a fleet, step by step.
type disruption struct {
	total int
	taken atomic.Int64
	ended chan error
}

// begin disrupts the fleet until the end of all steps. It waits while many pods are missing: failures roll on as long as there is somebody to
// repair them.
func (f *fleet) begin(t *testing.T) *disruption {
	t.Helper()
	dice := rand.New(rand.NewPCG(6, 200)) //nolint:gosec // the same disruptions each time
	steps := f.steps()
	dice.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	// Nodes first: it takes more than a minute until the pods of a node that has gone are gone as well.
	for i := range lostNodes {
		steps = slices.Insert(steps, 0, loseNode(fmt.Sprint(fleetPrefix, i)))
	}
	tr := &disruption{total: len(steps), ended: make(chan error, 1)}
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(disruptors)
	go func() {
		for _, take := range steps {
			thrown := dice.IntN(1 << 30)
			group.Go(func() error {
				if err := f.fewMissing(ctx); err != nil {
					return err
				}
				tr.taken.Add(1)
				return take(ctx, f, thrown)
			})
		}
		tr.ended <- group.Wait()
	}()
	return tr
}

func (f *fleet) steps() []step {
	steps := slices.Concat(
		slices.Repeat([]step{onPod(isReady, fail)}, disruptions.failures), slices.Repeat([]step{onPod(active, remove)}, disruptions.deletions),
		slices.Repeat([]step{onPod(active, evict)}, disruptions.evictions), slices.Repeat([]step{onPod(isReady, makeUnready)}, disruptions.unreadies),
	)
	for i, p := range f.members {
		if i%4 < 2 {
			steps = append(steps, slices.Repeat([]step{p.scale}, scalings)...)
		}
		if i%8 == 0 || i%8 == 5 {
			steps = append(steps, slices.Repeat([]step{p.retemplate}, templates)...)
		}
	}
	return steps
}

// reached waits until that many of the steps, from 0 to 1, are taken.
func (tr *disruption) reached(t *testing.T, part float64) {
	t.Helper()
	eventually(t, func() error {
		if taken := tr.taken.Load(); float64(taken) < part*float64(tr.total) {
			return fmt.Errorf("%d of %d steps are taken", taken, tr.total)
		}
		return nil
	})
}

// wait waits for the end of all steps.
func (tr *disruption) wait(t *testing.T) {
	t.Helper()
	select {
	case err := <-tr.ended:
		if err != nil {
			t.Fatalf("disrupt the fleet: %v", err)
		}
	case <-time.After(patience):
		t.Fatalf("%d of %d steps are taken after %s", tr.taken.Load(), tr.total, patience)
	}
}

// missing counts the pods that are wanted and not there.
func (f *fleet) missing() int {
	count := 0
	for _, p := range f.members {
		set, pods := f.mirror.of(p.key)
		if set != nil {
			there := len(slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !active(pod) }))
			count += max(0, int(set.Spec.Replicas)-there)
		}
	}
	return count
}

func (f *fleet) fewMissing(ctx context.Context) error {
	const pollInterval = 20 * time.Millisecond
	err := wait.PollUntilContextTimeout(ctx, pollInterval, patience, true, func(context.Context) (bool, error) {
		return f.missing() <= maxMissing, nil
	})
	if err != nil {
		return fmt.Errorf("wait until at most %d pods are missing, with %d: %w", maxMissing, f.missing(), err)
	}
	return nil
}

// onPod does something to a pod that fits.
func onPod(fits func(*corev1.Pod) bool, do func(context.Context, *corev1.Pod) error) step {
	return func(ctx context.Context, f *fleet, dice int) error {
		for i := range f.members {
			_, pods := f.mirror.of(f.members[(dice+i)%len(f.members)].key)
			pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !active(pod) || !fits(pod) })
			if len(pods) > 0 {
				return do(ctx, pods[dice/len(f.members)%len(pods)])
			}
		}
		return errors.New("no pod is left to disrupt")
	}
}

// fail ends a pod as its node would that runs out of something. Only pods that are ready fail: what kwok says of those that start could undo
// it.
func fail(ctx context.Context, pod *corev1.Pod) error {
	failed := readiness(corev1.ConditionFalse)
	status := failed["status"].(map[string]any) //nolint:errcheck,forcetypeassert // readiness made it
	status["phase"], status["reason"] = corev1.PodFailed, "Evicted"
	return patchPod(ctx, pod, failed)
}

func makeUnready(ctx context.Context, pod *corev1.Pod) error {
	return patchPod(ctx, pod, readiness(corev1.ConditionFalse))
}

func remove(ctx context.Context, pod *corev1.Pod) error {
	return client.IgnoreNotFound(c.Delete(ctx, pod))
}

func evict(ctx context.Context, pod *corev1.Pod) error {
	return client.IgnoreNotFound(c.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{}))
}

func loseNode(name string) step {
	return func(ctx context.Context, f *fleet, _ int) error {
		f.mu.Lock()
		f.lost[name] = true
		f.mu.Unlock()
		return c.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
}

// scale asks for 1 to 10 replicas, as a HorizontalPodAutoscaler does.
func (p *member) scale(ctx context.Context, f *fleet, dice int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replicas = 1 + dice%maxReplicas
	set, _ := f.mirror.of(p.key)
	f.mirror.allow(set.UID, p.replicas)
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: p.key.Namespace, Name: p.key.Name}}
	scale.Spec.Replicas = int32(p.replicas) //nolint:gosec // 10 at most
	return c.SubResource("scale").Update(ctx, set.DeepCopy(), client.WithSubResourceBody(scale))
}

// retemplate asks for pods of another image.
func (p *member) retemplate(ctx context.Context, _ *fleet, _ int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version++
	template, err := p.template()
	if err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"spec":{"template":%s}}`, template.Raw)
	set := &appv1alpha1.PodSet{ObjectMeta: metav1.ObjectMeta{Namespace: p.key.Namespace, Name: p.key.Name}}
	return c.Patch(ctx, set, client.RawPatch(types.MergePatchType, patch))
}
