package mycustomresource

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	pocv1 "github.com/scanner-operator/scanner-operator/api/poc/v1"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
)

func TestMain(m *testing.M) { os.Exit(controllertest.Main(m, controllertest.OwnersAreGuarded)) }

const (
	patience = controllertest.Patience
	tick     = controllertest.Tick
)

// world is an API server with a controller that watches two namespaces and has only the rights that it asks for.
type world struct {
	client.Client
	*gomega.WithT
	t          *testing.T
	own, other string
	writes     *controllertest.Writes
}

func newWorld(t *testing.T) *world {
	t.Helper()
	config, scheme := controllertest.Restricted(t), controllertest.Scheme(t, pocv1.AddToScheme)
	c, err := client.New(controllertest.Config(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		Client: c, WithT: gomega.NewWithT(t), t: t, own: controllertest.Namespace(t, c), other: controllertest.Namespace(t, c), writes: &controllertest.Writes{},
	}
	config.Wrap(w.writes.Wrap)
	controllertest.Start(t, config, scheme, []string{w.own, w.other}, func(mgr ctrl.Manager) error {
		return (&Reconciler{Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("scanner-operator")}).SetupWithManager(mgr)
	})
	return w
}

// samples makes the resources of the sample manifest.
func (w *world) samples() {
	w.t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "samples", "poc_v1_mycustomresource.yaml"))
	if err != nil {
		w.t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		resource := &pocv1.MyCustomResource{}
		if err := yaml.UnmarshalStrict([]byte(document), resource); err != nil {
			w.t.Fatal(err)
		}
		resource.Namespace = w.own
		w.create(resource)
	}
}

func (w *world) create(obj client.Object) {
	w.t.Helper()
	if err := w.Create(w.t.Context(), obj); err != nil {
		w.t.Fatalf("create %T: %v", obj, err)
	}
}

func (w *world) pod(namespace, name string) *corev1.Pod {
	w.t.Helper()
	p := pod(namespace, name)
	p.Spec.Containers = []corev1.Container{{Name: "ubuntu", Image: "ubuntu:latest"}}
	w.create(p)
	return p
}

// status shows Healthy and the message of a resource.
func (w *world) status(name string) func() string {
	return func() string {
		resource := &pocv1.MyCustomResource{}
		if err := w.Get(w.t.Context(), client.ObjectKey{Namespace: w.own, Name: name}, resource); err != nil {
			return err.Error()
		}
		if len(resource.Status.Conditions) != 1 || resource.Status.ObservedGeneration != resource.Generation {
			return "not observed"
		}
		return fmt.Sprint(resource.Status.Healthy, ": ", strings.ReplaceAll(resource.Status.Conditions[0].Message, w.own, "OWN"))
	}
}

// TestSample applies the sample manifest and changes it.
func TestSample(t *testing.T) {
	w := newWorld(t)
	w.samples()
	const first, second, lonely = "my-custom-resource-01", "my-custom-resource-02", "false: No pod named funny-joe exists."
	w.Eventually(w.status(first), patience, tick).Should(gomega.Equal(lonely))
	joe := w.pod(w.own, "funny-joe")
	w.Eventually(w.status(first), patience, tick).Should(gomega.Equal("true: Pod funny-joe exists in namespace OWN."))
	w.Expect(w.status(second)()).To(gomega.Equal("false: No pod named crazy-dave exists."))
	w.Expect(w.Delete(t.Context(), joe, client.GracePeriodSeconds(0))).To(gomega.Succeed())
	w.Eventually(w.status(first), patience, tick).Should(gomega.Equal(lonely))

	w.Eventually(w.eventReasons, patience, tick).Should(gomega.ConsistOf("FriendFound", "FriendLost"))
}

// eventReasons are the reasons of the events on the resources of the test.
func (w *world) eventReasons() []string {
	var list eventsv1.EventList
	if err := w.List(w.t.Context(), &list, client.InNamespace(w.own)); err != nil {
		return []string{err.Error()}
	}
	var reasons []string
	for i := range list.Items {
		reasons = append(reasons, list.Items[i].Reason)
	}
	return reasons
}

// TestAPodThatGoesIsGone has a pod that takes its time, as most do.
func TestAPodThatGoesIsGone(t *testing.T) {
	w := newWorld(t)
	w.samples()
	dave := w.pod(w.other, "crazy-dave")
	dave.Finalizers = []string{"example.com/wait"}
	w.Expect(w.Update(t.Context(), dave)).To(gomega.Succeed())
	w.Eventually(w.status("my-custom-resource-02"), patience, tick).Should(gomega.Equal("true: Pod crazy-dave exists in another namespace."))
	w.Expect(w.Delete(t.Context(), dave)).To(gomega.Succeed())
	w.Eventually(w.status("my-custom-resource-02"), patience, tick).Should(gomega.HavePrefix("false"))
	w.Expect(w.Get(t.Context(), client.ObjectKeyFromObject(dave), dave)).To(gomega.Succeed(), "the pod should still be there")
	dave.Finalizers = nil
	w.Expect(w.Update(t.Context(), dave)).To(gomega.Succeed())
}

// TestAnotherFriend changes whom a resource looks for.
func TestAnotherFriend(t *testing.T) {
	w := newWorld(t)
	w.samples()
	w.pod(w.own, "true-tom")
	w.Eventually(w.status("my-custom-resource-01"), patience, tick).Should(gomega.HavePrefix("false"))
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"name":"true-tom"}}`))
	resource := &pocv1.MyCustomResource{ObjectMeta: metav1.ObjectMeta{Namespace: w.own, Name: "my-custom-resource-01"}}
	w.Expect(w.Patch(t.Context(), resource, patch)).To(gomega.Succeed())
	w.Eventually(w.status("my-custom-resource-01"), patience, tick).Should(gomega.HavePrefix("true"))
}

// TestSettledMeansNoWrites lets happen to pods what changes nothing, and then something that does.
func TestSettledMeansNoWrites(t *testing.T) {
	w := newWorld(t)
	w.samples()
	joe := w.pod(w.own, "funny-joe")
	w.Eventually(w.status("my-custom-resource-01"), patience, tick).Should(gomega.HavePrefix("true"))
	w.Eventually(w.status("my-custom-resource-02"), patience, tick).Should(gomega.HavePrefix("false"))
	w.Eventually(w.eventReasons, patience, tick).Should(gomega.ConsistOf("FriendFound"))
	before := len(w.writes.Seen())
	joe.Status.Phase, joe.Labels = corev1.PodFailed, map[string]string{"a": "b"}
	w.Expect(w.Status().Update(t.Context(), joe)).To(gomega.Succeed())
	for i := range 10 {
		w.pod(w.own, fmt.Sprint("stranger-", i))
	}
	// A second pod of the name changes nothing either: the one in the resource's own namespace counts.
	w.pod(w.other, "funny-joe")
	// What comes after all that shows that it was seen.
	w.pod(w.own, "crazy-dave")
	w.Eventually(w.status("my-custom-resource-02"), patience, tick).Should(gomega.HavePrefix("true"))
	status := fmt.Sprintf("/apis/poc.test.domain/v1/namespaces/%s/mycustomresources/my-custom-resource-02/status", w.own)
	w.Eventually(func() []string { return w.writes.Seen()[before:] }, patience, tick).Should(gomega.ConsistOf(
		"PATCH "+status, fmt.Sprintf("POST /apis/events.k8s.io/v1/namespaces/%s/events", w.own)))
}
