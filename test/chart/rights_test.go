package chart_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/scanner-operator/scanner-operator/internal/notify"
	"github.com/scanner-operator/scanner-operator/internal/setup"
	"github.com/scanner-operator/scanner-operator/internal/sinks"
)

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
					if ns == namespace && cmp.Equal(rule, ownCertificate(r)) {
						continue
					}
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

// ownCertificate is the only rule about Secrets: the one that the operator keeps its certificate in.
func ownCertificate(r release) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "update"},
		ResourceNames: []string{r.Deployment.Name + "-api-tls"},
	}
}

// TestConfigMapsOfVEXSources: the operator may read the ConfigMaps that the values name, in its own namespace, and no others.
func TestConfigMapsOfVEXSources(t *testing.T) {
	want := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"vex", "ours"}, Verbs: []string{"get"}}
	const values = "vex: {configMaps: [vex, ours]}\n"
	for name, c := range map[string]struct {
		values string
		want   int
	}{"named": {values, 1}, "none": {"", 0}, "without the controller": {values + "controllers: {vexsources: false}", 0}} {
		found := 0
		for ns, rules := range rules(render(t, c.values)) {
			for _, rule := range rules {
				if !slices.Contains(rule.Resources, "configmaps") {
					continue
				}
				if found++; ns != namespace || !cmp.Equal(rule, want) {
					t.Errorf("%s: %+v in namespace %q", name, rule, ns)
				}
			}
		}
		if found != c.want {
			t.Errorf("%s: %d rules about ConfigMaps, want %d", name, found, c.want)
		}
	}
}

// TestCredentialsOfNotifications: each Secret is mounted as a directory, which the operator needs no permission for, and the operator learns who may use it.
func TestCredentialsOfNotifications(t *testing.T) {
	r := render(t, `notifications: {allowedNetworks: [10.0.0.0/8], credentials: [{name: shop-chat, secretName: chat, namespaces: [shop]}, {name: mail, secretName: smtp}],
  templates: {slack: "*{{title .}}* <{{.Link}}|Show>", mail: ""}}`)
	pod := r.Deployment.Spec.Template.Spec
	mounted := map[string]string{}
	for _, volume := range pod.Volumes {
		if volume.Secret == nil {
			continue
		}
		for _, mount := range pod.Containers[0].VolumeMounts {
			if mount.Name == volume.Name && mount.ReadOnly {
				mounted[mount.MountPath] = volume.Secret.SecretName
			}
		}
	}
	want := map[string]string{"/var/run/scanner-operator/notifications/shop-chat": "chat", "/var/run/scanner-operator/notifications/mail": "smtp"}
	if diff := cmp.Diff(want, mounted); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	for _, variable := range pod.Containers[0].Env {
		if variable.Name != notify.Variable {
			continue
		}
		config, err := notify.ParseConfig(variable.Value)
		if err != nil || len(config.Credentials) != 2 || !slices.Equal(config.Credentials[0].Namespaces, []string{"shop"}) || len(config.AllowedNetworks) != 1 ||
			config.Templates != (notify.Templates{Slack: "*{{title .}}* <{{.Link}}|Show>"}) {
			t.Errorf("the operator reads %+v, %v", config, err)
		}
		return
	}
	t.Errorf("the environment has no %s", notify.Variable)
}

// TestSizeOfNotifications: what the chart accepts, the operator reads from its environment, also templates that are as long as possible.
func TestSizeOfNotifications(t *testing.T) {
	const (
		templateCharacters = 16_384
		configBytes        = 120 << 10
		variableBytes      = 128 << 10 // Linux counts the name, "=" and a NUL too.
		first              = "{{title .}}"
	)
	long := func(line string) string {
		return first + strings.Repeat(line, (templateCharacters-len(first))/len(line))
	}
	values := func(other, mail string) string {
		text, err := json.Marshal(map[string]any{"notifications": map[string]any{"templates": notify.Templates{Text: other, Slack: other, Teams: other, Mail: mail}}})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	read := func(other, mail string) int {
		value := env(render(t, values(other, mail)).container(), notify.Variable).Value
		if _, err := notify.ParseConfig(value); err != nil || len(notify.Variable)+len(value)+2 > variableBytes {
			t.Errorf("%d bytes: %v", len(value), err)
		}
		return len(value)
	}
	read(long("<p>\n"), long("<p>\n"))
	// Each line end takes two bytes.
	room := configBytes - read(long("\n"), first)
	mail := first + strings.Repeat("\n", room/2) + strings.Repeat("x", room%2)
	if got := read(long("\n"), mail); got != configBytes {
		t.Errorf("%d bytes, want %d", got, configBytes)
	}
	if _, err := template(t, values(long("\n"), mail+"x")); err == nil || !strings.Contains(err.Error(), "the maximum is 122880: shorten notifications.templates") {
		t.Errorf("%d bytes: %v", configBytes+1, err)
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

// TestControllersAreSwitched renders the chart with and without each controller: it gets the flag, and no permissions for it.
func TestControllersAreSwitched(t *testing.T) {
	controllers := func(r release) []string {
		for _, arg := range r.pod().Containers[0].Args {
			if list, found := strings.CutPrefix(arg, "--controllers="); found {
				return strings.Split(list, ",")
			}
		}
		return nil
	}
	all := render(t, "")
	if diff := cmp.Diff([]string{"*"}, controllers(all)); diff != "" {
		t.Errorf("by default (-want +got):\n%s", diff)
	}
	with := expand(rules(all)[""])
	for _, name := range setup.ControllerNames() {
		r := render(t, "controllers: {"+name+": false}")
		if diff := cmp.Diff([]string{"*", "-" + name}, controllers(r)); diff != "" {
			t.Errorf("without %s (-want +got):\n%s", name, diff)
		}
		without := expand(rules(r)[""])
		if len(without) >= len(with) {
			t.Errorf("without %s the operator has as many rights as with it", name)
		}
		for right := range without {
			if !with[right] {
				t.Errorf("without %s the operator has the right %s, which it does not have otherwise", name, right)
			}
		}
	}
	if _, err := helm(t, "template", "x", chartDir, "--set=controllers.nothing=true"); err == nil {
		t.Error("a controller that does not exist is accepted")
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
	if got := count(""); got != 6 {
		t.Errorf("%d aggregation labels, want view, edit, admin for viewers, edit, admin for editors and admin for exceptions", got)
	}
	if got := count("rbac: {aggregate: false}"); got != 0 {
		t.Errorf("%d aggregation labels although rbac.aggregate is false", got)
	}
}

// TestCredentialsOfVEXSources: the Secret with credentials is mounted, and the operator has no right to read it.
func TestCredentialsOfVEXSources(t *testing.T) {
	r := render(t, "vex: {credentialsSecret: feeds}")
	mount := ""
	for _, volume := range r.Deployment.Spec.Template.Spec.Volumes {
		if volume.Secret == nil || volume.Secret.SecretName != "feeds" {
			continue
		}
		for _, m := range r.container().VolumeMounts {
			if m.Name == volume.Name && m.ReadOnly && len(volume.Secret.Items) == 1 && volume.Secret.Items[0].Key == ".dockerconfigjson" {
				mount = m.MountPath + "/" + volume.Secret.Items[0].Path
			}
		}
	}
	if mount == "" || !slices.Contains(r.container().Args, "--vex-credentials-file="+mount) {
		t.Errorf("the Secret is mounted at %q, arguments %v", mount, r.container().Args)
	}
	for ns, rules := range rules(r) {
		for _, rule := range rules {
			if slices.Contains(rule.Resources, "secrets") && !cmp.Equal(rule, ownCertificate(r)) {
				t.Errorf("namespace %q: %+v", ns, rule)
			}
		}
	}
	if args := strings.Join(render(t, "").container().Args, " "); strings.Contains(args, "vex-credentials") {
		t.Errorf("without a Secret: %s", args)
	}
}

// TestPolicyReportsNeedAValue: the operator has no permission for Reports unless the value permits it and the controller runs.
func TestPolicyReportsNeedAValue(t *testing.T) {
	for values, want := range map[string]bool{
		"": false, "reportSinks: {policyReports: true}": true, "{reportSinks: {policyReports: true}, controllers: {reportsinks: false}}": false,
	} {
		r := render(t, values)
		found := false
		for _, rules := range rules(r) {
			for _, rule := range rules {
				found = found || slices.Contains(rule.APIGroups, "openreports.io")
			}
		}
		if flag := slices.Contains(r.Deployment.Spec.Template.Spec.Containers[0].Args, "--policy-reports=true"); found != want || flag != want {
			t.Errorf("%s: permission %t, flag %t, want %t", values, found, flag, want)
		}
	}
}

// TestCredentialsOfReportSinks: each Secret is mounted as a directory, and the operator learns the names.
func TestCredentialsOfReportSinks(t *testing.T) {
	r := render(t, `reportSinks: {credentials: [{name: track, secretName: dtrack}]}`)
	pod := r.Deployment.Spec.Template.Spec
	mount := slices.IndexFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/var/run/scanner-operator/report-sinks/track" })
	if mount < 0 || !pod.Containers[0].VolumeMounts[mount].ReadOnly {
		t.Fatalf("mounts: %+v", pod.Containers[0].VolumeMounts)
	}
	volume := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == pod.Containers[0].VolumeMounts[mount].Name })
	if volume < 0 || pod.Volumes[volume].Secret == nil || pod.Volumes[volume].Secret.SecretName != "dtrack" {
		t.Errorf("volumes: %+v", pod.Volumes)
	}
	variable := slices.IndexFunc(pod.Containers[0].Env, func(v corev1.EnvVar) bool { return v.Name == sinks.Variable })
	if variable < 0 {
		t.Fatalf("the environment has no %s", sinks.Variable)
	}
	config, err := sinks.ParseConfig(pod.Containers[0].Env[variable].Value)
	if err != nil || !slices.Equal(config.Credentials, []string{"track"}) {
		t.Errorf("config %+v, %v", config, err)
	}
}
