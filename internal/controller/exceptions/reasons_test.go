package exceptions

import (
	"testing"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// TestReasons expects the reasons of the store to be those that the API documents: the controller writes them as they are.
func TestReasons(t *testing.T) {
	for reason, documented := range map[store.DecisionReason]scannerv1alpha1.AppliedReason{
		store.DecisionExpired: scannerv1alpha1.Expired, store.DecisionInvalid: scannerv1alpha1.Invalid,
		store.DecisionTooBroad: scannerv1alpha1.TooBroad, store.DecisionTooMany: scannerv1alpha1.TooMany,
	} {
		if string(reason) != string(documented) {
			t.Errorf("the store says %q, and the API documents %q", reason, documented)
		}
	}
}
