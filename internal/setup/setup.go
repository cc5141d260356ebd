package setup

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/scanner-operator/scanner-operator/internal/controller/notificationrules"
	"github.com/scanner-operator/scanner-operator/internal/deploymentfeed"
	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/matching"
	"github.com/scanner-operator/scanner-operator/internal/metrics"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/servingcert"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
	"github.com/scanner-operator/scanner-operator/internal/tracing"
	"github.com/scanner-operator/scanner-operator/internal/version"
	"github.com/scanner-operator/scanner-operator/internal/vexdecisions"
	"github.com/scanner-operator/scanner-operator/internal/vulndb"
)

const (
	leaderElectionID = "scanner-operator.zoltankerezsi.xyz"
	shutdownTimeout  = 30 * time.Second
)

// Scheme returns all API types that the operator uses.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(kube.AddToScheme(scheme))
	return scheme
}

// Operator is the whole program, ready to start.
type Operator struct {
	manager ctrl.Manager
	store   *sqlstore.Store
	// changes is the event log for controllers that need no database.
	changes *kube.PromptRecorder
	// applier applies the VEX documents of the store.
	applier *vexdecisions.Applier
	// ready is the store for readiness checks and the API.
	ready  *readinessCache
	traces *tracing.Traces
	server *server.Server
	// deployments is nil when its controller does not run.
	deployments *deploymentfeed.Feed
	// rules reads and tests notification rules; nil when their controller does not run.
	rules *notificationrules.Access
	// certificate is nil when the API is served without TLS.
	certificate *servingcert.Source
	opts        Options
	// relister has the manager's caches read everything anew.
	relister *kube.Relister
}

// New connects to the store, migrates it, and wires everything. Nothing runs before Start. When New fails, it has closed
// what it opened.
func New(ctx context.Context, cluster *rest.Config, opts Options) (_ *Operator, err error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(opts.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("create the data directory: %w", err)
	}
	relister := &kube.Relister{}
	cluster = rest.CopyConfig(cluster)
	cluster.Wrap(relister.Wrap)
	cluster.Wrap(kube.LimitRequests)
	caches, err := metrics.NewCaches(ctrlmetrics.Registry, relister.Heard)
	if err != nil {
		return nil, err
	}
	mgr, err := newManager(cluster, opts, caches)
	if err != nil {
		return nil, err
	}
	db, err := sqlstore.Open(ctx, sqlstore.Config{
		Type: opts.DatabaseType, DSN: opts.dsn(), MaxOpenConns: opts.DatabaseConnections, Log: opts.Log.WithName("store"), Clock: clock.RealClock{},
		Cluster: opts.ClusterName, BaseImages: opts.BaseImages, Rules: vexRules(),
		// PodSets and BellerophonSimples need no database.
		Wait: true,
	})
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	traces, err := tracing.New(tracing.Config{
		Endpoint: opts.OTLPEndpoint, Version: version.String(), Cluster: opts.ClusterName, Log: opts.Log.WithName("tracing"),
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	o := &Operator{
		traces: traces, manager: mgr, store: db, ready: &readinessCache{Store: db, clock: clock.RealClock{}}, opts: opts, relister: relister,
	}
	if err := o.wire(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return o, nil
}

func newManager(cluster *rest.Config, opts Options, caches *metrics.Caches) (ctrl.Manager, error) {
	cacheOptions, err := kube.CacheOptions(opts.WatchNamespaces, opts.OwnerKeys)
	if err != nil {
		return nil, fmt.Errorf("configure the cache: %w", err)
	}
	cacheOptions.NewInformer = kube.ObservedInformers(func(kind string, event kube.InformerEvent) { caches.Delivered(kind, string(event)) })
	events := &leaseEvents{}
	var lock resourcelock.Interface
	if opts.LeaderElection {
		if lock, err = newLease(cluster, opts.Namespace, events); err != nil {
			return nil, err
		}
	}
	mgr, err := ctrl.NewManager(cluster, ctrl.Options{
		Scheme: Scheme(),
		Cache:  cacheOptions,
		Logger: opts.Log,
		Metrics: metricsserver.Options{
			BindAddress:    opts.MetricsAddress,
			SecureServing:  true,
			FilterProvider: auth.ProtectMetrics,
		},
		HealthProbeBindAddress:              opts.HealthAddress,
		LeaderElection:                      opts.LeaderElection,
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel:       true,
		GracefulShutdownTimeout:             new(shutdownTimeout),
		// Tests run several operators in one process; controllers of one operator have different names anyway.
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return nil, fmt.Errorf("create the controller manager: %w", err)
	}
	events.manager = mgr
	return mgr, nil
}

// wire makes all parts and adds them to the manager.
func (o *Operator) wire(ctx context.Context) error {
	opts, mgr := o.opts, o.manager
	library, err := vulndb.New(vulndb.Config{
		Dir: filepath.Join(opts.DataDir, "db"), UpdateURL: opts.VulnerabilityDatabase.URL,
		Interval: opts.VulnerabilityDatabase.Interval, Sample: opts.VulnerabilityDatabase.Sample, Log: opts.Log.WithName("vulndb"),
	})
	if err != nil {
		return fmt.Errorf("open the vulnerability databases: %w", err)
	}
	observer, err := o.addMetrics(library)
	if err != nil {
		return err
	}
	matcher := matching.New(o.store, library, observer, clock.RealClock{}, opts.Log.WithName("matching"))
	matcher.Retention, matcher.DecisionRetention, matcher.Tracer = opts.HistoryRetention, opts.DecisionRetention, o.traces.Tracer("matching")
	matcher.LimitDecoding(memory() / decodeShare)
	// Without this, whoever asks right after a start would find no database in use.
	if err := matcher.Refresh(ctx); err != nil && !errors.Is(err, store.ErrUnavailable) {
		return err
	}
	hub := feed.New(o.store, feed.Config{Log: opts.Log.WithName("feed")})
	wake, recount, redue := newWaker(), newWaker(), newWaker()
	matcher.MissingChanged = wake.wake

	if err := o.addCertificate(); err != nil {
		return err
	}
	if err := o.addControllers(matcher, hub, wake, recount, redue); err != nil {
		return err
	}
	if o.server, err = o.newServer(matcher, library, hub); err != nil {
		return err
	}
	for _, runnable := range append(o.matching(matcher, library),
		library,
		onAllReplicas(hub.Run),
		onAllReplicas(func(ctx context.Context) error { return follow(ctx, hub, matcher, wake, recount, redue) }),
		&feed.Compactor{Events: o.store, Retention: opts.EventRetention, Clock: clock.RealClock{}, Log: opts.Log.WithName("feed")},
		&feed.Reminder{Events: o.store, MaxAge: library.Status().MaxAge, Clock: clock.RealClock{}, Log: opts.Log.WithName("feed")},
		o.server,
		o.traces,
	) {
		if err := mgr.Add(runnable); err != nil {
			return fmt.Errorf("add a component to the manager: %w", err)
		}
	}
	return o.addChecks()
}

// matching returns what matches and, if there may be several replicas, what brings imported databases to all of them.
func (o *Operator) matching(matcher *matching.Matcher, library *vulndb.Library) []manager.Runnable {
	if o.opts.DatabaseType == "" || o.opts.DatabaseType == sqldb.TypeSQLite {
		return []manager.Runnable{manager.RunnableFunc(matcher.Run)}
	}
	sharer := &matching.Sharer{Store: o.store, Library: library, Clock: clock.RealClock{}, Log: o.opts.Log.WithName("vulndb")}
	return []manager.Runnable{
		onAllReplicas(sharer.Run),
		manager.RunnableFunc(func(ctx context.Context) error {
			// What another replica imported just before it ended. An error was logged, and Run tries again.
			_ = sharer.Sync(ctx)
			return matcher.Run(ctx)
		}),
	}
}

func (o *Operator) addMetrics(library *vulndb.Library) (*metrics.Matching, error) {
	if err := metrics.NewDatabases(ctrlmetrics.Registry, o.store, library, o.opts.Log.WithName("metrics")); err != nil {
		return nil, err
	}
	if err := metrics.NewAges(ctrlmetrics.Registry, o.store, o.opts.Log.WithName("metrics")); err != nil {
		return nil, err
	}
	if err := metrics.NewSize(ctrlmetrics.Registry, o.store, o.opts.Log.WithName("metrics")); err != nil {
		return nil, err
	}
	if err := metrics.NewNamespaces(ctrlmetrics.Registry, o.store, o.manager.Elected(), clock.RealClock{}, o.opts.Log.WithName("metrics")); err != nil {
		return nil, err
	}
	if len(o.opts.OwnerKeys) > 0 {
		if err := metrics.NewOwners(ctrlmetrics.Registry, o.store, o.manager.Elected(), clock.RealClock{}, o.opts.Log.WithName("metrics")); err != nil {
			return nil, err
		}
	}
	return metrics.NewMatching(ctrlmetrics.Registry)
}

func (o *Operator) addChecks() error {
	if err := o.manager.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("add the health check: %w", err)
	}
	if err := o.manager.AddReadyzCheck("store", func(r *http.Request) error { return o.ready.Ready(r.Context()) }); err != nil {
		return fmt.Errorf("add a readiness check: %w", err)
	}
	if err := o.manager.AddReadyzCheck("api", o.server.Check); err != nil {
		return fmt.Errorf("add a readiness check: %w", err)
	}
	synced := make(chan struct{})
	err := o.manager.Add(onAllReplicas(func(ctx context.Context) error {
		if o.manager.GetCache().WaitForCacheSync(ctx) {
			close(synced)
		}
		return nil
	}))
	if err != nil {
		return fmt.Errorf("add the cache sync check: %w", err)
	}
	err = o.manager.AddReadyzCheck("cache", func(*http.Request) error {
		select {
		case <-synced:
			return nil
		default:
			return errors.New("the cache is not synced yet")
		}
	})
	if err != nil {
		return fmt.Errorf("add a readiness check: %w", err)
	}
	return nil
}

// Start runs the operator until ctx ends, and closes the store.
func (o *Operator) Start(ctx context.Context) error {
	err := o.manager.Start(ctx)
	if err != nil {
		err = fmt.Errorf("run the controller manager: %w", err)
	}
	if closeErr := o.store.Close(); closeErr != nil {
		err = errors.Join(err, fmt.Errorf("close the store: %w", closeErr))
	}
	return err
}

// APIAddr is the address that the API listens on, "" before it does.
func (o *Operator) APIAddr() string { return o.server.Addr() }

// onAllReplicas is a part that runs on every replica, not on the leader alone.
type onAllReplicas func(context.Context) error

// Start implements manager.Runnable.
func (f onAllReplicas) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (onAllReplicas) NeedLeaderElection() bool { return false }

// waker makes a controller look at everything. Many calls make one event.
type waker struct{ events chan event.GenericEvent }

func newWaker() *waker { return &waker{events: make(chan event.GenericEvent, 1)} }

func (w *waker) wake() {
	select {
	case w.events <- event.GenericEvent{Object: &batchv1.Job{}}:
	default:
	}
}
