package kube

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	testclock "k8s.io/utils/clock/testing"
)

// forgetful is an API server that tells of no change, but lists what there is.
type forgetful struct {
	mu      sync.Mutex
	names   []string
	lists   map[string]int
	watches int
}

func (f *forgetful) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case query.Get("sendInitialEvents") != "":
		w.WriteHeader(http.StatusUnprocessableEntity)
	case query.Get("watch") != "":
		f.mu.Lock()
		f.watches++
		f.mu.Unlock()
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	default:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.lists[r.URL.Path]++
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
		for _, name := range f.names {
			list.Items = append(list.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: "7"}})
		}
		_ = json.NewEncoder(w).Encode(list)
	}
}

func (f *forgetful) set(names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names = names
}

func (f *forgetful) watching() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watches
}

// TestRelist lets a watch lose every event.
func TestRelist(t *testing.T) {
	g := gomega.NewWithT(t)
	api := &forgetful{names: []string{"a", "b"}, lists: map[string]int{}}
	server := httptest.NewServer(api)
	defer server.Close()
	relister := &Relister{}
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	config.Wrap(relister.Wrap)
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	factory := informers.NewSharedInformerFactory(clientset, 0)
	lister := factory.Core().V1().Pods().Lister()
	factory.Start(stop)
	defer factory.Shutdown()
	defer close(stop)
	factory.WaitForCacheSync(stop)
	cached := func() []string {
		pods, err := lister.List(labels.Everything())
		if err != nil {
			return []string{err.Error()}
		}
		var names []string
		for _, pod := range pods {
			names = append(names, pod.Name)
		}
		slices.Sort(names)
		return names
	}
	// The server knows of a watch before the client does.
	remembered := func() [2]int {
		relister.mu.Lock()
		defer relister.mu.Unlock()
		return [2]int{len(relister.watches), len(relister.expired)}
	}
	soon(g, remembered).Should(gomega.Equal([2]int{1, 0}))
	if got := cached(); !slices.Equal(got, []string{"a", "b"}) {
		t.Fatalf("cached %v", got)
	}
	api.set("b", "c")
	relister.Relist("jobs")
	relister.Relist("pods")
	soon(g, cached).Should(gomega.Equal([]string{"b", "c"}))
	soon(g, api.watching).Should(gomega.Equal(2))
	soon(g, remembered).Should(gomega.Equal([2]int{1, 0}), "the watch under way, and no other, should be remembered")
}

// TestHeardOfTheQuietestWatch watches two namespaces: news of one say nothing of the other.
func TestHeardOfTheQuietestWatch(t *testing.T) {
	begin := time.Now()
	now := testclock.NewFakePassiveClock(begin)
	relister := &Relister{Clock: now}
	one, two := &watchBody{resource: "pods", target: "/one"}, &watchBody{resource: "pods", target: "/two"}
	relister.hear(one)
	relister.hear(two)
	now.SetTime(begin.Add(time.Hour))
	relister.hear(one)
	if got := relister.Heard(); len(got) != 1 || got["pods"] != time.Hour {
		t.Errorf("heard %v, want of the quiet one", got)
	}
	relister.hear(two)
	if got := relister.Heard(); got["pods"] != 0 {
		t.Errorf("heard %v, want of both just now", got)
	}
}
