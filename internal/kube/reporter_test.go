package kube

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// journal is an event log and metrics that note what they are told.
type journal struct {
	entries []string
	err     error
}

func (j *journal) RecordChange(_ context.Context, change store.ObjectChange) error {
	j.entries = append(j.entries, string(change.Kind)+" "+string(change.Detail))
	return j.err
}

func (j *journal) Show(kind Kind, object client.Object) {
	j.entries = append(j.entries, "show "+kind.Kind+" "+object.GetName())
}

func (j *journal) Delete(kind Kind, object types.NamespacedName) {
	j.entries = append(j.entries, "delete "+kind.Kind+" "+object.Name)
}

func TestReport(t *testing.T) {
	failure := errors.New("failure")
	pods := schema.GroupResource{Resource: "pods"}
	conflict, notFound := apierrors.NewConflict(pods, "p", failure), apierrors.NewNotFound(pods, "p")
	recorded := []string{"show PodSet pod", `podset.changed {"phase":"Failed"}`, "written"}
	for name, test := range map[string]struct {
		err, patchErr, recordErr error
		want                     ctrl.Result
		wantErr                  []error
		entries                  []string
	}{
		"success":                            {want: ctrl.Result{RequeueAfter: time.Minute}, entries: recorded},
		"an error":                           {err: failure, wantErr: []error{failure}, entries: recorded},
		"a conflict":                         {err: conflict, want: RetryConflict, entries: recorded},
		"a conflict of the status":           {patchErr: conflict, want: RetryConflict},
		"two conflicts":                      {err: conflict, patchErr: conflict, want: RetryConflict},
		"a conflict and an error":            {err: failure, patchErr: conflict, wantErr: []error{failure, conflict}},
		"conflicts and an error":             {err: errors.Join(conflict, failure), wantErr: []error{failure}, entries: recorded},
		"the status cannot be written":       {err: failure, patchErr: failure, wantErr: []error{failure}},
		"deleted in the meantime":            {patchErr: notFound, want: ctrl.Result{RequeueAfter: time.Minute}},
		"deleted in the meantime, and error": {err: failure, patchErr: notFound, wantErr: []error{failure}},
		"the event log fails":                {recordErr: failure, wantErr: []error{failure}, entries: recorded},
		"a conflict, and the event log":      {err: conflict, recordErr: failure, wantErr: []error{conflict, failure}, entries: recorded},
	} {
		j := &journal{err: test.recordErr}
		reporter := Reporter{Kind: KindPodSet, Client: &statusClient{err: test.patchErr}, Changes: j, Metrics: j}
		before := &corev1.Pod{}
		before.Name = "pod"
		after := before.DeepCopy()
		after.Status.Phase = corev1.PodFailed
		got, err := reporter.Report(t.Context(), Outcome{
			Before: before, After: after, Status: after.Status, Err: test.err, RequeueAfter: time.Minute,
			Written: func() { j.entries = append(j.entries, "written") },
		})
		for _, want := range test.wantErr {
			if !errors.Is(err, want) {
				t.Errorf("%s: error %v, want %v", name, err, want)
			}
		}
		if got != test.want || (err != nil) != (len(test.wantErr) > 0) || !slices.Equal(j.entries, test.entries) {
			t.Errorf("%s: %v, %v, %q; want %v, %q", name, got, err, j.entries, test.want, test.entries)
		}
	}
}

// TestReportOfOneWorker: a status that cannot be written is no error, and is written again later.
func TestReportOfOneWorker(t *testing.T) {
	failure := errors.New("failure")
	pods := schema.GroupResource{Resource: "pods"}
	recorded := []string{`podset.changed {"phase":"Failed"}`}
	for name, test := range map[string]struct {
		err, patchErr error
		unchanged     bool
		want          ctrl.Result
		wantErr       error
		entries       []string
	}{
		"success":                      {want: ctrl.Result{RequeueAfter: time.Minute}, entries: recorded},
		"no change":                    {unchanged: true, want: ctrl.Result{RequeueAfter: time.Minute}, entries: []string{`podset.changed {}`}},
		"an error":                     {err: failure, wantErr: failure, entries: recorded},
		"a conflict":                   {patchErr: apierrors.NewConflict(pods, "p", failure), want: RetryConflict},
		"a conflict, and an error":     {err: failure, patchErr: apierrors.NewConflict(pods, "p", failure), wantErr: failure},
		"the status cannot be written": {patchErr: apierrors.NewForbidden(pods, "p", failure), want: ctrl.Result{RequeueAfter: minLateWait}},
		"not written, and an error":    {err: failure, patchErr: apierrors.NewForbidden(pods, "p", failure), wantErr: failure},
		"deleted in the meantime":      {patchErr: apierrors.NewNotFound(pods, "p"), want: ctrl.Result{RequeueAfter: time.Minute}},
	} {
		j, c := &journal{}, &statusClient{err: test.patchErr}
		now := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
		reporter := Reporter{Kind: KindPodSet, Statuses: NewStatusWriter(c, 20, now), Changes: j}
		before := &corev1.Pod{}
		before.Name, before.UID = "pod", types.UID(t.Name()+name)
		after := before.DeepCopy()
		if !test.unchanged {
			after.Status.Phase = corev1.PodFailed
		}
		report := func() (ctrl.Result, error) {
			return reporter.Report(t.Context(), Outcome{Before: before, After: after, Status: after.Status, Err: test.err, RequeueAfter: time.Minute})
		}
		got, err := report()
		if got != test.want || !errors.Is(err, test.wantErr) || !slices.Equal(j.entries, test.entries) {
			t.Errorf("%s: %v, %v, %q; want %v, %v, %q", name, got, err, j.entries, test.want, test.wantErr, test.entries)
		}
		if got.RequeueAfter != minLateWait {
			continue
		}
		c.err = nil
		now.SetTime(now.Now().Add(minLateWait))
		if got, err := report(); err != nil || got.RequeueAfter != time.Minute || !slices.Equal(j.entries, recorded) {
			t.Errorf("%s, and then can: %v, %v, %q", name, got, err, j.entries)
		}
	}
}

// TestEventLogSeesObjects reconciles objects that do not change: those whose changes are recorded again within the two days for which the event log keeps
// objects that it does not see.
func TestEventLogSeesObjects(t *testing.T) {
	for name, test := range map[string]struct {
		reporter    Reporter
		after, want time.Duration
	}{
		"recorded":               {Reporter{Kind: KindPodSet, Changes: &journal{}}, 0, 25 * time.Hour},
		"recorded, and soon":     {Reporter{Kind: KindPodSet, Changes: &journal{}}, time.Minute, time.Minute},
		"recorded, and too late": {Reporter{Kind: KindPodSet, Changes: &journal{}}, 50 * time.Hour, 25 * time.Hour},
		"not recorded":           {Reporter{Kind: KindMyCustomResource}, 0, 0},
	} {
		test.reporter.Client = &statusClient{}
		pod := &corev1.Pod{}
		got, err := test.reporter.Report(t.Context(), Outcome{Before: pod, After: pod.DeepCopy(), RequeueAfter: test.after})
		if err != nil || got.RequeueAfter != test.want {
			t.Errorf("%s: reconciled again after %s, want %s; %v", name, got.RequeueAfter, test.want, err)
		}
	}
}

func TestReportDeletion(t *testing.T) {
	j := &journal{}
	object := types.NamespacedName{Namespace: "ns", Name: "a"}
	if _, err := (Reporter{Kind: KindPodSet, Changes: j, Metrics: j}).ReportDeletion(t.Context(), object); err != nil {
		t.Error(err)
	}
	if _, err := (Reporter{Kind: KindMyCustomResource, Changes: j, Metrics: j}).ReportDeletion(t.Context(), object); err != nil {
		t.Error(err)
	}
	want := []string{"delete PodSet a", `podset.changed {"deleted":true}`, "delete MyCustomResource a"}
	if !slices.Equal(j.entries, want) {
		t.Errorf("got %q, want %q", j.entries, want)
	}
	j.err = errors.New("failure")
	if _, err := (Reporter{Kind: KindPodSet, Changes: j}).ReportDeletion(t.Context(), object); !errors.Is(err, j.err) {
		t.Errorf("got %v, want %v", err, j.err)
	}
}
