package auth_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

func TestMain(m *testing.M) { os.Exit(controllertest.Main(m)) }

// standingClock is a clock that stands until it is moved.
type standingClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *standingClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *standingClock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// person is somebody with a token of a real API server, and a guard that asks this server.
type person struct {
	*gomega.WithT
	t       *testing.T
	c       client.Client
	reviews auth.Reviews
	guard   *auth.Guard
	clock   *standingClock
	account *corev1.ServiceAccount
	token   string
	role    string
}

func newPerson(t *testing.T, namespaces *[]string) *person {
	t.Helper()
	config, scheme := controllertest.Config(t), controllertest.Scheme(t)
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	*namespaces = []string{controllertest.Namespace(t, c), controllertest.Namespace(t, c), controllertest.Namespace(t, c)}
	slices.Sort(*namespaces)
	p := &person{
		WithT: gomega.NewWithT(t), t: t, c: c, clock: &standingClock{now: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)},
		account: &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: (*namespaces)[0], Name: "person"}},
		role:    "reads-results-" + (*namespaces)[0],
	}
	p.must(c.Create(t.Context(), p.account))
	p.must(c.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: p.role}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"scanner.zoltankerezsi.xyz"}, Resources: []string{"scanresults"}, Verbs: []string{"get", "list"}},
	}}))
	set, err := kubernetes.NewForConfig(config)
	p.must(err)
	token, err := set.CoreV1().ServiceAccounts(p.account.Namespace).CreateToken(t.Context(), p.account.Name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{auth.Audience}}}, metav1.CreateOptions{})
	p.must(err)
	p.token = token.Status.Token
	httpClient, err := rest.HTTPClientFor(config)
	p.must(err)
	p.reviews, err = auth.NewReviews(config, httpClient)
	p.must(err)
	p.guard = auth.New(auth.Config{
		Mode: auth.Kubernetes, Reviews: p.reviews, Clock: p.clock.Now, Namespaces: func(context.Context) ([]string, error) { return *namespaces, nil },
		Limits: auth.RateLimits{RequestRate: 1e6, RequestBurst: 1e6, FailureRate: 1e6, FailureBurst: 1e6},
	})
	return p
}

func (p *person) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// bind lets the person read results in a namespace.
func (p *person) bind(namespace string) *rbacv1.RoleBinding {
	p.t.Helper()
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "person"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: p.role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: p.account.Namespace, Name: p.account.Name}},
	}
	p.must(p.c.Create(p.t.Context(), binding))
	return binding
}

// settled waits until the API server says that the person may read in a namespace, or may not: its authorizer follows RoleBindings with a delay.
func (p *person) settled(namespace string, allowed bool) {
	p.t.Helper()
	p.Eventually(func() (bool, error) {
		review, err := p.reviews.Access.Create(p.t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + p.account.Namespace + ":" + p.account.Name, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Group: "scanner.zoltankerezsi.xyz", Resource: "scanresults", Verb: "list",
			},
		}}, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return review.Status.Allowed, nil
	}, controllertest.Patience, controllertest.Tick).Should(gomega.Equal(allowed))
}

// admit lets a request of the person in, and returns what it sees.
func (p *person) admit() (auth.Admission, store.Namespaces, error) {
	p.t.Helper()
	request := httptest.NewRequestWithContext(p.t.Context(), http.MethodGet, "/", nil)
	request.Header.Set("Authorization", "Bearer "+p.token)
	ctx, err := p.guard.Admit(request, auth.Requirement{Verb: auth.VerbList})
	if err != nil {
		return auth.Admission{}, store.Namespaces{}, err
	}
	admission, _ := auth.AdmissionOf(ctx)
	return admission, auth.Visible(ctx), nil
}

func (p *person) expectSees(step string, want ...string) auth.Admission {
	p.t.Helper()
	admission, got, err := p.admit()
	if err != nil || got.All() || !slices.Equal(got.Names(), want) {
		p.t.Fatalf("%s: sees %v (all: %t), %v; want %v", step, got.Names(), got.All(), err, want)
	}
	return admission
}

// TestVisibleNamespaces gives a real account RoleBindings, and takes them away.
func TestVisibleNamespaces(t *testing.T) {
	var names []string
	p := newPerson(t, &names)
	refused := func(step string, err error) {
		t.Helper()
		if denied, ok := problem.As(err); !ok || denied.Status != http.StatusForbidden {
			t.Fatalf("%s: %v, want 403", step, err)
		}
	}
	_, _, err := p.admit()
	refused("without a RoleBinding", err)

	first := p.bind(names[0])
	p.settled(names[0], true)
	_, _, err = p.admit()
	refused("while the refusal is cached", err)
	p.clock.pass(11 * time.Second)
	p.expectSees("with one RoleBinding", names[0])
	second := p.bind(names[2])
	p.settled(names[2], true)
	p.clock.pass(11 * time.Second)
	admission := p.expectSees("with two RoleBindings", names[0], names[2])

	// A permission that is revoked ends within a minute, as do WebSockets: they are checked every 20 seconds at least.
	p.must(p.c.Delete(t.Context(), first))
	p.settled(names[0], false)
	p.expectSees("while the permission is cached", names[0], names[2])
	p.clock.pass(36 * time.Second)
	if err := p.guard.Readmit(t.Context(), admission); !errors.Is(err, auth.ErrNamespacesChanged) {
		t.Errorf("a WebSocket after 36 seconds: %v", err)
	}
	admission = p.expectSees("with one RoleBinding revoked", names[2])
	if err := p.guard.Readmit(t.Context(), admission); err != nil {
		t.Errorf("a WebSocket that was opened since: %v", err)
	}
	p.must(p.c.Delete(t.Context(), second))
	p.settled(names[2], false)
	p.clock.pass(36 * time.Second)
	refused("a WebSocket with both revoked", p.guard.Readmit(t.Context(), admission))
	_, _, err = p.admit()
	refused("with both revoked", err)

	everywhere := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: p.role}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: p.role},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: p.account.Namespace, Name: p.account.Name}},
	}
	p.must(p.c.Create(t.Context(), everywhere))
	t.Cleanup(func() { _ = p.c.Delete(context.WithoutCancel(t.Context()), everywhere) })
	p.settled("", true)
	p.clock.pass(11 * time.Second)
	if _, got, err := p.admit(); err != nil || !got.All() {
		t.Errorf("with a ClusterRoleBinding: sees %v, %v", got.Names(), err)
	}
}
