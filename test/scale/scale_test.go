//go:build scale

package scale

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
)

// bounds of the run. All of them are reached: one registry has half of the images, and one Scanner would take all slots.
var bounds = limits{total: 12, perRegistry: 5, perScanner: map[string]int{"one": 20, "two": 3}}

// restartAfter is how many images are cataloged when the operator is stopped.
const restartAfter = 70

func eventually(t *testing.T, condition func() error) {
	t.Helper()
	gomega.NewWithT(t).Eventually(condition, patience, tick).Should(gomega.Succeed())
}

// TestThousandsOfPods starts them all at once, for two Scanners that want the same, and stops the operator in the middle.
func TestThousandsOfPods(t *testing.T) {
	begin := time.Now()
	createNamespaces(t, map[string]string{"scale": "yes"}, teams()...)
	createNodes(t)
	jobs := observe(t)
	o := newOperator(t, namespace(0))
	scans := playScanPods(t, o.api)
	o.start(t)
	scanners := createScanners(t, jobs)

	w := newWorld()
	w.createPods(t)
	eventually(t, func() error {
		count, err := running(t.Context())
		if err == nil && count < pods {
			err = fmt.Errorf("%d of %d pods run", count, pods)
		}
		return err
	})
	t.Logf("%d pods ran after %s", pods, time.Since(begin).Round(time.Second))

	restart(t, o, jobs, scans)
	eventually(t, func() error { return settled(t, o, w, scanners) })
	wall := time.Since(begin)

	checkScans(t, w, jobs, scans)
	checkCoverage(t, o, w)
	checkStatus(t, w, scanners)
	checkQuiet(t, o, w)
	f := jobs.figures()
	t.Logf("%d pods, %d images, %d Jobs, at most %d in flight (%d of a registry, %v of Scanners); settled after %s",
		pods, len(f.attempts), f.jobs, f.most.total, f.most.perRegistry, f.most.perScanner, wall.Round(time.Second))
}

// createScanners makes Scanners that look after all namespaces of this test. They begin together.
func createScanners(t *testing.T, jobs *observer) []*scannerv1.Scanner {
	t.Helper()
	var scanners []*scannerv1.Scanner
	for name, concurrency := range bounds.perScanner {
		s := &scannerv1.Scanner{ObjectMeta: metav1.ObjectMeta{Namespace: namespace(0), Name: name}, Spec: scannerv1.ScannerSpec{
			IgnoreLabel: ignoreLabel, Concurrency: new(int32(concurrency)), //nolint:gosec // far below
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"scale": "yes"}},
		}}
		s.Spec.Job.NodeSelector = scanNode
		create(t, s)
		jobs.know(s)
		scanners = append(scanners, s)
	}
	return scanners
}

// restart stops the operator while scans are under way and others wait, and starts it again.
func restart(t *testing.T, o *operator, jobs *observer, scans *scanPods) {
	t.Helper()
	eventually(t, func() error {
		if _, total := scans.delivered(); total < restartAfter {
			return fmt.Errorf("%d images are cataloged", total)
		}
		return nil
	})
	o.stop(t)
	f := jobs.figures()
	if _, total := scans.delivered(); f.inFlight == 0 || total > images*3/4 {
		t.Errorf("%d scans under way and %d images cataloged when the operator was stopped: not the middle of the run", f.inFlight, total)
	}
	t.Logf("the operator was stopped with %d scans under way, after %d", f.inFlight, f.jobs)
	o.start(t)
}

// settled says what is left to be done.
func settled(t *testing.T, o *operator, w *world, scanners []*scannerv1.Scanner) error {
	t.Helper()
	_, summary, err := o.coverage(t.Context())
	if err != nil {
		return err
	}
	if known := summary.Scanned + summary.Failed + summary.Skipped; known < len(w.want) || summary.Pending > 0 || summary.Stale > 0 {
		return fmt.Errorf("coverage is %+v of %d containers", summary, len(w.want))
	}
	if want := summaryOf(w); summary.Failed != want.Failed {
		return fmt.Errorf("%d containers have failed so far, %d will have in the end", summary.Failed, want.Failed)
	}
	for _, s := range scanners {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		// A Scanner learns of what another one scanned a moment after the store knows it.
		if want := countsOf(w); s.Status.Containers == nil || *s.Status.Containers != want {
			return fmt.Errorf("the status of %s says %+v, want %+v", s.Name, s.Status.Containers, want)
		}
	}
	return nil
}

// summaryOf counts what is wanted by state.
func summaryOf(w *world) api.CoverageSummary {
	var s api.CoverageSummary
	for _, want := range w.want {
		switch want {
		case "Scanned/":
			s.Scanned++
		case "Skipped/IgnoreLabel":
			s.Skipped++
		default:
			s.Failed++
		}
	}
	s.Ratio = float64(s.Scanned) / float64(s.Scanned+s.Failed)
	return s
}

// countsOf is summaryOf as statuses have it.
func countsOf(w *world) scannerv1.ContainerCounts {
	sum := summaryOf(w)
	return scannerv1.ContainerCounts{
		Total: int32(len(w.want)), Scanned: int32(sum.Scanned), Failed: int32(sum.Failed), Skipped: int32(sum.Skipped), //nolint:gosec // far below
	}
}

// checkScans wants each image to be cataloged once, in as many attempts as it takes, within all limits.
func checkScans(t *testing.T, w *world, jobs *observer, scans *scanPods) {
	t.Helper()
	f := jobs.figures()
	if diff := cmp.Diff(w.attempts, f.attempts); diff != "" {
		t.Errorf("attempts at images (-want +got):\n%s", diff)
	}
	wanted := 0
	for _, attempts := range w.attempts {
		wanted += attempts
	}
	if f.jobs != wanted {
		t.Errorf("%d Jobs were made, want %d: one for each attempt", f.jobs, wanted)
	}
	uploads, _ := scans.delivered()
	if diff := cmp.Diff(w.scanned, uploads); diff != "" {
		t.Errorf("SBOMs of images (-want +got):\n%s", diff)
	}
	for _, exceeded := range f.exceeded {
		t.Error(exceeded)
	}
	if f.most.total != bounds.total || f.most.perRegistry != bounds.perRegistry || f.most.perScanner["two"] != bounds.perScanner["two"] {
		t.Errorf("at most %+v scans were in flight, want the %+v that are allowed", f.most, bounds)
	}
}

// checkCoverage wants each container in its state, and each gap with what comes next or what to do.
func checkCoverage(t *testing.T, o *operator, w *world) {
	t.Helper()
	rows, summary, err := o.coverage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(summaryOf(w), summary); diff != "" {
		t.Errorf("coverage (-want +got):\n%s", diff)
	}
	got := map[cell]string{}
	for _, row := range rows {
		reason, message := "", ""
		if row.Reason != nil {
			reason = *row.Reason
		}
		if row.Message != nil {
			message = *row.Message
		}
		at := cell{row.Workload.Namespace, row.Workload.Name, row.Container}
		if _, twice := got[at]; twice {
			t.Errorf("%+v is there twice", at)
		}
		got[at] = string(row.State) + "/" + reason
		if (reason == "") != (message == "") {
			t.Errorf("%+v is %s %s: %q", at, row.State, reason, message)
		}
		// Scans that failed come again; what nobody can pull does not.
		comes := row.State == api.CoverageStateFailed && reason != string(model.ReasonNotPullable)
		if comes != (row.NextAttempt != nil && row.NextAttempt.After(time.Now())) {
			t.Errorf("%+v is %s %s, and tried again at %v", at, row.State, reason, row.NextAttempt)
		}
	}
	if diff := cmp.Diff(w.want, got); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
}

// checkStatus wants both Scanners to say what their counts mean.
func checkStatus(t *testing.T, w *world, scanners []*scannerv1.Scanner) {
	t.Helper()
	sum := summaryOf(w)
	for _, s := range scanners {
		if want := fmt.Sprintf("%d%%", sum.Scanned*100/(sum.Scanned+sum.Failed)); s.Status.Coverage != want {
			t.Errorf("the coverage of %s is %s, want %s", s.Name, s.Status.Coverage, want)
		}
		complete := meta.FindStatusCondition(s.Status.Conditions, scannerv1.ConditionCoverageComplete)
		if complete == nil || complete.Status != metav1.ConditionFalse {
			t.Errorf("the condition of %s is %+v, want it to say what is missing", s.Name, complete)
			continue
		}
		t.Logf("%s: %s: %s", s.Name, complete.Reason, complete.Message)
	}
}

// checkQuiet wants the operator to write nothing while nothing happens, whatever it looks at.
func checkQuiet(t *testing.T, o *operator, w *world) {
	t.Helper()
	before := -1
	// What comes right after the last step of the work may still be on its way.
	gomega.NewWithT(t).Eventually(func() bool {
		writes, _ := o.requests.soFar()
		last := before
		before = len(writes)
		return before == last
	}, patience, 4*tick).Should(gomega.BeTrue())
	_, audits := o.requests.soFar()
	for _, pod := range w.pods[:5] {
		// Something that makes a reconciliation without a change.
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"round":"again"}}}`))
		if err := c.Patch(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}, patch); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() error {
		if _, now := o.requests.soFar(); now < audits+2 {
			return fmt.Errorf("%d audits have ended", now-audits)
		}
		return nil
	})
	if writes, _ := o.requests.soFar(); len(writes) > before {
		t.Errorf("a settled operator wrote to the API server: %v", writes[before:])
	}
}
