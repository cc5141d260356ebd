package manifest_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/manifest"
)

func TestRead(t *testing.T) {
	t.Parallel()
	const template = `{spec: {initContainers: [{name: init, image: "init:1"}], containers: [{name: app, image: "app:1"}, {name: injected}]}}`
	both := []manifest.Container{{Name: "init", Image: "init:1"}, {Name: "app", Image: "app:1"}}
	for name, c := range map[string]struct {
		text string
		want []manifest.Workload
	}{
		"nothing":             {"", nil},
		"comments":            {"# Source: chart/templates/empty.yaml\n---\n---\n# more\n", nil},
		"no pods":             {"kind: Service\nmetadata: {name: a}\nspec: {containers: [{image: a}]}", nil},
		"Pod":                 {"kind: Pod\nmetadata: {name: a, namespace: b}\nspec: {containers: [{name: app, image: x}]}", []manifest.Workload{{Kind: "Pod", Namespace: "b", Name: "a", Containers: []manifest.Container{{Name: "app", Image: "x"}}}}},
		"Deployment":          {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {template: " + template + "}", []manifest.Workload{{Kind: "Deployment", Namespace: "default", Name: "a", Containers: both}}},
		"custom resource":     {"apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: a}\nspec: {template: " + template + "}", []manifest.Workload{{Kind: "Rollout", Namespace: "default", Name: "a", Containers: both}}},
		"CronJob":             {"kind: CronJob\nmetadata: {name: a}\nspec: {jobTemplate: {spec: {template: " + template + "}}}", []manifest.Workload{{Kind: "CronJob", Namespace: "default", Name: "a", Containers: both}}},
		"PodTemplate":         {"kind: PodTemplate\nmetadata: {name: a}\ntemplate: " + template, []manifest.Workload{{Kind: "PodTemplate", Namespace: "default", Name: "a", Containers: both}}},
		"BellerophonSimple":   {"kind: BellerophonSimple\nmetadata: {name: a}\nspec: {image: x}", []manifest.Workload{{Kind: "StatefulSet", Namespace: "default", Name: "a", Containers: []manifest.Container{{Name: "app", Image: "x"}}}}},
		"generateName":        {"kind: Job\nmetadata: {generateName: a-}\nspec: {template: " + template + "}", []manifest.Workload{{Kind: "Job", Namespace: "default", Name: "a-", Containers: both}}},
		"case matters":        {"kind: Deployment\nmetadata: {name: a}\nSpec: {template: " + template + "}\nspec: {Template: " + template + "}", nil},
		"List":                {"kind: List\nitems:\n- kind: Pod\n  metadata: {name: a}\n  spec: {containers: [{name: app, image: x}]}\n- kind: ConfigMap", []manifest.Workload{{Kind: "Pod", Namespace: "default", Name: "a", Containers: []manifest.Container{{Name: "app", Image: "x"}}}}},
		"JSON":                {`{"kind":"DaemonSet","metadata":{"name":"a"},"spec":{"template":{"spec":{"containers":[{"name":"app","image":"x"}]}}}}`, []manifest.Workload{{Kind: "DaemonSet", Namespace: "default", Name: "a", Containers: []manifest.Container{{Name: "app", Image: "x"}}}}},
		"documents in a file": {"---\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: app, image: x}]}\n--- # next\nkind: Pod\nmetadata: {name: b}\nspec: {containers: [{name: app, image: \"y\"}]}\n", []manifest.Workload{{Kind: "Pod", Namespace: "default", Name: "a", Containers: []manifest.Container{{Name: "app", Image: "x"}}}, {Kind: "Pod", Namespace: "default", Name: "b", Containers: []manifest.Container{{Name: "app", Image: "y"}}}}},
	} {
		got, err := manifest.Read(strings.NewReader(c.text), "default")
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// endless gives a text over and over.
type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.text[e.at]
		e.at = (e.at + 1) % len(e.text)
	}
	return len(p), nil
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	pod := func(fields string) string {
		return "kind: Pod\nmetadata: {name: a}\nspec: {containers: [" + fields + "]}\n"
	}
	list := func(depth int) string {
		return strings.Repeat(`{"kind":"List","items":[`, depth) + `{"kind":"ConfigMap"}` + strings.Repeat("]}", depth)
	}
	var laughs strings.Builder
	laughs.WriteString("a0: &a0 [x]\n")
	for i := 1; i < 20; i++ {
		fmt.Fprintf(&laughs, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 20), ","))
	}
	for name, c := range map[string]struct {
		text io.Reader
		want string
	}{
		"not YAML":            {strings.NewReader("a: [\n"), "document 1 of the manifests"},
		"no object":           {strings.NewReader("---\nkind: A\n---\n- a\n"), "document 2 of the manifests: it is not an object"},
		"notes of Helm":       {strings.NewReader("NAME: web\nSTATUS: deployed\n"), "the object has no kind"},
		"containers":          {strings.NewReader(pod("a")), "element 1 of containers is not an object"},
		"image of YAML 1.1":   {strings.NewReader(pod("{image: y}")), "element 1 of containers: the image is not a string; quote it"},
		"long image":          {strings.NewReader(pod("{image: " + strings.Repeat("a", 513) + "}")), "the image reference has more than 512 bytes"},
		"long name":           {strings.NewReader(pod("{image: a, name: " + strings.Repeat("a", 254) + "}")), "the name has more than 253 bytes"},
		"long kind":           {strings.NewReader("kind: " + strings.Repeat("a", 254) + "\nspec: {template: {spec: {containers: [{image: a}]}}}"), "the kind has more than 253 bytes"},
		"deep lists":          {strings.NewReader(list(5)), "lists are nested deeper than 4"},
		"deep YAML":           {strings.NewReader(strings.Repeat("[", 100_000)), "document 1"},
		"many containers":     {strings.NewReader(pod(strings.Repeat("{image: a},", 10_001))), "more than 10000 containers"},
		"many documents":      {strings.NewReader(strings.Repeat("---\nkind: A\n", 10_002)), "more than 10000 documents"},
		"content behind ---":  {strings.NewReader("kind: A\n--- {kind: Pod, spec: {containers: [a]}}\n... \n"), "document 2 of the manifests: element 1 of containers"},
		"aliases of aliases":  {strings.NewReader(laughs.String()), "excessive aliasing"},
		"a large document":    {strings.NewReader("kind: A\nx: " + strings.Repeat("a", 17<<20)), "document 1 of the manifests: it has more than 16777216 bytes"},
		"a text without end":  {&endless{text: "---\n#" + strings.Repeat("a", 32<<10) + "\n"}, "the text has more than 67108864 bytes"},
		"a line without end":  {&endless{text: "a"}, "it has more than 16777216 bytes"},
		"a failure of a pipe": {io.MultiReader(strings.NewReader("kind: A\n"), failing{}), "broken pipe"},
	} {
		got, err := manifest.Read(c.text, "default")
		if err == nil || !strings.Contains(err.Error(), c.want) || got != nil {
			t.Errorf("%s: %v, %.100v", name, err, got)
		}
	}
	if got, err := manifest.Read(strings.NewReader(list(4)), "default"); err != nil || got != nil {
		t.Errorf("four lists: %v, %v", err, got)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("broken pipe") }

// FuzzRead: whatever the text is, what is found is within the bounds.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"kind: Deployment\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{name: app, image: x}]}}}",
		"kind: CronJob\nspec: {jobTemplate: {spec: {template: {spec: {initContainers: [{image: x}]}}}}}", "kind: List\nitems: [{kind: Pod}]", "a: &a [*a]", "---\n---\n", "\x00", "kind: 1\nspec: []",
		`{"kind":"Pod","spec":{"containers":[{"image":{}}]}}`, "kind: BellerophonSimple\nspec: {image: x}", "? [a]\n: b", "<<: {kind: Pod}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		workloads, err := manifest.Read(strings.NewReader(text), "default")
		if err != nil && workloads != nil {
			t.Errorf("an error with workloads: %v", err)
		}
		for _, w := range workloads {
			if w.Kind == "" || w.Namespace == "" || len(w.Containers) == 0 {
				t.Errorf("%+v", w)
			}
			for _, c := range w.Containers {
				if c.Image == "" || len(c.Image) > 512 || len(c.Name) > 253 {
					t.Errorf("%+v", c)
				}
			}
		}
	})
}
