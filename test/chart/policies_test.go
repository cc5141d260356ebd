package chart_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	sigsyaml "sigs.k8s.io/yaml"
)

// policies returns the sorted names of the policies of a release, without its prefix.
func policies(r release) []string {
	var names []string
	for _, p := range find[*admissionv1.ValidatingAdmissionPolicy](r) {
		names = append(names, strings.TrimPrefix(p.Name, "scanner-"))
	}
	slices.Sort(names)
	return names
}

func TestPoliciesFollowControllers(t *testing.T) {
	const podSets, sheroes = "{scanner: false, bellerophonsimple: false}", "{scanner: false, podset: false}"
	for values, want := range map[string][]string{
		"":                            {"authors", "exception-authors", "podset-pods", "podset-templates", "scan-job-deletions", "scan-jobs", "shero-objects", "shero-specs"},
		"catalog: {mode: in-process}": {"authors", "exception-authors", "podset-pods", "podset-templates", "shero-objects", "shero-specs"},
		"controllers: " + podSets:     {"authors", "exception-authors", "podset-pods", "podset-templates"},
		"controllers: " + sheroes:     {"authors", "exception-authors", "shero-objects", "shero-specs"},
		"controllers: {podset: false, bellerophonsimple: false}":                    {"exception-authors", "scan-job-deletions", "scan-jobs"},
		"controllers: {podset: false, bellerophonsimple: false, exceptions: false}": {"scan-job-deletions", "scan-jobs"},
		"admissionPolicy: {enabled: false}":                                         nil,
	} {
		if diff := cmp.Diff(want, policies(render(t, values))); diff != "" {
			t.Errorf("%q (-want +got):\n%s", values, diff)
		}
	}
}

// TestPolicySettings: the chart replaces the variables that are settings.
func TestPolicySettings(t *testing.T) {
	variables := func(values string) map[string]string {
		found := map[string]string{}
		for _, p := range find[*admissionv1.ValidatingAdmissionPolicy](render(t, values)) {
			for _, v := range p.Spec.Variables {
				found[v.Name] = v.Expression
			}
		}
		return found
	}
	for name, want := range map[string][2]string{
		"plainHTTPRegistries": {`[""]`, `["a:5000","b"]`},
		"registries":          {`""`, `"{\"caBundle\":\"a \\u003c b\",\"proxy\":{\"noProxy\":[],\"url\":\"http://proxy:3128\"}}"`},
		"serviceAccount":      {`""`, `"scans"`},
		"operatorNamespace":   {`"scanner-system"`, `"scanner-system"`},
		"operatorAccount":     {`"system:serviceaccount:scanner-system:scanner-controller-manager"`, `"system:serviceaccount:scanner-system:scanner-controller-manager"`},
		"uploadURL":           {`"https://scanner-controller-manager-api-service.scanner-system.svc:8000"`, `"https://mine:1"`},
		"privileged":          {"false", "true"},
		"templateAccess":      {"false", "true"},
		"singleParent":        {"false", "true"},
	} {
		const others = `{plainHTTPRegistries: ["a:5000", b], scans: {serviceAccountName: scans, caBundle: "a < b", proxy: {url: "http://proxy:3128"}}, catalog: {apiURL: "https://mine:1"}, admissionPolicy: {podSets: privileged, podSetAccess: template, singleParent: true}}`
		if got := [2]string{variables("")[name], variables(others)[name]}; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, p := range find[*admissionv1.ValidatingAdmissionPolicy](render(t, "serviceAccount: {name: mine}", "--namespace", "other")) {
		for _, v := range p.Spec.Variables {
			if v.Name == "operatorNamespace" && v.Expression != `"other"` {
				t.Errorf("%s is for another namespace: %s", p.Name, v.Expression)
			}
			if v.Name == "operatorAccount" && v.Expression != `"system:serviceaccount:other:mine"` {
				t.Errorf("%s is for another account: %s", p.Name, v.Expression)
			}
		}
		for _, c := range p.Spec.MatchConditions {
			if c.Name == "by-the-operator" && c.Expression != `request.userInfo.username == "system:serviceaccount:other:mine"` {
				t.Errorf("%s is for another account: %s", p.Name, c.Expression)
			}
		}
	}
}

// TestRegistriesOfPolicyAndManager: the policy permits what the manager passes to scan Jobs.
func TestRegistriesOfPolicyAndManager(t *testing.T) {
	objects := render(t, `scans: {caBundle: "-----BEGIN\n<ä>&\n", registries: [{host: docker.io, mirrors: [mirror.example/hub]}, {host: "r:5000", plainHTTP: true}],
		attestations: [{publicKey: "-----BEGIN PUBLIC KEY-----\n", repositories: [r.example/team]}]}`)
	var permitted, passed string
	for _, p := range find[*admissionv1.ValidatingAdmissionPolicy](objects) {
		for _, v := range p.Spec.Variables {
			if v.Name == "registries" {
				if err := json.Unmarshal([]byte(v.Expression), &permitted); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, v := range find[*appsv1.Deployment](objects)[0].Spec.Template.Spec.Containers[0].Env {
		if v.Name == "SCANNER_REGISTRIES" {
			passed = v.Value
		}
	}
	const want = `{"attestations":[{"publicKey":"-----BEGIN PUBLIC KEY-----\n","repositories":["r.example/team"]}],"caBundle":"-----BEGIN\n\u003cä\u003e\u0026\n","registries":[{"host":"docker.io","mirrors":["mirror.example/hub"]},{"host":"r:5000","plainHTTP":true}]}`
	if passed != want || permitted != want {
		t.Errorf("the manager passes %s\nthe policy permits %s\nwant %s", passed, permitted, want)
	}
}

// TestRegistriesAreNotAskedForLayers: by default, and where a network policy keeps scans from registries.
func TestRegistriesAreNotAskedForLayers(t *testing.T) {
	for values, want := range map[string]string{
		"": "", "scans: {imageVolumeLayers: true}": `{"askLayers":true}`,
		"scans: {imageVolumeLayers: false}": "", "{networkPolicy: {enabled: true}, scans: {imageVolumeLayers: true}}": "",
		`{scans: {caBundle: "PEM", imageVolumeLayers: true}}`: `{"askLayers":true,"caBundle":"PEM"}`,
	} {
		passed := ""
		for _, v := range find[*appsv1.Deployment](render(t, values))[0].Spec.Template.Spec.Containers[0].Env {
			if v.Name == "SCANNER_REGISTRIES" {
				passed = v.Value
			}
		}
		if passed != want {
			t.Errorf("%q: the manager passes %s, want %s", values, passed, want)
		}
	}
}

func TestNoRightToCreateJobsInProcess(t *testing.T) {
	for values, want := range map[string]bool{"": true, "catalog: {mode: in-process}": false} {
		rights := expand(rules(render(t, values))[""])
		if rights["batch/jobs create"] != want || !rights["batch/jobs watch"] {
			t.Errorf("%q: may create Jobs: %t, want %t", values, rights["batch/jobs create"], want)
		}
	}
}

// TestKustomizePolicies compares the policies of config/ with those of the chart, which have the names and the image that config/default gives them.
func TestKustomizePolicies(t *testing.T) {
	read := func(file string, into any) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join("..", "..", "config", file))
		if err != nil {
			t.Fatal(err)
		}
		if err := sigsyaml.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	var listed, installed struct {
		NamePrefix string
		Resources  []string
	}
	read("admission/kustomization.yaml", &listed)
	read("default/kustomization.yaml", &installed)
	if !slices.Contains(installed.Resources, "../admission") {
		t.Error("config/default does not install config/admission")
	}
	want, got := map[string]any{}, map[string]any{}
	r := render(t, "")
	for _, p := range find[*admissionv1.ValidatingAdmissionPolicy](r) {
		want[p.Kind+" "+p.Name] = p.Spec
	}
	for _, b := range find[*admissionv1.ValidatingAdmissionPolicyBinding](r) {
		want[b.Kind+" "+b.Name] = b.Spec
	}
	for _, file := range listed.Resources {
		text, err := os.ReadFile(filepath.Join("..", "..", "config", "admission", file))
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			// The replacement of config/default.
			document = strings.Replace(document, `'"controller:latest"'`, `'"`+image+`"'`, 1)
			var meta struct {
				Kind     string
				Metadata struct{ Name string }
			}
			if err := sigsyaml.Unmarshal([]byte(document), &meta); err != nil {
				t.Fatal(err)
			}
			name := meta.Kind + " " + installed.NamePrefix + meta.Metadata.Name
			switch meta.Kind {
			case "ValidatingAdmissionPolicy":
				p := &admissionv1.ValidatingAdmissionPolicy{}
				if err := sigsyaml.UnmarshalStrict([]byte(document), p); err != nil {
					t.Fatal(err)
				}
				got[name] = p.Spec
			default:
				b := &admissionv1.ValidatingAdmissionPolicyBinding{}
				if err := sigsyaml.UnmarshalStrict([]byte(document), b); err != nil {
					t.Fatal(err)
				}
				b.Spec.PolicyName = installed.NamePrefix + b.Spec.PolicyName
				got[name] = b.Spec
			}
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
		t.Fatalf("the names (-chart +config):\n%s", diff)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the policies (-chart +config):\n%s", diff)
	}
	manager, err := os.ReadFile(filepath.Join("..", "..", "config", "manager", "manager.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	url := ""
	for line := range strings.Lines(string(manager)) {
		if _, rest, found := strings.Cut(line, "- --api-url="); found {
			url = strings.ReplaceAll(strings.TrimSpace(rest), "$(POD_NAMESPACE)", namespace)
		}
	}
	if variables := scanJobPolicy(t, r).Spec.Variables; variables[1].Name != "uploadURL" || variables[1].Expression != `"`+url+`"` {
		t.Errorf("scan Jobs of config/ upload to %s, and its policy permits %s", url, variables[1].Expression)
	}
}
