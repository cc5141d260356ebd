// Package scanner reconciles Scanners: it finds the running images, starts their scans, and reports the state.
package scanner

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/metrics"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// auditInterval is how often a Scanner is reconciled when nothing happens.
const auditInterval = 5 * time.Minute

// retryRefused is when a Scanner is reconciled again after the start of a scan was refused, or those of new pods failed.
const retryRefused = time.Second

// Store is what the controller needs of the store.
type Store interface {
	WantImages(ctx context.Context, keys []model.ImageKey) (map[model.ImageKey]store.Image, error)
	CountsWithin(ctx context.Context, in store.Namespaces, keys []model.ImageKey) (map[model.ImageKey]store.Counts, error)
	RecordQueued(ctx context.Context, key model.ImageKey, attempt int) (bool, error)
	EndAttempt(ctx context.Context, key model.ImageKey, attempt int, next time.Time) (bool, error)
	RecordFailure(ctx context.Context, key model.ImageKey, attempt int, outcome model.Outcome, next time.Time) (bool, error)
	RecordChange(ctx context.Context, change store.ObjectChange) error
	RecordUses(ctx context.Context, scope string, uses []store.Use) error
	AddUses(ctx context.Context, scope string, uses []store.Use) error
	RecordCoverage(ctx context.Context, scope string, containers []store.ContainerCoverage) error
	store.Scans
	WantTagLookups(ctx context.Context, scope string, wanted []store.WantedTags) ([]store.TagLookup, error)
	KnownTagDigests(ctx context.Context, scope, namespace, repository string, platform model.Platform, cataloger string, limit int) ([]string, error)
	FailTagLookup(ctx context.Context, id string, attempt int, outcome model.Outcome, namespace string, next time.Time) (bool, error)
	Changes(ctx context.Context, in store.Namespaces, query store.ChangeQuery) (store.ChangePage, error)
}

// Databases returns the vulnerability database in use.
type Databases interface {
	Build() (model.DatabaseBuild, bool)
	// Missing says why new images cannot be matched, as the reason and the message of a condition; "" when they can.
	Missing() (reason, message string)
}

// Reconciler reconciles Scanners.
type Reconciler struct {
	Client    client.Client
	Store     Store
	Cataloger Cataloger
	Databases Databases
	Recorder  events.EventRecorder
	Clock     clock.Clock
	// Namespace is the operator's own: only there may a Scanner select other namespaces.
	Namespace string
	// WatchNamespaces are the namespaces that the operator watches, none means all.
	WatchNamespaces []string
	// Home is where scans run that need no credentials of another namespace.
	Home Home
	// Limits limit the concurrent scans of all Scanners.
	Limits    Limits
	Recatalog Recatalog
	// NoNewerTags says why this operator looks up no newer tags; "" if it does.
	NoNewerTags string
	// Owners says where the owners of workloads are found.
	Owners  Owners
	Metrics *metrics.Scans
	// Tracer records a trace of each scan Job that has ended; nil records none.
	Tracer trace.Tracer

	// reconciles is the queue of the controller. It is there before the first reconcile, and so before any pod is new.
	reconciles workqueue.TypedRateLimitingInterface[reconcile.Request]

	statuses *kube.StatusWriter
	traces   scanTraces
	queues   queues
	fallback fallback
	stalls   stalls
	pace     pace
	newPods  newPods
	numbers  numbers
	lookups  postponedLookups
	invalid  invalidOwners
	// recatalogPausedUntil is Recatalog.pausedUntil in Unix nanoseconds.
	recatalogPausedUntil atomic.Int64
}

// +kubebuilder:rbac:groups=scanner.zoltankerezsi.xyz,resources=scanners,verbs=list;watch
// +kubebuilder:rbac:groups=scanner.zoltankerezsi.xyz,resources=scanners/status,verbs=patch
// +kubebuilder:rbac:groups=scanner.zoltankerezsi.xyz,resources=scanners/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces;nodes,verbs=list;watch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=resourcequotas,verbs=list
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile reconciles one Scanner: it observes the running images, records the outcome of scans, starts the next ones and
// writes the status.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	scanner := &scannerv1.Scanner{}
	reporter := kube.Reporter{Kind: kube.KindScanner, Client: r.Client, Statuses: r.statuses, Changes: r.Store}
	if err := r.Client.Get(ctx, req.NamespacedName, scanner); apierrors.IsNotFound(err) {
		r.numbers.forget(req.Namespace)
		if err := r.forget(ctx, req.NamespacedName); err != nil {
			return ctrl.Result{}, err
		}
		return reporter.ReportDeletion(ctx, req.NamespacedName)
	} else if err != nil {
		return ctrl.Result{}, err
	}
	if !scanner.DeletionTimestamp.IsZero() {
		r.queues.set(req.NamespacedName, nil)
		return ctrl.Result{}, nil
	}
	before, began := scanner.DeepCopy(), r.Clock.Now()
	if inEffect, err := r.inEffect(ctx, req.NamespacedName); err != nil {
		return ctrl.Result{}, err
	} else if !inEffect {
		err := r.suspendBeyond(ctx, scanner)
		return reporter.Report(ctx, kube.Outcome{Before: before, After: scanner, Status: scanner.Status, Err: err, RequeueAfter: auditInterval})
	}
	r.pace.begin(req.NamespacedName, began)

	v, next, err := r.reconcile(ctx, scanner)
	if err != nil {
		setFailed(scanner, err)
		// Others must not wait for what it would have started.
		r.queues.set(req.NamespacedName, nil)
	}
	result, err := reporter.Report(ctx, kube.Outcome{Before: before, After: scanner, Status: scanner.Status, Err: err, RequeueAfter: next})
	r.pace.end(req.NamespacedName, began, r.Clock.Now(), v)
	// Last, without a lock, and not part of what the Scanner rests for: a webhook may let it take long.
	if again := r.Cataloger.DeleteEnded(ctx); again > 0 {
		result.RequeueAfter = min(result.RequeueAfter, again)
	}
	return result, err
}

// reconcile returns what it observed, nil if it failed before, and when to reconcile again.
func (r *Reconciler) reconcile(ctx context.Context, scanner *scannerv1.Scanner) (*observed, time.Duration, error) {
	r.newPods.begin()
	v, err := r.observe(ctx, scanner, r.allPods)
	if err != nil {
		return nil, 0, err
	}
	next, err := r.act(ctx, scanner, v)
	return v, next, err
}

// act records what was observed, starts the next scans and sets the status. It returns when to reconcile again.
func (r *Reconciler) act(ctx context.Context, scanner *scannerv1.Scanner, v *observed) (time.Duration, error) {
	log := logr.FromContextOrDiscard(ctx)
	if err := r.recordUses(ctx, client.ObjectKeyFromObject(scanner), v); err != nil {
		return 0, err
	}
	v.endBlocked(scanner, r.Limits, r.Clock.Now())
	if err := r.recordFailures(ctx, scanner, v); err != nil {
		return 0, err
	}
	if err := r.reportChanges(ctx, scanner, v); err != nil {
		return 0, err
	}
	if err := r.observeLookups(ctx, scanner, v); err != nil {
		return 0, err
	}
	plan, err := r.startDue(ctx, scanner, v)
	if err != nil {
		return 0, err
	}
	if plan.problem != nil {
		r.queues.set(client.ObjectKeyFromObject(scanner), nil)
	} else if err := r.startLookup(ctx, scanner, v, &plan); endsReconcile(ctx, err) {
		return 0, err
	} else if err != nil {
		r.lookups.postpone(ctx, plan.lookup.Lookup.ID, err, r.Clock.Now())
		plan.next = min(plan.next, retryRead)
	}
	if err := r.recordCoverage(ctx, client.ObjectKeyFromObject(scanner), v, plan); err != nil {
		return 0, err
	}
	setStatus(scanner, v, plan)
	r.showMetrics(scanner, v, plan)
	r.traces.record(r.Tracer, v.attempts, r.Clock.Now())
	log.V(1).Info("Reconciled", "containers", len(v.containers), "running", plan.running, "queued", plan.queued, "next", plan.next)
	return plan.next, nil
}

// startDue plans the next scans, and starts them.
func (r *Reconciler) startDue(ctx context.Context, scanner *scannerv1.Scanner, v *observed) (plan, error) {
	plan := r.planDue(scanner, v)
	planned := plan.start
	defer func() { r.newPods.started(planned, nil, r.Clock.Now()) }()
	err := r.startAll(ctx, scanner, v, &plan)
	return plan, err
}

// planDue plans the next scans. Those that are to be started count as under way: the starts hold no lock, since a webhook may let them hang.
func (r *Reconciler) planDue(scanner *scannerv1.Scanner, v *observed) plan {
	r.newPods.deciding.Lock()
	defer r.newPods.deciding.Unlock()
	r.newPods.addAttempts(v)
	again := r.Recatalog
	again.pausedUntil = time.Unix(0, r.recatalogPausedUntil.Load())
	plan := makePlan(scanner, v, r.Limits, again, r.Clock.Now())
	r.queues.set(client.ObjectKeyFromObject(scanner), plan.waiting, plan.served()...)
	r.newPods.start(plan.start, r.Clock.Now())
	return plan
}

// startAll starts the attempts of a plan, which has those that were started afterwards.
func (r *Reconciler) startAll(ctx context.Context, scanner *scannerv1.Scanner, v *observed, plan *plan) error {
	planned, slow := plan.start, map[string]bool{}
	plan.start = nil
	for i := range planned {
		start := &planned[i]
		if w, stalled := v.stalled(start.Namespace); stalled || slow[start.Namespace] || len(slow) >= maxSlowStarts && start.Namespace != v.home.Namespace {
			switch {
			case stalled:
			case slow[start.Namespace]:
				w = wait{why: waitsSlow}
			default:
				w = wait{why: waitsAPI}
			}
			plan.postpone(start, w, r.Clock.Now())
			continue
		}
		if start.Key == plan.again {
			began, err := r.beginAgain(ctx, v, *start)
			if err != nil {
				return err
			}
			if !began {
				plan.recataloging--
				return nil // It is the last one.
			}
		}
		took, err := r.start(ctx, client.ObjectKeyFromObject(scanner), *start, plan.hurried || len(slow) > 0)
		if took >= slowStart {
			slow[start.Namespace] = true
		}
		if problem, ok := errors.AsType[*specError](err); ok {
			plan.fail(problem, planned[i:])
			return nil
		}
		if refused, ok := errors.AsType[*RefusedError](err); ok {
			// It must not stand in the way of the others, now or at the next try. Its slot is given away next time.
			err := r.recordFailure(ctx, scanner, v, start.Key, Attempt{
				SizeClass: start.SizeClass, Namespace: start.Namespace, For: start.For, Volume: start.Volume != nil, Outcome: refused.Outcome,
			})
			if endsReconcile(ctx, err) {
				return err
			} else if err != nil {
				logNotRecorded(ctx, start.Key, err)
			}
			if took >= slowStart {
				r.stall(ctx, v, &NamespaceError{start.Namespace, refused}, took)
			} else {
				r.stalls.clear(start.Namespace, r.Home.Namespace, took, r.Clock.Now())
			}
			plan.take(start.Key, -1)
			plan.next = min(plan.next, retryRefused)
			continue
		}
		if w, stalled := r.stall(ctx, v, err, took); stalled {
			plan.postpone(start, w, r.Clock.Now())
			continue
		}
		if err != nil {
			return fmt.Errorf("start a scan: %w", err)
		}
		r.stalls.clear(start.Namespace, r.Home.Namespace, took, r.Clock.Now())
		plan.start = append(plan.start, *start)
		logr.FromContextOrDiscard(ctx).Info("Started scan", "image", start.Key.ImageID, "platform", start.Key.Platform.String(), "attempt", start.Name)
	}
	return nil
}

// recordFailures writes the outcome of attempts that failed to the store, with the time of the next one. One that cannot be recorded concerns no other
// image: like one that cannot be read, it holds a slot of its namespace until another try succeeds.
func (r *Reconciler) recordFailures(ctx context.Context, scanner *scannerv1.Scanner, v *observed) error {
	for key, image := range v.images {
		name := v.attemptName(key)
		attempt, started := v.attempts[name]
		if !started || !attempt.Done || cataloged(&image) && !image.Recatalog.Open {
			continue
		}
		if attempt.Outcome.Succeeded() {
			attempt.Outcome = model.Outcome{Reason: model.ReasonUploadFailed, Message: "the scan succeeded, but its SBOM did not reach the operator"}
		}
		if err := r.recordFailure(ctx, scanner, v, key, attempt); endsReconcile(ctx, err) {
			return err
		} else if err != nil {
			logNotRecorded(ctx, key, err)
			attempt.Done, attempt.Blocked, attempt.Retry = false, true, true
			v.attempts[name] = attempt
		}
	}
	v.active = active(v.attempts)
	return nil
}

// endsReconcile reports whether an error about one image concerns all of them.
func endsReconcile(ctx context.Context, err error) bool {
	return errors.Is(err, store.ErrUnavailable) || err != nil && ctx.Err() != nil
}

func logNotRecorded(ctx context.Context, key model.ImageKey, err error) {
	logr.FromContextOrDiscard(ctx).Error(err, "Failed to record the end of a scan; other scans continue", "image", key.ImageID, "platform", key.Platform.String())
}

// recordFailure ends the current attempt at an image as failed, unless that is known already. What it means for other images is kept
// first: whoever comes back after a crash in between comes to the same.
func (r *Reconciler) recordFailure(ctx context.Context, scanner *scannerv1.Scanner, v *observed, key model.ImageKey, attempt Attempt) error {
	v.learn(&attempt, r.Clock.Now())
	if v.fallsBack(key, &attempt) {
		return r.fallBack(ctx, v, key, attempt)
	}
	image, outcome := v.images[key], attempt.Outcome
	grow := func(class model.SizeClass) (model.SizeClass, bool) {
		return r.Cataloger.Grow(r.Home.jobSpec(scanner, attempt.Namespace).Resources, class)
	}
	used := v.credentialOf(key, attempt.Namespace)
	next := planRetry(&image, attempt, used, grow, r.Clock.Now())
	if next.raise != "" {
		if err := r.Store.RaiseSizeClass(ctx, key.Repository(), next.raise); err != nil {
			return fmt.Errorf("record the size class: %w", err)
		}
		image.SizeClass = next.raise
	}
	if next.pause != nil {
		if err := r.Store.PauseRegistry(ctx, *next.pause); err != nil {
			return fmt.Errorf("pause a registry: %w", err)
		}
		if before, paused := v.pauses[used]; !paused || before.Until.Before(next.pause.Until) {
			v.pauses[used] = *next.pause
		}
	}
	recorded, err := r.Store.RecordFailure(ctx, key, image.Attempts, outcome, next.at)
	if err != nil {
		return fmt.Errorf("record a failed scan: %w", err)
	}
	if !recorded {
		return nil
	}
	failed := "could not be scanned"
	image.Attempts, image.NextAttempt = image.Attempts+1, next.at
	if cataloged(&image) {
		failed = "could not be cataloged again, its result remains"
	} else {
		image.State, image.Reason, image.Message = store.StateFailed, outcome.Reason, outcome.Message
	}
	v.images[key] = image
	r.Metrics.Failed(string(outcome.Reason))
	logr.FromContextOrDiscard(ctx).Info("Scan failed", "image", key.ImageID, "platform", key.Platform.String(), "reason", outcome.Reason, "message", outcome.Message)
	note := fmt.Sprintf("Image %s %s: %s: %s", key.ImageID, failed, outcome.Reason, v.detail(attempt.Namespace, outcome))
	// Events about the same objects with the same words are counted as one, whatever their notes say.
	r.Recorder.Eventf(scanner, runner(v, key), corev1.EventTypeWarning, "ScanFailed", string(outcome.Reason), "%s", truncate.Ellipsis(note, kube.MaxNote))
	return nil
}

// fallBack ends the current attempt at an image, which could not read it from an image volume, so that the next one reads it from its registry at
// once. The image has not failed. After a change of spec.job the next one tries a volume again.
func (r *Reconciler) fallBack(ctx context.Context, v *observed, key model.ImageKey, attempt Attempt) error {
	image, now := v.images[key], r.Clock.Now()
	if !attempt.Outdated {
		r.fallback.useRegistry(key, image.Attempts+1, now)
	}
	ended, err := r.Store.EndAttempt(ctx, key, image.Attempts, now)
	if err != nil {
		return fmt.Errorf("end a scan of an image volume: %w", err)
	}
	if !ended {
		return nil
	}
	image.Attempts, image.NextAttempt = image.Attempts+1, now
	v.images[key] = image
	logr.FromContextOrDiscard(ctx).Info("Scan of an image volume failed", "registryIsNext", !attempt.Outdated, "image", key.ImageID,
		"platform", key.Platform.String(), "node", attempt.Node, "reason", attempt.Outcome.Reason, "message", attempt.Outcome.Message)
	return nil
}

// runner names the first container that runs an image.
func runner(v *observed, key model.ImageKey) *corev1.ObjectReference {
	for i := range v.containers {
		if c := &v.containers[i]; c.Key == key {
			return &corev1.ObjectReference{
				APIVersion: "v1", Kind: "Pod", Namespace: c.Namespace, Name: c.Pod, FieldPath: "spec.containers{" + c.Name + "}",
			}
		}
	}
	return &corev1.ObjectReference{}
}
