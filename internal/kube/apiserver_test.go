package kube

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// apiServer serves Pods, and does with watches what a test says.
type apiServer struct {
	config *rest.Config

	mu       sync.Mutex
	requests []url.Values
	pods     map[string]corev1.Pod
	version  int
	// streams says that it can begin a watch with all objects.
	streams bool
	// withholds says that such a watch does not come to the end of them.
	withholds bool
	// expired is how many watches it is going to refuse because the history does not go back so far.
	expired int
	// wire is the watch under way.
	wire chan []byte
}

func newAPIServer(t *testing.T, names ...string) *apiServer {
	t.Helper()
	a := &apiServer{streams: true, pods: map[string]corev1.Pod{}}
	for _, name := range names {
		a.put(name, "1")
	}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	t.Cleanup(a.cut)
	a.config = &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}, QPS: -1}
	return a
}

// put makes or changes a Pod, and tells nobody.
func (a *apiServer) put(name string, uid types.UID) corev1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	pod := corev1.Pod{
		TypeMeta:   metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid, ResourceVersion: strconv.Itoa(a.version)},
	}
	a.pods[name] = pod
	return pod
}

// remove removes a Pod, and tells nobody.
func (a *apiServer) remove(name string) corev1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	pod := a.pods[name]
	pod.ResourceVersion = strconv.Itoa(a.version)
	delete(a.pods, name)
	return pod
}

// set changes how the server behaves.
func (a *apiServer) set(change func(*apiServer)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(a)
}

// tell sends an event over the watch under way.
func (a *apiServer) tell(kind watch.EventType, object any) {
	a.mu.Lock()
	wire := a.wire
	a.mu.Unlock()
	wire <- watchEvent(kind, object)
}

// bookmark tells that nothing but what was told happened up to now.
func (a *apiServer) bookmark() {
	a.mu.Lock()
	version := a.version
	a.mu.Unlock()
	a.tell(watch.Bookmark, bookmark(version, false))
}

// cut ends the watch under way.
func (a *apiServer) cut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wire != nil {
		close(a.wire)
		a.wire = nil
	}
}

// asked returns the queries of all requests.
func (a *apiServer) asked() []url.Values {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests)
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	a.mu.Lock()
	a.requests = append(a.requests, query)
	begins := query.Get("sendInitialEvents") == "true"
	switch {
	case query.Get("watch") == "":
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
		list.ResourceVersion, list.Items = strconv.Itoa(a.version), slices.Collect(maps.Values(a.pods))
		a.mu.Unlock()
		answer(w, http.StatusOK, list)
		return
	case begins && !a.streams:
		a.mu.Unlock()
		answer(w, http.StatusUnprocessableEntity, metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity,
		})
		return
	case !begins && a.expired > 0:
		a.expired--
		a.mu.Unlock()
		answer(w, http.StatusGone, expired())
		return
	}
	var first [][]byte
	if begins {
		for _, name := range slices.Sorted(maps.Keys(a.pods)) {
			first = append(first, watchEvent(watch.Added, a.pods[name]))
		}
		if !a.withholds {
			first = append(first, watchEvent(watch.Bookmark, bookmark(a.version, true)))
		}
	}
	wire := make(chan []byte)
	a.wire = wire
	a.mu.Unlock()
	stream(w, r, first, wire)
}

func stream(w http.ResponseWriter, r *http.Request, first [][]byte, wire <-chan []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	for _, line := range first {
		_, _ = w.Write(line)
	}
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return
		case line, open := <-wire:
			if !open {
				return
			}
			_, _ = w.Write(line)
		}
	}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func watchEvent(kind watch.EventType, object any) []byte {
	line, err := json.Marshal(map[string]any{"type": kind, "object": object})
	if err != nil {
		return nil
	}
	return line
}

func bookmark(version int, end bool) corev1.Pod {
	pod := corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}}
	pod.ResourceVersion = strconv.Itoa(version)
	if end {
		pod.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return pod
}

func expired() metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: http.StatusGone, Reason: metav1.StatusReasonExpired,
	}
}

// follower is an informer of Pods, and what its handler was told.
type follower struct {
	cache.SharedIndexInformer
	handler cache.ResourceEventHandlerRegistration

	mu   sync.Mutex
	told []string
	// hold keeps the handler until it is closed.
	hold chan struct{}
}

// follow starts an informer. It is stopped before the server.
func follow(t *testing.T, a *apiServer, resync time.Duration, hold chan struct{}) *follower {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(a.config)
	if err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(clientset, resync)
	f := &follower{SharedIndexInformer: factory.Core().V1().Pods().Informer(), hold: hold}
	f.handler, err = f.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { f.hear("add " + describe(obj)) },
		UpdateFunc: func(before, after any) {
			f.hear("update " + describe(before) + " to " + describe(after))
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				f.hear("missed the deletion of " + describe(tombstone.Obj))
				return
			}
			f.hear("delete " + describe(obj))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	factory.Start(stop)
	t.Cleanup(func() {
		close(stop)
		factory.Shutdown()
	})
	return f
}

func describe(obj any) string {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return "something else"
	}
	return pod.Name + " " + string(pod.UID) + "@" + pod.ResourceVersion
}

func (f *follower) hear(what string) {
	if f.hold != nil {
		<-f.hold
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, what)
}

func (f *follower) heard() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.told)
}

// soon is how long a test waits for what has to come.
func soon(g gomega.Gomega, actual any) gomega.AsyncAssertion {
	return g.Eventually(actual, 30*time.Second, 5*time.Millisecond)
}
