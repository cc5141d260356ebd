// Package chart_test renders the Helm chart in many ways and judges the objects that come out.
package chart_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

const (
	chartDir  = "../../charts/scanner-operator"
	namespace = "scanner-system"
	image     = "ghcr.io/scanner-operator/scanner-operator:dev"
)

func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	binary := os.Getenv("HELM")
	if binary == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("HELM does not name the helm binary; run make test-chart")
		}
		t.Skip("HELM does not name the helm binary; run make test-chart")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	// Nothing of the user's own Helm configuration.
	home := t.TempDir()
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", errors.New(err.Error() + ": " + stderr.String())
	}
	return stdout.String(), nil
}

// release is what "helm install scanner" would create.
type release struct {
	Deployment *appsv1.Deployment
	Objects    []runtime.Object
}

func (r release) pod() corev1.PodSpec         { return r.Deployment.Spec.Template.Spec }
func (r release) container() corev1.Container { return r.pod().Containers[0] }

func find[T runtime.Object](r release) []T {
	var found []T
	for _, obj := range r.Objects {
		if typed, ok := obj.(T); ok {
			found = append(found, typed)
		}
	}
	return found
}

func name(t *testing.T, obj runtime.Object) string {
	t.Helper()
	m, ok := obj.(metav1.Object)
	if !ok {
		t.Fatalf("%T has no metadata", obj)
	}
	return m.GetName()
}

// render renders the chart with values and decodes every object strictly: a field that does not exist is an error.
func render(t *testing.T, values string, args ...string) release {
	t.Helper()
	out, err := template(t, values, args...)
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme, networkingv1.AddToScheme,
		policyv1.AddToScheme, admissionv1.AddToScheme, apiextensionsv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	var r release
	documents := yaml.NewDocumentDecoder(io.NopCloser(strings.NewReader(out)))
	defer func() { _ = documents.Close() }()
	buf := make([]byte, 1<<20)
	for {
		n, err := documents.Read(buf)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		var meta metav1.TypeMeta
		if err := sigsyaml.Unmarshal(buf[:n], &meta); err != nil {
			t.Fatalf("%v in\n%s", err, buf[:n])
		}
		if meta.Kind == "" {
			continue
		}
		if meta.Kind == "ServiceMonitor" {
			u := &unstructured.Unstructured{}
			if err := sigsyaml.UnmarshalStrict(buf[:n], &u.Object); err != nil {
				t.Fatal(err)
			}
			r.Objects = append(r.Objects, u)
			continue
		}
		obj, _, err := decoder.Decode(buf[:n], nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, buf[:n])
		}
		r.Objects = append(r.Objects, obj)
	}
	deployments := find[*appsv1.Deployment](r)
	if len(deployments) != 1 {
		t.Fatalf("%d Deployments, want 1", len(deployments))
	}
	r.Deployment = deployments[0]
	return r
}

func template(t *testing.T, values string, args ...string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"template", "scanner", chartDir, "--namespace", namespace, "--values", file}, args...)
	return helm(t, args...)
}

// variants are releases that must all be sound.
func variants(t *testing.T) map[string]release {
	t.Helper()
	all := map[string]string{"defaults": ""}
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no values files in testdata: %v", err)
	}
	for _, file := range files {
		values, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = string(values)
	}
	releases := map[string]release{}
	for file, values := range all {
		releases[file] = render(t, values)
	}
	return releases
}

func TestLint(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if _, err := helm(t, "lint", "--strict", chartDir, "--values", file); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestNames(t *testing.T) {
	r := render(t, "")
	got := map[string][]string{}
	for _, obj := range r.Objects {
		kind := obj.GetObjectKind().GroupVersionKind().Kind
		got[kind] = append(got[kind], name(t, obj))
	}
	want := map[string][]string{
		"Deployment":     {"scanner-controller-manager"},
		"Service":        {"scanner-controller-manager-api-service", "scanner-controller-manager-metrics-service"},
		"ServiceAccount": {"scanner-controller-manager"},
		"CustomResourceDefinition": {
			"mycustomresources.poc.test.domain", "podsets.app.example.com",
			"scanners.scanner.zoltankerezsi.xyz", "sheroes.stable.simple-bellerophon.io",
		},
	}
	for kind, names := range want {
		slices.Sort(got[kind])
		if diff := cmp.Diff(names, got[kind]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
}

// TestNamesDiffer installs two releases side by side: nothing that both create may have the same name.
func TestNamesDiffer(t *testing.T) {
	names := func(ns string) map[string]bool {
		found := map[string]bool{}
		for _, obj := range render(t, "crds: {install: false}", "--namespace", ns).Objects {
			m, ok := obj.(metav1.Object)
			if !ok {
				t.Fatalf("%T has no metadata", obj)
			}
			if m.GetNamespace() == "" {
				found[obj.GetObjectKind().GroupVersionKind().Kind+" "+m.GetName()] = true
			}
		}
		return found
	}
	first := names(namespace)
	for n := range names("other") {
		if first[n] {
			t.Errorf("%s is created by releases in two namespaces", n)
		}
	}
}

// TestRestricted checks the manager's pod against the Pod Security Standard "restricted", and more.
func TestRestricted(t *testing.T) {
	for file, r := range variants(t) {
		t.Run(file, func(t *testing.T) {
			pod := r.pod()
			if pod.HostNetwork || pod.HostPID || pod.HostIPC {
				t.Error("the pod shares a namespace with its node")
			}
			sc := pod.SecurityContext
			if sc == nil || sc.RunAsNonRoot == nil || !*sc.RunAsNonRoot || sc.RunAsUser == nil || *sc.RunAsUser == 0 {
				t.Error("the pod may run as root")
			}
			if sc == nil || sc.SeccompProfile == nil || sc.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
				t.Error("the pod has no seccomp profile")
			}
			for _, v := range pod.Volumes {
				if v.HostPath != nil {
					t.Errorf("volume %s is a path of the node", v.Name)
				}
			}
			for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
				checkContainer(t, c)
			}
		})
	}
}

func checkContainer(t *testing.T, c corev1.Container) {
	t.Helper()
	sc := c.SecurityContext
	if sc == nil || sc.AllowPrivilegeEscalation == nil || *sc.AllowPrivilegeEscalation {
		t.Errorf("container %s may escalate its privileges", c.Name)
	}
	if sc == nil || sc.ReadOnlyRootFilesystem == nil || !*sc.ReadOnlyRootFilesystem {
		t.Errorf("container %s may write to its image", c.Name)
	}
	if sc == nil || sc.Capabilities == nil || !slices.Contains(sc.Capabilities.Drop, "ALL") || len(sc.Capabilities.Add) > 0 {
		t.Errorf("container %s keeps capabilities", c.Name)
	}
	if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
		t.Errorf("container %s has no memory limit or no CPU request", c.Name)
	}
}

// rules returns the rules that the operator's own service account is bound to, by the namespace of the role.
func rules(r release) map[string][]rbacv1.PolicyRule {
	found := map[string][]rbacv1.PolicyRule{}
	account := r.pod().ServiceAccountName
	bound := func(subjects []rbacv1.Subject) bool {
		return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool { return s.Name == account && s.Namespace == namespace })
	}
	for _, binding := range find[*rbacv1.ClusterRoleBinding](r) {
		for _, role := range find[*rbacv1.ClusterRole](r) {
			if bound(binding.Subjects) && binding.RoleRef.Name == role.Name {
				found[""] = append(found[""], role.Rules...)
			}
		}
	}
	for _, binding := range find[*rbacv1.RoleBinding](r) {
		for _, role := range find[*rbacv1.Role](r) {
			if bound(binding.Subjects) && binding.RoleRef.Name == role.Name && binding.Namespace == role.Namespace {
				found[role.Namespace] = append(found[role.Namespace], role.Rules...)
			}
		}
	}
	return found
}

func TestLeastPrivilege(t *testing.T) {
	forbiddenResources := []string{
		"secrets", "configmaps", "serviceaccounts", "serviceaccounts/token", "pods/exec", "pods/attach", "pods/portforward",
		"pods/ephemeralcontainers", "nodes/proxy", "roles", "rolebindings", "clusterroles", "clusterrolebindings",
	}
	forbiddenVerbs := []string{"*", "escalate", "bind", "impersonate", "deletecollection", "approve", "sign"}
	for file, r := range variants(t) {
		t.Run(file, func(t *testing.T) {
			for ns, rules := range rules(r) {
				for _, rule := range rules {
					for _, resource := range rule.Resources {
						if resource == "*" || slices.Contains(forbiddenResources, resource) {
							t.Errorf("the operator has %v on %s in namespace %q", rule.Verbs, resource, ns)
						}
					}
					for _, verb := range rule.Verbs {
						if slices.Contains(forbiddenVerbs, verb) {
							t.Errorf("the operator has the verb %s on %v", verb, rule.Resources)
						}
					}
					if slices.Contains(rule.APIGroups, "*") {
						t.Errorf("the operator has rights in all groups: %v", rule)
					}
				}
			}
		})
	}
}

// TestRolesMatchMarkers compares the chart with the role that is generated from the controllers.
func TestRolesMatchMarkers(t *testing.T) {
	text, err := os.ReadFile("../../config/rbac/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := sigsyaml.UnmarshalStrict(text, &role); err != nil {
		t.Fatal(err)
	}
	want := expand(role.Rules)
	if len(want) == 0 {
		t.Fatal("config/rbac/role.yaml has no rules")
	}
	if diff := cmp.Diff(want, expand(rules(render(t, ""))[""])); diff != "" {
		t.Errorf("the whole cluster (-want +got):\n%s", diff)
	}
	some := rules(render(t, "watchNamespaces: [a, b]"))
	for _, ns := range []string{"a", "b"} {
		if diff := cmp.Diff(want, expand(slices.Concat(some[""], some[ns]))); diff != "" {
			t.Errorf("namespace %s (-want +got):\n%s", ns, diff)
		}
	}
	for right := range expand(some[""]) {
		if strings.Contains(right, "/pods ") || strings.Contains(right, "/jobs ") {
			t.Errorf("with watchNamespaces the operator still has %s in the whole cluster", right)
		}
	}
}

func expand(rules []rbacv1.PolicyRule) map[string]bool {
	rights := map[string]bool{}
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					rights[group+"/"+resource+" "+verb] = true
				}
			}
		}
	}
	return rights
}

func TestAggregation(t *testing.T) {
	count := func(values string) int {
		n := 0
		for _, role := range find[*rbacv1.ClusterRole](render(t, values)) {
			for label := range role.Labels {
				if strings.HasPrefix(label, "rbac.authorization.k8s.io/aggregate-to-") {
					n++
				}
			}
		}
		return n
	}
	if got := count(""); got != 5 {
		t.Errorf("%d aggregation labels, want view, edit, admin for viewers and edit, admin for editors", got)
	}
	if got := count("rbac: {aggregate: false}"); got != 0 {
		t.Errorf("%d aggregation labels although rbac.aggregate is false", got)
	}
}

func TestArguments(t *testing.T) {
	tests := map[string]struct {
		values  string
		want    []string
		without []string
	}{
		"defaults": {
			want: []string{
				"manager", "--leader-elect", "--auth=kubernetes", "--catalog=job", "--api-bind-address=:8000",
				"--api-url=http://scanner-controller-manager-api-service.scanner-system.svc:8000",
				"--metrics-bind-address=:8443", "--health-probe-bind-address=:8081",
				"--data-dir=/var/lib/scanner-operator", "--vulnerability-database-interval=2h", "--log-level=info",
			},
			without: []string{"--watch-namespaces", "--plain-http-registries", "--vulnerability-database-url", "--sample-database"},
		},
		"lists": {
			values: `{watchNamespaces: [a, b], plainHTTPRegistries: ["r:5000", s], extraArgs: [--more]}`,
			want:   []string{"--watch-namespaces=a,b", "--plain-http-registries=r:5000,s", "--more"},
		},
		"the sample database": {
			values: `vulnerabilityDatabase: {sample: true}`,
			want:   []string{"--sample-database", "--vulnerability-database-interval=2h"},
		},
		"a mirror": {
			values: `vulnerabilityDatabase: {updateURL: "https://example.com/latest.json", interval: 30m}`,
			want:   []string{"--vulnerability-database-url=https://example.com/latest.json", "--vulnerability-database-interval=30m"},
		},
		"no authentication stays on the loopback interface": {
			values: `{auth: {mode: none}, catalog: {mode: in-process}, metrics: {enabled: false}}`,
			want:   []string{"--auth=none", "--catalog=in-process", "--api-bind-address=127.0.0.1:8000", "--metrics-bind-address=0"},
		},
	}
	for label, test := range tests {
		t.Run(label, func(t *testing.T) {
			args := render(t, test.values).container().Args
			for _, want := range test.want {
				if !slices.Contains(args, want) {
					t.Errorf("%s is missing in %q", want, args)
				}
			}
			for _, flag := range test.without {
				if slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, flag) }) {
					t.Errorf("%s is in %q", flag, args)
				}
			}
		})
	}
}

func env(c corev1.Container, name string) *corev1.EnvVar {
	for _, e := range c.Env {
		if e.Name == name {
			return &e
		}
	}
	return nil
}

func TestDatabase(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		r := render(t, "")
		if got := env(r.container(), "DATABASE_TYPE"); got == nil || got.Value != "sqlite" {
			t.Errorf("DATABASE_TYPE is %v", got)
		}
		if r.Deployment.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
			t.Error("two managers could write one sqlite file during an update")
		}
		if got := find[*corev1.Secret](r); len(got) != 0 {
			t.Errorf("%d Secrets without a data source name", len(got))
		}
	})
	t.Run("the data source name is never in the pod", func(t *testing.T) {
		r := render(t, `{database: {type: postgres, dsn: "postgres://user:password@db/x"}}`)
		dsn := env(r.container(), "DSN")
		if dsn == nil || dsn.Value != "" || dsn.ValueFrom == nil || dsn.ValueFrom.SecretKeyRef == nil {
			t.Fatalf("DSN is %v, want a reference", dsn)
		}
		secrets := find[*corev1.Secret](r)
		if len(secrets) != 1 || secrets[0].Name != dsn.ValueFrom.SecretKeyRef.Name ||
			secrets[0].StringData[dsn.ValueFrom.SecretKeyRef.Key] != "postgres://user:password@db/x" {
			t.Errorf("the reference %v does not lead to the data source name", dsn.ValueFrom.SecretKeyRef)
		}
	})
	t.Run("an existing secret", func(t *testing.T) {
		r := render(t, `{database: {type: mysql, existingSecret: db, existingSecretKey: url}, persistence: {enabled: false}}`)
		dsn := env(r.container(), "DSN")
		if dsn == nil || dsn.ValueFrom.SecretKeyRef.Name != "db" || dsn.ValueFrom.SecretKeyRef.Key != "url" {
			t.Errorf("DSN is %v", dsn)
		}
		if r.Deployment.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
			t.Errorf("the strategy is %s", r.Deployment.Spec.Strategy.Type)
		}
	})
}

func TestImage(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for values, want := range map[string]string{
		"": image,
		`image: {registry: r.example, repository: a/b, tag: "1"}`: "r.example/a/b:1",
		"image: {digest: '" + digest + "'}":                       "ghcr.io/scanner-operator/scanner-operator@" + digest,
		`image: {registry: "", repository: b}`:                    "b:dev",
	} {
		r := render(t, values)
		if got := r.container().Image; got != want {
			t.Errorf("the image is %s, want %s", got, want)
		}
		if got := env(r.container(), "SCAN_IMAGE"); got == nil || got.Value != want {
			t.Errorf("SCAN_IMAGE is %v, want %s", got, want)
		}
		for _, policy := range find[*admissionv1.ValidatingAdmissionPolicy](r) {
			if !strings.Contains(policy.Spec.Validations[0].Expression, `"`+want+`"`) {
				t.Errorf("the admission policy does not allow the image %s", want)
			}
		}
	}
}

func TestPersistence(t *testing.T) {
	claim := func(r release) string {
		for _, v := range r.pod().Volumes {
			if v.Name == "data" && v.PersistentVolumeClaim != nil {
				return v.PersistentVolumeClaim.ClaimName
			}
		}
		return ""
	}
	r := render(t, "persistence: {size: 3Gi, storageClass: fast}")
	claims := find[*corev1.PersistentVolumeClaim](r)
	if len(claims) != 1 || claims[0].Name != claim(r) || claims[0].Spec.Resources.Requests.Storage().String() != "3Gi" ||
		*claims[0].Spec.StorageClassName != "fast" || claims[0].Annotations["helm.sh/resource-policy"] != "keep" {
		t.Errorf("the claims are %v", claims)
	}
	r = render(t, "persistence: {existingClaim: mine}")
	if got := claim(r); got != "mine" || len(find[*corev1.PersistentVolumeClaim](r)) != 0 {
		t.Errorf("the claim is %q", got)
	}
	r = render(t, "persistence: {enabled: false}")
	if got := claim(r); got != "" || len(find[*corev1.PersistentVolumeClaim](r)) != 0 {
		t.Errorf("the claim is %q", got)
	}
}

func TestCRDs(t *testing.T) {
	for _, crd := range find[*apiextensionsv1.CustomResourceDefinition](render(t, "")) {
		if crd.Annotations["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%s would be deleted with the release", crd.Name)
		}
	}
	for _, crd := range find[*apiextensionsv1.CustomResourceDefinition](render(t, "crds: {keep: false}")) {
		if _, keep := crd.Annotations["helm.sh/resource-policy"]; keep {
			t.Errorf("%s is kept", crd.Name)
		}
	}
	if got := find[*apiextensionsv1.CustomResourceDefinition](render(t, "crds: {install: false}")); len(got) != 0 {
		t.Errorf("%d CRDs although crds.install is false", len(got))
	}
}

func TestSelectors(t *testing.T) {
	r := render(t, "networkPolicy: {enabled: true}\npodDisruptionBudget: {enabled: true}\nserviceMonitor: {enabled: true}")
	pod := r.Deployment.Spec.Template.Labels
	ports := map[string]bool{}
	for _, p := range r.container().Ports {
		ports[p.Name] = true
	}
	selects := func(what string, selector map[string]string) {
		if len(selector) == 0 {
			t.Errorf("%s selects everything", what)
		}
		for k, v := range selector {
			if pod[k] != v {
				t.Errorf("%s asks for the label %s=%s, the pod has %q", what, k, v, pod[k])
			}
		}
	}
	selects("the Deployment", r.Deployment.Spec.Selector.MatchLabels)
	for _, s := range find[*corev1.Service](r) {
		selects("Service "+s.Name, s.Spec.Selector)
		for _, p := range s.Spec.Ports {
			if !ports[p.TargetPort.String()] {
				t.Errorf("Service %s leads to the port %s, which the pod does not have", s.Name, p.TargetPort.String())
			}
		}
	}
	for _, p := range find[*networkingv1.NetworkPolicy](r) {
		selects("NetworkPolicy "+p.Name, p.Spec.PodSelector.MatchLabels)
	}
	for _, p := range find[*policyv1.PodDisruptionBudget](r) {
		selects("PodDisruptionBudget "+p.Name, p.Spec.Selector.MatchLabels)
	}
	if got := len(find[*unstructured.Unstructured](r)); got != 1 {
		t.Errorf("%d ServiceMonitors, want 1", got)
	}
}

func TestRefused(t *testing.T) {
	tests := map[string]struct{ values, want string }{
		"an unknown value":            {"replicas: 3", "replicas"},
		"an unknown nested value":     {"database: {url: x}", "url"},
		"an unknown database":         {"database: {type: oracle}", "database.type"},
		"a bad digest":                {"image: {digest: latest}", "image.digest"},
		"a bad duration":              {"vulnerabilityDatabase: {interval: daily}", "interval"},
		"a bad size":                  {"persistence: {size: big}", "persistence.size"},
		"a bad namespace":             {"watchNamespaces: [A_b]", "watchNamespaces"},
		"a bad port":                  {"service: {port: 70000}", "service.port"},
		"a bad authentication":        {"auth: {mode: basic}", "auth.mode"},
		"a bad log level":             {"logLevel: verbose", "logLevel"},
		"two writers on sqlite":       {"replicaCount: 2", "replicaCount above 1"},
		"postgres without an address": {"database: {type: postgres}", "needs database.dsn"},
		"two addresses":               {"database: {type: postgres, dsn: x, existingSecret: s}", "exclude each other"},
		"Jobs without authentication": {"auth: {mode: none}", "in-process"},
		"two replicas on one volume":  {"{replicaCount: 2, database: {type: postgres, dsn: x}}", "ReadWriteMany"},
	}
	for label, test := range tests {
		t.Run(label, func(t *testing.T) {
			_, err := template(t, test.values)
			switch {
			case err == nil:
				t.Errorf("%s was accepted", test.values)
			case !strings.Contains(strings.ReplaceAll(err.Error(), "/", "."), test.want):
				t.Errorf("the error does not name %q: %v", test.want, err)
			}
		})
	}
}
