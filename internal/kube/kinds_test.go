package kube

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

func TestKinds(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	seen, events := map[string]bool{}, map[store.EventKind]bool{}
	for _, kind := range Kinds() {
		gvk, err := apiutil.GVKForObject(kind.Object, scheme)
		if err != nil || gvk != kind.GroupVersionKind {
			t.Errorf("%s: the object is a %s, %v", kind.GroupVersionKind, gvk, err)
		}
		// Metrics and events name kinds without their groups.
		if seen[kind.Kind] {
			t.Errorf("two kinds have the name %s", kind.Kind)
		}
		seen[kind.Kind] = true
		if kind.Event == "" {
			continue
		}
		events[kind.Event] = true
		if !slices.Contains(store.EventKinds(), kind.Event) {
			t.Errorf("%s: the event log has no events %q", kind.Kind, kind.Event)
		}
		change := store.ObjectChange{Kind: kind.Event, ObjectEvent: store.ObjectEvent{Object: store.ObjectName{Name: "a"}}}
		if err := change.Validate(); err != nil {
			t.Errorf("%s: the event log refuses an event: %v", kind.Kind, err)
		}
	}
	for _, event := range store.EventKinds() {
		change := store.ObjectChange{Kind: event, ObjectEvent: store.ObjectEvent{Object: store.ObjectName{Name: "a"}}}
		if change.Validate() == nil && !events[event] {
			t.Errorf("no kind has the events %q", event)
		}
	}
}

func TestGauges(t *testing.T) {
	for _, kind := range Kinds() {
		for _, gauge := range kind.Gauges {
			if gauge.Name != strings.ToLower(gauge.Name) || !strings.HasSuffix(gauge.Help, ".") {
				t.Errorf("%s: gauge %q with the help %q", kind.Kind, gauge.Name, gauge.Help)
			}
			// An empty object and one of another kind must not end the process.
			_ = gauge.Value(kind.Object)
			if value := gauge.Value(KindScanner.Object); value != 0 {
				t.Errorf("%s: gauge %q of a Scanner is %v", kind.Kind, gauge.Name, value)
			}
		}
	}
}

func TestWorkloadKind(t *testing.T) {
	for _, name := range []string{"Deployment", "StatefulSet", "DaemonSet", "PodSet"} {
		if kind, found := WorkloadKind(name); !found || kind.Kind != name {
			t.Errorf("%s is not a workload", name)
		}
	}
	for _, name := range []string{"Pod", "Job", "BellerophonSimple", ""} {
		if _, found := WorkloadKind(name); found {
			t.Errorf("%q is a workload", name)
		}
	}
}
