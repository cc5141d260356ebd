package rollout

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

// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch

// defaultQueue is how many messages a client may be behind.
const defaultQueue = 4096

// Metrics counts what the feed does.
type Metrics interface {
	// Joined and Left count clients, Sent the messages that were handed to them, and Evicted those that were too slow.
	Joined()
	Left()
	Sent(messages int)
	Evicted()
}

// Config sets up a Feed.
type Config struct {
	// Informers are those of the manager.
	Informers cache.Informers
	Metrics   Metrics
	Log       logr.Logger
	// Clock is the real one by default.
	Clock clock.PassiveClock
	// Queue is how many messages a client may be behind, 4,096 by default; they are kept once for all.
	Queue int
}

// Feed tells any number of clients what happens to Deployments, from one informer and one work queue. It is a runnable of a
// controller-runtime manager, on every replica.
type Feed struct {
	informers cache.Informers
	metrics   Metrics
	log       logr.Logger
	board     *board
	// queue is there once Start runs.
	queue workqueue.TypedInterface[item]
	// registration is set once the informer is asked.
	registration atomic.Pointer[toolscache.ResourceEventHandlerRegistration]
}

// NewFeed returns a feed that tells nothing until Start.
func NewFeed(config Config) *Feed {
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	if config.Queue <= 0 {
		config.Queue = defaultQueue
	}
	return &Feed{
		informers: config.Informers, metrics: config.Metrics, log: config.Log, board: newBoard(config.Queue, config.Clock),
	}
}

// NeedLeaderElection says that the feed runs on every replica.
func (f *Feed) NeedLeaderElection() bool { return false }

// Synced reports whether the feed knows all Deployments.
func (f *Feed) Synced() bool {
	registration := f.registration.Load()
	return registration != nil && (*registration).HasSynced()
}

// Subscribe begins with what is known now. Close must be called.
func (f *Feed) Subscribe(scope Scope) *Subscription {
	f.metrics.Joined()
	s := &Subscription{feed: f, scope: scope, buffer: make([]message, 0, takeAtOnce)}
	s.known, s.joined, s.next = f.board.join()
	return s
}

// Start follows the Deployments until the context is done. It runs once.
func (f *Feed) Start(ctx context.Context) error {
	f.queue = workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[item]{Name: "deployment-feed"})
	defer f.queue.ShutDown()
	stop := context.AfterFunc(ctx, f.queue.ShutDown)
	defer stop()
	// Clients are told to come back until it has synced; nothing else waits for it.
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
	for {
		i, shutdown := f.queue.Get()
		if shutdown {
			return nil
		}
		f.board.processed(i)
		f.queue.Done(i)
	}
}

func (f *Feed) handleAdd(obj any) {
	if d, ok := obj.(*appsv1.Deployment); ok {
		f.queue.Add(f.board.added(d))
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
	items, err := f.board.updated(old, d)
	if err != nil {
		f.log.Error(err, "A change cannot be told", "namespace", d.Namespace, "deployment", d.Name)
	}
	for _, i := range items {
		f.queue.Add(i)
	}
}

func (f *Feed) handleDelete(obj any) {
	// The watch may have missed the end of it; a list said that it is gone.
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	if d, ok := obj.(*appsv1.Deployment); ok {
		f.queue.Add(f.board.deleted(d))
	}
}
