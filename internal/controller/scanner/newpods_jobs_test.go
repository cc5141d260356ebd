package scanner

import (
	"context"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// startedBetween are records of scan Jobs; something happens after they were listed.
type startedBetween struct {
	recorded
	after func()
}

func (s *startedBetween) ListScanJobs(ctx context.Context) ([]store.ScanJob, error) {
	jobs, err := s.recorded.ListScanJobs(ctx)
	s.after()
	return jobs, err
}

// TestJobsThatStartWhileAttemptsAreReadAreKnown has another controller start a scan Job after the records were listed.
func TestJobsThatStartWhileAttemptsAreReadAreKnown(t *testing.T) {
	records := &startedBetween{recorded: recorded{}}
	jobs := jobsOn(clientWith(t), clientWith(t), recorded{}, testclock.NewFakeClock(now))
	jobs.records = records
	job := &batchv1.Job{}
	job.UID = "started"
	records.after = func() { jobs.note(&store.ScanJob{Name: "scan", UID: string(job.UID), Namespace: "ns"}) }
	if _, err := jobs.Attempts(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, known := jobs.made[types.UID("started")]; !known {
		t.Error("the pods of the Job count as a workload")
	}
	records.after = func() {}
	if _, err := jobs.Attempts(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, known := jobs.made[types.UID("started")]; known {
		t.Error("a Job without a record is never forgotten")
	}
}
