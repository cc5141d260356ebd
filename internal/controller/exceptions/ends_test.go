package exceptions

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// TestEndsThatCannotBeRead: the end of an exception that was created before the CRD had a pattern for it affects this exception only, and the CRD permits
// no other such ends.
func TestEndsThatCannotBeRead(t *testing.T) {
	// On an API server of its own, whose CRD it changes.
	admin, g := controllertest.Another(t), gomega.NewWithT(t)
	scheme := controllertest.Scheme(t, scannerv1alpha1.AddToScheme)
	c, err := client.New(admin, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	ending := func(name, end string) *unstructured.Unstructured {
		spec, err := json.Marshal(clusterException(name).Spec)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		e := &unstructured.Unstructured{Object: map[string]any{}}
		e.SetAPIVersion(scannerv1alpha1.GroupVersion.String())
		e.SetKind("ClusterVulnerabilityException")
		e.SetName(name)
		var fields map[string]any
		g.Expect(json.Unmarshal(spec, &fields)).To(gomega.Succeed())
		fields["expiresAt"] = end
		e.Object["spec"] = fields
		return e
	}
	crd := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}}
	crd.Name = "clustervulnerabilityexceptions.scanner.zoltankerezsi.xyz"
	const pattern = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/expiresAt/pattern"
	full := &unstructured.Unstructured{}
	full.SetGroupVersionKind(crd.GroupVersionKind())
	g.Expect(c.Get(t.Context(), client.ObjectKey{Name: crd.Name}, full)).To(gomega.Succeed())
	versions, _, err := unstructured.NestedSlice(full.Object, "spec", "versions")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	text, found, err := unstructured.NestedString(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec", "properties", "expiresAt", "pattern")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(found).To(gomega.BeTrue())
	patch := func(operation string, value any) {
		content, err := json.Marshal([]map[string]any{{"op": operation, "path": pattern, "value": value}})
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(c.Patch(t.Context(), crd.DeepCopy(), client.RawPatch(types.JSONPatchType, content))).To(gomega.Succeed())
	}

	patch("remove", nil)
	ends := []string{"2027-03-31t00:00:00z", "2027-03-31T00:00:00+99:99", "2027-03-31T00:00:00ZTanything"}
	for i, end := range ends {
		// The API server serves the changed CRD with a delay.
		g.Eventually(func() error { return c.Create(t.Context(), ending(fmt.Sprint("old-", i), end)) }, patience, tick).Should(gomega.Succeed())
	}
	patch("add", text)
	for i, end := range append(ends, "2027-02-31T00:00:00Z", "2027-03-31T24:00:00Z", "2027-03-31T23:59:60Z", "2027-03-31T00:00:00") {
		g.Eventually(func() bool {
			return apierrors.IsInvalid(c.Create(t.Context(), ending(fmt.Sprint("new-", i), end), client.DryRunAll))
		}, patience, tick).Should(gomega.BeTrue(), "%s is permitted", end)
	}
	g.Expect(c.Create(t.Context(), ending("good", "2127-03-31T00:00:00.5+01:00"))).To(gomega.Succeed())

	decisions := &decided{counts: map[string]store.DecisionCount{}}
	controllertest.Start(t, admin, scheme, nil, func(mgr ctrl.Manager) error {
		return NewReconciler(mgr.GetClient(), decisions, clock.RealClock{}).SetupWithManager(mgr, make(chan event.GenericEvent))
	})
	said := func(name string) string {
		var e scannerv1alpha1.ClusterVulnerabilityException
		g.Expect(c.Get(t.Context(), types.NamespacedName{Name: name}, &e)).To(gomega.Succeed())
		return summary(ofCluster(&e))
	}
	g.Eventually(said, patience, tick).WithArguments("good").Should(gomega.HavePrefix("Applied=True/Applied"))
	for i := range ends {
		g.Eventually(said, patience, tick).WithArguments(fmt.Sprint("old-", i)).Should(gomega.Equal("Applied=False/Invalid Used=False/NotInEffect observed"))
	}
	g.Expect(decisions.names()).To(gomega.Equal([]string{"good"}))
}
