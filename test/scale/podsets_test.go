//go:build scale

package scale

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/scanner-operator/scanner-operator/internal/setup"
)

// TestPodSets makes 200 PodSets of 10 pods each, and disruption of all kinds, while two operators run at the same time and then one of them stops
// and starts. There is never a pod too many, in the end everything is as wanted, and then nothing is written any more.
func TestPodSets(t *testing.T) {
	begin := time.Now()
	since := func() time.Duration { return time.Since(begin).Round(time.Second) }
	f := newFleet(t)
	o := newPodSetOperator(t)
	o.start(t)
	f.create(t)
	f.settle(t)
	f.checkServer(t)
	n := f.mirror.counts()
	if n.created != podSets*maxReplicas {
		t.Errorf("%d pods were made, want %d", n.created, podSets*maxReplicas)
	}
	t.Logf("%d PodSets had %d pods after %s, %s", podSets, n.active, since(), o.requests.figures())

	tr := twoAtOnce(t, f)
	restartDuringDisruption(t, f, tr, o)
	tr.wait(t)
	t.Logf("all %d steps were taken after %s", tr.total, since())
	f.settle(t)
	f.checkServer(t)
	n = f.mirror.counts()
	t.Logf("the PodSets had settled after %s, with %d pods; %d were made and %d went; %s", since(), n.active, n.created, n.deleted, o.requests.figures())

	f.checkQuiet(t, o)
	if err := f.mirror.checkLimits(); err != nil {
		t.Error(err)
	}
	t.Logf("nothing is written any more, after %s", since())
}

// newPodSetOperator describes an operator that has not been started, and that looks after PodSets alone. It does not care whether there is
// another one.
func newPodSetOperator(t *testing.T) *operator {
	t.Helper()
	return &operator{options: setup.Options{
		Namespace: "default", Controllers: []string{setup.ControllerPodSet}, Catalog: setup.CatalogJob, Auth: setup.AuthNone,
		APIAddress: "127.0.0.1:0", MetricsAddress: "0", HealthAddress: "0", DataDir: t.TempDir(),
		ScanImage: "operator:test", APIURL: "http://operator.invalid:8000", Log: testr.New(t),
		VulnerabilityDatabase: setup.VulnerabilityDatabase{URL: "none", Sample: true},
	}}
}

// restartDuringDisruption stops the operator while pods come to their ends, and starts it when many are missing.
func restartDuringDisruption(t *testing.T, f *fleet, tr *disruption, o *operator) {
	t.Helper()
	tr.reached(t, 0.7)
	o.stop(t)
	eventually(t, func() error {
		if missing := f.missing(); missing < maxMissing/2 {
			return fmt.Errorf("%d pods are missing", missing)
		}
		return nil
	})
	t.Logf("the operator was down after %d of %d steps, with %d pods missing", tr.taken.Load(), tr.total, f.missing())
	o.start(t)
}

// twoAtOnce begins the disruption with a second operator that does the same work as the first one, for a while. Both have seen all pods before.
func twoAtOnce(t *testing.T, f *fleet) *disruption {
	t.Helper()
	second := newPodSetOperator(t)
	f.reconcilesAll(t, func() { second.start(t) })
	before := f.mirror.counts().created
	tr := f.begin(t)
	tr.reached(t, 0.5)
	second.stop(t)
	t.Logf("the second of two operators made %s while there were %d more pods", second.requests.figures(), f.mirror.counts().created-before)
	return tr
}

// checkQuiet wants the operator to write nothing while nothing happens: neither when pods get labels that mean nothing to it, nor when it
// starts. The status of a PodSet may follow pods that were not ready for a while because the heartbeats of their node were late.
func (f *fleet) checkQuiet(t *testing.T, o *operator) {
	t.Helper()
	changes := f.mirror.changesSoFar()
	// What happened before has come to the statuses after this, and to Events soon.
	f.settle(t)
	before := -1
	gomega.NewWithT(t).Eventually(func() bool {
		last := before
		before = len(o.requests.writesSoFar())
		return before == last
	}, patience, 4*tick).Should(gomega.BeTrue())
	f.reconcilesAll(t, func() { f.touchPods(t, "once") })
	f.reconcilesAll(t, func() {
		o.stop(t)
		o.start(t)
	})
	writes := o.requests.writesSoFar()[before:]
	// Whatever made it write can be seen before this.
	f.touchPods(t, "again")
	excused := map[string]bool{}
	for key, now := range f.mirror.changesSoFar() {
		if now > changes[key] {
			excused["PATCH /apis/app.example.com/v1alpha1/namespaces/"+key.Namespace+"/podsets/"+key.Name+"/status"] = true
		}
	}
	t.Logf("pods of %d PodSets changed by themselves", len(excused))
	if len(excused) > podSets/2 {
		t.Errorf("the pods of %d of %d PodSets changed by themselves: that says little of the operator; is the machine too busy?", len(excused), podSets)
	}
	if writes = slices.DeleteFunc(writes, func(write string) bool { return excused[write] }); len(writes) > 0 {
		t.Errorf("a settled operator wrote to the API server: %v", writes)
	}
}

// reconcilesAll waits until the operator has looked at as many PodSets as there are, after something that makes it look.
func (f *fleet) reconcilesAll(t *testing.T, after func()) {
	t.Helper()
	before := reconciliations(t)
	after()
	eventually(t, func() error {
		if now := reconciliations(t); now < before+len(f.members) {
			return fmt.Errorf("%d PodSets were looked at", now-before)
		}
		return nil
	})
}

// touchPods gives a pod of each PodSet a label, and waits for the events.
func (f *fleet) touchPods(t *testing.T, value string) {
	t.Helper()
	const label = "touched"
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, label, value))
	for _, p := range f.members {
		_, pods := f.mirror.of(p.key)
		if err := c.Patch(t.Context(), pods[0].DeepCopy(), patch); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range f.members {
		gomega.NewWithT(t).Eventually(func() string {
			_, pods := f.mirror.of(p.key)
			return pods[0].Labels[label]
		}, patience, tick).Should(gomega.Equal(value))
	}
}

// reconciliations returns how often all operators of this process together have looked at a PodSet.
func reconciliations(t *testing.T) int {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	count := 0.0
	for _, family := range families {
		if family.GetName() != "controller_runtime_reconcile_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "controller" && label.GetValue() == setup.ControllerPodSet {
					count += metric.GetCounter().GetValue()
				}
			}
		}
	}
	return int(count)
}
