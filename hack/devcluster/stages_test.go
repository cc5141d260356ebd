package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"text/template/parse"

	"sigs.k8s.io/yaml"
)

func TestStages(t *testing.T) {
	for _, resolveImages := range []bool{false, true} {
		t.Run(fmt.Sprintf("resolveImages=%t", resolveImages), func(t *testing.T) { checkStages(t, stagesFor(resolveImages)) })
	}
	// Pods that run and ephemeral containers wait for their images.
	if without, with := bytes.Count(stagesFor(false), []byte("\n      - key:")), bytes.Count(stagesFor(true), []byte("\n      - key:")); with != without+2 {
		t.Errorf("the resolver adds %d conditions, want 2", with-without)
	}
}

func checkStages(t *testing.T, stages []byte) {
	t.Helper()
	names := map[string]bool{}
	for document := range strings.SplitSeq(string(stages), "\n---\n") {
		var stage struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Metadata   struct {
				Name string `json:"name"`
			} `json:"metadata"`
			Spec struct {
				ResourceRef struct {
					APIGroup string `json:"apiGroup"`
					Kind     string `json:"kind"`
				} `json:"resourceRef"`
				Selector struct {
					MatchExpressions []struct {
						Key      string   `json:"key"`
						Operator string   `json:"operator"`
						Values   []string `json:"values"`
					} `json:"matchExpressions"`
				} `json:"selector"`
				Delay struct {
					DurationMilliseconds int64 `json:"durationMilliseconds"`
				} `json:"delay"`
				Next struct {
					StatusTemplate string          `json:"statusTemplate"`
					Finalizers     map[string]bool `json:"finalizers"`
					Delete         bool            `json:"delete"`
				} `json:"next"`
			} `json:"spec"`
		}
		if err := yaml.UnmarshalStrict([]byte(document), &stage); err != nil {
			t.Errorf("%v in\n%s", err, document)
			continue
		}
		name := stage.Metadata.Name
		if stage.APIVersion != "kwok.x-k8s.io/v1alpha1" || stage.Kind != "Stage" || name == "" || names[name] {
			t.Errorf("no stage, or a second of its name: %s %s %q", stage.APIVersion, stage.Kind, name)
		}
		names[name] = true
		if len(stage.Spec.Selector.MatchExpressions) == 0 || stage.Spec.ResourceRef.Kind == "" {
			t.Errorf("%s selects everything", name)
		}
		// The functions are kwok's.
		tree := parse.New(name)
		tree.Mode = parse.SkipFuncCheck
		if _, err := tree.Parse(stage.Spec.Next.StatusTemplate, "", "", map[string]*parse.Tree{}); err != nil {
			t.Errorf("the template of %s: %v", name, err)
		}
	}
	for _, name := range []string{"node-initialize", "pod-pull-error", "pod-ready", "pod-of-job-complete", "pod-delete"} {
		if !names[name] {
			t.Errorf("there is no stage %s", name)
		}
	}
}
