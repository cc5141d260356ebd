package controllertest

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Reach is where something applies in one line.
func Reach(at *store.DecisionPlaces) string {
	if at == nil {
		return "everywhere"
	}
	parts := slices.Clone(at.Namespaces)
	for _, w := range at.Workloads {
		parts = append(parts, w.Namespace+"/"+w.Kind+"/"+w.Name)
	}
	return strings.Join(parts, " ")
}

// Selecting is a selector of one label.
func Selecting(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}
