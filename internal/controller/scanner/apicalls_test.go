package scanner

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// busyDatabase takes long to answer, and notes whether its requests are limited.
type busyDatabase struct {
	memory
	recorded
	clock                  *testclock.FakeClock
	queued, reserve, write time.Duration
	limited                bool
}

func (b *busyDatabase) wait(ctx context.Context, takes time.Duration) {
	_, limited := ctx.Deadline()
	b.limited = b.limited || limited
	b.clock.Step(takes)
}

func (b *busyDatabase) RecordQueued(ctx context.Context, key model.ImageKey, attempt int) (bool, error) {
	b.wait(ctx, b.queued)
	return b.memory.RecordQueued(ctx, key, attempt)
}

// busyRecords are the part of a database about scan Jobs.
type busyRecords struct{ *busyDatabase }

func (b busyRecords) ReserveScanJob(ctx context.Context, job store.ScanJob) (store.ScanJob, bool, error) {
	b.wait(ctx, b.reserve)
	return b.recorded.ReserveScanJob(ctx, job)
}

func (b busyRecords) RecordScanJob(ctx context.Context, name, uid string) error {
	b.clock.Step(b.write) // What was created has to be recorded in time, whatever else there is to do.
	return b.recorded.RecordScanJob(ctx, name, uid)
}

func (b busyRecords) ScanJob(ctx context.Context, uid string) (store.ScanJob, error) {
	return b.recorded.ScanJob(ctx, uid)
}

func (b busyRecords) ReservedScanJob(ctx context.Context, namespace, name string) (bool, error) {
	return b.recorded.ReservedScanJob(ctx, namespace, name)
}

func (b busyRecords) ListScanJobs(ctx context.Context) ([]store.ScanJob, error) {
	return b.recorded.ListScanJobs(ctx)
}

func (b busyRecords) ScanJobSpec(ctx context.Context, name string) (json.RawMessage, error) {
	return b.recorded.ScanJobSpec(ctx, name)
}

func (b busyRecords) ForgetScanJobs(ctx context.Context, names []string) error {
	return b.recorded.ForgetScanJobs(ctx, names)
}

// TestABusyDatabaseMakesNoNamespaceSlow: how long the SQL database takes says nothing about a namespace, and what it does must not end with the time that the
// API server has.
func TestABusyDatabaseMakesNoNamespaceSlow(t *testing.T) {
	for name, tt := range map[string]struct {
		queued, reserve, write, create time.Duration
		slow                           bool
	}{
		"the attempt is noted":   {queued: slowStart + time.Second},
		"the Job is reserved":    {reserve: slowStart + time.Second},
		"the Job is recorded":    {write: slowStart + time.Second},
		"all takes some time":    {queued: 3 * time.Second, reserve: 3 * time.Second, write: 3 * time.Second, create: 3 * time.Second},
		"the API server is slow": {create: slowStart, slow: true},
	} {
		t.Run(name, func(t *testing.T) {
			db := &busyDatabase{memory: memory{}, recorded: recorded{}, queued: tt.queued, reserve: tt.reserve, write: tt.write}
			r, _ := newReconciler(t, db, nil, scannerWith(nil), podOf("a", imageKey("a").ImageID, time.Hour), podOf("b", imageKey("b").ImageID, time.Hour))
			db.clock = clockOf(r)
			inTime := 0
			api := interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
					if _, limited := ctx.Deadline(); limited {
						inTime++
					}
					db.clock.Step(tt.create)
					return c.Create(ctx, obj, opts...)
				},
			})
			r.Cataloger = NewJobs(splitClient{r.Client, api}, r.Client, busyRecords{db}, r.Clock, scanjob.DefaultOptions())
			reconcileOnce(t, r)
			_, slow, _ := r.stalls.current(db.clock.Now())
			if _, is := slow["ns"]; is != tt.slow {
				t.Errorf("the namespace is slow: %t, want %t", is, tt.slow)
			}
			if started := len(db.recorded); started != 2 && !tt.slow || db.limited || inTime != 0 {
				t.Errorf("%d scans were started, %d with little time; the database had little time: %t", started, inTime, db.limited)
			}
		})
	}
}

// TestHurriedStartsLimitTheAPIServerAlone has a start that is to take little time, of which the database takes more.
func TestHurriedStartsLimitTheAPIServerAlone(t *testing.T) {
	db := &busyDatabase{memory: memory{}, recorded: recorded{}, queued: 10 * time.Second, reserve: 10 * time.Second}
	r, _ := newReconciler(t, db, nil, scannerWith(nil))
	db.clock = clockOf(r)
	limited, hangs := 0, false
	api := interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if _, has := ctx.Deadline(); has {
				limited++
			}
			if hangs {
				db.clock.Step(slowStart)
				return context.DeadlineExceeded
			}
			return c.Create(ctx, obj, opts...)
		},
	})
	r.Cataloger = NewJobs(splitClient{r.Client, api}, r.Client, busyRecords{db}, r.Clock, scanjob.DefaultOptions())
	start := func(name string) (time.Duration, error) {
		return r.start(t.Context(), scannerName, scanjob.Request{Name: name, Namespace: "shop", Key: imageKey(name)}, true)
	}
	if took, err := start("a"); err != nil || took != 0 || limited != 1 || db.limited {
		t.Errorf("%v after %s, %d requests to the API server are limited, those to the database: %t", err, took, limited, db.limited)
	}
	hangs = true
	took, err := start("b")
	if failed, namespaced := errors.AsType[*NamespaceError](err); !namespaced || failed.Namespace != "shop" || took != slowStart {
		t.Errorf("%v after %s, want an error about the namespace after %s", err, took, slowStart)
	}
}

func TestAPICallsAreLimitedTogether(t *testing.T) {
	clk := testclock.NewFakeClock(now)
	calls := apiCalls{clock: clk, limit: slowStart}
	ctx := calls.in(t.Context())
	if err := callAPI(ctx, func(context.Context) error { clk.Step(slowStart); return nil }); err != nil {
		t.Error(err)
	}
	err := callAPI(ctx, func(ctx context.Context) error { return ctx.Err() })
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "it took longer than 5s, while other scans waited") || calls.took != slowStart {
		t.Errorf("%v after %s", err, calls.took)
	}
	// Without a start, there is no limit.
	if err := callAPI(t.Context(), func(ctx context.Context) error { return ctx.Err() }); err != nil {
		t.Error(err)
	}
	refused := errors.New("refused")
	if err := callAPI(ctx, func(context.Context) error { return refused }); !errors.Is(err, refused) {
		t.Error(err)
	}
}
