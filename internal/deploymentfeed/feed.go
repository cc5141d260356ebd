package deploymentfeed

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=list;watch

// defaultBacklog is the default of Config.Backlog.
const defaultBacklog = 4096

// Metrics counts clients and messages.
type Metrics interface {
	// Joined and Left count clients, Sent the messages that were sent to them, and Evicted the clients that were too slow.
	Joined()
	Left()
	Sent(messages int)
	Evicted()
}

// Config sets up a Feed.
type Config struct {
	// Informers are the informers of the manager.
	Informers cache.Informers
	Metrics   Metrics
	Log       logr.Logger
	// Clock is the system clock by default.
	Clock clock.PassiveClock
	// Backlog is the maximum number of messages that a client may be behind, 4,096 by default. They are kept once for all clients.
	Backlog int
}

// Feed sends messages about Deployments to any number of clients, from one informer and one work queue. It is a runnable of a
// controller-runtime manager and runs on every replica.
type Feed struct {
	informers cache.Informers
	metrics   Metrics
	log       logr.Logger
	history   *history
	// queue is set by Start.
	queue workqueue.TypedInterface[item]
	// registration is set when the event handler is registered.
	registration atomic.Pointer[toolscache.ResourceEventHandlerRegistration]
}

// NewFeed returns a feed, which sends messages once Start runs.
func NewFeed(config Config) *Feed {
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	if config.Backlog <= 0 {
		config.Backlog = defaultBacklog
	}
	return &Feed{
		informers: config.Informers, metrics: config.Metrics, log: config.Log, history: newHistory(config.Backlog, config.Clock),
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: the feed runs on every replica.
func (f *Feed) NeedLeaderElection() bool { return false }

// Synced returns whether the feed knows all existing Deployments.
func (f *Feed) Synced() bool {
	registration := f.registration.Load()
	return registration != nil && (*registration).HasSynced()
}

// Namespaces lists the namespaces of the Deployments that exist, by name.
func (f *Feed) Namespaces() []string { return f.history.namespaces() }

// Subscribe returns a subscription that starts with the Deployments that exist now, as far as they are visible. The caller must call Close.
func (f *Feed) Subscribe(scope Scope, visible Visible) *Subscription {
	f.metrics.Joined()
	s := &Subscription{feed: f, scope: scope, visible: visible, buffer: make([]message, 0, batchSize)}
	s.known, s.joined, s.next = f.history.join()
	return s
}

// Start watches Deployments until the context is done. It must be called once.
func (f *Feed) Start(ctx context.Context) error {
	f.queue = workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[item]{Name: "deployment-feed"})
	defer f.queue.ShutDown()
	stop := context.AfterFunc(ctx, f.queue.ShutDown)
	defer stop()
	// Clients get 503 until the informer has synced; nothing else waits for it.
	informer, err := f.informers.GetInformer(ctx, &appsv1.Deployment{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch Deployments: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: f.handleAdd, UpdateFunc: f.handleUpdate, DeleteFunc: f.handleDelete,
	})
	if err != nil {
		return fmt.Errorf("watch Deployments: %w", err)
	}
	f.registration.Store(&registration)
	for f.processNext() {
	}
	return nil
}

// processNext processes the next item of the queue. It returns false when the queue was shut down.
func (f *Feed) processNext() bool {
	i, shutdown := f.queue.Get()
	if shutdown {
		return false
	}
	// Done comes first: an item that is added while it is processed would be queued behind those that are added after it, and a Deployment
	// that was created again would be reported before the deletion of the previous one. There is one worker.
	f.queue.Done(i)
	f.history.processed(i)
	return true
}

func (f *Feed) handleAdd(obj any) {
	if d, ok := obj.(*appsv1.Deployment); ok {
		f.queue.Add(f.history.added(d))
	}
}

func (f *Feed) handleUpdate(before, after any) {
	old, ok := before.(*appsv1.Deployment)
	if !ok {
		return
	}
	d, ok := after.(*appsv1.Deployment)
	if !ok {
		return
	}
	items, err := f.history.updated(old, d)
	if err != nil {
		f.log.Error(err, "Failed to encode a message about a Deployment", "namespace", d.Namespace, "deployment", d.Name)
	}
	for _, i := range items {
		f.queue.Add(i)
	}
}

func (f *Feed) handleDelete(obj any) {
	// The watch may have missed the deletion; a list found that the Deployment does not exist.
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	if d, ok := obj.(*appsv1.Deployment); ok {
		f.queue.Add(f.history.deleted(d))
	}
}
