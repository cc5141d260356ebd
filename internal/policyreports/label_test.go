package policyreports

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The API server refuses labels that are too long or end with a separator.
func TestLabelsOfLongNames(t *testing.T) {
	for name, want := range map[string]string{
		"reports": "reports", strings.Repeat("a", 63) + "b": strings.Repeat("a", 63), strings.Repeat("a", 61) + "-.b": strings.Repeat("a", 61),
	} {
		if got := labelOf(name); got != want || len(validation.IsValidLabelValue(got)) > 0 {
			t.Errorf("the label of %s is %s, want %s", name, got, want)
		}
	}
}
