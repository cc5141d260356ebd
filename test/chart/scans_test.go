package chart_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	sigsyaml "sigs.k8s.io/yaml"
)

func TestScansHaveALowPriority(t *testing.T) {
	const argument = "--scan-priority-class="
	tests := map[string]struct{ values, class, made string }{
		"made":           {"", "scanner-scans", "scanner-scans"},
		"one of theirs":  {"scans: {priorityClass: {name: batch}}", "batch", ""},
		"none":           {"scans: {priorityClass: {create: false}}", "", ""},
		"without a Job":  {"catalog: {mode: in-process}", "", ""},
		"another prefix": {"fullnameOverride: other", "scanner-system-other-scans", "scanner-system-other-scans"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := render(t, tt.values)
			class := ""
			for _, arg := range r.container().Args {
				if rest, found := strings.CutPrefix(arg, argument); found {
					class = rest
				}
			}
			if class != tt.class {
				t.Errorf("the operator uses %q, want %q", class, tt.class)
			}
			made := ""
			for _, c := range find[*schedulingv1.PriorityClass](r) {
				made = c.Name
				if c.Value >= 0 || c.Value < -10 || c.PreemptionPolicy == nil || *c.PreemptionPolicy != corev1.PreemptNever || c.GlobalDefault {
					t.Errorf("%+v pushes others away", c)
				}
			}
			if made != tt.made {
				t.Errorf("made %q, want %q", made, tt.made)
			}
		})
	}
}

func TestScansAreBounded(t *testing.T) {
	args := render(t, "{image: {pullSecrets: [{name: a}, {name: b}]}, scans: {concurrency: 3, registryConcurrency: 2, nodeConcurrency: 3, recatalogPerHour: 30, maxMemory: 2Gi, deadline: 1h, auditInterval: 1m, maxRetention: 720h}}").container().Args
	for _, want := range []string{
		"--scan-concurrency=3", "--scan-registry-concurrency=2", "--scan-node-concurrency=3", "--scan-recatalog-per-hour=30", "--scan-max-memory=2Gi", "--scan-deadline=1h", "--audit-interval=1m", "--max-retention=720h",
		"--scan-image-pull-secrets=a", "--scan-image-pull-secrets=b",
	} {
		if !slices.Contains(args, want) {
			t.Errorf("%s is not among %v", want, args)
		}
	}
	for _, values := range []string{"scans: {concurrency: 0}", "scans: {recatalogPerHour: -1}", "scans: {maxMemory: much}", "scans: {deadline: soon}", "scans: {maxRetention: long}", "scans: {priorityClass: {value: 2000000000}}", "scans: {other: 1}"} {
		if _, err := template(t, values); err == nil {
			t.Errorf("%s is accepted", values)
		}
	}
}

func TestAlerts(t *testing.T) {
	rules := func(values string) []*unstructured.Unstructured {
		return slices.DeleteFunc(find[*unstructured.Unstructured](render(t, values)), func(u *unstructured.Unstructured) bool { return u.GetKind() != "PrometheusRule" })
	}
	if found := rules(""); len(found) != 0 {
		t.Errorf("%d rules that nobody asked for", len(found))
	}
	found := rules("prometheusRule: {enabled: true, minCoverage: 0.5, labels: {release: x}}")
	if len(found) != 1 || found[0].GetLabels()["release"] != "x" {
		t.Fatalf("%+v", found)
	}
	groups, _, err := unstructured.NestedSlice(found[0].Object, "spec", "groups")
	if err != nil || len(groups) != 1 {
		t.Fatalf("%v, %v", groups, err)
	}
	content, err := found[0].MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`scanner_operator_coverage_ratio \u003c 0.5`, `{{ $value | humanizePercentage }}`, "{{ $labels.scanner_namespace }}/{{ $labels.scanner }}"} {
		if !strings.Contains(string(content), want) {
			t.Errorf("%s is not in %s", want, content)
		}
	}
	const endOfLife = "ScannerOperatorDistributionEndOfLife"
	if strings.Contains(string(content), endOfLife) {
		t.Errorf("the alert %s was not asked for", endOfLife)
	}
	if content, err = rules("prometheusRule: {enabled: true, endOfLife: true}")[0].MarshalJSON(); err != nil || !strings.Contains(string(content), endOfLife) {
		t.Errorf("the alert %s is not in %s, %v", endOfLife, content, err)
	}
}

// TestKustomizePriority compares the manifests of config with the chart, whose names they have with the prefix of config/default.
func TestKustomizePriority(t *testing.T) {
	var class schedulingv1.PriorityClass
	var kustomization struct{ NamePrefix string }
	for file, into := range map[string]any{"manager/priorityclass.yaml": &class, "default/kustomization.yaml": &kustomization} {
		text, err := os.ReadFile(filepath.Join("..", "..", "config", file))
		if err != nil {
			t.Fatal(err)
		}
		if err := sigsyaml.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	want := find[*schedulingv1.PriorityClass](render(t, ""))[0]
	class.Name = kustomization.NamePrefix + class.Name
	want.Labels, class.Labels = nil, nil
	if diff := cmp.Diff(want, &class); diff != "" {
		t.Errorf("the priority class (-chart +config):\n%s", diff)
	}
	manager, err := os.ReadFile(filepath.Join("..", "..", "config", "manager", "manager.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(manager), "- --scan-priority-class="+class.Name+"\n") {
		t.Errorf("the operator does not use %s", class.Name)
	}
}
