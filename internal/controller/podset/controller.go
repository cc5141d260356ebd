// Package podset reconciles PodSets: each keeps a number of identical pods running, as a ReplicaSet does.
//
// It differs from the ReplicaSet controller in these points:
//
//   - The cache only shows that there may be something to do. Before the controller writes, it reads the PodSet and its pods from the API
//     server and decides on what it reads, so that a stale cache creates no surplus pod, not even after a restart or when the answer to a request was
//     lost. Expectations, which the ReplicaSet controller uses for this, only cover the writes of one process. The price is two reads per
//     reconcile that changes something.
//   - The names of pods follow from their slots: when two leaders both observe a missing pod, the second one finds the name taken.
//   - Finished pods are deleted and replaced. When the pods of a slot finish soon after their start, or others delete them as soon as they are
//     created, the backoff before the next one grows from 10 seconds to 5 minutes, as the kubelet's between restarts of containers.
//   - A change of the template replaces the pods, one ready pod at a time, without a surplus pod. A ReplicaSet leaves that to its Deployment.
package podset

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appv1alpha1 "github.com/scanner-operator/scanner-operator/api/app/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
)

const kind = "PodSet"

// Reconciler reconciles PodSets.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// Live reads from the API server.
	Live     client.Reader
	Changes  kube.ChangeRecorder
	Metrics  kube.ObjectMetrics
	Recorder events.EventRecorder
	Clock    clock.PassiveClock

	mu        sync.Mutex
	histories map[types.NamespacedName]history
}

// +kubebuilder:rbac:groups=app.example.com,resources=podsets,verbs=get;list;watch
// +kubebuilder:rbac:groups=app.example.com,resources=podsets/status,verbs=patch
// +kubebuilder:rbac:groups=app.example.com,resources=podsets/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile reconciles one PodSet: it lists its pods, deletes and creates some, and writes the status.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	reporter := kube.Reporter{Kind: kube.KindPodSet, Client: r.Client, Changes: r.Changes, Metrics: r.Metrics}
	ps := &appv1alpha1.PodSet{}
	if err := r.Client.Get(ctx, req.NamespacedName, ps); apierrors.IsNotFound(err) {
		r.deleteHistory(req.NamespacedName)
		return reporter.ReportDeletion(ctx, req.NamespacedName)
	} else if err != nil {
		return ctrl.Result{}, err
	}
	before := ps.DeepCopy()
	next, err := r.reconcile(ctx, ps)
	if errors.Is(err, errStale) {
		// The change that the cache does not show yet will reconcile the PodSet.
		return ctrl.Result{}, nil
	}
	if err != nil {
		setFailed(ps, err)
	}
	return reporter.Report(ctx, kube.Outcome{Before: before, After: ps, Status: ps.Status, Err: err, RequeueAfter: next})
}

// reconcile deletes and creates pods, and sets the status to the state after that. While the PodSet is being deleted, the garbage collector
// deletes its pods, and reconcile only sets the status. It returns when to reconcile again, 0 when only a change requires it.
func (r *Reconciler) reconcile(ctx context.Context, ps *appv1alpha1.PodSet) (time.Duration, error) {
	template, invalid := Template(ps)
	s := &state{replicas: int(ps.Spec.Replicas), now: r.Clock.Now(), invalidTemplate: invalid != nil, creations: r.creationsOf(ps)}
	if invalid == nil {
		var err error
		if s.hash, err = hashOf(template); err != nil {
			return 0, err
		}
	}
	pods, err := r.cachedPods(ctx, ps)
	if err != nil {
		return 0, err
	}
	s.pods = pods.owned
	r.observe(ps, s.pods...)
	mismatched := pods.mismatched(ps)
	if ps.DeletionTimestamp.IsZero() && (s.needsSync() || len(pods.orphans)+len(mismatched) > 0) {
		if err := r.release(ctx, ps, mismatched); err != nil {
			return 0, err
		}
		// What the watch shows from now on may come after the list: a pod that another leader creates in the meantime must not lead to its next number.
		s.replacements = r.replacementsOf(ps)
		if pods, err = r.livePods(ctx, ps); err != nil {
			return 0, err
		}
		if s.pods, err = r.adopt(ctx, ps, pods); err != nil {
			return 0, err
		}
		s.creations.observe(s.pods, s.now)
		s.replacements.observe(ps, s.pods...)
		r.observe(ps, s.pods...)
		err = r.sync(ctx, ps, template, s)
	}
	setStatus(ps, s, invalid)
	next := untilDue(s)
	logr.FromContextOrDiscard(ctx).V(1).Info("Reconciled", "available", ps.Status.AvailableReplicas, "next", next)
	return next, err
}

// untilDue returns the time until the next missing pod is due, 0 when none waits.
func untilDue(s *state) time.Duration {
	var next time.Duration
	for _, v := range missing(s) {
		if wait := v.due.Sub(s.now); wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
	}
	return next
}

// errStale means that the cache shows a previous state of the PodSet.
var errStale = errors.New("the cache does not show the last change of the PodSet yet")

// nameOf returns the name of a PodSet for errors.
func nameOf(ps *appv1alpha1.PodSet) string {
	return "PodSet " + ps.Namespace + "/" + ps.Name
}
