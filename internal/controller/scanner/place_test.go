package scanner

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

func secrets(names ...string) []corev1.LocalObjectReference {
	var refs []corev1.LocalObjectReference
	for _, name := range names {
		refs = append(refs, corev1.LocalObjectReference{Name: name})
	}
	return refs
}

func TestWhereAnImageIsScanned(t *testing.T) {
	key := imageKey("a")
	in := func(namespace string, secrets ...string) inventory.Container {
		return inventory.Container{Namespace: namespace, Key: key, PullSecrets: secrets}
	}
	ours := scannerWith(func(s *scannerv1.Scanner) { s.Namespace, s.Spec.Job.ImagePullSecrets = "operator", secrets("shared") })
	for name, tt := range map[string]struct {
		scanner    *scannerv1.Scanner
		unwatched  bool
		containers []inventory.Container
		state      store.ImageState
		want       string
	}{
		"no credentials":                      {nil, false, []inventory.Container{in("one")}, store.ImageState{}, "operator"},
		"no credentials at the second":        {nil, false, []inventory.Container{in("one", "s"), in("two")}, store.ImageState{}, "operator"},
		"credentials of the namespace":        {nil, false, []inventory.Container{in("one", "s")}, store.ImageState{}, "one"},
		"credentials of the operator":         {ours, false, []inventory.Container{in("one", "shared")}, store.ImageState{}, "operator"},
		"some of the operator":                {ours, false, []inventory.Container{in("one", "shared", "s")}, store.ImageState{}, "one"},
		"in the operator's own namespace":     {nil, false, []inventory.Container{in("operator", "s")}, store.ImageState{}, "operator"},
		"named by somebody else's Scanner":    {scannerWith(func(s *scannerv1.Scanner) { s.Spec.Job.ImagePullSecrets = secrets("s") }), false, []inventory.Container{in("one", "s")}, store.ImageState{}, "one"},
		"the operator does not watch its own": {nil, true, []inventory.Container{in("one")}, store.ImageState{}, "one"},
		"skipped":                             {nil, false, []inventory.Container{{Namespace: "skipped", Key: key, Skip: "IgnoreLabel"}, in("one", "s")}, store.ImageState{}, "one"},
		"one after the other":                 {nil, false, []inventory.Container{in("one", "s"), in("two", "s")}, store.ImageState{Attempts: 1}, "two"},
		"denied without credentials": {
			nil, false, []inventory.Container{in("one"), in("two", "s")}, store.ImageState{Attempts: 1, Reason: model.ReasonImagePullDenied}, "two",
		},
		"denied, and nobody has credentials": {nil, false, []inventory.Container{in("one")}, store.ImageState{Attempts: 1, Reason: model.ReasonImagePullDenied}, "operator"},
		// Whoever names a pull secret does not get the scan because a registry is slow.
		"failed for another reason": {
			nil, false, []inventory.Container{in("one"), in("two", "s")}, store.ImageState{Attempts: 1, Reason: model.ReasonRegistryUnavailable}, "operator",
		},
	} {
		t.Run(name, func(t *testing.T) {
			scanner := tt.scanner
			if scanner == nil {
				scanner = scannerWith(nil)
			}
			tt.state.Key = key
			v := &observed{containers: tt.containers, images: map[model.ImageKey]store.Image{key: {ImageState: tt.state}}, operator: "operator"}
			if !tt.unwatched {
				v.home = Home{Namespace: "operator"}.of(scanner)
			}
			if got := requestNext(scanner, world{v}, key).Namespace; got != tt.want {
				t.Errorf("scanned in %s, want %s", got, tt.want)
			}
		})
	}
}

// A Scanner of another namespace has no say over what runs in that of the operator.
func TestJobsInTheOperatorsNamespaceFollowItsScanners(t *testing.T) {
	key := imageKey("a")
	w := world{&observed{
		containers: []inventory.Container{{Namespace: "one", Key: key}, {Namespace: "operator", Key: key, PullSecrets: []string{"of-a-pod"}}},
		images:     map[model.ImageKey]store.Image{key: {ImageState: store.ImageState{Key: key}}},
		operator:   "operator",
	}}
	spec := scannerv1.ScanJobSpec{NodeSelector: map[string]string{"a": "b"}, ImagePullSecrets: secrets("mine", "operator-image"), PriorityClassName: "high"}
	for namespace, want := range map[string]struct {
		pull, operator []string
		priority       string
	}{
		"ns":       {[]string{"of-a-pod"}, []string{"operator-image"}, ""},
		"operator": {[]string{"of-a-pod", "mine", "operator-image"}, []string{"operator-image", "mine"}, "high"},
	} {
		scanner := scannerWith(func(s *scannerv1.Scanner) { s.Namespace, s.Spec.Job = namespace, spec })
		w.home, w.runsIn = Home{Namespace: "operator", PullSecrets: secrets("operator-image")}.of(scanner), nil
		req := requestNext(scanner, w, key)
		if req.Namespace != "operator" || req.For != "one" || req.PriorityClassName != want.priority || (req.NodeSelector != nil) != (namespace == "operator") {
			t.Errorf("for a Scanner in %s: %+v", namespace, req)
		}
		if diff := cmp.Diff(want.pull, req.PullSecrets) + cmp.Diff(secrets(want.operator...), req.OperatorPullSecrets); diff != "" {
			t.Errorf("for a Scanner in %s, pull secrets (-want +got):\n%s", namespace, diff)
		}
	}
}
