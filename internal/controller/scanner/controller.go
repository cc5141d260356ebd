// Package scanner reconciles Scanners: it finds the images that run, has them catalogued, and tells the state.
package scanner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/metrics"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// auditInterval is how often a Scanner is reconciled when nothing happens.
const auditInterval = 5 * time.Minute

// retryRefused is when a Scanner is reconciled again after the start of a scan was refused.
const retryRefused = time.Second

// maxNote is the limit that Kubernetes puts on the note of an event, in bytes; a longer one is refused.
const maxNote = 1024

// Store is what the controller needs of the store.
type Store interface {
	WantImages(ctx context.Context, keys []vuln.ImageKey) (map[vuln.ImageKey]store.Image, error)
	Image(ctx context.Context, key vuln.ImageKey) (store.Image, error)
	RecordQueued(ctx context.Context, key vuln.ImageKey, attempt int) (bool, error)
	RecordFailure(ctx context.Context, key vuln.ImageKey, attempt int, outcome vuln.Outcome, next time.Time) (bool, error)
	RecordChange(ctx context.Context, change store.ObjectChange) error
	RecordUses(ctx context.Context, scope string, uses []store.Use) error
	RecordCoverage(ctx context.Context, scope string, containers []store.ContainerCoverage) error
	store.Scans
	Changes(ctx context.Context, query store.ChangeQuery) (store.ChangePage, error)
}

// Databases tells which vulnerability database build is in use.
type Databases interface {
	Build() (vuln.DatabaseBuild, bool)
}

// Reconciler reconciles Scanners.
type Reconciler struct {
	Client     client.Client
	Store      Store
	Cataloguer Cataloguer
	Databases  Databases
	Recorder   events.EventRecorder
	Clock      clock.Clock
	// Namespace is the operator's own: only there may a Scanner select other namespaces.
	Namespace string
	// WatchNamespaces are those that the operator looks at, none means all.
	WatchNamespaces []string
	// Limits bound what is under way of all Scanners together.
	Limits  Limits
	Metrics *metrics.Scans

	queues queues
}

// +kubebuilder:rbac:groups=scanner.zoltankerezsi.xyz,resources=scanners,verbs=list;watch
// +kubebuilder:rbac:groups=scanner.zoltankerezsi.xyz,resources=scanners/status,verbs=patch
// +kubebuilder:rbac:groups=scanner.zoltankerezsi.xyz,resources=scanners/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces;nodes,verbs=list;watch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile brings one Scanner forward: it looks at what runs, records how scans ended, starts the next ones and
// writes the status.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	scanner := &scannerv1.Scanner{}
	if err := r.Client.Get(ctx, req.NamespacedName, scanner); apierrors.IsNotFound(err) {
		return ctrl.Result{}, r.forget(ctx, req.NamespacedName)
	} else if err != nil {
		return ctrl.Result{}, err
	}
	if !scanner.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	before := scanner.DeepCopy()

	next, err := r.reconcile(ctx, scanner)
	if err != nil {
		setFailed(scanner, err)
	}
	patchErr := kube.PatchStatus(ctx, r.Client, before, scanner)
	switch {
	case patchErr == nil:
		err = errors.Join(err, kube.TellStatus(ctx, r.Store, store.EventScannerChanged, req.NamespacedName, scanner.Status))
	case err == nil && apierrors.IsConflict(patchErr):
		// Most often the cache does not show the last status yet. That is no failure.
		return kube.RetryConflict, nil
	case !apierrors.IsNotFound(patchErr):
		err = errors.Join(err, patchErr)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: next}, nil
}

// reconcile returns after which time to look again.
func (r *Reconciler) reconcile(ctx context.Context, scanner *scannerv1.Scanner) (time.Duration, error) {
	log := logr.FromContextOrDiscard(ctx)
	view, err := r.observe(ctx, scanner)
	if err != nil {
		return 0, err
	}
	if err := r.recordUses(ctx, client.ObjectKeyFromObject(scanner), view.containers); err != nil {
		return 0, err
	}
	if err := r.recordFailures(ctx, scanner, view); err != nil {
		return 0, err
	}
	if err := r.tellChanges(ctx, scanner, view); err != nil {
		return 0, err
	}
	plan := makePlan(scanner, view, r.Limits, r.Clock.Now())
	r.queues.set(client.ObjectKeyFromObject(scanner), plan.contends)
	if err := r.startAll(ctx, scanner, view, &plan); err != nil {
		return 0, err
	}
	if err := r.recordCoverage(ctx, client.ObjectKeyFromObject(scanner), view, plan); err != nil {
		return 0, err
	}
	setStatus(scanner, view, plan)
	r.tellMetrics(scanner, view, plan)
	log.V(1).Info("Reconciled", "containers", len(view.containers), "running", plan.running, "queued", plan.queued, "next", plan.next)
	return plan.next, nil
}

// startAll begins the attempts of a plan.
func (r *Reconciler) startAll(ctx context.Context, scanner *scannerv1.Scanner, view *view, plan *plan) error {
	log := logr.FromContextOrDiscard(ctx)
	for _, start := range plan.start {
		log.V(1).Info("Starting a scan", "image", start.Key.ImageID, "platform", start.Key.Platform.String(), "name", start.Name)
		err := r.start(ctx, client.ObjectKeyFromObject(scanner), view, start)
		if refused, ok := errors.AsType[*RefusedError](err); ok {
			// It must not stand in the way of the others, now or at the next try. Its slot is given away next time.
			if err := r.recordFailure(ctx, scanner, view, start.Key, Attempt{SizeClass: start.SizeClass, Outcome: refused.Outcome}); err != nil {
				return err
			}
			plan.running--
			plan.next = min(plan.next, retryRefused)
			continue
		}
		if err != nil {
			return fmt.Errorf("start a scan: %w", err)
		}
	}
	return nil
}

// recordFailures writes the outcome of attempts that failed to the store, with the time of the next one.
func (r *Reconciler) recordFailures(ctx context.Context, scanner *scannerv1.Scanner, view *view) error {
	for key, image := range view.images {
		attempt, started := view.attempts[view.attemptName(key)]
		if !started || !attempt.Done || image.State == store.StateCatalogued || image.State == store.StateScanned {
			continue
		}
		if attempt.Outcome.Succeeded() {
			attempt.Outcome = vuln.Outcome{Reason: vuln.ReasonUploadFailed, Message: "the scan ended well, but its SBOM did not arrive"}
		}
		if err := r.recordFailure(ctx, scanner, view, key, attempt); err != nil {
			return err
		}
	}
	return nil
}

// recordFailure ends the current attempt at an image as failed, unless that is known already. What it means for other images is kept
// first: whoever comes back after a crash in between comes to the same.
func (r *Reconciler) recordFailure(ctx context.Context, scanner *scannerv1.Scanner, view *view, key vuln.ImageKey, attempt Attempt) error {
	image, outcome := view.images[key], attempt.Outcome
	grow := func(class vuln.SizeClass) (vuln.SizeClass, bool) {
		return r.Cataloguer.Grow(scanner.Spec.Job.Resources, class)
	}
	next := planRetry(&image, attempt.SizeClass, outcome, grow, r.Clock.Now())
	if next.raise != "" {
		if err := r.Store.RaiseSizeClass(ctx, key.Repository(), next.raise); err != nil {
			return fmt.Errorf("remember what a scan needs: %w", err)
		}
		image.SizeClass = next.raise
	}
	if next.hold != nil {
		if err := r.Store.HoldRegistry(ctx, *next.hold); err != nil {
			return fmt.Errorf("leave a registry alone: %w", err)
		}
		if before, held := view.holds[next.hold.Host]; !held || before.Until.Before(next.hold.Until) {
			view.holds[next.hold.Host] = *next.hold
		}
	}
	recorded, err := r.Store.RecordFailure(ctx, key, image.Attempts, outcome, next.at)
	if err != nil {
		return fmt.Errorf("record a failed scan: %w", err)
	}
	if !recorded {
		return nil
	}
	image.State, image.Attempts, image.NextAttempt = store.StateFailed, image.Attempts+1, next.at
	image.Reason, image.Message = outcome.Reason, outcome.Message
	view.images[key] = image
	r.Metrics.Failed(string(outcome.Reason))
	note := fmt.Sprintf("Image %s could not be scanned: %s: %s", key.ImageID, outcome.Reason, outcome.Message)
	// Events about the same objects with the same words are counted as one, whatever their notes say.
	r.Recorder.Eventf(scanner, runner(view, key), corev1.EventTypeWarning, "ScanFailed", string(outcome.Reason), "%s", cutNote(note))
	return nil
}

// runner names the first container that runs an image.
func runner(view *view, key vuln.ImageKey) *corev1.ObjectReference {
	for i := range view.containers {
		if c := &view.containers[i]; c.Key == key {
			return &corev1.ObjectReference{
				APIVersion: "v1", Kind: "Pod", Namespace: c.Namespace, Name: c.Pod, FieldPath: "spec.containers{" + c.Name + "}",
			}
		}
	}
	return &corev1.ObjectReference{}
}

// cutNote shortens a note to what an event takes, at a rune.
func cutNote(note string) string {
	note = strings.ToValidUTF8(note, "?")
	if len(note) <= maxNote {
		return note
	}
	cut := maxNote
	for !utf8.RuneStart(note[cut]) {
		cut--
	}
	return note[:cut]
}
