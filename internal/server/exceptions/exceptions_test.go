package exceptions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
)

func TestMain(m *testing.M) { os.Exit(controllertest.Main(m)) }

func refTo(t *testing.T, name string) Ref {
	t.Helper()
	ref, err := NewRef("ClusterVulnerabilityException", "", name)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func specOf(status scannerv1alpha1.FindingStatus) scannerv1alpha1.ExceptionSpec {
	return scannerv1alpha1.ExceptionSpec{Match: scannerv1alpha1.ExceptionMatch{Vulnerabilities: []string{"CVE-1999-0001"}}, Status: status}
}

// is checks that an error is a problem with a status and a text.
func is(t *testing.T, err error, status int, text string) {
	t.Helper()
	p, ok := problem.As(err)
	if !ok || p.Status != status || !strings.Contains(p.Detail, text) {
		t.Errorf("got %v, want %d with %q", err, status, text)
	}
}

// busy is a reader after which the status of each object changes, as often as it says.
type busy struct {
	client.Client
	changes int
}

func (b *busy) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	if err := b.Client.Get(ctx, key, object, opts...); err != nil || b.changes == 0 {
		return err
	}
	b.changes--
	after, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is not an object", object)
	}
	patch := fmt.Sprintf(`{"status":{"matchedFindings":%d}}`, b.changes)
	return b.Status().Patch(ctx, after, client.RawPatch("application/merge-patch+json", []byte(patch)))
}

// unannounced is an announcement of a deletion that nobody reads.
func unannounced(context.Context, string) error { return nil }

func TestExceptions(t *testing.T) {
	g := gomega.NewWithT(t)
	kube, err := client.New(controllertest.Config(t), client.Options{Scheme: controllertest.Scheme(t, scannerv1alpha1.AddToScheme)})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	reader := &busy{Client: kube}
	c, ctx, ref := New(reader, kube), t.Context(), refTo(t, "decided")

	_, err = c.Get(ctx, ref)
	is(t, err, 404, "does not exist")
	_, err = c.Create(ctx, ref, specOf("AcceptedRisk"), "jane", true)
	is(t, err, 422, "status AcceptedRisk needs a comment")
	_, err = c.Create(ctx, ref, specOf("Other"), "jane", true)
	is(t, err, 422, "spec.status")
	_, err = c.Create(ctx, refTo(t, "Not_A_Name"), specOf("Fixed"), "jane", false)
	is(t, err, 422, "metadata.name")
	dry, err := c.Create(ctx, refTo(t, ""), specOf("Fixed"), "jane", true)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	_, err = c.Get(ctx, dry.Ref)
	is(t, err, 404, "does not exist")

	created, err := c.Create(ctx, ref, specOf("Fixed"), "jane", false)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	t.Cleanup(func() {
		_ = kube.Delete(context.Background(), &scannerv1alpha1.ClusterVulnerabilityException{ObjectMeta: metav1.ObjectMeta{Name: ref.Name}})
	})
	found, err := c.Get(ctx, ref)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(found.Author).To(gomega.Equal("jane"))
	g.Expect(found.Version).To(gomega.Equal(created.Version))
	g.Expect(found.Spec.Status).To(gomega.BeEquivalentTo("Fixed"))
	g.Expect(found.Managers).To(gomega.HaveLen(1))
	g.Expect(found.Managers[0].Name).To(gomega.Equal(FieldManager))
	g.Expect(found.ManagedBy).To(gomega.BeEmpty())
	_, err = c.Create(ctx, ref, specOf("Fixed"), "john", false)
	is(t, err, 409, "exists already")

	// The status changes while the spec is changed, but not for ever.
	reader.changes = 2
	changed, err := c.Update(ctx, ref, specOf("FalsePositive"), "john", Change{Version: found.Version})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(changed.Author).To(gomega.Equal("john"))
	g.Expect(changed.Version).NotTo(gomega.Equal(found.Version))
	reader.changes = attempts
	_, err = c.Update(ctx, ref, specOf("Fixed"), "john", Change{Version: changed.Version})
	is(t, err, 409, "has changed")
	reader.changes = 0
	_, err = c.Update(ctx, ref, specOf("Fixed"), "jane", Change{Version: found.Version})
	is(t, err, 409, "has changed since you read it")
	is(t, c.Delete(ctx, ref, Change{Version: found.Version}, unannounced), 409, "has changed since you read it")
	_, err = c.Update(ctx, ref, specOf("AcceptedRisk"), "jane", Change{DryRun: true})
	is(t, err, 422, "needs a comment")

	// What another tool manages is not changed without saying so.
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"kustomize.toolkit.fluxcd.io/name":"security"}}}`))
	g.Expect(kube.Patch(ctx, &scannerv1alpha1.ClusterVulnerabilityException{ObjectMeta: metav1.ObjectMeta{Name: ref.Name}}, patch)).To(gomega.Succeed())
	_, err = c.Update(ctx, ref, specOf("Fixed"), "jane", Change{Version: changed.Version})
	is(t, err, 409, "Flux (security) manages")
	is(t, c.Delete(ctx, ref, Change{Version: changed.Version}, unannounced), 409, "Flux (security) manages")
	changed, err = c.Update(ctx, ref, specOf("Fixed"), "", Change{Version: changed.Version, OverrideManager: true})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(changed.Author).To(gomega.BeEmpty())
	g.Expect(changed.ManagedBy).To(gomega.Equal([]Tool{{Name: "Flux", Source: "security"}}))
	refused := errors.New("not announced")
	g.Expect(c.Delete(ctx, ref, Change{Version: changed.Version, OverrideManager: true}, func(_ context.Context, uid string) error {
		g.Expect(uid).NotTo(gomega.BeEmpty())
		return refused
	})).To(gomega.MatchError(refused))
	g.Expect(c.Delete(ctx, ref, Change{Version: changed.Version, OverrideManager: true}, unannounced)).To(gomega.Succeed())
	is(t, c.Delete(ctx, ref, Change{Version: changed.Version}, unannounced), 404, "does not exist")
}

// TestNamespacedExceptions writes exceptions with the same name in two namespaces.
func TestNamespacedExceptions(t *testing.T) {
	g := gomega.NewWithT(t)
	kube, err := client.New(controllertest.Config(t), client.Options{Scheme: controllertest.Scheme(t, scannerv1alpha1.AddToScheme)})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	c, ctx := New(kube, kube), t.Context()
	in := func(namespace string) Ref {
		t.Helper()
		ref, err := NewRef("VulnerabilityException", namespace, "decided")
		g.Expect(err).NotTo(gomega.HaveOccurred())
		return ref
	}
	shop, bank := in(controllertest.Namespace(t, kube)), in(controllertest.Namespace(t, kube))
	created, err := c.Create(ctx, shop, specOf("Fixed"), "jane", false)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(created.Ref.Namespace).To(gomega.Equal(shop.Namespace))
	_, err = c.Get(ctx, bank)
	is(t, err, 404, bank.Namespace+"/decided does not exist")
	_, err = c.Create(ctx, bank, specOf("FalsePositive"), "john", false)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	selecting := specOf("Fixed")
	selecting.Match.NamespaceSelector = &metav1.LabelSelector{}
	_, err = c.Update(ctx, shop, selecting, "jane", Change{DryRun: true})
	is(t, err, 422, "a VulnerabilityException has no namespaceSelector")
	_, err = c.Create(ctx, in("absent"), specOf("Fixed"), "jane", true)
	is(t, err, 422, "the namespace absent does not exist")
	changed, err := c.Update(ctx, shop, specOf("FalsePositive"), "jane", Change{Version: created.Version})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(c.Delete(ctx, shop, Change{Version: changed.Version}, unannounced)).To(gomega.Succeed())
	found, err := c.Get(ctx, bank)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(found.Author).To(gomega.Equal("john"))
}

func TestRefs(t *testing.T) {
	for _, test := range []struct{ kind, namespace, want string }{
		{"ClusterVulnerabilityException", "", ""}, {"ClusterVulnerabilityException", "shop", "has no namespaces"}, {"Pod", "", "is not a kind of exceptions"},
		{"VulnerabilityException", "shop", ""}, {"VulnerabilityException", "", "namespace is required"},
	} {
		_, err := NewRef(test.kind, test.namespace, "a")
		if test.want == "" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		is(t, err, 400, test.want)
	}
}

func TestManagers(t *testing.T) {
	e := &scannerv1alpha1.ClusterVulnerabilityException{}
	o := object{e, &e.Spec}
	for want, meta := range map[string]metav1.ObjectMeta{
		"[]":                   {Labels: map[string]string{"app.kubernetes.io/instance": "shop"}},
		"[Argo CD (shop:a/b)]": {Annotations: map[string]string{"argocd.argoproj.io/tracking-id": "shop:a/b"}, Labels: map[string]string{"argocd.argoproj.io/instance": "shop"}},
		"[Flux (a)]":           {Labels: map[string]string{"helm.toolkit.fluxcd.io/name": "a", "app.kubernetes.io/managed-by": "Helm"}},
		"[Helm (r)]":           {Annotations: map[string]string{"meta.helm.sh/release-name": "r"}, Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"}},
		"[Helm]":               {Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"}},
	} {
		e.ObjectMeta = meta
		if got := fmt.Sprint(managedBy(o)); got != want {
			t.Errorf("%v: %s, want %s", meta, got, want)
		}
	}
	long := strings.Repeat("é", maxText)
	e.ObjectMeta = metav1.ObjectMeta{Annotations: map[string]string{"meta.helm.sh/release-name": long}}
	if got := managedBy(o); len(got[0].Source) > maxText {
		t.Errorf("the source has %d bytes", len(got[0].Source))
	}
	spec := metav1.NewFieldsV1(`{"f:spec":{}}`)
	for n := range maxManagers + 2 {
		at := metav1.NewTime(time.Unix(int64(n), 0))
		e.ManagedFields = append(e.ManagedFields, metav1.ManagedFieldsEntry{Manager: fmt.Sprint("m", n), Time: &at, FieldsV1: spec})
	}
	e.ManagedFields = append(e.ManagedFields,
		metav1.ManagedFieldsEntry{Manager: "status", Subresource: "status", FieldsV1: spec},
		metav1.ManagedFieldsEntry{Manager: "labels", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{}}`)},
		metav1.ManagedFieldsEntry{Manager: "broken", FieldsV1: metav1.NewFieldsV1(`[`)})
	if got := managersOf(o); len(got) != maxManagers || got[0].Name != fmt.Sprint("m", maxManagers+1) {
		t.Errorf("the managers are %+v", got)
	}
}

func TestErrorsOfTheServer(t *testing.T) {
	ref := refTo(t, "a")
	for _, test := range []struct {
		err    error
		status int
		text   string
	}{
		{apierrors.NewForbidden(scannerv1alpha1.GroupVersion.WithResource("x").GroupResource(), "a", fmt.Errorf("policy says no")), 422, "policy says no"},
		{apierrors.NewTimeoutError("slow", 1), 503, "unavailable"},
		{apierrors.NewInternalError(fmt.Errorf("secret")), 503, "unavailable"},
		{context.DeadlineExceeded, 503, "unavailable"},
		{apierrors.NewBadRequest(strings.Repeat("x", 10000)), 422, "refuses"},
	} {
		err := answer(test.err, ref)
		is(t, err, test.status, test.text)
		if p, _ := problem.As(err); len(p.Detail) > 3000 || strings.Contains(p.Detail, "secret") {
			t.Errorf("the detail has %d bytes: %.200s", len(p.Detail), p.Detail)
		}
	}
}
