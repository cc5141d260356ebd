package setup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/scanner-operator/scanner-operator/internal/catalog"
	"github.com/scanner-operator/scanner-operator/internal/controller/scanner"
	"github.com/scanner-operator/scanner-operator/internal/matching"
	"github.com/scanner-operator/scanner-operator/internal/metrics"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// addScanners adds the Scanner controller and what looks after its caches and results.
func (o *Operator) addScanners(matcher *matching.Matcher, wake *waker) error {
	opts, mgr := o.opts, o.manager
	cataloger, err := o.cataloger(matcher, wake)
	if err != nil {
		return err
	}
	var reasons []string
	for _, reason := range model.Reasons() {
		if reason != model.ReasonMatchFailed { // It is none of an attempt to catalog.
			reasons = append(reasons, string(reason))
		}
	}
	shown, err := metrics.NewScans(ctrlmetrics.Registry, reasons...)
	if err != nil {
		return err
	}
	reconciler := &scanner.Reconciler{
		Client: mgr.GetClient(), Store: o.store, Cataloger: cataloger, Databases: matcher,
		Recorder: mgr.GetEventRecorder(reporter), Clock: clock.RealClock{}, Namespace: opts.Namespace, WatchNamespaces: opts.WatchNamespaces, Home: opts.home(),
		Limits: scanner.Limits{Scans: opts.Scans.Concurrency, PerRegistry: opts.Scans.RegistryConcurrency, PerNode: opts.Scans.NodeConcurrency}, Metrics: shown,
		Tracer:      o.traces.Tracer("scans"),
		Owners:      scanner.Owners{Keys: opts.OwnerKeys, Deployments: opts.enabled(ControllerRollout)},
		NoNewerTags: opts.noNewerTags(),
		Recatalog:   scanner.Recatalog{PerHour: opts.Scans.RecatalogPerHour, Cataloger: catalog.Cataloger()},
	}
	if err := reconciler.SetupWithManager(mgr, wake.events); err != nil {
		return fmt.Errorf("set up the Scanner controller: %w", err)
	}
	log := opts.Log.WithName("audit")
	for _, runnable := range []manager.Runnable{
		&scanner.Auditor{
			Cached: mgr.GetCache(), Live: mgr.GetAPIReader(), Namespaces: opts.WatchNamespaces, Relist: o.relister.Relist,
			Interval: opts.Scans.AuditInterval, Settle: min(scanner.DefaultSettle, opts.Scans.AuditInterval),
			Clock: clock.RealClock{}, Metrics: shown, Log: log,
		},
		&scanner.Forgetter{
			Client: mgr.GetCache(), Store: o.store, MaxRetention: opts.Scans.MaxRetention, Interval: opts.Scans.AuditInterval, Clock: clock.RealClock{}, Log: log,
		},
	} {
		if err := mgr.Add(runnable); err != nil {
			return fmt.Errorf("add a component to the manager: %w", err)
		}
	}
	return nil
}

// noNewerTags says why newer tags are not looked up; "" if they are.
func (o *Options) noNewerTags() string {
	switch {
	case o.Catalog != CatalogJob:
		return "it requires --catalog=job, since only Jobs have the pull secrets of pods"
	case o.Auth == AuthNone:
		return "it requires authentication (--auth), since without it nobody knows which pod uploads a result"
	default:
		return ""
	}
}

// home returns where scans run that need no credentials of another namespace: in the operator's own, if it is watched.
func (o *Options) home() scanner.Home {
	home := scanner.Home{ServiceAccount: o.ScanServiceAccount}
	if len(o.WatchNamespaces) == 0 || slices.Contains(o.WatchNamespaces, o.Namespace) {
		home.Namespace = o.Namespace
	}
	for _, name := range o.ScanImagePullSecrets {
		home.PullSecrets = append(home.PullSecrets, corev1.LocalObjectReference{Name: name})
	}
	return home
}

func (o *Operator) cataloger(matcher *matching.Matcher, wake *waker) (scanner.Cataloger, error) {
	maxMemory, err := resource.ParseQuantity(o.opts.Scans.MaxMemory)
	if err != nil {
		return nil, fmt.Errorf("parse --scan-max-memory: %w", err)
	}
	if o.opts.Catalog == CatalogJob {
		options := scanjob.DefaultOptions()
		options.Image, options.UploadURL, options.PlainHTTP = o.opts.ScanImage, o.opts.APIURL, o.opts.PlainHTTPRegistries
		options.Registries = o.opts.Registries
		options.MaxMemory, options.PriorityClassName, options.Deadline = maxMemory, o.opts.Scans.PriorityClass, o.opts.Scans.Deadline
		jobs := scanner.NewJobs(o.manager.GetClient(), o.manager.GetAPIReader(), o.store, clock.RealClock{}, options)
		if o.certificate != nil {
			jobs.UploadCA = o.certificate.Authorities
		}
		return jobs, nil
	}
	scratch := filepath.Join(o.opts.DataDir, "scratch")
	// What a killed predecessor left behind.
	if err := os.RemoveAll(scratch); err != nil {
		return nil, fmt.Errorf("empty the scratch directory: %w", err)
	}
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return nil, fmt.Errorf("create the scratch directory: %w", err)
	}
	inProcess := &scanner.InProcess{
		Executable: o.opts.Executable, Directory: scratch, Timeout: o.opts.Scans.Deadline, PlainHTTP: o.opts.PlainHTTPRegistries,
		Journal: filepath.Join(o.opts.DataDir, "scans"), Memory: o.opts.Scans.ChildMemory, MaxMemory: maxMemory.Value(), Ended: wake.wake, Log: o.opts.Log.WithName("catalog"),
		Tracer: o.traces.Tracer("scans"),
		Ingest: func(ctx context.Context, key model.ImageKey, path string) error {
			return matcher.IngestFile(ctx, key, o.opts.Namespace, path)
		},
	}
	if err := inProcess.Recover(); err != nil {
		return nil, err
	}
	if err := o.manager.Add(manager.RunnableFunc(inProcess.Run)); err != nil {
		return nil, fmt.Errorf("add the in-process catalog runner: %w", err)
	}
	return inProcess, nil
}
