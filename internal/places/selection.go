// Package places resolves where an exception or a policy applies: which namespaces and workloads its selectors select.
package places

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// maxMessage is the most bytes of an error about a selector, which may contain its values.
const maxMessage = 1 << 10

// Selection is where an exception or a policy applies.
type Selection struct {
	// Text describes the selection. Selections with the same text select the same.
	Text string
	// Namespace is that of the exception, "" for one of the whole cluster and for a policy.
	Namespace string
	// namespaces and workloads select by label, nil for all.
	namespaces, workloads labels.Selector
}

// Of returns where an exception in a namespace applies, nil for everywhere. The namespace is "" for an exception of the whole cluster. It fails if a
// selector is invalid.
func Of(namespace string, match *scannerv1alpha1.ExceptionMatch) (*Selection, error) {
	if namespace != "" && match.NamespaceSelector != nil {
		return nil, errors.New("spec.match.namespaceSelector: a VulnerabilityException applies in its own namespace only")
	}
	return selectionOf(namespace, "spec.match", match.NamespaceSelector, match.WorkloadSelector)
}

// OfPolicy returns where a policy applies, nil for everywhere. It fails if a selector is invalid.
func OfPolicy(spec *scannerv1alpha1.VulnerabilityPolicySpec) (*Selection, error) {
	return selectionOf("", "spec", spec.NamespaceSelector, spec.WorkloadSelector)
}

// selectionOf reads the selectors in a field of an object.
func selectionOf(namespace, field string, namespaces, workloads *metav1.LabelSelector) (*Selection, error) {
	s := &Selection{Namespace: namespace}
	var texts []string
	if namespace != "" {
		texts = append(texts, "namespace "+namespace)
	}
	for _, one := range []struct {
		field, noun string
		selector    *metav1.LabelSelector
		into        *labels.Selector
	}{
		{field + ".namespaceSelector", "namespaces", namespaces, &s.namespaces},
		{field + ".workloadSelector", "workloads", workloads, &s.workloads},
	} {
		if one.selector == nil {
			continue
		}
		parsed, err := metav1.LabelSelectorAsSelector(one.selector)
		if err != nil {
			return nil, errors.New(truncate.Ellipsis(fmt.Sprintf("%s: %v", one.field, err), maxMessage))
		}
		*one.into = parsed
		if text := canonical(parsed); text == "" {
			texts = append(texts, "all "+one.noun)
		} else {
			texts = append(texts, one.noun+" with "+text)
		}
	}
	if len(texts) == 0 {
		return nil, nil //nolint:nilnil // Everywhere is no error.
	}
	s.Text = strings.Join(texts, "; ")
	return s, nil
}

// SelectsWorkloads reports whether the labels of pods matter.
func (s *Selection) SelectsWorkloads() bool { return s.workloads != nil }

// SelectsNamespaces reports whether it depends on which namespaces there are, and on their labels.
func (s *Selection) SelectsNamespaces() bool { return s.Namespace == "" }

// canonical writes a selector as a text that does not depend on the order of its requirements; "" selects all.
func canonical(selector labels.Selector) string {
	requirements, _ := selector.Requirements()
	texts := make([]string, len(requirements))
	for i := range requirements {
		texts[i] = requirements[i].String()
	}
	slices.Sort(texts)
	return strings.Join(texts, ",")
}
