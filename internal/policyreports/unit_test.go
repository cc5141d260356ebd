package policyreports

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/scanner-operator/scanner-operator/internal/sinks"
)

// A webhook that denies an object is no reason for others to wait, other than a permission that is missing.
func TestForbidden(t *testing.T) {
	denied := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Message: `admission webhook "policy.example.com" denied the request: no`,
	}}
	if err := problem(denied); !errors.Is(err, sinks.ErrRefused) || !strings.Contains(err.Error(), "policy.example.com") {
		t.Errorf("a webhook: %v", err)
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: kind.Group, Resource: "reports"}, "r", errors.New(`User "u" cannot delete resource`))
	if err := problem(forbidden); !errors.Is(err, sinks.ErrUnavailable) || !strings.Contains(err.Error(), "reportSinks.policyReports") {
		t.Errorf("a permission: %v", err)
	}
}

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
