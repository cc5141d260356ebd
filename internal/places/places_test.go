package places

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

func TestMain(m *testing.M) { os.Exit(controllertest.Main(m)) }

// selector is a selector of labels.
func selector(match ...string) *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	for _, one := range match {
		key, value, equal := strings.Cut(one, "=")
		switch {
		case !equal:
			s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpExists})
		case strings.Contains(value, "|"):
			values := strings.Split(value, "|")
			s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: values})
		default:
			if s.MatchLabels == nil {
				s.MatchLabels = map[string]string{}
			}
			s.MatchLabels[key] = value
		}
	}
	return s
}

func TestTexts(t *testing.T) {
	for _, test := range []struct {
		namespace             string
		namespaces, workloads *metav1.LabelSelector
		want                  string
	}{
		{"shop", nil, nil, "namespace shop"},
		{"shop", nil, selector("app=web"), "namespace shop; workloads with app=web"},
		{"shop", nil, selector(), "namespace shop; all workloads"},
		{"", selector(), nil, "all namespaces"},
		{"", selector("team=a"), selector("tier=b|a", "app=web", "debug"), "namespaces with team=a; workloads with app=web,debug,tier in (a,b)"},
		{"", nil, selector("debug", "app=web", "tier=a|b"), "workloads with app=web,debug,tier in (a,b)"},
	} {
		got, err := Of(test.namespace, &scannerv1alpha1.ExceptionMatch{NamespaceSelector: test.namespaces, WorkloadSelector: test.workloads})
		if err != nil || got.Text != test.want {
			t.Errorf("got %+v, %v, want %q", got, err, test.want)
		}
	}
	policy := &scannerv1alpha1.VulnerabilityPolicySpec{NamespaceSelector: selector("team=a"), WorkloadSelector: selector("debug")}
	if got, err := OfPolicy(policy); err != nil || got.Text != "namespaces with team=a; workloads with debug" {
		t.Errorf("a policy applies in %+v, %v", got, err)
	}
	policy = &scannerv1alpha1.VulnerabilityPolicySpec{NamespaceSelector: selector("not a key")}
	if _, err := OfPolicy(policy); err == nil || !strings.HasPrefix(err.Error(), "spec.namespaceSelector: ") {
		t.Errorf("an invalid selector of a policy is refused with %v", err)
	}
	if got, err := Of("", &scannerv1alpha1.ExceptionMatch{}); got != nil || err != nil {
		t.Errorf("an exception without selectors applies in %+v, %v", got, err)
	}
	for want, match := range map[string]scannerv1alpha1.ExceptionMatch{
		"spec.match.namespaceSelector: a VulnerabilityException": {NamespaceSelector: selector()},
		"spec.match.workloadSelector: ":                          {WorkloadSelector: selector("a=" + strings.Repeat("x", 100_000))},
	} {
		if _, err := Of("shop", &match); err == nil || !strings.HasPrefix(err.Error(), want) || len(err.Error()) > maxMessage {
			t.Errorf("got %.200v, want %s", err, want)
		}
	}
}

// paged reads pages of a few objects.
type paged struct{ client.Reader }

func (p paged) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return p.Reader.List(ctx, list, append(opts, client.Limit(2))...)
}

// TestLive resolves selections with what the API server has.
func TestLive(t *testing.T) {
	c, err := client.New(controllertest.Config(t), client.Options{Scheme: controllertest.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	shop, bank := controllertest.Namespace(t, c), controllertest.Namespace(t, c)
	pod := func(namespace, name, app string, owner *metav1.OwnerReference) {
		t.Helper()
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app, appsv1.DefaultDeploymentUniqueLabelKey: "5d4f"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}},
		}
		if owner != nil {
			owner.APIVersion, owner.UID, owner.Controller = "apps/v1", "uid", new(true)
			p.OwnerReferences = []metav1.OwnerReference{*owner}
		}
		if err := c.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, "ended") {
			p.Status.Phase = corev1.PodFailed
			if err := c.Status().Update(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
	}
	web, db := &metav1.OwnerReference{Kind: "ReplicaSet", Name: "web-5d4f"}, &metav1.OwnerReference{Kind: "StatefulSet", Name: "db"}
	pod(shop, "web-1", "web", web)
	pod(shop, "web-2", "web", web)
	pod(shop, "ended", "other", web)
	pod(shop, "db-0", "web", db)
	pod(shop, "db-1", "db", db)
	pod(shop, "single", "web", nil)
	pod(bank, "single", "web", nil)
	both := strings.Join(slices.Sorted(slices.Values([]string{shop + "/Pod/single", bank + "/Pod/single", shop + "/Deployment/web"})), " ")
	for _, test := range []struct {
		namespace             string
		namespaces, workloads *metav1.LabelSelector
		want                  string
	}{
		{shop, nil, nil, shop},
		{shop, nil, selector("app=web"), shop + "/Deployment/web " + shop + "/Pod/single"},
		{shop, nil, selector("app=web|db"), shop + "/Deployment/web " + shop + "/Pod/single " + shop + "/StatefulSet/db"},
		{"", selector(corev1.LabelMetadataName + "=" + bank), nil, bank},
		{"", selector(corev1.LabelMetadataName + "=" + bank), selector("app=web"), bank + "/Pod/single"},
		{"", nil, selector("app=web"), both},
		{"", selector("absent"), selector(), ""},
	} {
		s, err := Of(test.namespace, &scannerv1alpha1.ExceptionMatch{NamespaceSelector: test.namespaces, WorkloadSelector: test.workloads})
		if err != nil {
			t.Fatal(err)
		}
		// Other tests have namespaces of their own.
		r := &Resolver{Reader: paged{c}, Live: true, In: func(namespace string) bool { return namespace == shop || namespace == bank }}
		got, err := r.Resolve(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, text(got)); diff != "" || got.Selector != s.Text {
			t.Errorf("%s (-want +got):\n%s", s.Text, diff)
		}
	}
	s, err := Of("", &scannerv1alpha1.ExceptionMatch{WorkloadSelector: selector("app=web")})
	if err != nil {
		t.Fatal(err)
	}
	r := &Resolver{Reader: c, Live: true, livePods: MaxLivePods - 3}
	if _, err := r.Resolve(t.Context(), s); !errors.Is(err, ErrTooManyPods) {
		t.Errorf("reading too many pods ends with %v", err)
	}
}

// text is a place in one line, sorted.
func text(places *store.DecisionPlaces) string {
	all := slices.Clone(places.Namespaces)
	for _, w := range places.Workloads {
		all = append(all, fmt.Sprintf("%s/%s/%s", w.Namespace, w.Kind, w.Name))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
