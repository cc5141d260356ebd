package kube

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
)

func TestSpecChanged(t *testing.T) {
	podSet := func(uid types.UID, generation int64) *appv1alpha1.PodSet {
		ps := &appv1alpha1.PodSet{}
		ps.UID, ps.Generation = uid, generation
		return ps
	}
	for name, tt := range map[string]struct {
		now  *appv1alpha1.PodSet
		want bool
	}{
		"status":   {podSet("a", 1), false},
		"spec":     {podSet("a", 2), true},
		"replaced": {podSet("b", 1), true},
	} {
		if got := SpecChanged().Update(event.UpdateEvent{ObjectOld: podSet("a", 1), ObjectNew: tt.now}); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}

func TestErrorBackoffIsBounded(t *testing.T) {
	limiter := ErrorBackoff()
	var last time.Duration
	for range 100 {
		delay := limiter.When(ctrl.Request{})
		if delay < last || delay > 30*time.Second {
			t.Fatalf("%s after %s", delay, last)
		}
		last = delay
	}
}
