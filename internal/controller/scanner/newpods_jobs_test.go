package scanner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/scanjob"
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

// TestPodsOfJobsThatCannotBeRecordedAreScans has the store take nothing after a Job was created. After that, the operator may have been restarted.
func TestPodsOfJobsThatCannotBeRecordedAreScans(t *testing.T) {
	live, kept := clientWith(t), &failingRecords{recorded{}, errors.New("the database is read-only")}
	options := scanjob.DefaultOptions()
	options.Image = "operator:1"
	newJobs := func() *Jobs {
		return NewJobs(splitClient{clientWith(t), live}, live, kept, testclock.NewFakeClock(now), options)
	}
	jobs := newJobs()
	req := scanjob.Request{Name: "scan-a", Namespace: "shop", Key: imageKey("a")}
	if err := jobs.Start(t.Context(), client.ObjectKey{Namespace: "ns", Name: "s"}, req); err == nil {
		t.Fatal("the Job was recorded")
	}
	job := &batchv1.Job{}
	if err := live.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "scan-a"}, job); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{Spec: job.Spec.Template.Spec}
	pod.Namespace, pod.OwnerReferences = "shop", []metav1.OwnerReference{ownedBy("scan-a", job.UID, true)}
	other := pod.DeepCopy()
	other.OwnerReferences[0].Name = "scan-b"
	for name, jobs := range map[string]*Jobs{"before": jobs, "after a restart": newJobs()} {
		if _, err := jobs.Attempts(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !jobs.Made(pod) || jobs.Made(other) {
			t.Errorf("%s: its pod is a scan: %t, that of another Job: %t", name, jobs.Made(pod), jobs.Made(other))
		}
	}
}

// specReads are records of scan Jobs that note whose specs were read.
type specReads struct {
	recorded
	names []string
}

func (s *specReads) ScanJobSpec(ctx context.Context, name string) (json.RawMessage, error) {
	s.names = append(s.names, name)
	return s.recorded.ScanJobSpec(ctx, name)
}

// TestSpecsOfRecordedJobsAreReadOnce: specs are long, and there can be many scan Jobs.
func TestSpecsOfRecordedJobsAreReadOnce(t *testing.T) {
	records := &specReads{recorded: recorded{}}
	for i := range 3 {
		name := fmt.Sprint("scan-", i)
		records.recorded[name] = store.ScanJob{Name: name, Namespace: "ns", UID: "uid-" + name, Spec: json.RawMessage(`{"containers":[{"image":"operator:1"}]}`), Open: true}
	}
	jobs := jobsOn(clientWith(t), clientWith(t), recorded{}, testclock.NewFakeClock(now))
	jobs.records = records
	for range 3 {
		if _, err := jobs.Attempts(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(records.names)
	if want := []string{"scan-0", "scan-1", "scan-2"}; !slices.Equal(records.names, want) {
		t.Errorf("the specs of %v were read, want those of %v", records.names, want)
	}
	if got := jobs.noted("uid-scan-1").image; got != "operator:1" {
		t.Errorf("the pods of a recorded Job run %q", got)
	}
}
