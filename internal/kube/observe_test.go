package kube

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	testclock "k8s.io/utils/clock/testing"
)

// TestObservedInformers lets every kind of event happen. It reads the time of the last news on the way.
func TestObservedInformers(t *testing.T) {
	g := gomega.NewWithT(t)
	a := newAPIServer(t, "changed", "deleted", "missed")
	now := testclock.NewFakePassiveClock(time.Now())
	relister := &Relister{Clock: now}
	a.config.Wrap(relister.Wrap)
	clientset, err := kubernetes.NewForConfig(a.config)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	counts := map[string]int{}
	seen := func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return map[string]int{"add": counts["Pod add"], "update": counts["Pod update"], "resync": counts["Pod resync"],
			"delete": counts["Pod delete"], "tombstone": counts["Pod tombstone"]}
	}
	build := ObservedInformers(func(kind string, event InformerEvent) {
		mu.Lock()
		defer mu.Unlock()
		counts[kind+" "+string(event)]++
	})
	pods := clientset.CoreV1().Pods("")
	informer := build(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return pods.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, options)
		},
	}, clientset), &corev1.Pod{}, 0, cache.Indexers{})
	ctx, stop := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() { informer.RunWithContext(ctx) })
	defer ended.Wait()
	defer stop()

	soon(g, seen).Should(gomega.HaveKeyWithValue("add", 3))
	a.tell(watch.Modified, a.put("changed", "1"))
	a.tell(watch.Deleted, a.remove("deleted"))
	soon(g, seen).Should(gomega.HaveKeyWithValue("delete", 1))

	now.SetTime(now.Now().Add(time.Minute))
	if diff := cmp.Diff(map[string]time.Duration{"pods": time.Minute}, relister.Heard()); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
	a.bookmark()
	soon(g, relister.Heard).Should(gomega.Equal(map[string]time.Duration{"pods": 0}))

	a.remove("missed")
	a.set(func(a *apiServer) { a.expired = 1 })
	a.cut()
	soon(g, seen).Should(gomega.Equal(map[string]int{"add": 3, "update": 1, "resync": 1, "delete": 1, "tombstone": 1}))
}

func TestKindOf(t *testing.T) {
	partial := &metav1.PartialObjectMetadata{}
	partial.Kind = "Deployment"
	for want, obj := range map[string]runtime.Object{"Pod": &corev1.Pod{}, "Deployment": partial} {
		if got := kindOf(obj); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
