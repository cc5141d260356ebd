package setup

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"k8s.io/utils/clock"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/scanner-operator/scanner-operator/internal/controller/bellerophon"
	"github.com/scanner-operator/scanner-operator/internal/controller/exceptions"
	"github.com/scanner-operator/scanner-operator/internal/controller/mycustomresource"
	"github.com/scanner-operator/scanner-operator/internal/controller/podset"
	"github.com/scanner-operator/scanner-operator/internal/controller/policies"
	"github.com/scanner-operator/scanner-operator/internal/deploymentfeed"
	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/matching"
	"github.com/scanner-operator/scanner-operator/internal/metrics"
	"github.com/scanner-operator/scanner-operator/internal/rollout"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vexdecisions"
)

// reporter is who Kubernetes Events say that they come from.
const reporter = "scanner-operator"

// The names of the controllers, as --controllers takes them.
const (
	ControllerBellerophonSimple = "bellerophonsimple"
	// ControllerExceptions applies VulnerabilityExceptions and ClusterVulnerabilityExceptions.
	ControllerExceptions       = "exceptions"
	ControllerMyCustomResource = "mycustomresource"
	// ControllerNotifications sends messages about changes.
	ControllerNotifications = "notifications"
	ControllerPodSet        = "podset"
	// ControllerPolicies applies VulnerabilityPolicies.
	ControllerPolicies = "policies"
	// ControllerReportSinks delivers reports to other systems.
	ControllerReportSinks = "reportsinks"
	// ControllerRollout follows Deployments and what rollouts bring.
	ControllerRollout = "rollout"
	ControllerScanner = "scanner"
	// ControllerVEXSources fetches VEX documents and applies their statements.
	ControllerVEXSources = "vexsources"
)

// allControllers is what --controllers takes when nothing else is said.
const allControllers = "*"

// ControllerNames returns the names of all controllers, sorted.
func ControllerNames() []string {
	return []string{
		ControllerBellerophonSimple, ControllerExceptions, ControllerMyCustomResource, ControllerNotifications, ControllerPodSet, ControllerPolicies,
		ControllerReportSinks, ControllerRollout, ControllerScanner,
		ControllerVEXSources,
	}
}

// enabled says whether a controller is to run. As in kube-controller-manager, the first entry of the list that names the controller decides:
// NAME switches it on, -NAME off; * stands for all that are not named.
func (o *Options) enabled(controller string) bool {
	for _, entry := range o.Controllers {
		switch entry {
		case controller:
			return true
		case "-" + controller:
			return false
		}
	}
	return slices.Contains(o.Controllers, allControllers)
}

// addControllers adds those that are to run.
func (o *Operator) addControllers(matcher *matching.Matcher, hub *feed.Hub, wake, recount, redue *waker) error {
	objects, err := metrics.NewObjects(ctrlmetrics.Registry, kube.Kinds())
	if err != nil {
		return err
	}
	decisions, err := metrics.NewDecisions(ctrlmetrics.Registry, o.store, o.manager.Elected(), o.opts.Log.WithName("metrics"))
	if err != nil {
		return err
	}
	o.applier = vexdecisions.NewApplier(o.store, clock.RealClock{}, func(problems map[store.DecisionReason]int) {
		decisions.NotApplied(store.DecisionSourceVEX, problems)
	})
	o.changes = &kube.PromptRecorder{Changes: o.store}
	o.applier.Log = o.opts.Log.WithName("vexdecisions")
	for name, add := range map[string]func() error{
		ControllerBellerophonSimple: func() error { return o.addBellerophon(objects) },
		ControllerExceptions:        func() error { return o.addExceptions(decisions, wake, recount, redue) },
		ControllerMyCustomResource:  func() error { return o.addMyCustomResources(objects) },
		ControllerNotifications:     o.addNotifications,
		ControllerPodSet:            func() error { return o.addPodSets(objects) },
		ControllerPolicies:          func() error { return o.addPolicies(redue) },
		ControllerReportSinks:       o.addReportSinks,
		ControllerRollout:           func() error { return o.addRollouts(hub) },
		ControllerScanner:           func() error { return o.addScanners(matcher, wake) },
		ControllerVEXSources:        o.addVEXSources,
	} {
		if !o.opts.enabled(name) {
			o.opts.Log.Info("Controller is disabled", "controller", name)
			continue
		}
		if err := add(); err != nil {
			return err
		}
	}
	return nil
}

func (o *Operator) addBellerophon(objects *metrics.Objects) error {
	reconciler := &bellerophon.Reconciler{
		Client: o.manager.GetClient(), Live: o.manager.GetAPIReader(), Changes: o.changes, Metrics: objects, Recorder: o.manager.GetEventRecorder(reporter),
	}
	if err := reconciler.SetupWithManager(o.manager); err != nil {
		return fmt.Errorf("set up the BellerophonSimple controller: %w", err)
	}
	return nil
}

func (o *Operator) addExceptions(decisions *metrics.Decisions, wake, recount, redue *waker) error {
	reconciler := exceptions.NewReconciler(o.manager.GetClient(), decisions, clock.RealClock{})
	reconciler.TrustAuthors, reconciler.Places.Namespaces, reconciler.Refused = o.opts.TrustExceptionAuthors, o.opts.WatchNamespaces, decisions.Refused
	reconciler.Moved = func() {
		wake.wake()
		redue.wake()
	}
	if err := reconciler.SetupWithManager(o.manager, recount.events); err != nil {
		return fmt.Errorf("set up the exceptions controller: %w", err)
	}
	return nil
}

func (o *Operator) addMyCustomResources(objects *metrics.Objects) error {
	reconciler := &mycustomresource.Reconciler{Client: o.manager.GetClient(), Metrics: objects, Recorder: o.manager.GetEventRecorder(reporter)}
	if err := reconciler.SetupWithManager(o.manager); err != nil {
		return fmt.Errorf("set up the MyCustomResource controller: %w", err)
	}
	return nil
}

func (o *Operator) addPodSets(objects *metrics.Objects) error {
	reconciler := &podset.Reconciler{
		Client: o.manager.GetClient(), Live: o.manager.GetAPIReader(), Changes: o.changes, Metrics: objects, Recorder: o.manager.GetEventRecorder(reporter),
		Clock: clock.RealClock{},
	}
	if err := reconciler.SetupWithManager(o.manager); err != nil {
		return fmt.Errorf("set up the PodSet controller: %w", err)
	}
	return nil
}

func (o *Operator) addPolicies(redue *waker) error {
	counted, err := metrics.NewOverdue(ctrlmetrics.Registry, o.store)
	if err != nil {
		return err
	}
	reconciler := policies.NewReconciler(o.manager.GetClient(), counted, clock.RealClock{})
	reconciler.Places.Namespaces = o.opts.WatchNamespaces
	if err := reconciler.SetupWithManager(o.manager, redue.events); err != nil {
		return fmt.Errorf("set up the policies controller: %w", err)
	}
	return nil
}

func (o *Operator) addRollouts(hub *feed.Hub) error {
	shown, err := metrics.NewDeployments(ctrlmetrics.Registry)
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("get the host name for Events: %w", err)
	}
	log := o.opts.Log.WithName("rollout")
	o.deployments = deploymentfeed.NewFeed(deploymentfeed.Config{Informers: o.manager.GetCache(), Metrics: shown, Log: log})
	evaluator := &rollout.Evaluator{
		Store: o.store, Hub: hub, Live: o.manager.GetAPIReader(), Client: o.manager.GetClient(), Instance: host, Clock: clock.RealClock{}, Log: log,
	}
	if err := errors.Join(o.manager.Add(o.deployments), o.manager.Add(evaluator)); err != nil {
		return fmt.Errorf("add the rollout controller to the manager: %w", err)
	}
	return nil
}

func (o *Options) validateControllers() error {
	if len(o.Controllers) == 0 {
		o.Controllers = []string{allControllers}
	}
	for _, entry := range o.Controllers {
		if entry != allControllers && !slices.Contains(ControllerNames(), strings.TrimPrefix(entry, "-")) {
			return fmt.Errorf("--controllers: %q is not a controller; use *, NAME or -NAME, where NAME is one of %s", entry, strings.Join(ControllerNames(), ", "))
		}
	}
	return nil
}
