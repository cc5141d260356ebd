package setup

import (
	"fmt"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/scanner-operator/scanner-operator/internal/controller/reportsinks"
	"github.com/scanner-operator/scanner-operator/internal/metrics"
	"github.com/scanner-operator/scanner-operator/internal/policyreports"
	"github.com/scanner-operator/scanner-operator/internal/sinks"
	"github.com/scanner-operator/scanner-operator/internal/version"
)

// ReportSinks says how reports are delivered to other systems.
type ReportSinks struct {
	// Config is the text of a sinks.Config; it may be empty.
	Config string
	// CredentialsDir has a directory with the files of each credential.
	CredentialsDir string
	// PolicyReports says that the operator may write policy reports.
	PolicyReports bool
}

// addReportSinks adds the controller of report sinks, and the engine that delivers reports on the replica that leads.
func (o *Operator) addReportSinks() error {
	config, err := sinks.ParseConfig(o.opts.ReportSinks.Config)
	if err != nil {
		return err
	}
	observer, err := metrics.NewReportSinks(ctrlmetrics.Registry)
	if err != nil {
		return err
	}
	changed := newWaker()
	engine := sinks.NewEngine(sinks.EngineConfig{
		Store: o.store, Clock: clock.RealClock{}, Cluster: o.opts.ClusterName, Version: version.String(), Observer: observer,
		Log: o.opts.Log.WithName("reportsinks"), Changed: changed.wake,
	})
	if err := o.manager.Add(manager.RunnableFunc(engine.Run)); err != nil {
		return fmt.Errorf("add the report sinks to the manager: %w", err)
	}
	factory := &sinks.Factory{Config: config, Dir: o.opts.ReportSinks.CredentialsDir, Clock: clock.RealClock{}}
	if o.opts.ReportSinks.PolicyReports {
		factory.PolicyObjects = &policyreports.Writer{Client: o.manager.GetClient(), Live: o.manager.GetAPIReader(), Log: o.opts.Log.WithName("policyreports")}
	}
	reconciler := reportsinks.NewReconciler(o.manager.GetClient(), engine, factory, clock.RealClock{})
	if err := reconciler.SetupWithManager(o.manager, changed.events); err != nil {
		return fmt.Errorf("set up the reportsinks controller: %w", err)
	}
	return nil
}
