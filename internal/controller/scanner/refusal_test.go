package scanner

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

func TestInvalidJobSpec(t *testing.T) {
	container := field.NewPath("spec", "template", "spec", "containers").Index(0)
	invalid := func(problems ...*field.Error) error {
		return apierrors.NewInvalid(schema.GroupKind{Group: "batch", Kind: "Job"}, "scan", problems)
	}
	noVolumeType := invalid(field.Required(field.NewPath("spec", "template", "spec", "volumes").Index(2), "must specify a volume type"))
	for name, tt := range map[string]struct {
		err    error
		volume bool
		want   string
	}{
		"image volumes that the API server does not know": {noVolumeType, true, "spec.job.source: this cluster does not support image volumes"},
		"image volumes that the API server has disabled": {
			invalid(field.Invalid(nil, nil, "ValidatingAdmissionPolicy 'scan-jobs' with binding 'scan-jobs' denied request: a scan Job that reads an image volume "+
				"must have one; API servers keep image volumes since Kubernetes 1.35")), true, "spec.job.source: this cluster does not support image volumes",
		},
		"another volume": {noVolumeType, false, ""},
		"a pull secret of a pod": {
			invalid(field.Invalid(field.NewPath("spec", "template", "spec", "volumes").Index(1), "../y/config.json", "must not contain '..'")), false, "",
		},
		"a pull secret of the Scanner": {
			invalid(field.Invalid(field.NewPath("spec", "template", "spec", "volumes").Index(1), "../x/config.json", "must not contain '..'")), false,
			`spec.job.imagePullSecrets: Invalid value: "../x/config.json": must not contain '..'`,
		},
		"a pull secret of the Scanner without a name": {
			invalid(field.Required(field.NewPath("spec", "template", "spec", "imagePullSecrets").Index(0).Child("name"), "")), false, "spec.job.imagePullSecrets: Required value",
		},
		"resources": {
			invalid(field.Invalid(container.Child("resources", "requests"), "2", "must be less than or equal to cpu limit of 1")), false,
			`spec.job.resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1`,
		},
		"tolerations": {
			invalid(field.Invalid(field.NewPath("spec", "template", "spec", "tolerations").Index(0).Child("operator"), "Equal", "no")), false, "spec.job.tolerations[0].operator: ",
		},
		"another field": {invalid(field.Invalid(container.Child("image"), "x", "no")), false, ""},
		"a policy":      {invalid(), false, ""},
		"a quota":       {apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, "scan", nil), false, ""},
	} {
		problem, found := invalidJobSpec(tt.err, tt.volume, secrets("../x", ""))
		if found != (tt.want != "") || found && !strings.HasPrefix(problem.Error(), tt.want) {
			t.Errorf("%s: %v, %t; want %q", name, problem, found, tt.want)
		}
	}
}

// An error in spec.job is one condition, and no failure of each image.
func TestErrorsInTheSpecAreOneCondition(t *testing.T) {
	known, cataloger := memory{}, &starter{attempts: map[string]Attempt{}, invalid: &specError{"spec.job.resources.requests: too much"}}
	shop, pod := tenant("shop", "a")
	_, second := tenant("shop", "b")
	second.Name = "second"
	r, recorder := newReconciler(t, known, cataloger, shop, pod, second)
	ready := func() *metav1.Condition {
		t.Helper()
		var now scannerv1.Scanner
		if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(shop), &now); err != nil {
			t.Fatal(err)
		}
		return meta.FindStatusCondition(now.Status.Conditions, scannerv1.ConditionReady)
	}
	reconcileIn(t, r, "shop")
	if c := ready(); c == nil || c.Reason != string(scannerv1.Failed) || c.Message != "spec.job.resources.requests: too much." {
		t.Errorf("Ready: %+v", c)
	}
	for key, image := range known {
		if image.State != store.StatePending || image.Attempts != 0 {
			t.Errorf("%s: %s after %d attempts, want none", key, image.State, image.Attempts)
		}
	}
	if len(recorder.Events) > 0 {
		t.Errorf("event: %s", <-recorder.Events)
	}
	if waiting, _ := r.queues.get(types.NamespacedName{}, nil); len(waiting) > 0 {
		t.Errorf("%v wait for slots", waiting)
	}
	cataloger.invalid = nil
	reconcileIn(t, r, "shop")
	if c := ready(); c.Reason != string(scannerv1.Scanning) || len(cataloger.started) != 2 {
		t.Errorf("after the correction: %+v, started %v", c, cataloger.started)
	}
}

func TestInvalidNamespaceSelector(t *testing.T) {
	s := scannerWith(func(s *scannerv1.Scanner) {
		s.Namespace = "operator"
		s.Spec.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Equals"}}}
	})
	r, _ := newReconciler(t, memory{}, &starter{attempts: map[string]Attempt{}}, s)
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s)}); err == nil {
		t.Error("no error")
	}
	var now scannerv1.Scanner
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(s), &now); err != nil {
		t.Fatal(err)
	}
	ready := meta.FindStatusCondition(now.Status.Conditions, scannerv1.ConditionReady)
	if ready == nil || !strings.Contains(ready.Message, `spec.namespaceSelector: "Equals" is not a valid label selector operator`) {
		t.Errorf("Ready: %+v", ready)
	}
}

// A scan that waits for a node that spec.job.nodeSelector excludes does not wait any longer once the Scanner allows it.
func TestACorrectedJobSpecTakesEffectAtOnce(t *testing.T) {
	known, cataloger := memory{}, &starter{attempts: map[string]Attempt{}}
	shop, pod := tenant("shop", "a")
	r, _ := newReconciler(t, known, cataloger, shop, pod)
	r.Home = Home{}
	name := scanjob.Name(imageKey("a"), "nonce", 0)
	reconcileIn(t, r, "shop")
	cataloger.blocks("shop", now.Add(-time.Second))
	reconcileIn(t, r, "shop")
	if len(cataloger.started) != 1 || cataloger.attempts[name].JobSpec == "" {
		t.Fatalf("started %v, %+v; want one attempt", cataloger.started, cataloger.attempts)
	}
	var corrected scannerv1.Scanner
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(shop), &corrected); err != nil {
		t.Fatal(err)
	}
	corrected.Spec.Job.NodeSelector = map[string]string{"pool": "scans"}
	if err := r.Client.Update(t.Context(), &corrected); err != nil {
		t.Fatal(err)
	}
	reconcileIn(t, r, "shop")
	if len(cataloger.started) != 2 || known[imageKey("a")].Reason != model.ReasonUnschedulable {
		t.Errorf("started %v, %+v; want another attempt", cataloger.started, known[imageKey("a")])
	}
}
