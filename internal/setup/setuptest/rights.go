package setuptest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
)

// Right is something that one may do to objects of a kind.
type Right struct{ Group, Resource, Verb string }

func (r Right) String() string { return r.Verb + " " + r.Resource + "." + r.Group }

// Usage is what an operator asked of the API server. Its Wrap is for the configuration of the operator's client.
type Usage struct {
	mu sync.Mutex
	// used holds, by namespace, the rights that a request needed.
	used    map[string]map[Right]bool
	refused []string
	audits  int
}

var requestInfos = apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// Wrap lets requests through; it is a wrapper for rest.Config.Wrap.
func (u *Usage) Wrap(next http.RoundTripper) http.RoundTripper {
	return controllertest.RoundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		info, parseErr := requestInfos.NewRequestInfo(request)
		if parseErr != nil {
			return response, parseErr
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		if err == nil && response.StatusCode == http.StatusForbidden {
			u.refused = append(u.refused, fmt.Sprintf("%s %s (%s)", info.Verb, request.URL.Path, info.Namespace))
		}
		if !info.IsResourceRequest {
			return response, err
		}
		resource := info.Resource
		if info.Subresource != "" {
			resource += "/" + info.Subresource
		}
		if u.used == nil {
			u.used = map[string]map[Right]bool{}
		}
		if u.used[info.Namespace] == nil {
			u.used[info.Namespace] = map[Right]bool{}
		}
		u.used[info.Namespace][Right{info.APIGroup, resource, info.Verb}] = true
		if resource == "jobs" && request.URL.Query().Get("limit") == "500" {
			u.audits++
		}
		return response, err
	})
}

// In returns the rights that requests needed in a namespace, or, for "", in the whole cluster.
func (u *Usage) In(namespace string) map[Right]bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.used[namespace])
}

// Namespaces lists the namespaces of requests, with "" for the whole cluster.
func (u *Usage) Namespaces() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Collect(maps.Keys(u.used))
}

// Audits returns how often caches were compared with the API server.
func (u *Usage) Audits() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.audits
}

// CheckRefused expects that the API server allowed every request.
func (u *Usage) CheckRefused(t *testing.T) {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, refused := range u.refused {
		t.Errorf("the operator may not %s", refused)
	}
}

// InstallRights applies what the chart renders of accounts, rights and Secrets. It returns the way to the API server of the operator's own account,
// and its rights by namespace, "" for those in the whole cluster. All of it is deleted at the end of the test.
func InstallRights(t *testing.T, admin *rest.Config, c client.Client, namespace, values string) (*rest.Config, map[string]map[Right]bool) {
	t.Helper()
	objects := renderChart(t, namespace, values)
	var account string
	roles, granted := map[string][]rbacv1.PolicyRule{}, map[string]map[Right]bool{}
	for _, object := range objects {
		switch kind := object.GetKind(); kind {
		case "Deployment":
			account, _, _ = unstructured.NestedString(object.Object, "spec", "template", "spec", "serviceAccountName")
			continue
		case "Role", "ClusterRole":
			var role rbacv1.ClusterRole
			decode(t, object, &role)
			roles[object.GetNamespace()+"/"+object.GetName()] = role.Rules
		case "RoleBinding", "ClusterRoleBinding", "ServiceAccount", "Secret":
		default:
			continue
		}
		Create(t, c, object)
		t.Cleanup(func() {
			if err := c.Delete(context.WithoutCancel(t.Context()), object); err != nil {
				t.Error(err)
			}
		})
	}
	for _, object := range objects {
		var binding rbacv1.ClusterRoleBinding
		if !strings.HasSuffix(object.GetKind(), "RoleBinding") {
			continue
		}
		decode(t, object, &binding)
		if !slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return s.Namespace == namespace && s.Name == account }) {
			continue
		}
		in := object.GetNamespace()
		role := "/" + binding.RoleRef.Name
		if binding.RoleRef.Kind == "Role" {
			role = in + role
		}
		if granted[in] == nil {
			granted[in] = map[Right]bool{}
		}
		maps.Copy(granted[in], rights(roles[role]))
	}
	return configOf(t, admin, c, namespace, account), granted
}

func rights(rules []rbacv1.PolicyRule) map[Right]bool {
	all := map[Right]bool{}
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all[Right{group, resource, verb}] = true
				}
			}
		}
	}
	return all
}

// configOf is the way to the API server of a ServiceAccount, by its token.
func configOf(t *testing.T, admin *rest.Config, c client.Client, namespace, account string) *rest.Config {
	t.Helper()
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken, config.QPS = Token(t, c, namespace, account), -1
	return config
}

// renderChart is what helm would install.
func renderChart(t *testing.T, namespace, values string) []*unstructured.Unstructured {
	t.Helper()
	helm := os.Getenv("HELM")
	if helm == "" {
		const message = "HELM does not name the helm binary; make test-integration does"
		if os.Getenv("CI") == "true" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	home := t.TempDir()
	file := filepath.Join(home, "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	chart := filepath.Join(controllertest.Root(), "charts", "scanner-operator")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	//nolint:gosec // The program that make has built, on the chart of this repository.
	cmd := exec.CommandContext(ctx, helm, "template", "scanner", chart, "--namespace="+namespace, "--values="+file, "--set=image.repository=scanner-operator")
	// Nothing of the user's own Helm configuration.
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("render the chart: %v: %s", err, stderr.String())
	}
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(out), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatal(err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

func decode(t *testing.T, object *unstructured.Unstructured, into any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
		t.Fatal(err)
	}
}
