package deploymentfeed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	operatortest "github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
)

const patience = operatortest.Patience

// noon is the time of all changes.
var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// counts notes what the feed counts.
type counts struct {
	mu                     sync.Mutex
	clients, sent, evicted int
}

func (c *counts) add(counter *int, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*counter += n
}

func (c *counts) Joined()    { c.add(&c.clients, 1) }
func (c *counts) Left()      { c.add(&c.clients, -1) }
func (c *counts) Sent(n int) { c.add(&c.sent, n) }
func (c *counts) Evicted()   { c.add(&c.evicted, 1) }

// informed is a feed with an informer that the test speaks through.
type informed struct {
	*testing.T
	*controllertest.FakeInformer
	feed   *Feed
	counts *counts
}

func newInformed(t *testing.T, queue int) informed {
	t.Helper()
	informers := &informertest.FakeInformers{}
	informer, err := informers.FakeInformerFor(t.Context(), &appsv1.Deployment{})
	if err != nil {
		t.Fatal(err)
	}
	i := informed{T: t, FakeInformer: informer, counts: &counts{}}
	i.feed = NewFeed(Config{Informers: informers, Metrics: i.counts, Log: logr.Discard(), Clock: clocktesting.NewFakePassiveClock(noon), Backlog: queue})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- i.feed.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	gomega.NewWithT(t).Eventually(i.feed.Synced, patience, time.Millisecond).Should(gomega.BeTrue())
	return i
}

// read returns the next messages of a subscription.
func (i informed) read(s *Subscription, count int) []string {
	i.Helper()
	ctx, cancel := context.WithTimeout(i.Context(), patience)
	defer cancel()
	var all []string
	for len(all) < count {
		texts, err := s.Next(ctx)
		if err != nil {
			i.Fatalf("after %q: %v", all, err)
		}
		all = append(all, texts...)
	}
	return all
}

func (i informed) expect(s *Subscription, want ...string) {
	i.Helper()
	if diff := cmp.Diff(want, i.read(s, len(want))); diff != "" {
		i.Fatalf("messages (-want +got):\n%s", diff)
	}
}

// version makes a version of a Deployment.
func version(namespace, name, uid string, version int, change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := with(nil, "app=app:1")
	d.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid), ResourceVersion: strconv.Itoa(version)}
	for _, f := range change {
		f(d)
	}
	return d
}

func replicas(n int32) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Replicas = &n }
}

func changed(name, what string) string {
	return fmt.Sprintf(`{"timestamp":"2026-01-31T12:00:00Z","message":"Deployment %s updated - %s"}`, name, what)
}

func TestFeed(t *testing.T) {
	i := newInformed(t, 0)
	for _, d := range []*appsv1.Deployment{version("b", "web", "1", 1), version("a", "web", "2", 2), version("a", "db", "3", 3)} {
		i.Add(d)
	}
	first := i.feed.Subscribe(Scope{}, everything)
	i.expect(first, "Successfully processed deployment: db", "Successfully processed deployment: web", "Successfully processed deployment: web")

	scaled := version("a", "web", "2", 4, replicas(3))
	i.Update(version("a", "web", "2", 2), scaled)
	i.expect(first, changed("web", "Replicas changed: 3"), "Successfully processed deployment: web")

	i.Update(scaled, scaled) // A resync.
	status := version("a", "web", "2", 5, replicas(3))
	i.Update(scaled, status)
	i.expect(first, "Successfully processed deployment: web")

	again := version("a", "web", "9", 6)
	i.Update(status, again) // Deleted and made again while the watch was cut.
	i.expect(first, "Deployment web deleted", "Deployment a/web has been deleted", "Successfully processed deployment: web")

	i.Delete(version("a", "db", "3", 7))
	i.expect(first, "Deployment db deleted", "Deployment a/db has been deleted")
	for _, handler := range []toolscache.DeletedFinalStateUnknown{{Key: "b/web", Obj: version("b", "web", "1", 1)}, {Key: "b/other"}} {
		i.feed.handleDelete(handler)
	}
	i.expect(first, "Deployment web deleted", "Deployment b/web has been deleted")

	second := i.feed.Subscribe(Scope{}, everything)
	i.Add(version("c", "new", "5", 8))
	i.expect(second, "Successfully processed deployment: web", "Successfully processed deployment: new")
	i.expect(first, "Successfully processed deployment: new")
	first.Close()
	if i.counts.clients != 1 || i.counts.sent != 16 {
		t.Errorf("%d clients and %d messages are counted, want 1 and 16", i.counts.clients, i.counts.sent)
	}
}

// interrupted is a queue in which something happens just before an item is done.
type interrupted struct {
	workqueue.TypedInterface[item]
	happens func()
}

func (q *interrupted) Done(i item) {
	if f := q.happens; f != nil {
		q.happens = nil
		f()
	}
	q.TypedInterface.Done(i)
}

// TestRecreatedInOrder deletes a Deployment and creates it again while its previous change is processed.
func TestRecreatedInOrder(t *testing.T) {
	f := NewFeed(Config{Metrics: &counts{}, Log: logr.Discard(), Clock: clocktesting.NewFakePassiveClock(noon)})
	queue := &interrupted{TypedInterface: workqueue.NewTyped[item]()}
	f.queue = queue
	client := informed{T: t, feed: f}
	s := f.Subscribe(Scope{}, everything)
	f.handleAdd(version("a", "web", "1", 1))
	queue.happens = func() { f.handleUpdate(version("a", "web", "1", 2), version("a", "web", "2", 3)) }
	for queue.Len() > 0 {
		f.processNext()
	}
	client.expect(s, "Deployment web deleted", "Deployment a/web has been deleted", "Successfully processed deployment: web")
}

func TestScope(t *testing.T) {
	i := newInformed(t, 0)
	add := func(uid int) {
		for _, d := range [][2]string{{"a", "db"}, {"a", "web"}, {"b", "web"}} {
			i.Add(version(d[0], d[1]+strconv.Itoa(uid), fmt.Sprint(d, uid), uid))
		}
	}
	add(1)
	namespace, name, both := i.feed.Subscribe(Scope{Namespace: "a"}, everything), i.feed.Subscribe(Scope{Deployment: "web2"}, everything), i.feed.Subscribe(Scope{"b", "web1"}, everything)
	add(2)
	i.Delete(version("b", "web1", fmt.Sprint([2]string{"b", "web"}, 1), 3))
	i.expect(namespace, "Successfully processed deployment: db1", "Successfully processed deployment: web1",
		"Successfully processed deployment: db2", "Successfully processed deployment: web2")
	i.expect(name, "Successfully processed deployment: web2", "Successfully processed deployment: web2")
	i.expect(both, "Successfully processed deployment: web1", "Deployment web1 deleted", "Deployment b/web1 has been deleted")
}

// What is in the queue when a client comes is told to those who saw the change, and not again to who was told what is there now.
func TestNothingIsReportedTwice(t *testing.T) {
	h := newHistory(100, clocktesting.NewFakePassiveClock(noon))
	f := &Feed{history: h, metrics: &counts{}}
	i := informed{T: t, feed: f}
	early := f.Subscribe(Scope{}, everything)
	kept, gone := h.added(version("a", "kept", "1", 1)), h.added(version("a", "gone", "2", 2))
	h.deleted(version("a", "gone", "2", 3))
	late := f.Subscribe(Scope{}, everything)
	next, err := h.updated(version("a", "kept", "1", 1), version("a", "kept", "1", 4, replicas(2)))
	if err != nil || len(next) != 1 || next[0] != kept {
		t.Fatalf("%v, %v", next, err)
	}
	last := f.Subscribe(Scope{}, everything)
	h.processed(gone)
	h.processed(kept)
	h.processed(kept) // It was put into the queue again before it was taken out.
	made := h.added(version("a", "new", "3", 5))
	h.processed(made)
	i.expect(early, "Deployment gone deleted", changed("kept", "Replicas changed: 2"), "Deployment a/gone has been deleted",
		"Successfully processed deployment: kept", "Successfully processed deployment: new")
	i.expect(late, "Successfully processed deployment: kept", changed("kept", "Replicas changed: 2"), "Successfully processed deployment: kept",
		"Successfully processed deployment: new")
	i.expect(last, "Successfully processed deployment: kept", "Successfully processed deployment: new")
}

func TestSlowClientIsEvicted(t *testing.T) {
	i := newInformed(t, 8)
	slow, quick := i.feed.Subscribe(Scope{}, everything), i.feed.Subscribe(Scope{}, everything)
	for n := range 9 {
		i.Add(version("a", strconv.Itoa(n), strconv.Itoa(n), n))
		i.expect(quick, "Successfully processed deployment: "+strconv.Itoa(n))
	}
	if _, err := slow.Next(t.Context()); !errors.Is(err, ErrSlow) {
		t.Errorf("got %v, want ErrSlow", err)
	}
	if i.counts.evicted != 1 {
		t.Errorf("%d evictions are counted", i.counts.evicted)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := quick.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the error of the context", err)
	}
}

var counter = regexp.MustCompile(`Deployment (\w+) updated - Replicas changed: (\d+)`)

// clientState is what a client knows from its messages alone.
type clientState struct {
	there map[string]bool
	last  map[string]int
}

func (v clientState) hear(t *testing.T, text string) {
	if name, found := strings.CutPrefix(text, "Successfully processed deployment: "); found {
		v.there[name] = true
	}
	if rest, found := strings.CutSuffix(text, " has been deleted"); found {
		delete(v.there, strings.TrimPrefix(rest, "Deployment ns/"))
	}
	if found := counter.FindStringSubmatch(text); found != nil {
		n, err := strconv.Atoi(found[2])
		if before, known := v.last[found[1]]; err != nil || known && n != before+1 {
			t.Errorf("%s: after %d", text, before)
		}
		v.last[found[1]] = n
	}
}

// TestClientsComeWhileMuchHappens has each client follow from what it is told alone. Replicas only ever grow, by one, so a message that is
// lost or told twice is seen.
func TestClientsComeWhileMuchHappens(t *testing.T) {
	i := newInformed(t, 1<<16)
	random := rand.New(rand.NewPCG(1, 2))
	var clients sync.WaitGroup
	joined := make(chan struct{})
	const names, changes, end = 8, 3000, "zz"
	client := func() {
		s := i.feed.Subscribe(Scope{}, everything)
		defer s.Close()
		joined <- struct{}{}
		v := clientState{map[string]bool{}, map[string]int{}}
		for !v.there[end] {
			for _, text := range i.read(s, 1) {
				v.hear(t, text)
			}
		}
		delete(v.there, end)
		if diff := cmp.Diff(map[string]bool{"d0": true}, v.there); diff != "" {
			t.Errorf("a client believes (-is +it believes):\n%s", diff)
		}
	}
	there := map[string]*appsv1.Deployment{}
	grown := map[string]int32{}
	for n := range changes {
		if n%50 == 0 {
			clients.Go(client)
			<-joined
		}
		name := fmt.Sprintf("d%d", random.IntN(names))
		before := there[name]
		switch {
		case before == nil:
			there[name] = version("ns", name, fmt.Sprint(name, n), n+1, replicas(grown[name]))
			i.Add(there[name])
		case random.IntN(4) == 0:
			i.Delete(before)
			delete(there, name)
		default:
			grown[name]++
			there[name] = version("ns", name, string(before.UID), n+1, replicas(grown[name]))
			i.Update(before, there[name])
		}
	}
	for _, d := range there {
		i.Delete(d)
	}
	i.Add(version("ns", "d0", "last", changes+1))
	i.Add(version("ns", end, "end", changes+2))
	clients.Wait()
}

// Clients that came at different times have different lists; nobody may keep what he has read.
func TestAListThatWasReadIsForgotten(t *testing.T) {
	i := newInformed(t, 0)
	for n := range 3 * batchSize {
		i.feed.history.added(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: strconv.Itoa(n)}})
	}
	s := i.feed.Subscribe(Scope{}, everything)
	defer s.Close()
	i.read(s, 3*batchSize)
	if s.known != nil {
		t.Errorf("the subscription still holds a list of %d", cap(s.known))
	}
}

// everything is visible.
func everything(string) bool { return true }
