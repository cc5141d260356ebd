package scans

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/controller/scanner"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/setup/setuptest"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// TestHostilePullSecretsStopNoOtherScan: Kubernetes validates neither the form nor the length of these names in a pod, but both in the volumes of a Job.
func TestHostilePullSecretsStopNoOtherScan(t *testing.T) {
	c, g := setuptest.Cluster(t), gomega.NewWithT(t)
	setuptest.Node(t, c)
	ns := setuptest.Namespace(t, c)
	setuptest.Operator(t, ns, nil)
	hostile, fine := setuptest.ImageID("hostile", "1"), setuptest.ImageID("fine", "2")
	setuptest.RunningPod(t, c, ns, "hostile", hostile, func(pod *corev1.Pod) {
		pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "../x"}, {Name: strings.Repeat("x", 300<<10)}, {Name: "team"}}
	})
	setuptest.RunningPod(t, c, ns, "fine", fine)
	setuptest.Create(t, c, setuptest.SampleScanner(t, ns))
	g.Eventually(func() map[string]*batchv1.Job { return setuptest.Jobs(t.Context(), c, ns) }, patience, tick).Should(
		gomega.And(gomega.HaveKey(fine), gomega.HaveKey(hostile)))
}

// TestInvalidPullSecretsOfAPodAreNoErrorOfTheScanner: a Job that the API server rejects because of a name that only a pod has concerns its image alone.
func TestInvalidPullSecretsOfAPodAreNoErrorOfTheScanner(t *testing.T) {
	c := setuptest.Cluster(t)
	ns := setuptest.Namespace(t, c)
	options := scanjob.DefaultOptions()
	options.Image = "operator"
	jobs := scanner.NewJobs(c, c, reserving{}, clock.RealClock{}, options)
	for name, tt := range map[string]struct {
		ofScanner []corev1.LocalObjectReference
		refused   bool
	}{
		"of a pod alone":            {nil, true},
		"of another of the Scanner": {[]corev1.LocalObjectReference{{Name: "x"}}, true},
		"of the Scanner":            {[]corev1.LocalObjectReference{{Name: "../x"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := jobs.Start(t.Context(), client.ObjectKey{Namespace: "elsewhere", Name: "s"}, scanjob.Request{
				Name: "scan-a", Namespace: ns, Key: model.ImageKey{ImageID: setuptest.ImageID("a", "1")}, ScannerUID: "me",
				PullSecrets: []string{"../x"}, OperatorPullSecrets: tt.ofScanner,
			})
			if _, refused := errors.AsType[*scanner.RefusedError](err); err == nil || refused != tt.refused {
				t.Errorf("%v, refused %t; want it refused: %t", err, refused, tt.refused)
			}
			if err != nil && !strings.Contains(err.Error(), "../x") {
				t.Errorf("%v: want the name in it", err)
			}
		})
	}
}

// reserving are records that keep nothing.
type reserving struct{ store.ScanJobs }

func (reserving) ReserveScanJob(_ context.Context, job store.ScanJob) (store.ScanJob, bool, error) {
	return job, true, nil
}
