package exceptions

import (
	"context"
	"testing"

	"github.com/onsi/gomega"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
)

// authors are those of the last list, by name.
func (d *decided) authors() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	authors := map[string]string{}
	for _, decision := range d.last() {
		authors[decision.Object.Name] = decision.Author
	}
	return authors
}

// TestAuthors: the annotation counts where an admission policy protects it, also when nothing else changes.
func TestAuthors(t *testing.T) {
	scheme := controllertest.Scheme(t, scannerv1alpha1.AddToScheme)
	c, err := client.New(controllertest.Config(t), client.Options{Scheme: scheme})
	g := gomega.NewWithT(t)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	trusting, doubting := &decided{}, &decided{}
	for store, trusts := range map[*decided]bool{trusting: true, doubting: false} {
		controllertest.Start(t, controllertest.Config(t), scheme, nil, func(mgr ctrl.Manager) error {
			r := NewReconciler(mgr.GetClient(), store, clock.RealClock{})
			r.TrustAuthors = trusts
			return r.SetupWithManager(mgr, make(chan event.GenericEvent))
		})
	}
	e := clusterException("authored")
	e.Annotations = map[string]string{scannerv1alpha1.AnnotationAuthor: "jane"}
	g.Expect(c.Create(t.Context(), e)).To(gomega.Succeed())
	t.Cleanup(func() { _ = c.Delete(context.Background(), e) })
	g.Eventually(trusting.authors, patience, tick).Should(gomega.HaveKeyWithValue("authored", "jane"))
	g.Eventually(doubting.authors, patience, tick).Should(gomega.HaveKeyWithValue("authored", ""))
	g.Expect(c.Patch(t.Context(), e, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":null}}`)))).To(gomega.Succeed())
	g.Eventually(trusting.authors, patience, tick).Should(gomega.HaveKeyWithValue("authored", ""))
}
