package chart_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// secretRules returns the operator's rules about Secrets, by namespace.
func secretRules(r release) map[string][]rbacv1.PolicyRule {
	found := map[string][]rbacv1.PolicyRule{}
	for ns, rules := range rules(r) {
		for _, rule := range rules {
			if slices.Contains(rule.Resources, "secrets") {
				found[ns] = append(found[ns], rule)
			}
		}
	}
	return found
}

// mounted returns the name of the Secret that is mounted for --tls-dir.
func mounted(r release) string {
	for _, mount := range r.container().VolumeMounts {
		for _, v := range r.pod().Volumes {
			if v.Name == mount.Name && v.Secret != nil && slices.Contains(r.container().Args, "--tls-dir="+mount.MountPath) {
				return v.Secret.SecretName
			}
		}
	}
	return ""
}

func apiPort(t *testing.T, r release) corev1.ServicePort {
	t.Helper()
	for _, s := range find[*corev1.Service](r) {
		if strings.HasSuffix(s.Name, "-api-service") {
			return s.Spec.Ports[0]
		}
	}
	t.Fatal("there is no Service of the API")
	return corev1.ServicePort{}
}

// TestCertificate renders each source of the certificate: only that of the operator comes with a right, which is to one Secret.
func TestCertificate(t *testing.T) {
	const own = "scanner-controller-manager-api-tls"
	for label, want := range map[string]struct{ values, rule, mounted, port string }{
		"the operator": {rule: own, port: "https"},
		"others":       {values: "tls: {existingSecret: mine}", mounted: "mine", port: "https"},
		"cert-manager": {values: "tls: {certManager: {enabled: true, issuerRef: {name: ca}}}", mounted: "scanner-controller-manager-api-cert", port: "https"},
		"none":         {values: "tls: {enabled: false, existingSecret: mine, certManager: {enabled: true}}", port: "http"},
	} {
		t.Run(label, func(t *testing.T) {
			r := render(t, want.values)
			var names []string
			for _, secret := range find[*corev1.Secret](r) {
				names = append(names, secret.Name)
				if len(secret.Data)+len(secret.StringData) > 0 || secret.Type != corev1.SecretTypeOpaque {
					t.Errorf("an upgrade would overwrite the Secret %s", secret.Name)
				}
			}
			var rules map[string][]rbacv1.PolicyRule
			if want.rule != "" {
				rules = map[string][]rbacv1.PolicyRule{namespace: {{
					APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{want.rule}, Verbs: []string{"get", "update"},
				}}}
			}
			if got := secretRules(r); len(got)+len(rules) > 0 && !cmp.Equal(rules, got) {
				t.Errorf("rights to Secrets (-want +got):\n%s", cmp.Diff(rules, got))
			}
			if (want.rule != "") != slices.Equal(names, []string{own}) {
				t.Errorf("the Secrets are %q", names)
			}
			if got := mounted(r); got != want.mounted {
				t.Errorf("the Secret %q is mounted, want %q", got, want.mounted)
			}
			port := apiPort(t, r)
			if port.Name != want.port || (port.AppProtocol != nil) != (want.port == "https") || port.Port != 8000 {
				t.Errorf("the port is %+v", port)
			}
		})
	}
}

func TestCertManager(t *testing.T) {
	r := render(t, `{service: {port: 443}, tls: {names: [scanner.example.com, 10.0.0.1, "fd00::1"], certManager: {enabled: true, issuerRef: {kind: ClusterIssuer, name: ca}}}}`)
	var certificates []*unstructured.Unstructured
	for _, object := range find[*unstructured.Unstructured](r) {
		if object.GetKind() == "Certificate" {
			certificates = append(certificates, object)
		}
	}
	if len(certificates) != 1 {
		t.Fatalf("%d Certificates", len(certificates))
	}
	var got struct {
		Spec struct {
			SecretName            string
			DNSNames, IPAddresses []string
			IssuerRef             struct{ Kind, Name string }
		}
	}
	text, err := certificates[0].MarshalJSON()
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got.Spec.SecretName != mounted(r) || got.Spec.IssuerRef.Kind != "ClusterIssuer" || got.Spec.IssuerRef.Name != "ca" {
		t.Errorf("the Certificate is %+v", got.Spec)
	}
	const service = "scanner-controller-manager-api-service"
	if want := []string{service + ".scanner-system.svc", service + ".scanner-system", service, "localhost", "scanner.example.com"}; !slices.Equal(got.Spec.DNSNames, want) {
		t.Errorf("DNS names %q, want %q", got.Spec.DNSNames, want)
	}
	if want := []string{"127.0.0.1", "::1", "10.0.0.1", "fd00::1"}; !slices.Equal(got.Spec.IPAddresses, want) {
		t.Errorf("addresses %q, want %q", got.Spec.IPAddresses, want)
	}
}

// TestKustomizeNames compares names that kustomize does not look at with what config/default makes of them.
func TestKustomizeNames(t *testing.T) {
	const own = "scanner-controller-manager-api-tls"
	for file, want := range map[string]string{
		"config/manager/manager.yaml":       "- --tls-secret=" + own + "\n",
		"config/rbac/tls_role.yaml":         "resourceNames: [" + own + "]\n",
		"config/manager/tls.yaml":           "name: " + strings.TrimPrefix(own, "scanner-") + "\n",
		"config/manager/kustomization.yaml": "- tls.yaml\n",
		"config/rbac/kustomization.yaml":    "- tls_role.yaml\n- tls_role_binding.yaml\n",
		"config/default/kustomization.yaml": "namePrefix: scanner-\n",
		"config/default/api_service.yaml":   "  - name: https\n    appProtocol: https\n",
		"config/rbac/tls_role_binding.yaml": "  name: tls-role\n",
	} {
		content, err := os.ReadFile(filepath.Join("..", "..", file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(content), want) {
			t.Errorf("%s does not contain %q", file, want)
		}
	}
}
