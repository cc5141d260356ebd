package admission_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/controller/bellerophon"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/controller/podset"
)

// denials counts the requests that a policy denied.
type denials struct {
	mu   sync.Mutex
	seen []string
}

func (d *denials) RoundTrip(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err != nil || response.StatusCode < http.StatusBadRequest {
			return response, err
		}
		body, err := io.ReadAll(response.Body)
		response.Body = io.NopCloser(bytes.NewReader(body))
		if strings.Contains(string(body), "ValidatingAdmissionPolicy") {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.seen = append(d.seen, fmt.Sprintf("%s %s: %s", request.Method, request.URL, body))
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// TestControllers runs the controllers of PodSets and BellerophonSimples as the operator's account: the policies let them do their work.
func TestControllers(t *testing.T) {
	web := webSpec()
	i := install(t, "", podSet(t, "web", &web), hero())
	g := gomega.NewWithT(t)
	d := &denials{}
	i.config.Wrap(d.RoundTrip)
	controllertest.Start(t, i.config, i.admin.Scheme(), []string{i.shop}, func(mgr ctrl.Manager) error {
		pods := &podset.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("operator"), Clock: clock.RealClock{}}
		if err := pods.SetupWithManager(mgr); err != nil {
			return err
		}
		return (&bellerophon.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("operator")}).SetupWithManager(mgr)
	})
	images := func(app string) func(g gomega.Gomega) []string {
		return func(g gomega.Gomega) []string {
			var pods corev1.PodList
			g.Expect(i.admin.List(t.Context(), &pods, client.InNamespace(i.shop), client.MatchingLabels{appv1alpha1.LabelApp: app})).To(gomega.Succeed())
			var found []string
			for _, pod := range pods.Items {
				if pod.DeletionTimestamp.IsZero() {
					found = append(found, pod.Spec.Containers[0].Image)
				}
			}
			return found
		}
	}
	set := func(g gomega.Gomega) string {
		var set appsv1.StatefulSet
		g.Expect(i.admin.Get(t.Context(), client.ObjectKey{Namespace: i.shop, Name: "hero"}, &set)).To(gomega.Succeed())
		return fmt.Sprint(set.Spec.Template.Spec.Containers[0].Image, " ", *set.Spec.Replicas)
	}
	g.Eventually(images("web"), patience, tick).Should(gomega.ConsistOf("web:1"))
	g.Eventually(set, patience, tick).Should(gomega.Equal("app:1 2"))

	// Pods of a new template, of a new PodSet, and one that is adopted.
	for n := 2; n <= 5; n++ {
		want := fmt.Sprint("web:", n)
		changed := webSpec()
		changed.Containers[0].Image = want
		ps := podSetIn(t, i.shop, "web")
		g.Expect(i.admin.Get(t.Context(), client.ObjectKeyFromObject(ps), ps)).To(gomega.Succeed())
		ps.Spec.Template = rawTemplate(t, &changed)
		g.Expect(i.admin.Update(t.Context(), ps)).To(gomega.Succeed())
		g.Eventually(images("web"), patience, tick).Should(gomega.ConsistOf(want))

		name := fmt.Sprint("plain-", n)
		g.Expect(i.admin.Create(t.Context(), podSetIn(t, i.shop, name))).To(gomega.Succeed())
		g.Eventually(images(name), patience, tick).Should(gomega.HaveLen(1))
	}
	orphan := &corev1.Pod{Spec: webSpec()}
	orphan.Namespace, orphan.Name = i.shop, "orphan"
	orphan.Labels = map[string]string{appv1alpha1.LabelApp: "plain-2", appv1alpha1.LabelVersion: appv1alpha1.Version}
	g.Expect(i.admin.Create(t.Context(), orphan)).To(gomega.Succeed())
	g.Eventually(func(g gomega.Gomega) {
		if err := i.admin.Get(t.Context(), client.ObjectKeyFromObject(orphan), orphan); !apierrors.IsNotFound(err) {
			g.Expect(orphan.OwnerReferences, err).To(gomega.HaveLen(1), "it is not adopted")
		}
	}, patience, tick).Should(gomega.Succeed())
	g.Eventually(images("plain-2"), patience, tick).Should(gomega.HaveLen(1), "one pod too many")

	// A new image, a new number of replicas, and somebody else's changes that are repaired.
	shero := hero()
	shero.Namespace = i.shop
	g.Expect(i.admin.Get(t.Context(), client.ObjectKeyFromObject(shero), shero)).To(gomega.Succeed())
	shero.Spec.Image, shero.Spec.Replicas, shero.Spec.WingedHorseName = "app:2", new(int32(5)), "arion"
	g.Expect(i.admin.Update(t.Context(), shero)).To(gomega.Succeed())
	g.Eventually(set, patience, tick).Should(gomega.Equal("app:2 5"))
	for _, text := range []string{
		`{"spec":{"replicas":1,"template":{"spec":{"containers":[{"name":"app","image":"other"},{"name":"sidecar","image":"i"}]}}}}`,
		`{"metadata":{"labels":{"stable.simple-bellerophon.io/shero":"other"}},"spec":{"replicas":3}}`,
	} {
		changed := &appsv1.StatefulSet{}
		changed.Namespace, changed.Name = i.shop, "hero"
		g.Expect(i.admin.Patch(t.Context(), changed, client.RawPatch("application/strategic-merge-patch+json", []byte(text)))).To(gomega.Succeed())
		g.Eventually(set, patience, tick).Should(gomega.Equal("app:2 5"))
	}

	d.mu.Lock()
	defer d.mu.Unlock()
	// The API server learns of a change through a watch, as the operator does, and may be a moment later: the operator tries again.
	for _, denial := range d.seen {
		t.Log(denial)
		if !strings.Contains(denial, "podset-templates") && !strings.Contains(denial, "shero-specs") {
			t.Errorf("a policy hinders the operator: %s", denial)
		}
	}
}
