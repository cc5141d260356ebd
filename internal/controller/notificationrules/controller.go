// Package notificationrules applies NotificationRules and ClusterNotificationRules: it gives them to the engine that sends messages, and writes into their
// status what became of the messages.
package notificationrules

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/notify"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// How often something is done.
const (
	// resync is the longest time between two reconciles.
	resync = 5 * time.Minute
	// patchesPerSecond is how many statuses are written in a second at most.
	patchesPerSecond = 20
)

// Engine is what sends the messages.
type Engine interface {
	SetRules(ctx context.Context, rules []*notify.Rule, known []store.NotificationRule) error
	States() map[string]notify.State
}

// Reconciler reconciles all rules at once: the engine takes a complete list. NewReconciler makes one.
type Reconciler struct {
	client client.Client
	engine Engine
	config *notify.Config
	clock  clock.PassiveClock

	statuses *kube.StatusWriter
	// compiled are the rules of the last reconcile, so that unchanged ones are not read again.
	compiled map[types.UID]compiled
}

// compiled is a rule in one of its generations, or why it is none.
type compiled struct {
	generation int64
	rule       *notify.Rule
	problem    error
}

// NewReconciler returns a Reconciler that reads rules from a cache.
func NewReconciler(c client.Client, engine Engine, config *notify.Config, now clock.PassiveClock) *Reconciler {
	return &Reconciler{
		client: c, engine: engine, config: config, clock: now, statuses: kube.NewStatusWriter(c, patchesPerSecond, now), compiled: map[types.UID]compiled{},
	}
}

// +kubebuilder:rbac:groups=scanner.zoltankerezsi.xyz,resources=notificationrules;clusternotificationrules,verbs=list;watch
// +kubebuilder:rbac:groups=scanner.zoltankerezsi.xyz,resources=notificationrules/status;clusternotificationrules/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=list;watch

// object is a rule of one of the two kinds. Spec and status are those of the object.
type object struct {
	client.Object
	spec   *scannerv1alpha1.NotificationRuleSpec
	status *scannerv1alpha1.NotificationRuleStatus
}

// Reconcile applies all rules that exist, and none besides, and writes their statuses.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	objects, err := r.list(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	within, beyond := fit(objects)
	known := make([]store.NotificationRule, 0, len(within))
	var rules []*notify.Rule
	all := make(map[types.UID]compiled, len(within))
	for _, o := range within {
		one, found := r.compiled[o.GetUID()]
		if !found || one.generation != o.GetGeneration() {
			one = compiled{generation: o.GetGeneration()}
			one.rule, one.problem = notify.NewRule(definition(o), r.config)
		}
		all[o.GetUID()] = one
		record := store.NotificationRule{UID: string(o.GetUID())}
		for i := range o.spec.Sinks {
			record.Sinks = append(record.Sinks, o.spec.Sinks[i].Name)
		}
		known = append(known, record)
		if one.problem == nil {
			rules = append(rules, one.rule)
		}
	}
	r.compiled = all
	if err := r.engine.SetRules(ctx, rules, known); err != nil {
		return ctrl.Result{}, fmt.Errorf("apply the notification rules: %w", err)
	}
	if left := r.writeStatuses(ctx, objects, beyond); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	return ctrl.Result{RequeueAfter: resync}, nil
}

// list returns the rules that are not being deleted, the oldest first: it has precedence when there are too many.
func (r *Reconciler) list(ctx context.Context) ([]object, error) {
	all, err := listRules(ctx, r.client)
	slices.SortFunc(all, func(a, b object) int {
		x, y := a.GetCreationTimestamp(), b.GetCreationTimestamp()
		return cmp.Or(x.Compare(y.Time), cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return all, err
}

// listRules returns the rules of both kinds that are not being deleted.
func listRules(ctx context.Context, reader client.Reader) ([]object, error) {
	var namespaced scannerv1alpha1.NotificationRuleList
	if err := reader.List(ctx, &namespaced); err != nil {
		return nil, fmt.Errorf("list the NotificationRules: %w", err)
	}
	var ofCluster scannerv1alpha1.ClusterNotificationRuleList
	if err := reader.List(ctx, &ofCluster); err != nil {
		return nil, fmt.Errorf("list the ClusterNotificationRules: %w", err)
	}
	var all []object
	for i := range namespaced.Items {
		o := &namespaced.Items[i]
		all = append(all, object{o, &o.Spec, &o.Status})
	}
	for i := range ofCluster.Items {
		o := &ofCluster.Items[i]
		all = append(all, object{o, &o.Spec, &o.Status})
	}
	return slices.DeleteFunc(all, func(o object) bool { return !o.GetDeletionTimestamp().IsZero() }), nil
}

// fit divides rules into those within the bounds and those beyond. Where there are more than notify.MaxRules, the first rule of each namespace comes before
// the second one of any: the rules of a namespace take no room from others.
func fit(objects []object) (within []object, beyond map[types.UID]bool) {
	number, beyond := map[string]int{}, map[types.UID]bool{}
	type ranked struct {
		object
		rank int
	}
	var fitting []ranked
	for _, o := range objects {
		bound := notify.MaxRulesPerNamespace
		if o.GetNamespace() == "" {
			bound = notify.MaxClusterRules
		}
		rank := number[o.GetNamespace()]
		number[o.GetNamespace()]++
		if rank >= bound {
			beyond[o.GetUID()] = true
			continue
		}
		if o.GetNamespace() == "" {
			rank = 0
		}
		fitting = append(fitting, ranked{o, rank})
	}
	slices.SortStableFunc(fitting, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	for i, one := range fitting {
		if i >= notify.MaxRules {
			beyond[one.GetUID()] = true
			continue
		}
		within = append(within, one.object)
	}
	return within, beyond
}

// definition is what the engine needs to know of a rule.
func definition(o object) notify.Definition {
	d := notify.Definition{
		UID: string(o.GetUID()), Namespace: o.GetNamespace(), Name: o.GetName(), When: o.spec.When, MinSeverity: o.spec.MinSeverity,
		By: notify.GroupBy(o.spec.Group.By), Window: notify.DefaultWindow, MessagesPerHour: int(o.spec.MessagesPerHour),
	}
	if o.spec.Group.Window != nil {
		d.Window = o.spec.Group.Window.Duration
	}
	if digest := o.spec.Digest; digest != nil {
		d.Schedule, d.TimeZone = digest.Schedule, digest.TimeZone
		if report := digest.Report; report != nil {
			d.Report = &notify.Scope{Namespace: report.Namespace, Owner: report.Owner}
		}
	}
	for i := range o.spec.Sinks {
		d.Sinks = append(d.Sinks, sinkOf(&o.spec.Sinks[i]))
	}
	return d
}

func sinkOf(s *scannerv1alpha1.NotificationSink) notify.Sink {
	sink := notify.Sink{Name: s.Name}
	switch {
	case s.Webhook != nil:
		sink.Type, sink.URL, sink.Credential = notify.Webhook, s.Webhook.URL, s.Webhook.Credential
	case s.Alertmanager != nil:
		sink.Type, sink.URL, sink.Credential = notify.Alertmanager, s.Alertmanager.URL, s.Alertmanager.Credential
	case s.Slack != nil:
		sink.Type, sink.Credential = notify.Slack, s.Slack.Credential
	case s.Teams != nil:
		sink.Type, sink.Credential = notify.Teams, s.Teams.Credential
	case s.Email != nil:
		sink.Type, sink.Credential, sink.To = notify.Email, s.Email.Credential, s.Email.To
	}
	return sink
}
