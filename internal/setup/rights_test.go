package setup_test

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
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/scanner-operator/scanner-operator/internal/setup"
)

// right is something that one may do to objects of a kind.
type right struct{ group, resource, verb string }

func (r right) String() string { return r.verb + " " + r.resource + "." + r.group }

// seldom are rights that no run of this test is sure to use, and what shows that they are needed.
var seldom = map[right]string{
	{"scanner.zoltankerezsi.xyz", "scanners/finalizers", "update"}: "the API server asks itself whether a Job may have an owner that blocks its deletion",
	{"events.k8s.io", "events", "patch"}:                           "the same event is counted when it comes again before the Scanner has changed",
}

// clusterWide are resources without a namespace.
var clusterWide = map[string]bool{"nodes": true, "namespaces": true}

// usage is what an operator asked of the API server.
type usage struct {
	mu sync.Mutex
	// used holds, by namespace, the rights that a request needed.
	used map[string]map[right]bool
	// refused are requests that the API server did not allow.
	refused []string
	audits  int
}

var requestInfos = apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

func (u *usage) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
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
		if u.used[info.Namespace] == nil {
			u.used[info.Namespace] = map[right]bool{}
		}
		u.used[info.Namespace][right{info.APIGroup, resource, info.Verb}] = true
		if resource == "jobs" && request.URL.Query().Get("limit") == "500" {
			u.audits++
		}
		return response, err
	})
}

// in returns the rights that requests needed in a namespace.
func (u *usage) in(namespace string) map[right]bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.used[namespace])
}

func (u *usage) audited() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.audits
}

// installRights applies what the chart renders of accounts, rights and Secrets. It returns the way to the API server of the operator's own account,
// and its rights by namespace, "" for those in the whole cluster.
func installRights(t *testing.T, admin *rest.Config, c client.Client, namespace, values string) (*rest.Config, map[string]map[right]bool) {
	t.Helper()
	objects := renderChart(t, namespace, values)
	var account string
	roles, granted := map[string][]rbacv1.PolicyRule{}, map[string]map[right]bool{}
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
		create(t, c, object)
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
			granted[in] = map[right]bool{}
		}
		maps.Copy(granted[in], rights(roles[role]))
	}
	return configOf(t, admin, c, namespace, account), granted
}

func rights(rules []rbacv1.PolicyRule) map[right]bool {
	all := map[right]bool{}
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all[right{group, resource, verb}] = true
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
	config.BearerToken, config.QPS = tokenOf(t, c, namespace, account), -1
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
	chart := filepath.Join("..", "..", "charts", "scanner-operator")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
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

// strictCluster is an API server that asks whether one may give an object an owner that blocks its deletion, and that has caches list objects
// before they watch them, as older ones do.
func strictCluster(t *testing.T) (*rest.Config, client.Client) {
	t.Helper()
	needCluster(t)
	env := &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join("..", "..", "config", "crd", "bases")}, ErrorIfCRDPathMissing: true}
	env.ControlPlane.GetAPIServer().Configure().
		Append("enable-admission-plugins", "OwnerReferencesPermissionEnforcement").
		Append("feature-gates", "WatchList=false")
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	c, err := client.New(config, client.Options{Scheme: setup.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return config, c
}

// watched returns the resources in namespaces that some rights are to watch.
func watched(rights map[right]bool) map[string]bool {
	resources := map[string]bool{}
	for right := range rights {
		if right.verb == "watch" && !clusterWide[right.resource] {
			resources[right.resource] = true
		}
	}
	return resources
}
