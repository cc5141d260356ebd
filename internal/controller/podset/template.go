package podset

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
)

// quantityFields are the fields of a pod that are quantities, or maps of them.
var quantityFields = []string{"limits", "requests", "overhead", "sizeLimit", "divisor"}

// slow matches quantities that take seconds or more to parse, because of their digits or their exponent.
var slow = regexp.MustCompile(`^[+-]?([0-9.]{65,}|[0-9.]*[eE][+-]?[0-9]{3,})`)

// Template returns the pod template of a PodSet: spec.template, or the default one, whose container sleeps. It fails when spec.template is not a
// pod template. An unknown field is an error, because the pods would silently lack it.
func Template(ps *appv1alpha1.PodSet) (*corev1.PodTemplateSpec, error) {
	if ps.Spec.Template == nil || len(ps.Spec.Template.Raw) == 0 {
		return defaultTemplate(), nil
	}
	template, err := decode(ps.Spec.Template.Raw)
	if err != nil {
		return nil, fmt.Errorf("spec.template is not a valid pod template: %w", err)
	}
	return template, nil
}

func decode(raw []byte) (*corev1.PodTemplateSpec, error) {
	var fields any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	if err := readable(fields, false); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	template := &corev1.PodTemplateSpec{}
	return template, decoder.Decode(template)
}

// readable rejects quantities that would keep a worker busy: the API server has not validated them yet.
func readable(value any, quantities bool) error {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			// The decoder ignores the case of field names.
			named := slices.ContainsFunc(quantityFields, func(field string) bool { return strings.EqualFold(field, name) })
			if err := readable(value[name], quantities || named); err != nil {
				return err
			}
		}
	case []any:
		for _, part := range value {
			if err := readable(part, false); err != nil {
				return err
			}
		}
	case string:
		if quantities && slow.MatchString(value) {
			return fmt.Errorf("the quantity %.40q has more than 64 digits, or an exponent of more than 2 digits", value)
		}
	}
	return nil
}

// defaultTemplate returns the template of PodSets without spec.template. It meets the restricted Pod Security Standard.
func defaultTemplate() *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name:    "fancy-alpine",
		Image:   "quay.io/amacdona/strauss",
		Command: []string{"sleep", "3600"},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			RunAsNonRoot:             new(true),
			SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}}}}
}
