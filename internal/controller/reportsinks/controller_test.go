package reportsinks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/sinks"
)

const patience, tick = controllertest.Patience, controllertest.Tick

func TestMain(m *testing.M) { os.Exit(controllertest.Main(m)) }

// engine is what an engine was given. The tests of sinks have a real one; here each answer is given.
type engine struct {
	mu     sync.Mutex
	set    bool
	sinks  []*sinks.Sink
	known  int
	states map[string]sinks.State
}

func (e *engine) SetSinks(_ context.Context, active []*sinks.Sink, known []string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.set, e.sinks, e.known = true, active, len(known)
	return nil
}

func (e *engine) States() map[string]sinks.State {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.states
}

// given are the sinks in effect with what they select, and the number of known ones; nil before there was a list.
func (e *engine) given() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.set {
		return nil
	}
	given := []string{fmt.Sprint("known: ", e.known)}
	for _, s := range e.sinks {
		given = append(given, fmt.Sprintf("%s %s all=%t %v", s.Name, s.Type, s.Namespaces.All(), s.Namespaces.Names()))
	}
	slices.Sort(given)
	return given
}

// said is a status in one line.
func said(o *scannerv1alpha1.ReportSink) string {
	status := &o.Status
	var texts []string
	for _, kind := range []string{scannerv1alpha1.ConditionValid, scannerv1alpha1.ConditionDelivering} {
		if c := meta.FindStatusCondition(status.Conditions, kind); c != nil {
			texts = append(texts, fmt.Sprintf("%s=%s/%s", kind, c.Status, c.Reason))
		}
	}
	if status.Items > 0 {
		texts = append(texts, fmt.Sprintf("%d items, %d pending, %d failed, %d omitted", status.Items, status.Pending, status.Failed, status.Omitted))
	}
	if status.LastDeliveryTime != nil {
		texts = append(texts, "delivered at "+status.LastDeliveryTime.UTC().Format(time.TimeOnly))
	}
	if status.ObservedGeneration == o.Generation {
		texts = append(texts, "observed")
	}
	return strings.Join(texts, "; ")
}

// TestSinksAreApplied runs the controller with its own rights on a real API server.
func TestSinksAreApplied(t *testing.T) {
	admin, g := controllertest.Config(t), gomega.NewWithT(t)
	scheme := controllertest.Scheme(t, scannerv1alpha1.AddToScheme, corev1.AddToScheme)
	c, err := client.New(admin, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	create := func(o client.Object) {
		t.Helper()
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.IgnoreNotFound(c.Delete(context.Background(), o)) })
	}
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"environment": "production"}}}
	create(shop)
	create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bank"}})
	e, changed := &engine{}, make(chan event.GenericEvent, 1)
	restricted, writes := controllertest.Restricted(t), &controllertest.Writes{}
	restricted.Wrap(writes.Wrap)
	factory := &sinks.Factory{Config: &sinks.Config{Credentials: []string{"c"}}, Clock: clock.RealClock{}}
	controllertest.Start(t, restricted, scheme, nil, func(mgr ctrl.Manager) error {
		return NewReconciler(mgr.GetClient(), e, factory, clock.RealClock{}).SetupWithManager(mgr, changed)
	})
	// Also when there is no sink: one may have been deleted while no controller ran.
	g.Eventually(e.given, patience, tick).Should(gomega.Equal([]string{"known: 0"}))

	track := &scannerv1alpha1.ReportSink{ObjectMeta: metav1.ObjectMeta{Name: "track"}, Spec: scannerv1alpha1.ReportSinkSpec{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"environment": "production"}},
		DependencyTrack:   &scannerv1alpha1.DependencyTrackSink{Credential: "c"},
	}}
	create(track)
	create(&scannerv1alpha1.ReportSink{ObjectMeta: metav1.ObjectMeta{Name: "archive"}, Spec: scannerv1alpha1.ReportSinkSpec{
		S3: &scannerv1alpha1.S3Sink{Credential: "c", Bucket: "sboms"},
	}})
	create(&scannerv1alpha1.ReportSink{ObjectMeta: metav1.ObjectMeta{Name: "bad"}, Spec: scannerv1alpha1.ReportSinkSpec{
		DefectDojo: &scannerv1alpha1.DefectDojoSink{Credential: "other"},
	}})
	g.Eventually(e.given, patience, tick).Should(gomega.Equal([]string{"archive s3 all=true []", "known: 3", "track dependencyTrack all=false [shop]"}))
	e.mu.Lock()
	before := e.sinks
	e.mu.Unlock()
	// Defaults of the API server.
	for _, s := range before {
		if s.S3 != nil && (s.S3.Key != "{repository}/{digest}/{platform}" || len(s.S3.Formats) != 1 || s.S3.Region != "us-east-1" || s.S3.Delete) ||
			s.DependencyTrack != nil && (s.DependencyTrack.ProjectVersion != "{digest}" || s.PerMinute != sinks.DefaultPerMinute || s.Resync != sinks.DefaultResync) {
			t.Errorf("%s: %+v %+v", s.Name, s.S3, s.DependencyTrack)
		}
	}
	shop.Labels = nil
	if err := c.Update(t.Context(), shop); err != nil {
		t.Fatal(err)
	}
	g.Eventually(e.given, patience, tick).Should(gomega.ContainElement("track dependencyTrack all=false []"))

	status := func(name string) func() string {
		return func() string {
			var now scannerv1alpha1.ReportSink
			if err := c.Get(t.Context(), types.NamespacedName{Name: name}, &now); err != nil {
				return err.Error()
			}
			return said(&now)
		}
	}
	g.Eventually(status("bad"), patience, tick).Should(gomega.Equal("Valid=False/Invalid; Delivering=False/NotActive; observed"))
	noon := time.Date(2026, 11, 21, 12, 0, 0, 999, time.UTC)
	for _, step := range []struct {
		state sinks.State
		want  string
	}{
		{sinks.State{Planned: true, Items: 3, Pending: 3}, "Delivering=True/Syncing; 3 items, 3 pending, 0 failed, 0 omitted; observed"},
		{sinks.State{Planned: true, Items: 3, Pending: 2, DeliveredAt: noon}, "Delivering=True/Syncing; 3 items, 2 pending, 0 failed, 0 omitted; delivered at 12:00:00; observed"},
		{
			sinks.State{Planned: true, Items: 3, Pending: 2, Failed: 1, Problem: "status 503", DeliveredAt: noon.Add(90 * time.Second)},
			"Delivering=False/DeliveryFailed; 3 items, 2 pending, 1 failed, 0 omitted; delivered at 12:01:30; observed",
		},
		// Another replica leads, and cannot plan what it has to deliver.
		{
			sinks.State{Problem: "no plan"},
			"Delivering=False/DeliveryFailed; 3 items, 2 pending, 1 failed, 0 omitted; delivered at 12:01:30; observed",
		},
		// It has planned, and has delivered nothing yet.
		{sinks.State{Planned: true, Items: 3, Omitted: 4}, "Delivering=False/Limited; 3 items, 0 pending, 0 failed, 4 omitted; delivered at 12:01:30; observed"},
		{sinks.State{Planned: true, Items: 3, DeliveredAt: noon.Add(time.Hour)}, "Delivering=True/Delivering; 3 items, 0 pending, 0 failed, 0 omitted; delivered at 13:00:00; observed"},
	} {
		e.mu.Lock()
		e.states = map[string]sinks.State{string(track.UID): step.state}
		e.mu.Unlock()
		changed <- event.GenericEvent{Object: track}
		g.Eventually(status("track"), patience, tick).Should(gomega.Equal("Valid=True/Active; " + step.want))
	}
	if err := c.Delete(t.Context(), track); err != nil {
		t.Fatal(err)
	}
	g.Eventually(e.given, patience, tick).Should(gomega.Equal([]string{"archive s3 all=true []", "known: 2"}))
	for _, write := range writes.Seen() {
		if !strings.HasPrefix(write, "PATCH /apis/scanner.zoltankerezsi.xyz/v1alpha1/reportsinks/") || !strings.HasSuffix(write, "/status") {
			t.Errorf("the controller wrote %s", write)
		}
	}
}

func TestTheLastStatusWins(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	object := &scannerv1alpha1.ReportSink{
		ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: scannerv1alpha1.ReportSinkSpec{DependencyTrack: &scannerv1alpha1.DependencyTrackSink{Credential: "c"}},
	}
	lagging := controllertest.NewLagging(t, scannerv1alpha1.AddToScheme, object)
	e := &engine{states: map[string]sinks.State{string(object.UID): {Planned: true}}}
	r := NewReconciler(lagging, e, &sinks.Factory{Config: &sinks.Config{Credentials: []string{"c"}}, Clock: now}, now)
	lagging.LastStatusWins(t, r, object, scannerv1alpha1.ConditionValid, "True/Active", "False/Invalid", func(changed bool) {
		one := r.compiled[object.UID]
		one.problem = nil
		if changed {
			one.problem = errors.New("x")
		}
		r.compiled[object.UID] = one
	}, func() string { return said(object) })
}
