package kube

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/workqueue"
)

// The tests in this file show what docs/explanation/informers.md says of client-go. They fail when a new version does something else.

func TestInformersBeginWithAStream(t *testing.T) {
	g := gomega.NewWithT(t)
	a := newAPIServer(t, "a", "b")
	a.set(func(a *apiServer) { a.withholds = true })
	f := follow(t, a, 0, nil)
	soon(g, func() int { return len(a.asked()) }).Should(gomega.Equal(1))
	first := a.asked()[0]
	if first.Get("watch") == "" || first.Get("sendInitialEvents") != "true" || first.Get("allowWatchBookmarks") != "true" || first.Get("resourceVersion") != "" {
		t.Errorf("the first request asks for %v", first)
	}
	a.tell(watch.Added, a.put("c", "1"))
	if f.HasSynced() || len(f.GetStore().ListKeys()) > 0 {
		t.Error("the cache shows what came before the end of the first objects")
	}
	a.tell(watch.Bookmark, bookmark(3, true))
	soon(g, f.heard).Should(gomega.ConsistOf("add a 1@1", "add b 1@2", "add c 1@3"))
	if got := a.asked(); len(got) != 1 {
		t.Errorf("%d requests, want that the first goes on as the watch", len(got))
	}
}

func TestInformersFallBackToAList(t *testing.T) {
	g := gomega.NewWithT(t)
	a := newAPIServer(t, "a")
	a.set(func(a *apiServer) { a.streams = false })
	f := follow(t, a, 0, nil)
	soon(g, func() int { return len(a.asked()) }).Should(gomega.Equal(3))
	list, then := a.asked()[1], a.asked()[2]
	if list.Get("watch") != "" || list.Get("resourceVersion") != "0" {
		t.Errorf("after the refusal it asks for %v, want a list of any age", list)
	}
	if then.Get("watch") == "" || then.Get("resourceVersion") != "1" {
		t.Errorf("after the list it asks for %v, want a watch from the list's version on", then)
	}
	soon(g, f.HasSynced).Should(gomega.BeTrue())
}

func TestEventsCarryTheWholeObject(t *testing.T) {
	g := gomega.NewWithT(t)
	a := newAPIServer(t, "a")
	f := follow(t, a, 0, nil)
	soon(g, f.heard).Should(gomega.HaveLen(1))
	a.tell(watch.Modified, a.put("a", "1"))
	soon(g, f.heard).Should(gomega.Equal([]string{"add a 1@1", "update a 1@1 to a 1@2"}))
	if got := a.asked(); len(got) != 1 {
		t.Errorf("%d requests, want none for the changed object", len(got))
	}
}

func TestUnexpectedEventsAreNoErrors(t *testing.T) {
	g := gomega.NewWithT(t)
	a := newAPIServer(t, "a")
	f := follow(t, a, 0, nil)
	soon(g, f.heard).Should(gomega.HaveLen(1))
	a.tell(watch.Added, a.put("a", "1"))
	a.tell(watch.Modified, a.put("b", "1"))
	a.put("c", "1")
	a.tell(watch.Deleted, a.remove("c"))
	soon(g, f.heard).Should(gomega.Equal([]string{"add a 1@1", "update a 1@1 to a 1@2", "add b 1@3", "delete c 1@5"}))
}

func TestAWatchGoesOnWhereItEnded(t *testing.T) {
	g := gomega.NewWithT(t)
	a := newAPIServer(t, "a")
	f := follow(t, a, 0, nil)
	soon(g, f.heard).Should(gomega.HaveLen(1))
	a.tell(watch.Modified, a.put("a", "1"))
	a.put("elsewhere", "1")
	a.remove("elsewhere")
	a.bookmark()
	soon(g, f.LastSyncResourceVersion).Should(gomega.Equal("4"))
	a.cut()
	soon(g, func() int { return len(a.asked()) }).Should(gomega.Equal(2))
	again := a.asked()[1]
	if again.Get("watch") == "" || again.Get("sendInitialEvents") != "" || again.Get("resourceVersion") != "4" {
		t.Errorf("after the cut it asks for %v, want a watch from the bookmark on", again)
	}
	if got := f.heard(); len(got) != 2 {
		t.Errorf("the handler was told %v, want nothing of the bookmark and of the cut", got)
	}
}

func TestAnExpiredWatchBeginsAnew(t *testing.T) {
	for name, expire := range map[string]func(*apiServer){
		"in the answer": func(a *apiServer) { a.set(func(a *apiServer) { a.expired = 1 }); a.cut() },
		"in the stream": func(a *apiServer) { a.tell(watch.Error, expired()); a.cut() },
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			a := newAPIServer(t, "changed", "deleted", "recreated")
			f := follow(t, a, 0, nil)
			soon(g, f.heard).Should(gomega.HaveLen(3))
			a.put("changed", "1")
			a.remove("deleted")
			a.remove("recreated")
			a.put("recreated", "2")
			a.put("new", "1")
			expire(a)
			soon(g, func() []string { return slices.Sorted(slices.Values(f.heard()[3:])) }).Should(gomega.Equal([]string{
				"add new 1@8",
				"missed the deletion of deleted 1@2",
				"update changed 1@1 to changed 1@4",
				"update recreated 1@3 to recreated 2@7",
			}))
			last := a.asked()[len(a.asked())-1]
			if last.Get("sendInitialEvents") != "true" {
				t.Errorf("the last request asks for %v, want all objects", last)
			}
		})
	}
}

func TestAnExpiredListAsksForTheLatest(t *testing.T) {
	g := gomega.NewWithT(t)
	a := newAPIServer(t, "a")
	a.set(func(a *apiServer) { a.streams = false })
	f := follow(t, a, 0, nil)
	soon(g, func() int { return len(a.asked()) }).Should(gomega.Equal(3))
	a.tell(watch.Modified, a.put("a", "1"))
	soon(g, f.heard).Should(gomega.HaveLen(2))
	a.set(func(a *apiServer) { a.expired = 1 })
	a.cut()
	lists := func() (versions []string) {
		for _, query := range a.asked() {
			if query.Get("watch") == "" {
				versions = append(versions, query.Get("resourceVersion"))
			}
		}
		return versions
	}
	// The second is at least as new as what the cache has, but may come from a cache of the API server too.
	soon(g, lists).Should(gomega.Equal([]string{"0", "2"}))
}

func TestAResyncAsksNobody(t *testing.T) {
	g := gomega.NewWithT(t)
	a := newAPIServer(t, "a")
	// The shortest that client-go allows.
	f := follow(t, a, time.Second, nil)
	soon(g, f.heard).Should(gomega.ContainElement("add a 1@1"))
	a.put("a", "1")
	soon(g, f.heard).Should(gomega.ContainElement("update a 1@1 to a 1@1"))
	if got := a.asked(); len(got) != 1 {
		t.Errorf("%d requests, want none for the resync", len(got))
	}
}

func TestSyncedIsNotYetDelivered(t *testing.T) {
	g := gomega.NewWithT(t)
	a := newAPIServer(t, "a", "b")
	hold := make(chan struct{})
	f := follow(t, a, 0, hold)
	soon(g, f.HasSynced).Should(gomega.BeTrue())
	if f.handler.HasSynced() {
		t.Error("the handler counts as synced before it was told of the first object")
	}
	close(hold)
	soon(g, f.handler.HasSynced).Should(gomega.BeTrue())
	if got := f.heard(); len(got) != 2 {
		t.Errorf("the handler has synced, and was told %v", got)
	}
}

func TestASlowHandlerMissesNothing(t *testing.T) {
	g := gomega.NewWithT(t)
	a := newAPIServer(t, "a")
	hold := make(chan struct{})
	f := follow(t, a, 0, hold)
	soon(g, f.HasSynced).Should(gomega.BeTrue())
	for range 3 {
		a.tell(watch.Modified, a.put("a", "1"))
	}
	// The cache does not wait for the handler.
	soon(g, f.LastSyncResourceVersion).Should(gomega.Equal("4"))
	soon(g, func() string {
		obj, _, err := f.GetStore().GetByKey("ns/a")
		if err != nil {
			return err.Error()
		}
		return describe(obj)
	}).Should(gomega.Equal("a 1@4"))
	close(hold)
	soon(g, f.heard).Should(gomega.Equal([]string{
		"add a 1@1", "update a 1@1 to a 1@2", "update a 1@2 to a 1@3", "update a 1@3 to a 1@4",
	}))
}

func TestCachedObjectsAreShared(t *testing.T) {
	g := gomega.NewWithT(t)
	a := newAPIServer(t, "a")
	f := follow(t, a, 0, nil)
	soon(g, f.heard).Should(gomega.HaveLen(1))
	first, _, err := f.GetStore().GetByKey("ns/a")
	if err != nil {
		t.Fatal(err)
	}
	if second := f.GetStore().List()[0]; first != second {
		t.Error("two reads give two objects: each could be changed without the other")
	}
}

func TestAKeyIsInTheQueueOnce(t *testing.T) {
	queue := workqueue.NewTyped[string]()
	defer queue.ShutDown()
	queue.Add("ns/a")
	queue.Add("ns/a")
	if queue.Len() != 1 {
		t.Errorf("%d keys wait, want one for two additions", queue.Len())
	}
	key, _ := queue.Get()
	queue.Add(key)
	if queue.Len() != 0 {
		t.Error("the key is handed out while somebody works on it")
	}
	queue.Done(key)
	if queue.Len() != 1 {
		t.Error("what was added during the work is lost")
	}
}

func TestRetriesWaitLonger(t *testing.T) {
	limiter := workqueue.DefaultTypedControllerRateLimiter[string]()
	first := limiter.When("ns/a")
	if second := limiter.When("ns/a"); second != 2*first {
		t.Errorf("waits %s, then %s, want twice as long", first, second)
	}
	limiter.Forget("ns/a")
	if again := limiter.When("ns/a"); again != first {
		t.Errorf("waits %s after a success, want %s", again, first)
	}
}

// kinds says of each request what it was.
func kinds(requests []url.Values) []string {
	var kinds []string
	for _, query := range requests {
		switch {
		case query.Get("watch") == "":
			kinds = append(kinds, "list")
		case query.Get("sendInitialEvents") != "":
			kinds = append(kinds, "stream")
		default:
			kinds = append(kinds, "watch")
		}
	}
	return kinds
}

// TestARestartedServer cuts connections as a restart does, and once so early that the informer begins anew. It tells then of an update
// from an object to itself.
func TestARestartedServer(t *testing.T) {
	g := gomega.NewWithT(t)
	a := newAPIServer(t, "a")
	f := follow(t, a, 0, nil)
	soon(g, f.heard).Should(gomega.HaveLen(1))
	asked := func() string { return strings.Join(kinds(a.asked()), " ") }
	for n := range 2 {
		a.bookmark()
		a.cut()
		soon(g, asked).Should(gomega.Equal("stream" + strings.Repeat(" watch", n+1)))
	}
	a.cut()
	soon(g, asked).Should(gomega.Equal("stream watch watch stream"))
	soon(g, f.heard).Should(gomega.Equal([]string{"add a 1@1", "update a 1@1 to a 1@1"}))
}
