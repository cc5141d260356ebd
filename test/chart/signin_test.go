package chart_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

const provider = "api: {externalURL: 'https://scanner.example'}\nauth: {oidc: {issuer: 'https://id.example', clientID: scanner, clientSecretRef: {name: oidc}, " +
	"usernamePrefix: '-', groupsClaim: groups, groupsPrefix: 'oidc:', caBundle: PEM, name: 'Example: ID'}}"

// TestProvider renders a provider: its secret is a mounted file, without a right to read it.
func TestProvider(t *testing.T) {
	if args := strings.Join(render(t, "").container().Args, " "); strings.Contains(args, "oidc") || strings.Contains(args, "external") || strings.Contains(args, "anonymous") {
		t.Errorf("without a provider: %s", args)
	}
	r := render(t, provider)
	for _, want := range []string{
		"--external-url=https://scanner.example", "--oidc-issuer-url=https://id.example", "--oidc-client-id=scanner", "--oidc-username-claim=sub",
		"--oidc-username-prefix=-", "--oidc-groups-claim=groups", "--oidc-groups-prefix=oidc:", "--oidc-name=Example: ID",
		"--oidc-scopes=openid,profile,email,offline_access",
	} {
		if !slices.Contains(r.container().Args, want) {
			t.Errorf("%s is missing in %q", want, r.container().Args)
		}
	}
	sum := func(r release) string { return r.Deployment.Spec.Template.Annotations["checksum/oidc-ca"] }
	if other := render(t, strings.Replace(provider, "caBundle: PEM", "caBundle: OTHER", 1)); sum(r) == "" || sum(r) == sum(other) {
		t.Errorf("pods with another CA have the annotation %q, those before %q", sum(other), sum(r))
	}
	mounts := map[string]string{}
	for _, mount := range r.container().VolumeMounts {
		if mount.ReadOnly {
			mounts[mount.Name] = mount.MountPath
		}
	}
	files := map[string]string{}
	for _, volume := range r.pod().Volumes {
		switch {
		case volume.Secret != nil && volume.Secret.SecretName == "oidc":
			if item := volume.Secret.Items[0]; item.Key != "client-secret" {
				t.Errorf("the key is %q", item.Key)
			}
			files["--oidc-client-secret-file"] = mounts[volume.Name] + "/" + volume.Secret.Items[0].Path
		case volume.ConfigMap != nil:
			for _, bundle := range find[*corev1.ConfigMap](r) {
				if bundle.Name == volume.ConfigMap.Name && bundle.Data["ca.crt"] == "PEM" {
					files["--oidc-ca-file"] = mounts[volume.Name] + "/ca.crt"
				}
			}
		}
	}
	for _, flag := range []string{"--oidc-client-secret-file", "--oidc-ca-file"} {
		if !slices.Contains(r.container().Args, flag+"="+files[flag]) || !strings.HasPrefix(files[flag], "/") {
			t.Errorf("%s is mounted as %q: %q", flag, files[flag], r.container().Args)
		}
	}
	for _, rules := range secretRules(r) {
		for _, rule := range rules {
			if len(rule.ResourceNames) != 1 || rule.ResourceNames[0] == "oidc" {
				t.Errorf("a right to the client secret: %v", rule)
			}
		}
	}
}

// TestAnonymousRead permits everybody to read results, and nothing else.
func TestAnonymousRead(t *testing.T) {
	r := render(t, "auth: {anonymousRead: true}")
	if !slices.Contains(r.container().Args, "--anonymous-read") {
		t.Errorf("%q", r.container().Args)
	}
	var roles []string
	for _, binding := range find[*rbacv1.ClusterRoleBinding](r) {
		for _, subject := range binding.Subjects {
			if subject.Kind == rbacv1.UserKind && subject.Name == "system:anonymous" {
				roles = append(roles, binding.RoleRef.Name)
			}
		}
	}
	if len(roles) != 1 {
		t.Fatalf("system:anonymous has the roles %q", roles)
	}
	for _, role := range find[*rbacv1.ClusterRole](r) {
		if role.Name != roles[0] {
			continue
		}
		if len(role.Rules) != 1 || !slices.Equal(role.Rules[0].Resources, []string{"scanresults"}) || !slices.Equal(role.Rules[0].Verbs, []string{"get", "list"}) {
			t.Errorf("%+v", role.Rules)
		}
	}
}

func TestSignInValuesAreRefused(t *testing.T) {
	for values, want := range map[string]string{
		"auth: {oidc: {issuer: 'https://id.example', clientID: a}}":                                          "requires api.externalURL",
		"auth: {oidc: {issuer: 'https://id.example'}}\napi: {externalURL: 'https://a'}":                      "must be set together",
		"auth: {oidc: {clientID: a}}":                                                                        "must be set together",
		"auth: {oidc: {issuer: 'http://id.example', clientID: a}}\napi: {externalURL: 'https://a'}":          "pattern",
		"auth: {oidc: {clientSecret: a}}":                                                                    "clientSecret",
		"auth: {frontProxy: {clientCARef: {name: a}}}\ntls: {enabled: false}":                                "requires tls.enabled",
		"auth: {mode: none, frontProxy: {clientCARef: {name: a}}}\ncatalog: {mode: in-process}":              "requires auth.mode kubernetes",
		"auth: {frontProxy: {allowedNames: [a]}}":                                                            "requires auth.frontProxy.clientCARef.name",
		"auth: {frontProxy: {clientCARef: {name: a}, usernameHeaders: []}}":                                  "usernameHeaders",
		"auth: {frontProxy: {clientCARef: {name: a}, groupHeaders: [X_Group]}}":                              "pattern",
		"auth: {frontProxy: {clientCARef: {name: a}, allowedNames: ['a,b']}}":                                "pattern",
		"auth: {frontProxy: {clientCARef: {name: a, kind: File}}}":                                           "kind",
		"auth: {mode: none, anonymousRead: true}\ncatalog: {mode: in-process}":                               "auth.anonymousRead requires auth.mode kubernetes",
		"auth: {mode: none, oidc: {issuer: 'https://id.example', clientID: a}}\ncatalog: {mode: in-process}": "requires auth.mode kubernetes",
	} {
		if _, err := template(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", values, err, want)
		}
	}
}

// TestFrontProxy renders trusted front proxies: their CA is a mounted file, which the kubelet keeps up to date.
func TestFrontProxy(t *testing.T) {
	if args := strings.Join(render(t, "").container().Args, " "); strings.Contains(args, "requestheader") {
		t.Errorf("by default: %s", args)
	}
	for kind, values := range map[string]string{
		"ConfigMap": "auth: {frontProxy: {clientCARef: {name: proxies}}}",
		"Secret":    "auth: {frontProxy: {clientCARef: {name: proxies, kind: Secret, key: bundle.pem}, allowedNames: ['Proxy: 1', b], usernameHeaders: [X-User, X-Mail], groupHeaders: []}}",
	} {
		r := render(t, values)
		want := []string{"--requestheader-allowed-names=", "--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group"}
		key := "ca.crt"
		if kind == "Secret" {
			want = []string{"--requestheader-allowed-names=Proxy: 1,b", "--requestheader-username-headers=X-User,X-Mail", "--requestheader-group-headers="}
			key = "bundle.pem"
		}
		for _, arg := range want {
			if !slices.Contains(r.container().Args, arg) {
				t.Errorf("%s: %s is missing in %q", kind, arg, r.container().Args)
			}
		}
		var items []corev1.KeyToPath
		for _, volume := range r.pod().Volumes {
			switch {
			case kind == "Secret" && volume.Secret != nil && volume.Secret.SecretName == "proxies":
				items = volume.Secret.Items
			case kind == "ConfigMap" && volume.ConfigMap != nil && volume.ConfigMap.Name == "proxies":
				items = volume.ConfigMap.Items
			default:
				continue
			}
			for _, mount := range r.container().VolumeMounts {
				// The kubelet does not update what is mounted by a subPath.
				if mount.Name != volume.Name || !mount.ReadOnly || mount.SubPath != "" {
					continue
				}
				if len(items) == 1 && items[0].Key == key && slices.Contains(r.container().Args, "--requestheader-client-ca-file="+mount.MountPath+"/"+items[0].Path) {
					want = nil
				}
			}
		}
		if want != nil {
			t.Errorf("%s: the CA is not mounted: %v, %v", kind, r.pod().Volumes, r.container())
		}
	}
}
