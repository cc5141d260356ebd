package scanner

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// TestLogs checks that the log tells at level info which scans started and failed, and nothing once all is settled.
func TestLogs(t *testing.T) {
	key := imageKey("a")
	cataloger := &starter{attempts: map[string]Attempt{}}
	r, _ := newReconciler(t, memory{}, cataloger, scannerWith(nil), podOf("a", key.ImageID, time.Hour))
	logs := &controllertest.Logs{}
	expect := func(step, want string) {
		t.Helper()
		if _, err := r.Reconcile(logs.Context(t.Context()), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "s"}}); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(logs.Take(), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) || strings.Contains(got, "\n") {
			t.Errorf("%s: logs %q, want one with %q", step, got, want)
		}
	}
	expect("started", `"msg"="Started scan" "image"="`+key.ImageID)
	name := scanjob.Name(key, "nonce", 0)
	cataloger.attempts[name] = Attempt{Key: key, ScannerUID: "me"}
	expect("running", "")
	cataloger.attempts[name] = Attempt{Key: key, ScannerUID: "me", Done: true, Outcome: model.Outcome{Reason: model.ReasonOutOfDisk, Message: "full"}}
	expect("failed", `"msg"="Scan failed" "image"="`+key.ImageID)
	expect("settled", "")
}

// TestDeletedJobsAreLogged: the Job of a scan for which nobody waits any more is deleted, and the log tells so once.
func TestDeletedJobsAreLogged(t *testing.T) {
	job := scanJobOf()
	job.Finalizers = []string{"foregroundDeletion"}
	c, kept := clientWith(t, job), records(t, job)
	jobs, logs := jobsOn(c, c, kept, testclock.NewFakeClock(now)), &controllertest.Logs{}
	expect := func(step string, want ...string) {
		t.Helper()
		if _, err := jobs.Attempts(logs.Context(t.Context())); err != nil {
			t.Fatal(err)
		}
		jobs.DeleteEnded(logs.Context(t.Context()))
		if got := logs.Take(); !slices.Equal(got, want) {
			t.Errorf("%s: logs %q, want %q", step, got, want)
		}
	}
	expect("under way")
	kept.close("scan-a")
	expect("over", `"level"=0 "msg"="Deleted scan Job" "namespace"="shop" "job"="scan-a" "sbomStored"=false`)
	expect("being deleted")
}
