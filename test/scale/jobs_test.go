//go:build scale

package scale

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// limits bound the scans that are in flight.
type limits struct {
	total, perRegistry int
	// perScanner are those of each Scanner, by name.
	perScanner map[string]int
}

// observer follows all scan Jobs. A Job is in flight from its creation until the Job controller says that it has ended.
type observer struct {
	limits limits
	mu     sync.Mutex
	// names are those of Scanners, by UID.
	names map[string]string
	open  map[types.UID]*batchv1.Job
	// created holds the names of all Jobs that there ever were.
	created map[model.ImageKey]map[string]bool
	total   int
	// most is the most that was in flight at a time.
	most     limits
	exceeded []string
}

// observe follows Jobs until the test ends.
func observe(t *testing.T) *observer {
	t.Helper()
	o := &observer{
		limits: bounds, names: map[string]string{}, open: map[types.UID]*batchv1.Job{}, created: map[model.ImageKey]map[string]bool{},
		most: limits{perScanner: map[string]int{}},
	}
	follow(t, &batchv1.JobList{}, func(event watch.Event) error {
		job, is := event.Object.(*batchv1.Job)
		if !is {
			return fmt.Errorf("the watch of Jobs said %v", event.Object)
		}
		o.see(event.Type, job)
		return nil
	}, client.HasLabels{scanjob.LabelScan})
	return o
}

func (o *observer) see(kind watch.EventType, job *batchv1.Job) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if kind == watch.Added {
		key := scanjob.Key(job)
		if o.created[key] == nil {
			o.created[key] = map[string]bool{}
		}
		o.created[key][job.Name] = true
		o.total++
	}
	if kind == watch.Deleted || scanjob.Finished(job) {
		delete(o.open, job.UID)
		return
	}
	o.open[job.UID] = job
	registries, scanners := map[string]int{}, map[string]int{}
	for _, job := range o.open {
		registries[scanjob.Key(job).Registry()]++
		scanners[o.names[job.Labels[scanjob.LabelScanner]]]++
	}
	o.most.total = max(o.most.total, o.check("altogether", len(o.open), o.limits.total))
	for host, count := range registries {
		o.most.perRegistry = max(o.most.perRegistry, o.check("from "+host, count, o.limits.perRegistry))
	}
	for name, count := range scanners {
		o.most.perScanner[name] = max(o.most.perScanner[name], o.check("of Scanner "+name, count, o.limits.perScanner[name]))
	}
}

func (o *observer) check(what string, count, limit int) int {
	if count > limit {
		o.exceeded = append(o.exceeded, fmt.Sprintf("%d scans %s, more than %d", count, what, limit))
	}
	return count
}

// know says which Scanner it is before it has any Jobs.
func (o *observer) know(s *scannerv1.Scanner) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.names[string(s.UID)] = s.Name
}

// figures are what an observer has seen so far.
type figures struct {
	jobs, inFlight int
	most           limits
	exceeded       []string
	// attempts counts the names of Jobs.
	attempts map[model.ImageKey]int
}

func (o *observer) figures() figures {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := figures{jobs: o.total, inFlight: len(o.open), most: o.most, exceeded: slices.Clone(o.exceeded), attempts: map[model.ImageKey]int{}}
	f.most.perScanner = maps.Clone(o.most.perScanner)
	for key, names := range o.created {
		f.attempts[key] = len(names)
	}
	return f
}

// follow calls see for every event of the objects that opts choose, in order, until the test ends. There must not be any yet. A watch that the
// API server ends, as it does when events are not taken fast enough, goes on after the last event. An error fails the test.
func follow(t *testing.T, list client.ObjectList, see func(watch.Event) error, opts ...client.ListOption) {
	t.Helper()
	// From the API server's cache, which may have begun after what it would read from its store, and then cannot tell what came in between.
	cached := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}
	if err := c.List(t.Context(), list, append(slices.Clone(opts), cached)...); err != nil {
		t.Fatal(err)
	}
	if meta.LenList(list) > 0 {
		t.Fatalf("there are %T already: their first events are lost", list)
	}
	from := list.GetResourceVersion()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	events, err := watchtools.NewRetryWatcherWithContext(ctx, from, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := c.Watch(ctx, list, append(slices.Clone(opts), &client.ListOptions{Raw: &options})...)
			if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
				// It would be tried again and again.
				t.Errorf("events of %T were missed: %v", list, err)
				cancel()
			}
			return events, err
		},
	})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := fmt.Errorf("the watch of %T ended", list)
		for event := range events.ResultChan() {
			if broken := see(event); broken != nil {
				err = broken
				break
			}
		}
		// How a watch ends that is not wanted any more says nothing.
		if ctx.Err() == nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}
