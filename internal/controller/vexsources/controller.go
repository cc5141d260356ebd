// Package vexsources fetches the documents of VEXSources, keeps them in the store, applies their statements, and writes into the status of each
// source what became of it.
package vexsources

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
	"github.com/scanner-operator/scanner-operator/internal/vexdecisions"
)

// How often something is done.
const (
	// defaultInterval is that of a source without one, minInterval the shortest.
	defaultInterval = time.Hour
	minInterval     = time.Minute
	// retryAfter is when a fetch that failed is repeated, unless the interval is shorter.
	retryAfter = 5 * time.Minute
	// recountAfter is how often the statements of a source are counted.
	recountAfter = time.Minute
	// syncEvery is how often documents are looked for that were uploaded to a replica which ended before it applied them.
	syncEvery = 3 * time.Second
	// soonest is the shortest time until decisions are ended again.
	soonest = 100 * time.Millisecond
	// concurrency bounds the sources that are fetched at the same time.
	concurrency = 4
)

// The errors of a Fetcher that are told apart.
var (
	// ErrNotModified says that the documents are those that were fetched before.
	ErrNotModified = errors.New("the documents have not changed")
	// ErrSignature says that no signature of a document verifies.
	ErrSignature = errors.New("the signature does not verify")
)

// Fetcher fetches the documents of a source by HTTP or from a registry. The version is that of the documents which are known, and then of those
// which are returned; "" for none.
type Fetcher interface {
	Fetch(ctx context.Context, spec *scannerv1alpha1.VEXSourceSpec, version string) (documents []store.VEXContent, next string, err error)
}

// Store is the part of the store that a Reconciler uses.
type Store interface {
	store.VEXDocuments
	ExpireDecisions(ctx context.Context) (time.Time, error)
}

// Reconciler reconciles VEXSources. NewReconciler makes one.
type Reconciler struct {
	client    client.Client
	live      client.Reader
	store     Store
	applier   *vexdecisions.Applier
	fetcher   Fetcher
	namespace string
	clock     clock.PassiveClock
	log       *kube.ConditionLog

	mu sync.Mutex
	// attempts are the last ones, of sources that exist.
	attempts map[types.NamespacedName]attempt
}

// attempt is a fetch.
type attempt struct {
	uid        types.UID
	generation int64
	at         time.Time
	failed     bool
}

// NewReconciler returns a Reconciler that reads sources from a cache, and ConfigMaps in a namespace from the API server.
func NewReconciler(
	c client.Client, live client.Reader, documents Store, applier *vexdecisions.Applier, fetcher Fetcher, namespace string, now clock.PassiveClock,
) *Reconciler {
	return &Reconciler{
		client: c, live: live, store: documents, applier: applier, fetcher: fetcher, namespace: namespace, clock: now,
		log: kube.NewConditionLog(now), attempts: map[types.NamespacedName]attempt{},
	}
}

// Which ConfigMaps of the operator's namespace it may read says the value vex.configMaps of the chart.
//
// +kubebuilder:rbac:groups=scanner.zoltankerezsi.xyz,resources=vexsources,verbs=list;watch
// +kubebuilder:rbac:groups=scanner.zoltankerezsi.xyz,resources=vexsources/status,verbs=patch

// Reconcile fetches the documents of a source when that is due, and applies those of all sources.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if request == orphans {
		return r.forgetOrphans(ctx)
	}
	var before scannerv1alpha1.VEXSource
	err := r.client.Get(ctx, request.NamespacedName, &before)
	if apierrors.IsNotFound(err) || err == nil && !before.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.forget(ctx, request.NamespacedName)
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("get the VEXSource: %w", err)
	}
	subject, err := subjectOf(&before)
	if err != nil {
		return ctrl.Result{}, err
	}
	stored, err := r.stored(ctx, before.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	after := before.DeepCopy()
	known := stored != nil && isOf(stored, subject, &before)
	if r.due(&before, known) <= 0 {
		version := ""
		if known && fetched(&before) && valid(&before) && stored.ExportedDecisions == full(&before) {
			_, version = splitVersion(stored.Version)
		}
		if err := r.fetch(ctx, after, subject, version); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := r.restrict(ctx, &before, subject); err != nil {
		return ctrl.Result{}, err
	}
	all, err := r.applier.Apply(ctx)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("apply the VEX documents: %w", err)
	}
	setApplied(after, all)
	return kube.Reporter{Kind: kube.KindVEXSource, Client: r.client}.Report(ctx, kube.Outcome{
		Before: &before, After: after, Status: after.Status, RequeueAfter: max(time.Second, min(recountAfter, r.due(after, true))),
		Written: func() { r.log.Changed(ctx, after, before.Status.Conditions, after.Status.Conditions) },
	})
}

// full reports whether the decisions of a source apply in full.
func full(source *scannerv1alpha1.VEXSource) bool {
	return source.Spec.ExportedDecisions == scannerv1alpha1.ExportedDecisionsFull
}

// restrict ends what the spec of a source no longer permits, also if its documents cannot be fetched now: documents of another subject, and that decisions apply
// in full. Documents of an earlier version of the operator get the subject. The other way round that takes a fetch: the spec may be about other documents than those that the store has.
func (r *Reconciler) restrict(ctx context.Context, source *scannerv1alpha1.VEXSource, subject string) error {
	stored, err := r.stored(ctx, source.Name)
	if err != nil || stored == nil {
		return err
	}
	if !isOf(stored, subject, source) {
		deleted, err := r.store.DeleteVEX(ctx, store.VEXKindSource, source.Name, "")
		if deleted {
			logr.FromContextOrDiscard(ctx).Info("Deleted the documents of an earlier spec of a VEXSource", "object", source.Name)
		}
		return err
	}
	version, exported := stored.Version, stored.ExportedDecisions && full(source)
	if known, _ := splitVersion(version); known == "" {
		// Noted at once, a change that says the same about the documents does not end them.
		version = storedVersion(subject, "")
	}
	if version == stored.Version && exported == stored.ExportedDecisions {
		return nil
	}
	documents, err := r.store.VEXContent(ctx, store.VEXKindSource, source.Name)
	if err != nil {
		return err
	}
	return r.store.SaveVEX(ctx, store.VEXSource{Kind: store.VEXKindSource, Name: source.Name, Version: version, ExportedDecisions: exported}, documents)
}

// forget deletes the documents of a source that does not exist, and ends their statements.
func (r *Reconciler) forget(ctx context.Context, name types.NamespacedName) error {
	r.mu.Lock()
	delete(r.attempts, name)
	r.mu.Unlock()
	deleted, err := r.store.DeleteVEX(ctx, store.VEXKindSource, name.Name, "")
	if err != nil {
		return err
	}
	if deleted {
		logr.FromContextOrDiscard(ctx).Info("Deleted the documents of a VEXSource that does not exist", "object", name.Name)
	}
	if _, err := r.applier.Apply(ctx); err != nil {
		return fmt.Errorf("apply the VEX documents without those of %s: %w", name.Name, err)
	}
	return nil
}

// due returns when a source is to be fetched, 0 or less for now. stored says that the store has its documents.
func (r *Reconciler) due(source *scannerv1alpha1.VEXSource, stored bool) time.Duration {
	interval := defaultInterval
	if source.Spec.Interval != nil {
		interval = max(minInterval, source.Spec.Interval.Duration)
	}
	r.mu.Lock()
	last, found := r.attempts[client.ObjectKeyFromObject(source)]
	r.mu.Unlock()
	switch {
	case found && last.uid == source.UID && last.generation == source.Generation:
		if last.failed {
			interval = min(interval, retryAfter)
		}
		return last.at.Add(interval).Sub(r.clock.Now())
	case stored && source.Status.ObservedGeneration == source.Generation && source.Status.LastFetchTime != nil && fetched(source):
		// Before this process has begun.
		return source.Status.LastFetchTime.Add(interval).Sub(r.clock.Now())
	default:
		return 0
	}
}

// fetch fetches the documents of a source, keeps them if they can be read, and sets the conditions Fetched and Valid. version is that of the documents
// that the store has, if they were fetched as the spec says now, and subject that of the spec. An error is one of the store.
func (r *Reconciler) fetch(ctx context.Context, source *scannerv1alpha1.VEXSource, subject, version string) error {
	documents, next, err := r.documents(ctx, source, version)
	now := r.clock.Now()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	failed := err != nil && !errors.Is(err, ErrNotModified)
	r.mu.Lock()
	r.attempts[client.ObjectKeyFromObject(source)] = attempt{source.UID, source.Generation, now, failed}
	r.mu.Unlock()
	switch {
	case errors.Is(err, ErrNotModified):
		setFetched(source, now)
		return nil
	case errors.Is(err, ErrSignature):
		setInvalid(source, scannerv1alpha1.ReasonSignatureInvalid, err)
		return nil
	case err != nil:
		setNotFetched(source, err)
		return nil
	}
	if err := r.check(source, documents); err != nil {
		setFetched(source, now)
		setInvalid(source, scannerv1alpha1.ReasonDocumentsInvalid, err)
		return nil
	}
	err = r.store.SaveVEX(ctx, store.VEXSource{
		Kind: store.VEXKindSource, Name: source.Name, Version: storedVersion(subject, next), ExportedDecisions: full(source),
	}, documents)
	if errors.Is(err, store.ErrVEXTooMany) {
		setFetched(source, now)
		setInvalid(source, string(scannerv1alpha1.TooMany), err)
		return nil
	}
	if err != nil {
		return err
	}
	setFetched(source, now)
	setValid(source)
	return nil
}

// stored returns the source as the store has it, nil if it has no documents of it.
func (r *Reconciler) stored(ctx context.Context, name string) (*store.VEXSource, error) {
	sources, _, err := r.store.VEX(ctx)
	if err != nil {
		return nil, err
	}
	n := slices.IndexFunc(sources, func(s store.VEXSource) bool { return s.Kind == store.VEXKindSource && s.Name == name })
	if n < 0 {
		return nil, nil //nolint:nilnil // no documents are no error
	}
	return &sources[n], nil
}

func (r *Reconciler) documents(ctx context.Context, source *scannerv1alpha1.VEXSource, version string) ([]store.VEXContent, string, error) {
	spec := source.Spec.ConfigMap
	if spec == nil {
		return r.fetcher.Fetch(ctx, &source.Spec, version)
	}
	var found corev1.ConfigMap
	if err := r.live.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: spec.Name}, &found); err != nil {
		return nil, "", fmt.Errorf("get the ConfigMap %s of the namespace %s: %w", spec.Name, r.namespace, err)
	}
	next := string(found.UID) + "/" + found.ResourceVersion
	if next == version {
		return nil, "", ErrNotModified
	}
	content, isBinary := found.BinaryData[spec.Key]
	text, isText := found.Data[spec.Key]
	switch {
	case isText:
		content = []byte(text)
	case !isBinary:
		return nil, "", fmt.Errorf("the ConfigMap %s of the namespace %s has no key %s", spec.Name, r.namespace, spec.Key)
	}
	return []store.VEXContent{{Name: spec.Key, Content: content}}, next, nil
}

// check reads the documents as they are read when they are applied.
func (r *Reconciler) check(source *scannerv1alpha1.VEXSource, documents []store.VEXContent) error {
	for _, content := range documents {
		document, err := vexdecisions.Read(store.VEXKindSource, source.Name, content)
		if err != nil {
			return err
		}
		format := scannerv1alpha1.VEXFormat(document.Format)
		if len(source.Spec.Formats) > 0 && !slices.Contains(source.Spec.Formats, format) {
			return fmt.Errorf("%s: its format is %s, which spec.formats does not list", content.Name, format)
		}
	}
	return nil
}

// message bounds an error for a condition.
func message(err error) string { return truncate.Ellipsis(err.Error(), maxMessage) }
