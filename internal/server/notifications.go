package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/notify"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	// notificationRules and clusterNotificationRules are the resources of the rules, verbTest is what the audit calls a test.
	notificationRules        = "notificationrules"
	clusterNotificationRules = "clusternotificationrules"
	verbTest                 = "test"
	// maxRulesOfNamespace and maxListedRules bound a list of rules.
	maxRulesOfNamespace = 50
	maxListedRules      = 2000

	notificationsDisabled = "the operator sends no notifications: its controller notifications is disabled (--controllers)"
)

// NotificationRules reads and tests notification rules.
type NotificationRules interface {
	// List returns all rules, those of the cluster first, which have no namespace, and then by namespace and name.
	List(ctx context.Context) ([]scannerv1alpha1.NotificationRule, error)
	// Test sends a test message to the sinks of a rule; namespace is "" for rules of the cluster. It returns store.ErrNotFound if there is no such rule, an
	// error that is notify.ErrInvalid if it sends nothing, and notify.ErrTestLater if it cannot be tested now.
	Test(ctx context.Context, namespace, name string) ([]notify.SinkTest, error)
}

// ListNotificationRules answers the rules that the caller sees, with what became of their messages. URLs of sinks are left out: they can be secret.
func (o operations) ListNotificationRules(ctx context.Context, _ api.ListNotificationRulesRequestObject) (api.ListNotificationRulesResponseObject, error) {
	if o.s.config.NotificationRules == nil {
		return nil, problem.New(http.StatusNotImplemented, notificationsDisabled)
	}
	rules, err := o.s.config.NotificationRules.List(ctx)
	if err != nil {
		return nil, err
	}
	in := visible(ctx)
	answer, omitted, listed := api.ListNotificationRules200JSONResponse{Items: []api.NotificationRule{}}, 0, map[string]int{}
	for i := range rules {
		rule := &rules[i]
		switch {
		case !in.All() && (rule.Namespace == "" || !in.Contains(rule.Namespace)):
		case listed[rule.Namespace] >= maxRulesOfNamespace || len(answer.Items) >= maxListedRules:
			omitted++
		default:
			listed[rule.Namespace]++
			answer.Items = append(answer.Items, toNotificationRule(rule))
		}
	}
	answer.Omitted = optional(omitted)
	return answer, nil
}

// TestNotificationRule sends a test message for a caller who may change the rule.
func (o operations) TestNotificationRule(ctx context.Context, request api.TestNotificationRuleRequestObject) (api.TestNotificationRuleResponseObject, error) {
	if len(request.Body.Name) > maxName || len(value(request.Body.Namespace)) > maxName || request.Body.Name == "" {
		return nil, problem.BadRequest("name and namespace must be names of objects, of at most %d bytes", maxName)
	}
	access := auth.Access{Verb: auth.VerbUpdate, Resource: clusterNotificationRules, Name: request.Body.Name}
	object := request.Body.Name
	if namespace := value(request.Body.Namespace); namespace != "" {
		access.Resource, access.Namespace, object = notificationRules, namespace, namespace+"/"+object
	}
	changeObject(ctx, access.Resource, object)
	allowed, err := o.s.guard.Allowed(ctx, access)
	if err != nil {
		return nil, err
	}
	if !allowed {
		return nil, problem.New(http.StatusForbidden, "user %q needs %s", callerName(ctx), access)
	}
	if o.s.config.NotificationRules == nil {
		return nil, problem.New(http.StatusNotImplemented, notificationsDisabled)
	}
	results, err := o.s.config.NotificationRules.Test(ctx, access.Namespace, access.Name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, problem.New(http.StatusNotFound, "there is no notification rule %q", object)
	case errors.Is(err, notify.ErrInvalid):
		return nil, problem.New(http.StatusUnprocessableEntity, "%v", err)
	case errors.Is(err, notify.ErrTestLater):
		return nil, problem.New(http.StatusTooManyRequests, "%v: try again in 10 seconds", err)
	case err != nil:
		return nil, err
	}
	answer := api.TestNotificationRule200JSONResponse{Results: make([]api.SinkTest, 0, len(results))}
	for _, one := range results {
		_, partial := errors.AsType[*notify.PartialError](one.Problem)
		result := api.SinkTest{Sink: one.Sink, Type: string(one.Type), Delivered: one.Problem == nil || partial}
		if one.Problem != nil {
			result.Error = optional(one.Problem.Error())
		}
		answer.Results = append(answer.Results, result)
	}
	return answer, nil
}

func toNotificationRule(rule *scannerv1alpha1.NotificationRule) api.NotificationRule {
	spec, status := &rule.Spec, &rule.Status
	out := api.NotificationRule{
		Namespace: optional(rule.Namespace), Name: rule.Name, When: optional(spec.When), MinSeverity: optional(spec.MinSeverity), GroupBy: string(spec.Group.By),
		Valid: toNotificationCondition(status, scannerv1alpha1.ConditionValid), Delivering: toNotificationCondition(status, scannerv1alpha1.ConditionDelivering),
		LastDeliveryTime: fromTime(status.LastDeliveryTime), OldestPendingTime: fromTime(status.OldestPendingTime), Pending: int(status.Pending),
		Sinks: make([]api.NotificationSink, 0, len(spec.Sinks)),
	}
	if spec.Digest != nil {
		out.Schedule, out.TimeZone = &spec.Digest.Schedule, &spec.Digest.TimeZone
	}
	states := map[string]*scannerv1alpha1.NotificationSinkStatus{}
	for i := range status.Sinks {
		states[status.Sinks[i].Name] = &status.Sinks[i]
	}
	for i := range spec.Sinks {
		sink := toNotificationSink(&spec.Sinks[i])
		if state := states[sink.Name]; state != nil {
			sink.LastDeliveryTime, sink.Pending = fromTime(state.LastDeliveryTime), int(state.Pending)
			sink.Delivered, sink.Dropped, sink.Error = state.Delivered, state.Dropped, optional(state.Error)
		}
		out.Sinks = append(out.Sinks, sink)
	}
	return out
}

func toNotificationSink(s *scannerv1alpha1.NotificationSink) api.NotificationSink {
	kind, credential := notify.Webhook, ""
	switch {
	case s.Webhook != nil:
		credential = s.Webhook.Credential
	case s.Alertmanager != nil:
		kind, credential = notify.Alertmanager, s.Alertmanager.Credential
	case s.Slack != nil:
		kind, credential = notify.Slack, s.Slack.Credential
	case s.Teams != nil:
		kind, credential = notify.Teams, s.Teams.Credential
	case s.Email != nil:
		kind, credential = notify.Email, s.Email.Credential
	}
	return api.NotificationSink{Name: s.Name, Type: api.NotificationSinkType(kind), Credential: optional(credential)}
}

// toNotificationCondition is a condition of a rule, nil if it has none.
func toNotificationCondition(status *scannerv1alpha1.NotificationRuleStatus, kind string) *api.NotificationCondition {
	c := meta.FindStatusCondition(status.Conditions, kind)
	if c == nil {
		return nil
	}
	return &api.NotificationCondition{Status: c.Status == metav1.ConditionTrue, Reason: c.Reason, Message: c.Message}
}

// fromTime is a time of an object, nil if it has none.
func fromTime(t *metav1.Time) *time.Time {
	if t == nil {
		return nil
	}
	return optionalTime(t.Time)
}
