package scanner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
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
			v.home.ServiceAccount = "scans"
			if got := requestNext(scanner, world{v}, key); got.Namespace != tt.want || (got.ServiceAccount != "") != (tt.want == "operator") {
				t.Errorf("scanned in %s as %q, want %s", got.Namespace, got.ServiceAccount, tt.want)
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
		w.home, w.runsIn = Home{Namespace: "operator", PullSecrets: secrets("operator-image"), ServiceAccount: "scans"}.of(scanner), nil
		req := requestNext(scanner, w, key)
		if req.Namespace != "operator" || req.For != "one" || req.ServiceAccount != "scans" || req.PriorityClassName != want.priority || (req.NodeSelector != nil) != (namespace == "operator") {
			t.Errorf("for a Scanner in %s: %+v", namespace, req)
		}
		if diff := cmp.Diff(want.pull, req.PullSecrets) + cmp.Diff(secrets(want.operator...), req.OperatorPullSecrets); diff != "" {
			t.Errorf("for a Scanner in %s, pull secrets (-want +got):\n%s", namespace, diff)
		}
	}
}

// TestFallbacksOfTheNamespace: an attempt uses the references of the pods for which it is made, and nobody else's.
func TestFallbacksOfTheNamespace(t *testing.T) {
	key := imageKey("a")
	in := func(namespace, image string, secrets ...string) inventory.Container {
		return inventory.Container{Namespace: namespace, Key: key, Image: image, PullSecrets: secrets}
	}
	containers := []inventory.Container{
		in("one", "r.example/a:1"), in("one", "b.example/x:1"), in("one", "b.example/x:2"), in("one", "UPPER"), in("one", "paused.example/x"), in("one", "debian"),
		in("one", "import-2026-11-23"), in("two", "of-two.example/x"), {Namespace: "one", Key: key, Image: "skipped.example/x", Skip: "IgnoreLabel"},
		{Namespace: "one", Key: imageKey("b"), Image: "other.example/x"},
		in("many", "one.example/x"), in("many", "two.example/x"), in("many", "three.example/x"), in("many", "four.example/x"), in("many", "five.example/x"),
		in("secret", "of-secret.example/x", "s"),
	}
	for name, tt := range map[string]struct {
		attempts int
		reason   model.Reason
		want     []string
	}{
		"the first namespace":      {0, "", []string{"b.example/x", "docker.io/library/debian"}},
		"the second":               {1, "", []string{"of-two.example/x"}},
		"at most four":             {2, "", []string{"one.example/x", "two.example/x", "three.example/x", "four.example/x"}},
		"not always the same four": {6, "", []string{"two.example/x", "three.example/x", "four.example/x", "five.example/x"}},
		"again, the other first":   {4, "", []string{"docker.io/library/debian", "b.example/x"}},
		"with its own credentials": {3, model.ReasonImagePullDenied, []string{"of-secret.example/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := newWorld().observed
			v.containers, v.home = containers, Home{Namespace: "operator"}
			// The pause of another namespace's credential does not matter.
			for host, namespace := range map[string]string{"paused.example": "", "b.example": "two", "of-secret.example": ""} {
				v.pauses[credential{host, namespace}] = store.RegistryPause{}
			}
			v.images[key] = store.Image{ImageState: store.ImageState{Key: key, Attempts: tt.attempts, Reason: tt.reason}}
			if diff := cmp.Diff(tt.want, requestNext(scannerWith(nil), world{v}, key).Fallbacks); diff != "" {
				t.Errorf("fallbacks (-want +got):\n%s", diff)
			}
		})
	}
}

// Many pods may run an image, each with other pull secrets: the Job is created and recorded all the same, with those of the Scanner.
func TestRequestsAreBounded(t *testing.T) {
	key := imageKey("a")
	w := newWorld().runs("a", store.ImageState{State: store.StatePending})
	w.containers = nil
	long := func(prefix string, i int) string {
		return fmt.Sprintf("%s-%03d-%s", prefix, i, strings.Repeat("x", 240))
	}
	for i := range 500 {
		w.containers = append(w.containers, inventory.Container{Namespace: "ns", Pod: fmt.Sprint(i), Key: key, PullSecrets: []string{long("a", i), long("b", i)}})
	}
	scanner := scannerWith(func(s *scannerv1.Scanner) {
		for i := range 32 {
			s.Spec.Job.ImagePullSecrets = append(s.Spec.Job.ImagePullSecrets, corev1.LocalObjectReference{Name: long("scanner", i)})
		}
	})
	req := requestNext(scanner, w, key)
	if len(req.PullSecrets) != inventory.MaxPullSecrets+32 || !strings.HasPrefix(req.PullSecrets[0], "a-000") || !strings.HasPrefix(req.PullSecrets[inventory.MaxPullSecrets], "scanner-000") {
		t.Errorf("%d pull secrets; want %d of pods and 32 of the Scanner", len(req.PullSecrets), inventory.MaxPullSecrets)
	}
	for name, volume := range map[string]*scanjob.ImageVolume{"registry": nil, "volume": {}} {
		req.Volume = volume
		spec, err := scanjob.Recorded(scanjob.Build(req, scanjob.DefaultOptions()))
		if err != nil || len(spec) > store.MaxJobSpec/4 {
			t.Errorf("%s: the spec has %d bytes, %v; want far less than %d", name, len(spec), err, store.MaxJobSpec)
		}
	}
}
