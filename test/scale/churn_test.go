//go:build scale

package scale

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// churnScans is the maximum number of concurrent scans: new images of a churn do not wait for slots.
const churnScans = 50

// TestChurn runs the operator as a process of its own in a large cluster, and compares what it takes with bounds.txt: settled, with one pod
// event in each second, and while pods are replaced.
func TestChurn(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the CPU time and the memory of a process are read from /proc, which only Linux has")
	}
	m := newMeasures(t)
	m.note(t, "Pods, images, Deployments", "%d, %d, %d", load.pods, load.images, load.deployments())
	town := newTown(t)
	begin := time.Now()
	town.createPods(t)
	m.note(t, "Writes to the API server while the pods were created, without the operator", "%.0f per second", float64(2*load.pods)/time.Since(begin).Seconds())

	o, scanner := beginChurn(t, m, town)
	m.note(t, "Peak of the resident memory so far", "%d MiB", o.memory(t, "VmHWM")>>20)
	idle := settledWrites(t, o)
	m.note(t, "CPU time of the operator, settled", "%.2f %% of a core", 100*cpuShare(t, o, func() { time.Sleep(load.events) }))
	share := cpuShare(t, o, func() { town.event(t) })
	m.check(t, "event-cpu", "CPU time of the operator with one pod event per second, of a core", 100*share)

	m.note(t, "Peak of the resident memory so far", "%d MiB", o.memory(t, "VmHWM")>>20)
	var replaced, created int
	share = cpuShare(t, o, func() { replaced, created = town.churn(t) })
	m.note(t, "Churn that was asked for", "%d pods per second for %s, with %d new images", load.churn, load.duration, created)
	m.note(t, "Churn that this machine reached", "%.1f pods per second, three writes each", float64(replaced)/load.duration.Seconds())
	m.note(t, "CPU time of the operator during the churn", "%.1f %% of a core", 100*share)
	m.note(t, "CPU time of the operator for each replaced pod", "%.1f ms", 1000*share*load.duration.Seconds()/float64(replaced))
	began := time.Now()
	// The status of the Scanner alone may still be the one before the last pod.
	queued := town.awaitQueued(t, o)
	awaitScanned(t, scanner)
	m.check(t, "queue-drained", "From the last replaced pod until all containers are scanned", time.Since(began).Seconds())
	town.checkQueued(t, m, queued)

	_, size := o.writes.soFar()
	m.check(t, "etcd-growth", "Size of all that the operator wrote to the API server", float64(size)/1e6)
	m.note(t, "Its writes", "%s", o.writes.figures())
	m.check(t, "settled-writes", "Writes of the operator in a settled cluster", float64(idle+settledWrites(t, o)))
	base, perPod := m.of(t, "manager-memory"), m.of(t, "manager-memory-per-pod")
	m.note(t, "Peak of the resident memory of the operator", "%d MiB", o.memory(t, "VmHWM")>>20)
	// The pages of the program are no memory that the cluster causes, and here tests are part of it.
	m.compare(t, "Of it, without what is from files", float64(o.memory(t, "VmHWM")-o.memory(t, "RssFile"))/(1<<20),
		bound{base.most + perPod.most*float64(load.pods)/(1<<10), base.unit})
	m.report(t, *report, fmt.Sprintf("%d pods with a churn of %d per second", load.pods, load.churn))
}

// beginChurn starts the operator when all pods run, and has it know all images.
func beginChurn(t *testing.T, m *measures, town *town) (*manager, *scannerv1.Scanner) {
	t.Helper()
	// While it is suspended, images are pending and no scans start.
	scanner := &scannerv1.Scanner{
		ObjectMeta: metav1.ObjectMeta{Namespace: town.namespaces[0], Name: "churn"},
		Spec: scannerv1.ScannerSpec{
			Suspend: true, Concurrency: new(int32(churnScans)), NamespaceSelector: &metav1.LabelSelector{MatchLabels: townLabels},
		},
	}
	scanner.Spec.Job.NodeSelector = scanNode
	create(t, scanner)
	begin := time.Now()
	o := startManager(t, town.namespaces[0])
	town.scans = playScanPods(t, o.api)
	awaitContainers(t, scanner, func(c *scannerv1.ContainerCounts) bool { return int(c.Pending) == load.pods })
	m.note(t, "From the start of the operator until it knows all containers", "%.1f s", time.Since(begin).Seconds())
	begin = time.Now()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(creators)
	for n := range load.images {
		group.Go(func() error {
			key := model.ImageKey{ImageID: imageID(firstImage + n), Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
			return town.scans.deliver(ctx, key, "")
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	awaitScanned(t, scanner)
	m.note(t, "From the first SBOM until all containers are scanned", "%.1f s", time.Since(begin).Seconds())
	if err := c.Patch(t.Context(), scanner, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":false}}`))); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(scanner), scanner); err != nil {
			return err
		}
		if scanner.Status.ObservedGeneration < scanner.Generation {
			return errors.New("the Scanner is suspended")
		}
		return nil
	})
	return o, scanner
}

// awaitScanned waits until the status of a Scanner says that there are as many containers as there are pods, and that all have been scanned.
func awaitScanned(t *testing.T, scanner *scannerv1.Scanner) {
	t.Helper()
	awaitContainers(t, scanner, func(c *scannerv1.ContainerCounts) bool { return int(c.Scanned) == load.pods })
}

func awaitContainers(t *testing.T, scanner *scannerv1.Scanner, done func(*scannerv1.ContainerCounts) bool) {
	t.Helper()
	eventually(t, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(scanner), scanner); err != nil {
			return err
		}
		if counts := scanner.Status.Containers; counts == nil || int(counts.Total) != load.pods || !done(counts) {
			return fmt.Errorf("the status counts %+v containers of %d", counts, load.pods)
		}
		return nil
	})
}

// settledWrites counts what an operator writes in a while in which nothing happens, after as long a while in which it has written nothing.
func settledWrites(t *testing.T, o *manager) int {
	t.Helper()
	before, since := -1, time.Now()
	eventually(t, func() error {
		done, _ := o.writes.soFar()
		if len(done) != before {
			before, since = len(done), time.Now()
		}
		if time.Since(since) < load.quiet {
			return fmt.Errorf("the operator made the last of %d writes at %s", before, since)
		}
		return nil
	})
	time.Sleep(load.quiet)
	done, _ := o.writes.soFar()
	for _, write := range done[before:] {
		t.Logf("a settled operator wrote %s", write)
	}
	return len(done) - before
}

// cpuShare is the CPU time that an operator used while something happened, divided by the time that this took.
func cpuShare(t *testing.T, o *manager, happen func()) float64 {
	t.Helper()
	cpu, begin := o.cpu(t), time.Now()
	happen()
	return (o.cpu(t) - cpu).Seconds() / time.Since(begin).Seconds()
}

// awaitQueued waits until the event log says that the scan of each new image was queued, and returns when.
func (w *town) awaitQueued(t *testing.T, o *manager) map[string]time.Time {
	t.Helper()
	queued := map[string]time.Time{}
	kind := url.QueryEscape(string(store.EventImageQueued))
	since := int64(0)
	eventually(t, func() error {
		for last := since + 1; since < last; {
			var page api.EventPage
			if err := o.get(t.Context(), "/api/v1/events?limit=1000&kind="+kind+"&since="+strconv.FormatInt(since, 10), &page); err != nil {
				return err
			}
			since, last = page.Sequence, page.Last
			for i := range page.Items {
				queued[*page.Items[i].ImageId] = page.Items[i].At
			}
		}
		for image := range w.started {
			if queued[image].IsZero() {
				return fmt.Errorf("no scan of %s was queued", image)
			}
		}
		return nil
	})
	return queued
}

// checkQueued compares when each new image began to run with when its scan was queued.
func (w *town) checkQueued(t *testing.T, m *measures, queued map[string]time.Time) {
	t.Helper()
	var delays []time.Duration
	for image, started := range w.started {
		delay := max(0, queued[image].Sub(started))
		delays = append(delays, delay)
		if delay > time.Second {
			t.Logf("the scan of %s was queued %.2f s after %s", image, delay.Seconds(), started.Format(time.StampMilli))
		}
	}
	if len(delays) == 0 {
		t.Fatal("no new image was queued")
	}
	slices.Sort(delays)
	percentile := func(p float64) float64 { return delays[int(math.Ceil(p*float64(len(delays))))-1].Seconds() }
	m.note(t, "From the start of a pod with a new image until its scan is queued, median", "%.2f s", percentile(0.5))
	m.check(t, "start-to-queued-p99", "The same, 99th percentile", percentile(0.99))
	if scanned, _ := w.scans.delivered(); len(scanned) < len(w.started) {
		t.Errorf("%d of %d new images were scanned: %v", len(scanned), len(w.started), slices.Collect(maps.Keys(scanned)))
	}
}

// event makes one pod event in each second: pods are created, start, and go.
func (w *town) event(t *testing.T) {
	t.Helper()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for range int(load.events / time.Second / stepsOfPod) {
		for _, step := range w.replacement(0, false) {
			<-ticker.C
			if err := step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// churn replaces pods at the rate that is asked for, or as fast as the API server can, for a while. It returns how many it replaced, and how
// many of those run new images.
func (w *town) churn(t *testing.T) (replaced, images int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), load.duration)
	defer cancel()
	due := make(chan int)
	go func() {
		defer close(due)
		begin := time.Now()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Until(begin.Add(time.Duration(i) * time.Second / time.Duration(load.churn)))):
			}
			select {
			case <-ctx.Done():
				return
			case due <- i:
			}
		}
	}()
	group := errgroup.Group{}
	counts := make([]int, churners)
	for worker := range churners {
		group.Go(func() error {
			for i := range due {
				// What has begun is ended, so that all pods run in the end.
				for _, step := range w.replacement(i, i%load.newImageEvery == load.newImageEvery-1) {
					if err := step(t.Context()); err != nil {
						return err
					}
				}
				counts[worker]++
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, count := range counts {
		replaced += count
	}
	return replaced, len(w.started)
}
