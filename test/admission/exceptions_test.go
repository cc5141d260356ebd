package admission_test

import (
	"context"
	"testing"

	"github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
)

// decider returns a client of a user who may write exceptions in the whole cluster.
func (i *installation) decider(t *testing.T, name string) client.Client {
	t.Helper()
	g := gomega.NewWithT(t)
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"scanner.zoltankerezsi.xyz"}, Resources: []string{"clustervulnerabilityexceptions", "vulnerabilityexceptions"}, Verbs: []string{"get", "create", "update", "patch", "delete"},
		}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
		},
	} {
		g.Expect(i.admin.Create(t.Context(), object)).To(gomega.Succeed())
		t.Cleanup(func() { _ = i.admin.Delete(context.Background(), object) })
	}
	config := controllertest.Config(t)
	config.Impersonate = rest.ImpersonationConfig{UserName: name}
	c, err := client.New(config, client.Options{Scheme: i.admin.Scheme()})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	return c
}

const author = "scanner.zoltankerezsi.xyz/author"

// exception returns an exception that names an author, nobody if it is "".
func exception(name, by string) *unstructured.Unstructured {
	e := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scanner.zoltankerezsi.xyz/v1alpha1", "kind": "ClusterVulnerabilityException", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"status": "Fixed", "match": map[string]any{"vulnerabilities": []any{"CVE-1999-0001"}}},
	}}
	if by != "" {
		e.SetAnnotations(map[string]string{author: by})
	}
	return e
}

// TestExceptionAuthors: nobody but the operator names another user as the author of an exception, or takes the name of another one away without a decision.
func TestExceptionAuthors(t *testing.T) {
	i := install(t, "")
	g := gomega.NewWithT(t)
	jane, john := i.decider(t, "jane"), i.decider(t, "john")
	create := func(c client.Client, author string) error {
		return c.Create(t.Context(), exception("new", author), client.DryRunAll)
	}
	// Rights and policies take a moment.
	for _, c := range []client.Client{jane, john, i.own} {
		g.Eventually(func() error { return create(c, "") }, patience, tick).Should(gomega.Succeed())
	}
	g.Eventually(func() error { return create(jane, "john") }, patience, tick).Should(denied(`must be absent or "jane"`))
	g.Expect(create(jane, "jane")).To(gomega.Succeed())
	g.Expect(create(jane, "jane ")).To(denied("exception-authors"))
	g.Expect(create(i.own, "john")).To(gomega.Succeed(), "the operator writes for users")
	for by, matches := range map[string]gomega.OmegaMatcher{"john": denied("exception-authors"), "jane": gomega.Succeed(), "": gomega.Succeed()} {
		namespaced := exception("new", by)
		namespaced.SetKind("VulnerabilityException")
		namespaced.SetNamespace(metav1.NamespaceDefault)
		g.Expect(jane.Create(t.Context(), namespaced, client.DryRunAll)).To(matches, "in a namespace, by %q", by)
	}

	g.Expect(i.own.Create(t.Context(), exception("by-jane", "jane"))).To(gomega.Succeed())
	t.Cleanup(func() { _ = i.admin.Delete(context.Background(), exception("by-jane", "")) })
	patch := func(c client.Client, text string) error {
		return c.Patch(t.Context(), exception("by-jane", ""), client.RawPatch("application/merge-patch+json", []byte(text)), client.DryRunAll)
	}
	const changes, names = `"spec":{"status":"FalsePositive"}`, `"annotations":{"` + author + `":`
	for _, try := range []struct {
		user    client.Client
		patch   string
		allowed bool
		why     string
	}{
		{john, `{` + changes + `}`, false, "it would still say that Jane decided"},
		{john, `{` + changes + `,"metadata":{` + names + `"john"}}}`, true, "he says that he decided"},
		{john, `{` + changes + `,"metadata":{` + names + `null}}}`, true, "he says nothing"},
		{john, `{"metadata":{` + names + `"jim"}}}`, false, "it would say that Jim decided"},
		{john, `{"metadata":{` + names + `null}}}`, false, "Jane has still decided"},
		{john, `{"metadata":{"annotations":null}}`, false, "Jane has still decided, whatever else he removes"},
		{john, `{"metadata":{` + names + `"john"}}}`, false, "it is the decision of Jane"},
		{jane, `{"metadata":{` + names + `null}}}`, true, "she takes her own name back"},
		{john, `{"metadata":{"labels":{"team":"shop"}}}`, true, "labels decide nothing"},
		{jane, `{` + changes + `}`, true, "she is the author"},
		{i.own, `{` + changes + `,"metadata":{` + names + `"john"}}}`, true, "the operator writes for users"},
	} {
		matches := denied("exception-authors")
		if try.allowed {
			matches = gomega.Succeed()
		}
		if try.user == i.own {
			e := exception("by-jane", "")
			g.Expect(i.own.Get(t.Context(), client.ObjectKeyFromObject(e), e)).To(gomega.Succeed())
			e.SetAnnotations(map[string]string{author: "john"})
			g.Expect(unstructured.SetNestedField(e.Object, "FalsePositive", "spec", "status")).To(gomega.Succeed())
			g.Expect(i.own.Update(t.Context(), e, client.DryRunAll)).To(matches, try.why)
			continue
		}
		g.Expect(patch(try.user, try.patch)).To(matches, try.why)
	}
}
