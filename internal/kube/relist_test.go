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
	g.Eventually(api.watching, 10*time.Second, 10*time.Millisecond).Should(gomega.Equal(1))
	if got := cached(); !slices.Equal(got, []string{"a", "b"}) {
		t.Fatalf("cached %v", got)
	}
	api.set("b", "c")
	relister.Relist("jobs")
	relister.Relist("pods")
	g.Eventually(cached, 30*time.Second, 10*time.Millisecond).Should(gomega.Equal([]string{"b", "c"}))
	g.Eventually(api.watching, 10*time.Second, 10*time.Millisecond).Should(gomega.Equal(2))
	relister.mu.Lock()
	defer relister.mu.Unlock()
	if len(relister.watches) != 1 || len(relister.expired) != 0 {
		t.Errorf("%d watches and %d expired ones are remembered, want the one under way", len(relister.watches), len(relister.expired))
	}
}
