package chart_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	sigsyaml "sigs.k8s.io/yaml"
)

// alertRule is a rule of the chart.
type alertRule struct {
	Alert       string            `json:"alert"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// alertTests is a file of promtool, as far as the test reads or completes it.
type alertTests struct {
	RuleFiles          []string `json:"rule_files"`
	EvaluationInterval string   `json:"evaluation_interval"`
	Tests              []struct {
		Interval    string           `json:"interval"`
		InputSeries []map[string]any `json:"input_series"`
		AlertRules  []struct {
			AlertName string          `json:"alertname"`
			EvalTime  string          `json:"eval_time"`
			Expected  []expectedAlert `json:"exp_alerts"`
		} `json:"alert_rule_test"`
	} `json:"tests"`
}

type expectedAlert struct {
	Labels      map[string]string `json:"exp_labels"`
	Annotations map[string]string `json:"exp_annotations"`
}

// complete adds the annotations of alerts that are always the same, and notes which alerts fire in the tests and which do not.
func (a *alertTests) complete(rules map[string]alertRule, fires, silent map[string]bool) {
	for _, test := range a.Tests {
		for i := range test.AlertRules {
			one := &test.AlertRules[i]
			fires[one.AlertName] = fires[one.AlertName] || len(one.Expected) > 0
			silent[one.AlertName] = silent[one.AlertName] || len(one.Expected) == 0
			for _, alert := range one.Expected {
				for name, text := range rules[one.AlertName].Annotations {
					if !strings.Contains(text, "{{") {
						alert.Annotations[name] = text
					}
				}
			}
		}
	}
}

// TestAlertsFire lets promtool evaluate all alerts of the chart on series of the metrics: when each fires, and when it does not.
func TestAlertsFire(t *testing.T) {
	rules, spec := chartAlerts(t)
	files := map[string]any{"rules.yaml": spec}
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, name := range []string{"tests.yaml", "week.yaml"} {
		content, err := os.ReadFile(filepath.Join("testdata", "alerts", name))
		if err != nil {
			t.Fatal(err)
		}
		var tests alertTests
		if err := sigsyaml.UnmarshalStrict(content, &tests); err != nil {
			t.Fatal(err)
		}
		tests.complete(rules, fires, silent)
		files[name] = tests
	}
	for name := range rules {
		if !fires[name] || !silent[name] {
			t.Errorf("testdata/alerts does not show when %s fires and when it does not", name)
		}
	}

	promtool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("promtool is not installed; run make setup")
		}
		t.Skip("promtool is not installed; run make setup")
	}
	dir := t.TempDir()
	for file, content := range files {
		text, err := json.Marshal(content) // JSON is YAML.
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, arguments := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "tests.yaml", "week.yaml"}} {
		command := exec.CommandContext(t.Context(), promtool, arguments...)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(arguments, " "), err, out)
		}
	}
}

// chartAlerts returns the alerts of the chart with all values that add some, by name, and the file of rules that they are from.
func chartAlerts(t *testing.T) (rules map[string]alertRule, spec any) {
	t.Helper()
	objects := find[*unstructured.Unstructured](render(t, "prometheusRule: {enabled: true, endOfLife: true}"))
	i := slices.IndexFunc(objects, func(u *unstructured.Unstructured) bool { return u.GetKind() == "PrometheusRule" })
	if i < 0 {
		t.Fatal("the chart has no PrometheusRule")
	}
	content, err := json.Marshal(objects[i].Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	var groups struct {
		Groups []struct {
			Rules []alertRule `json:"rules"`
		} `json:"groups"`
	}
	if err := json.Unmarshal(content, &groups); err != nil {
		t.Fatal(err)
	}
	rules = map[string]alertRule{}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			rules[rule.Alert] = rule
		}
	}
	template, err := os.ReadFile(filepath.Join(chartDir, "templates", "prometheusrule.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if written := strings.Count(string(template), "- alert: "); written != len(rules) {
		t.Fatalf("%d alerts are rendered, the template has %d", len(rules), written)
	}
	return rules, objects[i].Object["spec"]
}

// TestRunbooksExist expects a page for each alert, to which its URL leads, and a row of each in the list of alerts.
func TestRunbooksExist(t *testing.T) {
	rules, _ := chartAlerts(t)
	const documentation = "https://github.com/scanner-operator/scanner-operator/blob/main/"
	root := filepath.Join("..", "..")
	list, err := os.ReadFile(filepath.Join(root, "docs", "runbooks", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name, rule := range rules {
		if want, got := documentation+"docs/runbooks/"+name+".md", rule.Annotations["runbook_url"]; got != want {
			t.Errorf("%s has the runbook_url %q, want %q", name, got, want)
		}
		content, err := os.ReadFile(filepath.Join(root, "docs", "runbooks", name+".md"))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, want := range []string{"# " + name + "\n", "\n**Meaning.** ", "\n**What to do.**\n\n1. ", "\n**It ends** "} {
			if !strings.Contains(string(content), want) {
				t.Errorf("%s.md lacks %q", name, want)
			}
		}
		if row := "| [" + name + "](" + name + ".md) | " + rule.Labels["severity"] + " | "; !strings.Contains(string(list), row) {
			t.Errorf("docs/runbooks/README.md lacks %q", row)
		}
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "runbooks", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if name := strings.TrimSuffix(filepath.Base(page), ".md"); name != "README" && rules[name].Alert == "" {
			t.Errorf("%s is about no alert of the chart", page)
		}
	}
}
