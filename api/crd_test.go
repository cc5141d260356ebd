// Package api_test checks the CRDs, and the samples against them, as an API server does.
package api_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	sigsyaml "sigs.k8s.io/yaml"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
	pocv1 "github.com/scanner-operator/scanner-operator/api/poc/v1"
	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	stablev444beta989 "github.com/scanner-operator/scanner-operator/api/stable/v444beta989"
)

// definition is a CRD made ready to validate objects.
type definition struct {
	crd        *apiextensions.CustomResourceDefinition
	structural *schema.Structural
	validator  schemavalidation.SchemaValidator
	cel        *cel.Validator
}

func definitions(t *testing.T) map[string]definition {
	t.Helper()
	files, err := filepath.Glob("../config/crd/bases/*.yaml")
	if err != nil || len(files) != 11 {
		t.Fatalf("%d CRDs, want 11: %v", len(files), err)
	}
	byKind := map[string]definition{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		external := &apiextensionsv1.CustomResourceDefinition{}
		if err := sigsyaml.UnmarshalStrict(text, external); err != nil {
			t.Fatal(err)
		}
		apiextensionsv1.SetDefaults_CustomResourceDefinition(external)
		apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&external.Spec)
		d := definition{crd: &apiextensions.CustomResourceDefinition{}}
		if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(external, d.crd, nil); err != nil {
			t.Fatal(err)
		}
		for _, version := range d.crd.Spec.Versions {
			d.crd.Status.StoredVersions = append(d.crd.Status.StoredVersions, version.Name)
		}
		openAPI, err := apiextensions.GetSchemaForVersion(d.crd, d.crd.Spec.Versions[0].Name)
		if err != nil {
			t.Fatal(err)
		}
		if d.structural, err = schema.NewStructural(openAPI.OpenAPIV3Schema); err != nil {
			t.Fatal(err)
		}
		if d.validator, _, err = schemavalidation.NewSchemaValidator(openAPI.OpenAPIV3Schema); err != nil {
			t.Fatal(err)
		}
		d.cel = cel.NewValidator(d.structural, true, celconfig.PerCallLimit)
		byKind[d.crd.Spec.Names.Kind] = d
	}
	return byKind
}

// admit fills in the defaults of an object and returns what is wrong with it.
func (d definition) admit(t *testing.T, obj, old *unstructured.Unstructured) field.ErrorList {
	t.Helper()
	unknown := pruning.PruneWithOptions(obj.Object, d.structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	if len(unknown) > 0 {
		t.Errorf("unknown fields: %v", unknown)
	}
	defaulting.Default(obj.Object, d.structural)
	errs := schemavalidation.ValidateCustomResource(nil, obj.Object, d.validator)
	var oldObject any
	if old != nil {
		defaulting.Default(old.Object, d.structural)
		oldObject = old.Object
	}
	celErrs, _ := d.cel.Validate(t.Context(), nil, d.structural, obj.Object, oldObject, celconfig.RuntimeCELCostBudget)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.structural, obj.Object)...)
	return append(errs, celErrs...)
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	document, err := sigsyaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	obj := &unstructured.Unstructured{}
	// Unlike encoding/json it reads integers as integers.
	if err := json.Unmarshal(document, &obj.Object); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return obj
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		scannerv1.AddToScheme, scannerv1alpha1.AddToScheme, appv1alpha1.AddToScheme, pocv1.AddToScheme, stablev444beta989.AddToScheme,
	} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestCRDsInstall(t *testing.T) {
	for kind, d := range definitions(t) {
		for _, err := range validation.ValidateCustomResourceDefinition(t.Context(), d.crd) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestNames(t *testing.T) {
	type names struct {
		Group, Version, Plural, Singular string
		ShortNames                       []string
	}
	got := map[string]names{}
	for kind, d := range definitions(t) {
		n := d.crd.Spec.Names
		got[kind] = names{d.crd.Spec.Group, d.crd.Spec.Versions[0].Name, n.Plural, n.Singular, n.ShortNames}
	}
	want := map[string]names{
		"Scanner": {"scanner.zoltankerezsi.xyz", "v1", "scanners", "scanner", []string{"scn"}},
		"ClusterVulnerabilityException": {
			"scanner.zoltankerezsi.xyz", "v1alpha1", "clustervulnerabilityexceptions", "clustervulnerabilityexception", []string{"cvex"},
		},
		"VulnerabilityException": {
			"scanner.zoltankerezsi.xyz", "v1alpha1", "vulnerabilityexceptions", "vulnerabilityexception", []string{"vulnex"},
		},
		"VulnerabilityPolicy": {"scanner.zoltankerezsi.xyz", "v1alpha1", "vulnerabilitypolicies", "vulnerabilitypolicy", []string{"vpol"}},
		"VEXSource":           {"scanner.zoltankerezsi.xyz", "v1alpha1", "vexsources", "vexsource", []string{"vex"}},
		"NotificationRule":    {"scanner.zoltankerezsi.xyz", "v1alpha1", "notificationrules", "notificationrule", []string{"nrule"}},
		"ReportSink":          {"scanner.zoltankerezsi.xyz", "v1alpha1", "reportsinks", "reportsink", []string{"rsink"}},
		"ClusterNotificationRule": {
			"scanner.zoltankerezsi.xyz", "v1alpha1", "clusternotificationrules", "clusternotificationrule", []string{"cnrule"},
		},
		"PodSet":            {"app.example.com", "v1alpha1", "podsets", "podset", []string{"pset"}},
		"MyCustomResource":  {"poc.test.domain", "v1", "mycustomresources", "mycustomresource", []string{"mcr"}},
		"BellerophonSimple": {"stable.simple-bellerophon.io", "v444beta989", "sheroes", "bellerophonsimple", []string{"bsh"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSamples admits every sample, and reads it into its Go type and back without loss.
func TestSamples(t *testing.T) {
	defs, known := definitions(t), scheme(t)
	files, err := filepath.Glob("../config/samples/*_*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			obj := parse(t, document)
			seen[obj.GetKind()] = true
			if errs := defs[obj.GetKind()].admit(t, obj, nil); len(errs) > 0 {
				t.Errorf("%s: %v", file, errs)
			}
			typed, err := known.New(obj.GroupVersionKind())
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, typed, true); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			back, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			// A duration is written in its long form, and a status that is empty but has counters shows them.
			spec, _ := back["spec"].(map[string]any)
			if _, set := spec["retention"]; set {
				spec["retention"] = "720h"
			}
			delete(back, "status")
			if diff := cmp.Diff(obj.Object, back); diff != "" {
				t.Errorf("%s changes on its way (-want +got):\n%s", file, diff)
			}
		}
	}
	for kind := range maps.Keys(defs) {
		if !seen[kind] {
			t.Errorf("there is no sample of %s", kind)
		}
	}
}

func TestDefaults(t *testing.T) {
	defs := definitions(t)
	scanner := parse(t, `{apiVersion: scanner.zoltankerezsi.xyz/v1, kind: Scanner, metadata: {name: x}}`)
	if errs := defs["Scanner"].admit(t, scanner, nil); len(errs) > 0 {
		t.Fatal(errs)
	}
	want := map[string]any{"ignoreLabel": "ignore", "concurrency": int64(10), "retention": "720h"}
	if diff := cmp.Diff(want, scanner.Object["spec"]); diff != "" {
		t.Errorf("Scanner (-want +got):\n%s", diff)
	}
	podset := parse(t, `{apiVersion: app.example.com/v1alpha1, kind: PodSet, metadata: {name: x}}`)
	if errs := defs["PodSet"].admit(t, podset, nil); len(errs) > 0 {
		t.Fatal(errs)
	}
	if diff := cmp.Diff(map[string]any{"replicas": int64(1)}, podset.Object["spec"]); diff != "" {
		t.Errorf("PodSet (-want +got):\n%s", diff)
	}
}

// The kinds of exceptions.
const (
	cvex   = "ClusterVulnerabilityException"
	vulnex = "VulnerabilityException"
)

// numbered is a list of n entries.
func numbered(format string, n int) string {
	entries := make([]string, n)
	for i := range entries {
		entries[i] = fmt.Sprintf(format, i+100)
	}
	return strings.Join(entries, ", ")
}

func TestValidation(t *testing.T) {
	defs := definitions(t)
	tests := map[string]struct {
		kind, spec string
		// want is part of the error; empty means that the object is fine.
		want string
	}{
		"a policy":                     {"VulnerabilityPolicy", `{dueIn: {critical: 0, high: 1, medium: 30, low: 3650, kev: 0}, select: "finding.kev", from: fixAvailable}`, ""},
		"a policy without days":        {"VulnerabilityPolicy", `{dueIn: {}}`, "spec.dueIn"},
		"a policy without deadlines":   {"VulnerabilityPolicy", `{select: "finding.kev"}`, "spec.dueIn"},
		"a deadline in the past":       {"VulnerabilityPolicy", `{dueIn: {low: -1}}`, "spec.dueIn.low"},
		"a deadline in the far future": {"VulnerabilityPolicy", `{dueIn: {kev: 3651}}`, "spec.dueIn.kev"},
		"a deadline from another day":  {"VulnerabilityPolicy", `{dueIn: {low: 1}, from: yesterday}`, "spec.from"},
		"a policy for some labels": {"VulnerabilityPolicy", `{dueIn: {low: 1}, namespaceSelector: {matchLabels: {environment: production}}, workloadSelector: {
			matchExpressions: [{key: tier, operator: In, values: [` + numbered("v%d", 50) + `]}]}}`, ""},
		"a policy for all workloads":      {"VulnerabilityPolicy", `{dueIn: {low: 1}, namespaceSelector: {}, workloadSelector: {}}`, ""},
		"a policy with 21 labels":         {"VulnerabilityPolicy", `{dueIn: {low: 1}, namespaceSelector: {matchLabels: {` + numbered("l%d: a", 21) + `}}}`, "at most 20 matchLabels"},
		"a policy with 21 expressions":    {"VulnerabilityPolicy", `{dueIn: {low: 1}, workloadSelector: {matchExpressions: [` + numbered("{key: k%d, operator: Exists}", 21) + `]}}`, "at most 20 matchExpressions"},
		"a policy with 51 values":         {"VulnerabilityPolicy", `{dueIn: {low: 1}, workloadSelector: {matchExpressions: [{key: a, operator: In, values: [` + numbered("v%d", 51) + `]}]}}`, "at most 50 values each"},
		"an empty expression":             {"VulnerabilityPolicy", `{dueIn: {low: 1}, select: ""}`, "spec.select"},
		"a long expression":               {"VulnerabilityPolicy", `{dueIn: {low: 1}, select: "` + strings.Repeat("a", 4096) + `"}`, ""},
		"a rule":                          {"NotificationRule", `{sinks: [{name: a, webhook: {url: "https://h.example/x?y=z"}}, {name: b, email: {credential: mail, to: [a@b.example]}}]}`, ""},
		"a rule without sinks":            {"NotificationRule", `{sinks: []}`, "spec.sinks"},
		"two sinks of a name":             {"NotificationRule", `{sinks: [{name: a, slack: {credential: c}}, {name: a, teams: {credential: c}}]}`, "spec.sinks"},
		"a sink of no type":               {"NotificationRule", `{sinks: [{name: a}]}`, "set exactly one"},
		"a sink of two types":             {"NotificationRule", `{sinks: [{name: a, slack: {credential: c}, teams: {credential: c}}]}`, "set exactly one"},
		"a URL and a credential":          {"ClusterNotificationRule", `{sinks: [{name: a, webhook: {url: "https://h.example/", credential: c}}]}`, "set exactly one of url and credential"},
		"a URL with a password":           {"ClusterNotificationRule", `{sinks: [{name: a, webhook: {url: "https://u:p@h.example/"}}]}`, "without a user name"},
		"a URL of a file":                 {"ClusterNotificationRule", `{sinks: [{name: a, alertmanager: {url: "file:///etc/passwd"}}]}`, "url must be"},
		"a credential outside":            {"ClusterNotificationRule", `{sinks: [{name: a, slack: {credential: "../c"}}]}`, "credential"},
		"a forged recipient":              {"ClusterNotificationRule", `{sinks: [{name: a, email: {credential: c, to: ["a@b\r\nBcc: c@d"]}}]}`, "to"},
		"a window of a day and more":      {"NotificationRule", `{group: {window: 25h}, sinks: [{name: a, slack: {credential: c}}]}`, "window must be"},
		"a digest":                        {"NotificationRule", `{digest: {schedule: "0 8 * * 1-5", timeZone: America/Argentina/Buenos_Aires}, sinks: [{name: a, slack: {credential: c}}]}`, ""},
		"a digest without a schedule":     {"NotificationRule", `{digest: {}, sinks: [{name: a, slack: {credential: c}}]}`, "spec.digest.schedule"},
		"a schedule of four fields":       {"NotificationRule", `{digest: {schedule: "0 8 * *"}, sinks: [{name: a, slack: {credential: c}}]}`, "spec.digest.schedule"},
		"a schedule with a time zone":     {"NotificationRule", `{digest: {schedule: "TZ=UTC 0 8 * * *"}, sinks: [{name: a, slack: {credential: c}}]}`, "spec.digest.schedule"},
		"a time zone that is a path":      {"NotificationRule", `{digest: {schedule: "0 8 * * *", timeZone: "../etc"}, sinks: [{name: a, slack: {credential: c}}]}`, "spec.digest.timeZone"},
		"messages without end":            {"NotificationRule", `{messagesPerHour: 101, sinks: [{name: a, slack: {credential: c}}]}`, "spec.messagesPerHour"},
		"a report sink":                   {"ReportSink", `{dependencyTrack: {credential: c, projectName: "{namespace}/{workload}", projectVersion: "", tags: ["{owner}"]}}`, ""},
		"a report sink of no type":        {"ReportSink", `{images: [docker.io/library/debian]}`, "set exactly one"},
		"a report sink of two types":      {"ReportSink", `{dependencyTrack: {credential: c}, s3: {credential: c, bucket: abc}}`, "set exactly one"},
		"a report sink with a URL":        {"ReportSink", `{s3: {credential: "https://h", bucket: abc}}`, "spec.s3.credential"},
		"an unknown placeholder":          {"ReportSink", `{s3: {credential: c, bucket: abc, key: "{secret}"}}`, "spec.s3.key"},
		"an unknown format of reports":    {"ReportSink", `{s3: {credential: c, bucket: abc, formats: [PDF]}}`, "spec.s3.formats"},
		"a bucket in another folder":      {"ReportSink", `{s3: {credential: c, bucket: "a/../b"}}`, "spec.s3.bucket"},
		"a resync each minute":            {"ReportSink", `{resyncInterval: 1m, s3: {credential: c, bucket: abc}}`, "resyncInterval must be"},
		"an expression that is too long":  {"VulnerabilityPolicy", `{dueIn: {low: 1}, select: "` + strings.Repeat("a", 4097) + `"}`, "spec.select"},
		"a namespaced ignore label":       {"Scanner", `{ignoreLabel: example.com/no-scan}`, ""},
		"an ignore label with a space":    {"Scanner", `{ignoreLabel: "a b"}`, "spec.ignoreLabel"},
		"an empty ignore label":           {"Scanner", `{ignoreLabel: ""}`, "spec.ignoreLabel"},
		"no concurrency":                  {"Scanner", `{concurrency: 0}`, "spec.concurrency"},
		"too much concurrency":            {"Scanner", `{concurrency: 51}`, "spec.concurrency"},
		"a long retention":                {"Scanner", `{retention: 1440h30m}`, ""},
		"a short retention":               {"Scanner", `{retention: 59m}`, "retention must be between"},
		"an endless retention":            {"Scanner", `{retention: 87601h}`, "retention must be between"},
		"a retention in days":             {"Scanner", `{retention: 30d}`, "spec.retention"},
		"all namespaces":                  {"Scanner", `{namespaceSelector: {}}`, ""},
		"a job":                           {"Scanner", `{job: {resources: {limits: {memory: 2Gi}}, nodeSelector: {a: b}, tolerations: [{operator: Exists}], imagePullSecrets: [{name: a}], priorityClassName: low}}`, ""},
		"a job with claims":               {"Scanner", `{job: {resources: {claims: [{name: a}]}}}`, "resource claims are not supported"},
		"documents at a URL":              {"VEXSource", `{http: {url: "https://example.com:8443/vex.json?a=b"}, interval: 1m, formats: [CSAF]}`, ""},
		"signed documents at a URL":       {"VEXSource", `{http: {url: "https://example.com/vex.json"}, signature: {publicKey: "-----BEGIN PUBLIC KEY-----"}}`, ""},
		"an artifact":                     {"VEXSource", `{oci: {reference: "registry.example.com:5000/a/b:v1@sha256:` + strings.Repeat("a", 64) + `"}}`, ""},
		"a ConfigMap":                     {"VEXSource", `{configMap: {name: vex, key: ours.json}}`, ""},
		"no place of documents":           {"VEXSource", `{interval: 1h}`, "exactly one of http, oci and configMap"},
		"two places of documents":         {"VEXSource", `{configMap: {name: vex, key: a}, oci: {reference: a.example/b}}`, "exactly one of http, oci and configMap"},
		"exported decisions":              {"VEXSource", `{configMap: {name: vex, key: ours.json}, exportedDecisions: Full}`, ""},
		"exported decisions, all":         {"VEXSource", `{configMap: {name: vex, key: ours.json}, exportedDecisions: All}`, "exportedDecisions"},
		"documents without TLS":           {"VEXSource", `{http: {url: "http://example.com/"}}`, "url must be https"},
		"a password in a URL":             {"VEXSource", `{http: {url: "https://a:b@example.com/"}}`, "url must be https"},
		"a URL without a host":            {"VEXSource", `{http: {url: "https:///vex"}}`, "url must be https"},
		"a file":                          {"VEXSource", `{http: {url: "file:///etc/passwd"}}`, "url must be https"},
		"an artifact without a registry":  {"VEXSource", `{oci: {reference: "vex"}}`, "spec.oci.reference"},
		"a ConfigMap of a namespace":      {"VEXSource", `{configMap: {name: kube-system/vex, key: a}}`, "spec.configMap.name"},
		"a signed ConfigMap":              {"VEXSource", `{configMap: {name: vex, key: a}, signature: {publicKey: "-----BEGIN PUBLIC KEY-----"}}`, "a ConfigMap has no signature"},
		"a private key":                   {"VEXSource", `{oci: {reference: a.example/b}, signature: {publicKey: "-----BEGIN PRIVATE KEY-----"}}`, "publicKey must be a public key"},
		"a short interval":                {"VEXSource", `{oci: {reference: a.example/b}, interval: 59s}`, "interval must be from"},
		"a long interval":                 {"VEXSource", `{oci: {reference: a.example/b}, interval: 169h}`, "interval must be from"},
		"an unknown format":               {"VEXSource", `{oci: {reference: a.example/b}, formats: [SPDX]}`, "spec.formats"},
		"no pods":                         {"PodSet", `{replicas: 0}`, "spec.replicas"},
		"ten pods":                        {"PodSet", `{replicas: 10}`, ""},
		"eleven pods":                     {"PodSet", `{replicas: 11}`, "spec.replicas"},
		"a template":                      {"PodSet", `{template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: b}]}}}`, ""},
		"a friend":                        {"MyCustomResource", `{name: funny-joe}`, ""},
		"no friend":                       {"MyCustomResource", `{}`, "spec.name"},
		"a friend without a name":         {"MyCustomResource", `{name: ""}`, "spec.name"},
		"a hero at rest":                  {"BellerophonSimple", `{image: a, replicas: 0}`, ""},
		"a hero without an image":         {"BellerophonSimple", `{replicas: 1}`, "spec.image"},
		"too many heroes":                 {"BellerophonSimple", `{image: a, replicas: 101}`, "spec.replicas"},
		"a hero with storage":             {"BellerophonSimple", `{image: a, storage: {size: 1Gi, onDelete: Delete}}`, ""},
		"storage without a size":          {"BellerophonSimple", `{image: a, storage: {}}`, "spec.storage.size"},
		"storage with an unknown fate":    {"BellerophonSimple", `{image: a, storage: {size: 1Gi, onDelete: Recycle}}`, "spec.storage.onDelete"},
		"an exception of a vulnerability": {cvex, `{status: AcceptedRisk, comment: internal only, match: {vulnerabilities: [CVE-2024-3094]}}`, ""},
		"an exception of all aliases":     {cvex, `{status: Fixed, match: {vulnerabilities: [GHSA-rxwq-x6h5-x525, "ELSA-2024:0001", RUSTSEC-2021-0001]}}`, ""},
		"an exception of a package":       {cvex, `{status: FalsePositive, match: {packages: ["pkg:deb/debian/openssl"]}}`, ""},
		"an exception of versions":        {cvex, `{status: FalsePositive, match: {packages: ["pkg:npm/%40angular/core@1.2.3", "pkg:golang/golang.org/x/net@v0.1*", "pkg:npm/lodash@*"]}}`, ""},
		"an exception of many packages":   {cvex, `{status: FalsePositive, match: {packages: ["pkg:npm/%40angular/*", "pkg:deb/debian/lib*", "pkg:deb/*"]}}`, ""},
		"an exception of nothing":         {cvex, `{status: FalsePositive, match: {}}`, "name a vulnerability or a package"},
		"an exception of images": {cvex, `{status: Fixed, match: {vulnerabilities: [CVE-1], images: ["docker.io/library/nginx", "registry.example.com:5000/team-a/*", "localhost/app", "*",
			"*@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "*/library/*", "docker.io/library/nginx@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]}}`, ""},
		"an exception of images alone":     {cvex, `{status: Fixed, match: {images: ["docker.io/library/nginx"]}}`, "name a vulnerability or a package"},
		"an image with a tag":              {cvex, `{status: Fixed, match: {vulnerabilities: [CVE-1], images: ["docker.io/library/nginx:1.27"]}}`, "an image has a tag: remove it"},
		"an image with a tag and no host":  {cvex, `{status: Fixed, match: {vulnerabilities: [CVE-1], images: ["nginx:latest"]}}`, "an image has a tag: remove it"},
		"an image with a tag and a digest": {cvex, `{status: Fixed, match: {vulnerabilities: [CVE-1], images: ["docker.io/library/nginx:1@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]}}`, "an image has a tag: remove it"},
		"an image without a registry":      {cvex, `{status: Fixed, match: {vulnerabilities: [CVE-1], images: ["library/nginx"]}}`, "an image begins with its registry"},
		"an image without any slash":       {cvex, `{status: Fixed, match: {vulnerabilities: [CVE-1], images: ["nginx"]}}`, "an image begins with its registry"},
		"an image with another digest":     {cvex, `{status: Fixed, match: {vulnerabilities: [CVE-1], images: ["docker.io/library/nginx@sha256:1"]}}`, "spec.match.images[0]"},
		"an exception of empty lists":      {cvex, `{status: FalsePositive, match: {packages: [], vulnerabilities: []}}`, "name a vulnerability or a package"},
		"an exception without a match":     {cvex, `{status: FalsePositive}`, "spec.match"},
		"an exception without a status":    {cvex, `{match: {vulnerabilities: [CVE-1]}}`, "spec.status"},
		"an exception of another status":   {cvex, `{status: WontFix, match: {vulnerabilities: [CVE-1]}}`, "spec.status"},
		"a justification":                  {cvex, `{status: NotAffected, justification: component_not_present, match: {vulnerabilities: [CVE-1]}}`, ""},
		"a comment as a justification":     {cvex, `{status: NotAffected, comment: not loaded, match: {vulnerabilities: [CVE-1]}}`, ""},
		"no justification":                 {cvex, `{status: NotAffected, match: {vulnerabilities: [CVE-1]}}`, "needs a justification or a comment"},
		"an unknown justification":         {cvex, `{status: NotAffected, justification: nah, match: {vulnerabilities: [CVE-1]}}`, "spec.justification"},
		"an idle justification":            {cvex, `{status: Fixed, justification: component_not_present, match: {vulnerabilities: [CVE-1]}}`, "other statuses have no justification"},
		"a risk without a reason":          {cvex, `{status: AcceptedRisk, match: {vulnerabilities: [CVE-1]}}`, "states why"},
		"a risk with an empty reason":      {cvex, `{status: AcceptedRisk, comment: "", match: {vulnerabilities: [CVE-1]}}`, "spec.comment"},
		"an investigation":                 {cvex, `{status: UnderInvestigation, match: {vulnerabilities: [CVE-1]}}`, ""},
		"a dry run that expires":           {cvex, `{status: Fixed, mode: DryRun, expiresAt: "2020-01-01T00:00:00Z", expireWhenFixed: true, match: {vulnerabilities: [CVE-1]}}`, ""},
		"another mode":                     {cvex, `{status: Fixed, mode: Audit, match: {vulnerabilities: [CVE-1]}}`, "spec.mode"},
		"an end that is no time":           {cvex, `{status: Fixed, expiresAt: tomorrow, match: {vulnerabilities: [CVE-1]}}`, "spec.expiresAt"},
		"an exception for namespaces": {cvex, `{status: Fixed, match: {vulnerabilities: [CVE-1], namespaceSelector: {matchLabels: {team: a}}, workloadSelector: {
			matchExpressions: [{key: app, operator: In, values: [` + numbered("v%d", 50) + `]}, {key: debug, operator: DoesNotExist}]}}}`, ""},
		"an exception for all namespaces":    {cvex, `{status: Fixed, match: {vulnerabilities: [CVE-1], namespaceSelector: {}, workloadSelector: {}}}`, ""},
		"an exception in a namespace":        {vulnex, `{status: Fixed, match: {vulnerabilities: [CVE-1]}}`, ""},
		"an exception for workloads":         {vulnex, `{status: Fixed, match: {vulnerabilities: [CVE-1], workloadSelector: {matchLabels: {app: web}}}}`, ""},
		"a namespace that selects others":    {vulnex, `{status: Fixed, match: {vulnerabilities: [CVE-1], namespaceSelector: {matchLabels: {team: a}}}}`, "a VulnerabilityException has no namespaceSelector"},
		"a namespace that selects all":       {vulnex, `{status: Fixed, match: {vulnerabilities: [CVE-1], namespaceSelector: {}}}`, "a VulnerabilityException has no namespaceSelector"},
		"a namespaced risk without reason":   {vulnex, `{status: AcceptedRisk, match: {vulnerabilities: [CVE-1]}}`, "states why"},
		"a selector without a vulnerability": {vulnex, `{status: Fixed, match: {workloadSelector: {matchLabels: {app: web}}}}`, "name a vulnerability or a package"},
		"21 labels":                          {vulnex, `{status: Fixed, match: {vulnerabilities: [CVE-1], workloadSelector: {matchLabels: {` + numbered("l%d: a", 21) + `}}}}`, "at most 20 matchLabels"},
		"21 expressions":                     {cvex, `{status: Fixed, match: {vulnerabilities: [CVE-1], namespaceSelector: {matchExpressions: [` + numbered("{key: k%d, operator: Exists}", 21) + `]}}}`, "at most 20 matchExpressions"},
		"51 values":                          {cvex, `{status: Fixed, match: {vulnerabilities: [CVE-1], workloadSelector: {matchExpressions: [{key: a, operator: In, values: [` + numbered("v%d", 51) + `]}]}}}`, "at most 50 values each"},
		"every vulnerability":                {cvex, `{status: Fixed, match: {vulnerabilities: ["*"]}}`, "spec.match.vulnerabilities[0]"},
		"a vulnerability with a space":       {cvex, `{status: Fixed, match: {vulnerabilities: ["CVE-1 OR 1"]}}`, "spec.match.vulnerabilities[0]"},
		"a vulnerability twice":              {cvex, `{status: Fixed, match: {vulnerabilities: [CVE-1, CVE-1]}}`, "Duplicate value"},
		"101 vulnerabilities":                {cvex, `{status: Fixed, match: {vulnerabilities: [` + numbered("CVE-%d", 101) + `]}}`, "at most 100 items"},
		"51 packages":                        {cvex, `{status: Fixed, match: {packages: [` + numbered("pkg:npm/a%d", 51) + `]}}`, "at most 50 items"},
		"a package by its name":              {cvex, `{status: Fixed, match: {packages: [openssl]}}`, "spec.match.packages[0]"},
		"packages of all types":              {cvex, `{status: Fixed, match: {packages: ["pkg:*"]}}`, "spec.match.packages[0]"},
		"a package with qualifiers":          {cvex, `{status: Fixed, match: {packages: ["pkg:deb/debian/openssl?arch=amd64"]}}`, "spec.match.packages[0]"},
		"a package with a subpath":           {cvex, `{status: Fixed, match: {packages: ["pkg:npm/a#b"]}}`, "spec.match.packages[0]"},
		"a * inside a segment":               {cvex, `{status: Fixed, match: {packages: ["pkg:deb/*/openssl", "pkg:npm/a*b"]}}`, "spec.match.packages[1]"},
		"storage mounted somewhere odd":      {"BellerophonSimple", `{image: a, storage: {size: 1Gi, mountPath: data}}`, "spec.storage.mountPath"},
	}
	for label, test := range tests {
		t.Run(label, func(t *testing.T) {
			errs := defs[test.kind].admit(t, object(t, defs, test.kind, test.spec), nil)
			switch got := errs.ToAggregate(); {
			case test.want == "" && got != nil:
				t.Errorf("refused: %v", got)
			case test.want != "" && got == nil:
				t.Error("accepted")
			case test.want != "" && !strings.Contains(got.Error(), test.want):
				t.Errorf("the error does not contain %q: %v", test.want, got)
			}
		})
	}
}

// The pods of a PodSet carry its name in a label, which has at most 63 characters.
func TestNamesOfPodSets(t *testing.T) {
	defs := definitions(t)
	for length, want := range map[int]string{63: "", 64: "at most 63 characters"} {
		podset := object(t, defs, "PodSet", `{}`)
		podset.SetName(strings.Repeat("x", length))
		got := defs["PodSet"].admit(t, podset, nil).ToAggregate()
		if (want == "") != (got == nil) || got != nil && !strings.Contains(got.Error(), want) {
			t.Errorf("a name of %d characters: %v, want %q", length, got, want)
		}
	}
}

func TestImmutable(t *testing.T) {
	defs := definitions(t)
	tests := map[string]struct{ before, after, want string }{
		"scaling":             {`{image: a, replicas: 1, storage: {size: 1Gi}}`, `{image: b, replicas: 3, storage: {size: 1Gi, onDelete: Delete}}`, ""},
		"another size":        {`{image: a, storage: {size: 1Gi}}`, `{image: a, storage: {size: 2Gi}}`, "size cannot be changed"},
		"another class":       {`{image: a, storage: {size: 1Gi, storageClassName: a}}`, `{image: a, storage: {size: 1Gi, storageClassName: b}}`, "storageClassName cannot be changed"},
		"a class afterwards":  {`{image: a, storage: {size: 1Gi}}`, `{image: a, storage: {size: 1Gi, storageClassName: b}}`, "storageClassName cannot be changed"},
		"storage afterwards":  {`{image: a}`, `{image: a, storage: {size: 1Gi}}`, "storage cannot be added or removed"},
		"storage taken away":  {`{image: a, storage: {size: 1Gi}}`, `{image: a}`, "storage cannot be added or removed"},
		"a size as a number":  {`{image: a, storage: {size: 1024}}`, `{image: a, storage: {size: 1024}}`, ""},
		"an unchanged object": {`{image: a}`, `{image: a}`, ""},
	}
	for label, test := range tests {
		t.Run(label, func(t *testing.T) {
			const kind = "BellerophonSimple"
			errs := defs[kind].admit(t, object(t, defs, kind, test.after), object(t, defs, kind, test.before))
			got := errs.ToAggregate()
			if (test.want == "") != (got == nil) || got != nil && !strings.Contains(got.Error(), test.want) {
				t.Errorf("got %v, want %q", got, test.want)
			}
		})
	}
}

func object(t *testing.T, defs map[string]definition, kind, spec string) *unstructured.Unstructured {
	t.Helper()
	obj := parse(t, `{metadata: {name: x}, spec: `+spec+`}`)
	crd := defs[kind].crd.Spec
	obj.SetAPIVersion(metav1.GroupVersion{Group: crd.Group, Version: crd.Versions[0].Name}.String())
	obj.SetKind(kind)
	return obj
}
