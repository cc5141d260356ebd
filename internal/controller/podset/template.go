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

// endless are quantities that take seconds or more to read, because of their digits or of their exponent.
var endless = regexp.MustCompile(`^[+-]?([0-9.]{65,}|[0-9.]*[eE][+-]?[0-9]{3,})`)

// Template returns the pod that a PodSet runs: that of spec.template, or the one that sleeps. It is an error when spec.template is not the
// template of a pod; a field that is not known here is one too, or it would be left out of the pods without a word.
func Template(ps *appv1alpha1.PodSet) (*corev1.PodTemplateSpec, error) {
	if ps.Spec.Template == nil || len(ps.Spec.Template.Raw) == 0 {
		return defaultTemplate(), nil
	}
	template, err := decode(ps.Spec.Template.Raw)
	if err != nil {
		return nil, fmt.Errorf("spec.template cannot be read as a pod template: %w", err)
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

// readable refuses quantities that would keep a worker busy: no API server has looked at them yet.
func readable(value any, quantities bool) error {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			// The decoder takes the names of fields in any case.
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
		if quantities && endless.MatchString(value) {
			return fmt.Errorf("the quantity %.40q has more than 64 digits or an exponent of more than two", value)
		}
	}
	return nil
}

// defaultTemplate is the pod of the documents. Namespaces that enforce the restricted Pod Security Standard take it.
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
