package admission_test

import (
	"testing"

	"github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
)

// user returns a client with some rights in shop.
func (i *installation) user(t *testing.T, name string, rules ...rbacv1.PolicyRule) client.Client {
	t.Helper()
	g := gomega.NewWithT(t)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: i.shop, Name: name}, Rules: rules}
	g.Expect(i.admin.Create(t.Context(), role)).To(gomega.Succeed())
	g.Expect(i.admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.shop, Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	})).To(gomega.Succeed(), name)
	config := controllertest.Config(t)
	config.Impersonate = rest.ImpersonationConfig{UserName: name}
	c, err := client.New(config, client.Options{Scheme: i.admin.Scheme()})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	return c
}

func may(verb, group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{verb}}
}

// TestAuthors: whoever may create PodSets or BellerophonSimples, but not what the operator creates for them, gains nothing.
func TestAuthors(t *testing.T) {
	web := webSpec()
	i := install(t, "", podSet(t, "web", &web), hero())
	g := gomega.NewWithT(t)
	parents := []rbacv1.PolicyRule{
		may("create", "app.example.com", "podsets"), may("update", "app.example.com", "podsets", "podsets/scale"), may("patch", "app.example.com", "podsets", "podsets/scale"),
		may("create", "stable.simple-bellerophon.io", "sheroes"), may("patch", "stable.simple-bellerophon.io", "sheroes"), may("get", "app.example.com", "podsets"),
	}
	all := []rbacv1.PolicyRule{
		may("create", "", "pods"), may("create", "", "services"), may("create", "", "persistentvolumeclaims"),
		may("create", "apps", "statefulsets"), may("create", "policy", "poddisruptionbudgets"),
	}
	none := i.user(t, "none", parents...)
	pods := i.user(t, "pods", append(parents, may("create", "", "pods"))...)
	everything := i.user(t, "everything", append(parents, all...)...)

	newPodSet := func() *appv1alpha1.PodSet { return podSetIn(t, i.shop, "new") }
	newShero := func() *stablev444beta989.BellerophonSimple {
		shero := hero()
		shero.Namespace, shero.Name = i.shop, "new"
		return shero
	}
	patch := func(c client.Client, object client.Object, text string) error {
		return c.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(text)), client.DryRunAll)
	}
	webPodSet := func() client.Object { return podSetIn(t, i.shop, "web") }
	heroShero := func() client.Object {
		shero := hero()
		shero.Namespace = i.shop
		return shero
	}
	// Rights and policies take a moment.
	g.Eventually(func() error { return everything.Create(t.Context(), newShero(), client.DryRunAll) }, patience, tick).Should(gomega.Succeed())
	g.Eventually(func() error { return pods.Create(t.Context(), newPodSet(), client.DryRunAll) }, patience, tick).Should(gomega.Succeed())
	g.Eventually(func() error { return none.Create(t.Context(), newPodSet(), client.DryRunAll) }, patience, tick).Should(denied("permission to create pods"))

	g.Expect(none.Create(t.Context(), newShero(), client.DryRunAll)).To(denied("permission to create"))
	g.Expect(pods.Create(t.Context(), newShero(), client.DryRunAll)).To(denied("permission to create"))
	for n, rule := range all {
		rules := append([]rbacv1.PolicyRule{}, parents...)
		for m := range all {
			if m != n {
				rules = append(rules, all[m])
			}
		}
		c := i.user(t, "without-"+rule.Resources[0], rules...)
		g.Eventually(func() error { return c.Create(t.Context(), newShero(), client.DryRunAll) }, patience, tick).Should(denied("permission to create " + rule.Resources[0]))
	}

	// A template changes what runs, whoever wrote the first one.
	g.Expect(patch(none, webPodSet(), `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"evil"}]}}}}`)).To(denied("permission to create pods"))
	g.Expect(patch(none, webPodSet(), `{"spec":{"replicas":10}}`)).To(denied("permission to create pods"))
	g.Expect(patch(none, heroShero(), `{"spec":{"image":"evil"}}`)).To(denied("permission to create pods"))
	g.Expect(patch(pods, webPodSet(), `{"spec":{"replicas":10}}`)).To(gomega.Succeed())
	g.Expect(patch(everything, heroShero(), `{"spec":{"image":"app:2"}}`)).To(gomega.Succeed())
	// Metadata changes nothing, and scaling is a right of its own, as for Deployments: autoscalers have it.
	g.Expect(patch(none, webPodSet(), `{"metadata":{"labels":{"team":"shop"}}}`)).To(gomega.Succeed())
	g.Expect(none.SubResource("scale").Patch(t.Context(), webPodSet(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":2}}`)), &client.SubResourcePatchOptions{
		PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}},
	})).To(gomega.Succeed())
	// The right in another namespace is no right here.
	elsewhere := podSetIn(t, i.empty, "new")
	g.Expect(everything.Create(t.Context(), elsewhere, client.DryRunAll)).To(gomega.MatchError(gomega.ContainSubstring("cannot create resource")))
}
