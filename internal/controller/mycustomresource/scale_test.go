package mycustomresource

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	pocv1 "github.com/scanner-operator/scanner-operator/api/poc/v1"
	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
)

const manyResources, manyPods = 1000, 10000

// crowd is an API server with many resources and pods. It sends the events of pods that it is given.
type crowd struct {
	pods chan metav1.WatchEvent
	// lists and patches count requests by path.
	mu             sync.Mutex
	lists, patches map[string]int
}

func (c *crowd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Method == http.MethodPatch:
		c.mu.Lock()
		c.patches[r.URL.Path]++
		c.mu.Unlock()
		_, _ = io.Copy(w, r.Body)
	case query.Get("sendInitialEvents") != "":
		w.WriteHeader(http.StatusUnprocessableEntity)
	case query.Get("watch") != "":
		c.watch(w, r)
	default:
		c.mu.Lock()
		c.lists[r.URL.Path]++
		c.mu.Unlock()
		_ = json.NewEncoder(w).Encode(list(r.URL.Path))
	}
}

func (c *crowd) watch(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).Flush()
	for strings.HasSuffix(r.URL.Path, "/pods") {
		select {
		case e := <-c.pods:
			_ = json.NewEncoder(w).Encode(e)
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			return
		}
	}
	<-r.Context().Done()
}

func (c *crowd) count(of map[string]int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, times := range of {
		n += times
	}
	return n
}

func list(path string) runtime.Object {
	version := metav1.ListMeta{ResourceVersion: "1"}
	if strings.HasSuffix(path, "/pods") {
		pods := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: version}
		for i := range manyPods {
			pods.Items = append(pods.Items, *numbered(pod("crowd", fmt.Sprint("stranger-", i)), 1))
		}
		return pods
	}
	resources := &pocv1.MyCustomResourceList{
		TypeMeta: metav1.TypeMeta{APIVersion: pocv1.GroupVersion.String(), Kind: "MyCustomResourceList"}, ListMeta: version,
	}
	for i := range manyResources {
		resource := seeker()
		resource.Name, resource.Spec.Name, resource.ResourceVersion = fmt.Sprint("seeker-", i), fmt.Sprint("friend-", i), "1"
		resource.UID = types.UID(resource.Name)
		resources.Items = append(resources.Items, *resource)
	}
	return resources
}

func numbered(p *corev1.Pod, version int) *corev1.Pod {
	p.TypeMeta, p.UID, p.ResourceVersion = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, types.UID(p.Name), fmt.Sprint(version)
	return p
}

// counting counts what a controller asks its cache for.
type counting struct {
	client.Client
	// reconciles counts objects that were read, lookups lists, and items what those lists held.
	reconciles, lookups, items atomic.Int64
}

func (c *counting) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	c.reconciles.Add(1)
	return c.Client.Get(ctx, key, obj, opts...)
}

func (c *counting) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	c.lookups.Add(1)
	err := c.Client.List(ctx, list, opts...)
	c.items.Add(int64(meta.LenList(list)))
	return err
}

// TestStrangersAreNoBurden has 1,000 resources, 10,000 pods, and as many pods again that change, come and go, none of which is looked
// for. It counts what the controller does about them.
func TestStrangersAreNoBurden(t *testing.T) {
	g := gomega.NewWithT(t)
	api := &crowd{pods: make(chan metav1.WatchEvent), lists: map[string]int{}, patches: map[string]int{}}
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	counts := startOn(t, server.URL)

	// Everybody looks once.
	g.Eventually(func() int { return api.count(api.patches) }, patience, tick).Should(gomega.Equal(manyResources))
	g.Eventually(counts.reconciles.Load, patience, tick).Should(gomega.BeEquivalentTo(manyResources))
	if n := counts.items.Load(); n != 0 {
		t.Errorf("%d objects were looked at, want none of the strangers", n)
	}

	version := 1
	send := func(kind string, p *corev1.Pod) {
		version++
		raw, err := json.Marshal(numbered(p, version))
		if err != nil {
			t.Fatal(err)
		}
		select {
		case api.pods <- metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: raw}}:
		case <-t.Context().Done():
			t.Fatal("nobody watches pods")
		}
	}
	lookups := counts.lookups.Load()
	for i := range manyPods {
		send("MODIFIED", failed(pod("crowd", fmt.Sprint("stranger-", i))))
	}
	for i := range manyPods / 2 {
		send("ADDED", pod("crowd", fmt.Sprint("newcomer-", i)))
		send("DELETED", pod("crowd", fmt.Sprint("stranger-", i)))
	}
	// The last one is looked for: all others were seen before it.
	send("ADDED", pod("crowd", "friend-7"))
	g.Eventually(func() int { return api.count(api.patches) }, patience, tick).Should(gomega.Equal(manyResources + 1))

	if n := counts.reconciles.Load() - manyResources; n != 1 {
		t.Errorf("%d reconciliations, want that of the one whose friend came", n)
	}
	// Each pod that came or went is looked up in the index, updates are not; then the friend, and from its side the pod.
	if n := counts.lookups.Load() - lookups; n != manyPods+2 {
		t.Errorf("%d lookups, want one for each of the %d pods that came or went, and 2 for the friend", n, manyPods)
	}
	if n := counts.items.Load(); n != 2 {
		t.Errorf("%d objects were looked at, want the resource and its friend", n)
	}
	if n := api.count(api.lists); n != 2 {
		t.Errorf("%d lists were asked of the API server, want those that fill the cache", n)
	}
}

// startOn runs the controller on an API server.
func startOn(t *testing.T, url string) *counting {
	t.Helper()
	mgr, err := ctrl.NewManager(&rest.Config{Host: url, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, ctrl.Options{
		Scheme: controllertest.Scheme(t, pocv1.AddToScheme), Logger: logr.Discard(),
		Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
			mapper.Add(pocv1.GroupVersion.WithKind("MyCustomResource"), meta.RESTScopeNamespace)
			return mapper, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	counts := &counting{Client: mgr.GetClient()}
	if err := (&Reconciler{Client: counts, Recorder: events.NewFakeRecorder(manyResources)}).SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return counts
}
