package setup

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/scanner-operator/scanner-operator/internal/controller/notificationrules"
	"github.com/scanner-operator/scanner-operator/internal/match"
	"github.com/scanner-operator/scanner-operator/internal/metrics"
	"github.com/scanner-operator/scanner-operator/internal/notify"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/summary"
	"github.com/scanner-operator/scanner-operator/internal/version"
)

// Notifications says how messages about changes are sent.
type Notifications struct {
	// Config is the text of a notify.Config; it may be empty.
	Config string
	// CredentialsDir has a directory with the files of each credential.
	CredentialsDir string
}

// addNotifications adds the controller of notification rules, and the engine that sends messages on the replica that leads.
func (o *Operator) addNotifications() error {
	config, err := notify.ParseConfig(o.opts.Notifications.Config)
	if err != nil {
		return err
	}
	var types []string
	for _, one := range notify.Types() {
		types = append(types, string(one))
	}
	observer, err := metrics.NewNotifications(ctrlmetrics.Registry, types, notify.Results())
	if err != nil {
		return err
	}
	changed := newWaker()
	receivers := &notify.Receivers{
		Config: config, Dir: o.opts.Notifications.CredentialsDir, Source: o.opts.ClusterName, Clock: clock.RealClock{}, Reports: o.attachReport,
	}
	o.rules = &notificationrules.Access{
		Client: o.manager.GetClient(), Config: config, Tester: &notify.Tester{Sender: receivers, Clock: clock.RealClock{}},
	}
	engine := notify.NewEngine(notify.EngineConfig{
		Store: o.store, Sender: receivers,
		Clock: clock.RealClock{}, Labels: o.namespaceLabels, Link: linkTo(o.opts.SignIn.ExternalURL), Observer: observer, Log: o.opts.Log.WithName("notifications"), Changed: changed.wake,
	})
	if err := o.manager.Add(manager.RunnableFunc(engine.Run)); err != nil {
		return fmt.Errorf("add the notifications to the manager: %w", err)
	}
	reconciler := notificationrules.NewReconciler(o.manager.GetClient(), engine, config, clock.RealClock{})
	if err := reconciler.SetupWithManager(o.manager, changed.events); err != nil {
		return fmt.Errorf("set up the notifications controller: %w", err)
	}
	return nil
}

// attachReport makes a report for a mail. That of an owner in a namespace is about what runs there.
func (o *Operator) attachReport(ctx context.Context, about *notify.Report) (*notify.Attachment, error) {
	in, scope := store.AllNamespaces(), summary.Scope{Kind: summary.Cluster}
	if about.Namespace != "" {
		in, scope = store.OnlyNamespaces(about.Namespace), summary.Scope{Kind: summary.Namespace, Name: about.Namespace}
	}
	if about.Owner != "" {
		scope = summary.Scope{Kind: summary.Owner, Name: about.Owner}
	}
	report, err := summary.Collect(ctx, o.store, in, scope, about.Since, time.Now())
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	err = summary.WritePage(&page, report, summary.PageOptions{
		Version: version.String(), URL: strings.TrimSuffix(o.opts.SignIn.ExternalURL, "/"), Versions: match.Versions{},
	})
	return &notify.Attachment{Name: report.FileName(), Page: page.Bytes()}, err
}

// namespaceLabels returns the labels of all namespaces, by name, from the cache.
func (o *Operator) namespaceLabels(ctx context.Context) (map[string]map[string]string, error) {
	list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NamespaceList"}}
	if err := o.manager.GetCache().List(ctx, list); err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	labels := make(map[string]map[string]string, len(list.Items))
	for i := range list.Items {
		labels[list.Items[i].Name] = list.Items[i].Labels
	}
	return labels, nil
}
