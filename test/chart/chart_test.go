// Package chart_test renders the Helm chart with different values and checks the objects.
package chart_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

func TestLint(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if _, err := helm(t, "lint", "--strict", chartDir, "--values", valuesFile(t, imageValues), "--values", file); err != nil {
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
			"clusternotificationrules.scanner.zoltankerezsi.xyz", "clustervulnerabilityexceptions.scanner.zoltankerezsi.xyz", "mycustomresources.poc.test.domain",
			"notificationrules.scanner.zoltankerezsi.xyz", "podsets.app.example.com", "reportsinks.scanner.zoltankerezsi.xyz",
			"scanners.scanner.zoltankerezsi.xyz", "sheroes.stable.simple-bellerophon.io", "vexsources.scanner.zoltankerezsi.xyz",
			"vulnerabilityexceptions.scanner.zoltankerezsi.xyz", "vulnerabilitypolicies.scanner.zoltankerezsi.xyz",
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
	if !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool {
		return e.Name == "MEMORY_LIMIT" && e.ValueFrom != nil && e.ValueFrom.ResourceFieldRef != nil && e.ValueFrom.ResourceFieldRef.Resource == "limits.memory"
	}) {
		t.Errorf("container %s does not know its memory limit", c.Name)
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
				"--api-url=https://scanner-controller-manager-api-service.scanner-system.svc:8000",
				"--tls=operator", "--tls-secret=scanner-controller-manager-api-tls",
				"--metrics-bind-address=:8443", "--health-probe-bind-address=:8081",
				"--data-dir=/var/lib/scanner-operator", "--vulnerability-database-interval=2h", "--log-level=info",
				"--history-retention=2160h",
				"--decision-retention=17520h",
				"--event-retention=72h",
				"--api-connections-per-address=200",
				"--write-exceptions=true", "--trust-exception-authors=true",
			},
			without: []string{"--tls-names", "--tls-dir", "--cluster-name", "--database-max-connections", "--watch-namespaces", "--owner-keys", "--base-images", "--plain-http-registries", "--vulnerability-database-url", "--sample-database"},
		},
		"lists": {
			values: `{watchNamespaces: [a, b], ownership: {keys: [team, example.com/owner]}, baseImages: [registry.example/base/*, docker.io/library/debian], plainHTTPRegistries: ["r:5000", s], extraArgs: [--more]}`,
			want:   []string{"--watch-namespaces=a,b", "--owner-keys=team,example.com/owner", "--base-images=registry.example/base/*,docker.io/library/debian", "--plain-http-registries=r:5000,s", "--more"},
		},
		"connections to the database": {
			values: `database: {maxConnections: 40}`,
			want:   []string{"--database-max-connections=40"},
		},
		"exceptions from elsewhere": {
			values: `{api: {writeExceptions: false}, admissionPolicy: {enabled: false}}`,
			want:   []string{"--write-exceptions=false", "--trust-exception-authors=false"},
		},
		"a proxy that limits connections": {
			values: `api: {connectionsPerAddress: -1}`,
			want:   []string{"--api-connections-per-address=-1"},
		},
		"history": {
			values: `{history: {retention: 720h}, decisions: {retention: 61320h}, events: {retention: 24h}, clusterName: production}`,
			want:   []string{"--history-retention=720h", "--decision-retention=61320h", "--event-retention=24h", "--cluster-name=production"},
		},
		"the sample database": {
			values: `vulnerabilityDatabase: {sample: true}`,
			want:   []string{"--sample-database", "--vulnerability-database-interval=2h"},
		},
		"a mirror": {
			values: `vulnerabilityDatabase: {updateURL: "https://example.com/latest.json", interval: 30m}`,
			want:   []string{"--vulnerability-database-url=https://example.com/latest.json", "--vulnerability-database-interval=30m"},
		},
		"names of the certificate": {
			values: `tls: {names: [scanner.example.com, 10.0.0.1]}`,
			want:   []string{"--tls=operator", "--tls-names=scanner.example.com,10.0.0.1"},
		},
		"a certificate of others": {
			values:  `tls: {existingSecret: mine}`,
			want:    []string{"--tls=files", "--tls-dir=/var/run/scanner-operator/tls"},
			without: []string{"--tls-secret"},
		},
		"plain HTTP": {
			values:  `tls: {enabled: false}`,
			want:    []string{"--tls=off", "--api-url=http://scanner-controller-manager-api-service.scanner-system.svc:8000"},
			without: []string{"--tls-secret", "--tls-dir"},
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

// databaseSecrets are the Secrets other than that of the certificate, which is installed without data.
func databaseSecrets(r release) []*corev1.Secret {
	return slices.DeleteFunc(find[*corev1.Secret](r), func(s *corev1.Secret) bool { return len(s.Data) == 0 && len(s.StringData) == 0 })
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
		if got := databaseSecrets(r); len(got) != 0 {
			t.Errorf("%d Secrets without a data source name", len(got))
		}
	})
	t.Run("the data source name is never in the pod", func(t *testing.T) {
		r := render(t, `{database: {type: postgres, dsn: "postgres://user:password@db/x"}}`)
		dsn := env(r.container(), "DSN")
		if dsn == nil || dsn.Value != "" || dsn.ValueFrom == nil || dsn.ValueFrom.SecretKeyRef == nil {
			t.Fatalf("DSN is %v, want a reference", dsn)
		}
		secrets := databaseSecrets(r)
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
		"image: {digest: '" + digest + "'}":                       "registry.example.com/scanner-operator@" + digest,
		`image: {registry: "", repository: b}`:                    "b:dev",
	} {
		r := render(t, values)
		if got := r.container().Image; got != want {
			t.Errorf("the image is %s, want %s", got, want)
		}
		if got := env(r.container(), "SCAN_IMAGE"); got == nil || got.Value != want {
			t.Errorf("SCAN_IMAGE is %v, want %s", got, want)
		}
		if variables := scanJobPolicy(t, r).Spec.Variables; variables[0].Name != "image" || variables[0].Expression != `"`+want+`"` {
			t.Errorf("the admission policy does not allow the image %s", want)
		}
	}
}

// TestImageIsRequired: a default name is one that a stranger could register.
func TestImageIsRequired(t *testing.T) {
	for _, values := range []string{"{}", "image: {registry: registry.example.com, tag: v1}"} {
		_, err := helm(t, "template", "scanner", chartDir, "--namespace", namespace, "--values", valuesFile(t, values))
		if err == nil || !strings.Contains(err.Error(), "image.repository is required") || !strings.Contains(err.Error(), "make docker-push") {
			t.Errorf("%s: got %v, want an error that says what to set", values, err)
		}
	}
}

// TestKustomizeImage: the image of config/ before "make deploy" replaces it has a name that nobody can register.
func TestKustomizeImage(t *testing.T) {
	text, err := os.ReadFile("../../config/manager/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var kustomization struct {
		Images []struct{ Name, NewName string }
	}
	if err := sigsyaml.Unmarshal(text, &kustomization); err != nil {
		t.Fatal(err)
	}
	// RFC 6761 reserves .invalid.
	if images := kustomization.Images; len(images) != 1 || images[0].Name != "controller" || !strings.HasPrefix(images[0].NewName, "registry.invalid/") {
		t.Errorf("got %+v, want a name in registry.invalid", images)
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
		if p.Name == "scanner-scans" {
			continue // TestScansOfImageVolumesReachTheOperatorAlone
		}
		selects("NetworkPolicy "+p.Name, p.Spec.PodSelector.MatchLabels)
	}
	for _, p := range find[*policyv1.PodDisruptionBudget](r) {
		selects("PodDisruptionBudget "+p.Name, p.Spec.Selector.MatchLabels)
	}
	if got := len(find[*unstructured.Unstructured](r)); got != 1 {
		t.Errorf("%d ServiceMonitors, want 1", got)
	}
}

func TestScansOfImageVolumesReachTheOperatorAlone(t *testing.T) {
	scan := scanjob.Build(scanjob.Request{Volume: &scanjob.ImageVolume{}}, scanjob.DefaultOptions()).Spec.Template.Labels
	other := scanjob.Build(scanjob.Request{}, scanjob.DefaultOptions()).Spec.Template.Labels
	policy := func(values string) *networkingv1.NetworkPolicy {
		for _, p := range find[*networkingv1.NetworkPolicy](render(t, values)) {
			if p.Name == "scanner-scans" {
				return p
			}
		}
		return nil
	}
	p := policy("networkPolicy: {enabled: true, dnsTo: [{namespaceSelector: {matchLabels: {a: b}}}]}")
	if p == nil {
		t.Fatal("there is no policy for scans")
	}
	selector := labels.SelectorFromSet(p.Spec.PodSelector.MatchLabels)
	if !selector.Matches(labels.Set(scan)) || selector.Matches(labels.Set(other)) {
		t.Errorf("%s: selects scans of image volumes: %t, of registries: %t", selector, selector.Matches(labels.Set(scan)), selector.Matches(labels.Set(other)))
	}
	operator := render(t, "").Deployment.Spec.Template.Labels
	if e := p.Spec.Egress; len(p.Spec.PolicyTypes) != 2 || len(p.Spec.Ingress) > 0 || len(e) != 2 || e[0].Ports[0].Port.IntValue() != 8000 || len(e[0].To) != 1 ||
		!labels.SelectorFromSet(e[0].To[0].PodSelector.MatchLabels).Matches(labels.Set(operator)) || e[1].Ports[0].Port.IntValue() != 53 || len(e[1].To) != 1 {
		t.Errorf("%+v", p.Spec)
	}
	for _, values := range []string{
		"", "networkPolicy: {enabled: true}\ncatalog: {mode: in-process}", "networkPolicy: {enabled: true}\ncontrollers: {scanner: false}",
		"networkPolicy: {enabled: true}\ncatalog: {apiURL: \"https://elsewhere:1\"}",
	} {
		if policy(values) != nil {
			t.Errorf("%q has a policy for scans", values)
		}
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
		"too few connections":         {"database: {maxConnections: 1}", "database.maxConnections"},
		"postgres without an address": {"database: {type: postgres}", "requires database.dsn"},
		"two addresses":               {"database: {type: postgres, dsn: x, existingSecret: s}", "exclude each other"},
		"Jobs without authentication": {"auth: {mode: none}", "in-process"},
		"two certificates":            {"tls: {existingSecret: s, certManager: {enabled: true, issuerRef: {name: ca}}}", "exclude each other"},
		"cert-manager without issuer": {"tls: {certManager: {enabled: true}}", "issuerRef"},
		"a bad name":                  {"tls: {names: ['A b']}", "tls.names"},
		"Jobs over plain HTTP":        {"catalog: {apiURL: 'http://api'}", "tls.enabled to false"},
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
