package chart_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

const apiService = "scanner-controller-manager-api-service"

func one[T any](t *testing.T, found []T) T {
	t.Helper()
	if len(found) != 1 {
		t.Fatalf("%d objects of %T", len(found), found)
	}
	return found[0]
}

// TestExposedNowhere installs neither by default.
func TestExposedNowhere(t *testing.T) {
	r := render(t, "httpRoute: {parentRefs: [{name: public}]}\ningress: {hosts: [example.com]}")
	if len(find[*networkingv1.Ingress](r))+len(find[*gatewayv1.HTTPRoute](r))+len(find[*gatewayv1.BackendTLSPolicy](r)) > 0 {
		t.Error("the API is exposed")
	}
	if args := strings.Join(r.container().Args, " "); strings.Contains(args, "--base-path") {
		t.Error(args)
	}
}

func TestIngress(t *testing.T) {
	const backend, size = "nginx.ingress.kubernetes.io/backend-protocol", "nginx.ingress.kubernetes.io/proxy-body-size"
	for label, test := range map[string]struct {
		values      string
		class, path string
		hosts       []string
		port        string
		annotations map[string]string
	}{
		"defaults": {"ingress: {enabled: true}", "", "/", []string{""}, "https", map[string]string{backend: "HTTPS", size: "32m"}},
		"hosts": {
			"ingress: {enabled: true, className: nginx, hosts: [a.example, '*.b.example']}", "nginx", "/", []string{"a.example", "*.b.example"}, "https",
			map[string]string{backend: "HTTPS", size: "32m"},
		},
		"a base path":          {"ingress: {enabled: true}\napi: {basePath: /a/b/}", "", "/a/b", []string{""}, "https", map[string]string{backend: "HTTPS", size: "32m"}},
		"that of the URL":      {"ingress: {enabled: true}\napi: {externalURL: 'https://a.example/b/'}", "", "/b", []string{""}, "https", map[string]string{backend: "HTTPS", size: "32m"}},
		"a path of its own":    {"ingress: {enabled: true, path: '/b(/|$)(.*)', pathType: ImplementationSpecific}", "", "/b(/|$)(.*)", []string{""}, "https", map[string]string{backend: "HTTPS", size: "32m"}},
		"without TLS inside":   {"ingress: {enabled: true}\ntls: {enabled: false}", "", "/", []string{""}, "http", map[string]string{size: "32m"}},
		"annotations":          {"ingress: {enabled: true, annotations: {a: b, " + backend + ": GRPCS}}\ncommonAnnotations: {a: c, d: e}", "", "/", []string{""}, "https", map[string]string{backend: "GRPCS", size: "32m", "a": "b", "d": "e"}},
		"another service port": {"ingress: {enabled: true}\nservice: {port: 443}", "", "/", []string{""}, "https", map[string]string{backend: "HTTPS", size: "32m"}},
	} {
		t.Run(label, func(t *testing.T) {
			r := render(t, test.values)
			ingress := one(t, find[*networkingv1.Ingress](r))
			if diff := cmp.Diff(test.annotations, ingress.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			if got := ingress.Spec.IngressClassName; (got == nil) != (test.class == "") || got != nil && *got != test.class {
				t.Errorf("the class is %v", got)
			}
			var hosts []string
			for _, rule := range ingress.Spec.Rules {
				hosts = append(hosts, rule.Host)
				path := one(t, rule.HTTP.Paths)
				service := path.Backend.Service
				if path.Path != test.path || path.PathType == nil || service == nil || service.Name != apiService || service.Port.Name != test.port || apiPort(t, r).Name != test.port {
					t.Errorf("%s: %+v", rule.Host, path)
				}
			}
			if !slices.Equal(hosts, test.hosts) {
				t.Errorf("the hosts are %q", hosts)
			}
		})
	}
	tls := one(t, find[*networkingv1.Ingress](render(t, "ingress: {enabled: true, tls: [{secretName: a, hosts: [b.example]}]}"))).Spec.TLS
	if got := one(t, tls); got.SecretName != "a" || !slices.Equal(got.Hosts, []string{"b.example"}) {
		t.Errorf("%+v", got)
	}
}

func TestHTTPRoute(t *testing.T) {
	const gateway = "parentRefs: [{name: public, namespace: gateways, sectionName: https}]"
	r := render(t, "httpRoute: {enabled: true, hostnames: [a.example], annotations: {a: b}, "+gateway+"}\napi: {basePath: /scanner}\nservice: {port: 443}")
	if args := r.container().Args; !slices.Contains(args, "--base-path=/scanner") {
		t.Errorf("%q", args)
	}
	route := one(t, find[*gatewayv1.HTTPRoute](r))
	if parent := one(t, route.Spec.ParentRefs); parent.Name != "public" || *parent.Namespace != "gateways" || *parent.SectionName != "https" {
		t.Errorf("the Gateway is %+v", parent)
	}
	rule := one(t, route.Spec.Rules)
	path, service := one(t, rule.Matches).Path, one(t, rule.BackendRefs)
	if *path.Type != gatewayv1.PathMatchPathPrefix || *path.Value != "/scanner" || service.Name != apiService || *service.Port != 443 ||
		route.Spec.Hostnames[0] != "a.example" || route.Annotations["a"] != "b" || len(rule.Filters) > 0 {
		t.Errorf("%+v", route.Spec)
	}
	policy := one(t, find[*gatewayv1.BackendTLSPolicy](r))
	target, ca := one(t, policy.Spec.TargetRefs), one(t, policy.Spec.Validation.CACertificateRefs)
	if target.Kind != "Service" || target.Group != "" || string(target.Name) != apiService || string(*target.SectionName) != apiPort(t, r).Name ||
		policy.Spec.Validation.Hostname != apiService+".scanner-system.svc" || ca.Kind != "Secret" || ca.Name != "scanner-controller-manager-api-tls" || ca.Group != "" {
		t.Errorf("%+v", policy.Spec)
	}
	if policy.Namespace != namespace || route.Namespace != namespace {
		t.Error("a policy applies in the namespace of its Service only")
	}

	r = render(t, "httpRoute: {enabled: true, "+gateway+", backendTLSPolicy: {caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}]}}")
	if ca := one(t, one(t, find[*gatewayv1.BackendTLSPolicy](r)).Spec.Validation.CACertificateRefs); ca.Kind != "ConfigMap" || ca.Name != "ca" {
		t.Errorf("the CA is %+v", ca)
	}
	for _, values := range []string{"tls: {enabled: false}", "httpRoute: {backendTLSPolicy: {enabled: false}}"} {
		r := render(t, values, "--set-json", `httpRoute.parentRefs=[{"name":"public"}]`, "--set", "httpRoute.enabled=true")
		if len(find[*gatewayv1.BackendTLSPolicy](r)) > 0 || len(find[*gatewayv1.HTTPRoute](r)) != 1 {
			t.Errorf("%s: there is a BackendTLSPolicy", values)
		}
	}
}

func TestExposingValuesAreRefused(t *testing.T) {
	for values, want := range map[string]string{
		"httpRoute: {enabled: true}": "requires httpRoute.parentRefs",
		"ingress: {enabled: true}\nauth: {mode: none}\ncatalog: {mode: in-process}":                            "require auth.mode kubernetes",
		"httpRoute: {enabled: true, parentRefs: [{name: a}]}\nauth: {mode: none}\ncatalog: {mode: in-process}": "require auth.mode kubernetes",
		"api: {basePath: /a, externalURL: 'https://a.example/b'}":                                              "leave out api.basePath",
		"api: {basePath: /a, externalURL: 'https://a.example'}":                                                "leave out api.basePath",
		"api: {basePath: scanner}":                  "pattern",
		"api: {basePath: '/a b'}":                   "pattern",
		"ingress: {hosts: ['https://a.example']}":   "pattern",
		"ingress: {hostname: a.example}":            "hostname",
		"ingress: {pathType: Regex}":                "pathType",
		"httpRoute: {hostnames: [A_B]}":             "pattern",
		"httpRoute: {parentRefs: [{namespace: a}]}": "name",
	} {
		if _, err := template(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", values, err, want)
		}
	}
	for _, values := range []string{"api: {basePath: /a/, externalURL: 'https://a.example/a'}", "api: {basePath: /a}"} {
		if _, err := template(t, values); err != nil {
			t.Errorf("%s: %v", values, err)
		}
	}
}
