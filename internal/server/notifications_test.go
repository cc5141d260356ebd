package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/notify"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	rulesPath    = "/api/v1/notification-rules"
	testRulePath = rulesPath + "/test"
)

// ruleList has rules, and notes which were tested.
type ruleList struct {
	rules  []scannerv1alpha1.NotificationRule
	tested []string
}

func (l *ruleList) List(context.Context) ([]scannerv1alpha1.NotificationRule, error) {
	return l.rules, nil
}

func (l *ruleList) Test(_ context.Context, namespace, name string) ([]notify.SinkTest, error) {
	l.tested = append(l.tested, namespace+"/"+name)
	switch name {
	case "absent":
		return nil, store.ErrNotFound
	case "invalid":
		return nil, fmt.Errorf("%w: when: line 1", notify.ErrInvalid)
	case "busy":
		return nil, notify.ErrTestLater
	default:
		return []notify.SinkTest{{Sink: "chat", Type: notify.Slack}, {Sink: "mail", Type: notify.Email, Problem: errors.New("it answers with code 451")}}, nil
	}
}

// ruleOf is a rule with a status.
func ruleOf(namespace, name string) scannerv1alpha1.NotificationRule {
	at := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	rule := scannerv1alpha1.NotificationRule{
		Spec: scannerv1alpha1.NotificationRuleSpec{
			When: "finding.kev", Group: scannerv1alpha1.NotificationGroup{By: scannerv1alpha1.GroupByOwner},
			Digest: &scannerv1alpha1.NotificationDigest{Schedule: "0 8 * * *", TimeZone: "UTC"},
			Sinks: []scannerv1alpha1.NotificationSink{
				{Name: "hook", Webhook: &scannerv1alpha1.NotificationEndpoint{URL: "https://hooks.example/s3cret"}},
				{Name: "mail", Email: &scannerv1alpha1.NotificationEmail{Credential: "mail", To: []string{"a@example.com"}}},
			},
		},
		Status: scannerv1alpha1.NotificationRuleStatus{
			Conditions: []metav1.Condition{{Type: scannerv1alpha1.ConditionValid, Status: metav1.ConditionTrue, Reason: "Active", Message: "Changes that match are reported."}},
			Pending:    2, OldestPendingTime: &at, Sinks: []scannerv1alpha1.NotificationSinkStatus{{Name: "mail", Pending: 2, Delivered: 7, Dropped: 1, Error: "timeout"}},
		},
	}
	rule.Namespace, rule.Name = namespace, name
	return rule
}

// TestMatrixOfNotificationRules reads and tests rules as each user.
func TestMatrixOfNotificationRules(t *testing.T) {
	t.Parallel()
	rights := newCluster()
	rights.decides = map[string][]string{}
	for user, namespaces := range map[string][]string{"one": {"shop"}, "tester": {"shop"}} {
		rights.audiences[user] = []string{"scanner-operator"}
		rights.grants[user] = map[string][]string{}
		for _, namespace := range namespaces {
			rights.grants[user][namespace] = []string{"get", "list"}
		}
	}
	rights.decides["tester"] = []string{"update notificationrules shop"}
	rights.decides["admin"] = []string{"update clusternotificationrules"}
	list := &ruleList{rules: []scannerv1alpha1.NotificationRule{ruleOf("", "all"), ruleOf("bank", "exploited"), ruleOf("shop", "exploited")}}
	lines := &auditLog{}
	f := newGuardedFixture(t, rights, func(c *server.Config) {
		c.NotificationRules, c.Log, c.Registerer = list, lines.logger(), prometheus.NewRegistry()
	})
	f.seed()
	for _, name := range []string{"bank", "shop"} {
		key := model.ImageKey{ImageID: scannedID, Platform: linux}
		f.must(f.store.RecordUses(t.Context(), name+"/scanner", []store.Use{{Image: key, Workload: matrixWorkload(name), Container: "app"}}))
	}
	for user, want := range map[string]string{"admin": "all bank/exploited shop/exploited", "one": "shop/exploited", "tester": "shop/exploited"} {
		got := f.do(http.MethodGet, rulesPath, "", bearer(user))
		if got.status != http.StatusOK || strings.Contains(got.body, "s3cret") || !strings.Contains(got.body, `"dropped":1,"error":"timeout"`) {
			t.Errorf("%s: %d %s", user, got.status, got.body)
			continue
		}
		validate(t, success(http.MethodGet, rulesPath), got.body)
		for _, name := range []string{"all", "bank", "shop"} {
			sees := strings.Contains(got.body, `"namespace":"`+name) || name == "all" && strings.Contains(got.body, `"name":"all"`)
			if sees != strings.Contains(want, name) {
				t.Errorf("%s sees %s: %t, want %s", user, name, sees, want)
			}
		}
	}
	f.do(http.MethodGet, rulesPath, "").problem(t, http.StatusUnauthorized, "")
	f.do(http.MethodGet, rulesPath, "", bearer("nobody")).problem(t, http.StatusForbidden, "")
	body := func(namespace, name string) string {
		if namespace == "" {
			return fmt.Sprintf(`{"name": %q}`, name)
		}
		return fmt.Sprintf(`{"namespace": %q, "name": %q}`, namespace, name)
	}
	for _, try := range []struct {
		user, body   string
		want         int
		line, answer string
	}{
		{"", body("shop", "exploited"), 401, "", ""},
		{"one", body("shop", "exploited"), 403, "", "needs the permission to update notificationrules"},
		// The right to change scan results is another one.
		{"admin", body("shop", "exploited"), 403, "", "needs the permission to update notificationrules"},
		{"tester", body("bank", "exploited"), 403, "", "needs the permission to update notificationrules"},
		{"tester", body("", "all"), 403, "", "needs the permission to update clusternotificationrules"},
		{"tester", body("shop", "absent"), 404, `"outcome"="failed" "status"=404`, `there is no notification rule \"shop/absent\"`},
		{"tester", body("shop", "invalid"), 422, `"outcome"="failed" "status"=422`, "the rule is not valid: when: line 1"},
		{"tester", body("shop", "busy"), 429, `"outcome"="failed" "status"=429`, "try again in 10 seconds"},
		{"tester", body("shop", strings.Repeat("x", 300)), 400, `"outcome"="failed" "status"=400`, "of at most 253 bytes"},
		{"tester", body("shop", "exploited"), 200, `"verb"="test" "resource"="notificationrules" "name"="shop/exploited" "outcome"="succeeded"`, `{"delivered":false,"error":"it answers with code 451","sink":"mail","type":"email"}`},
		{"admin", body("", "all"), 200, `"resource"="clusternotificationrules" "name"="all" "outcome"="succeeded"`, `{"delivered":true,"sink":"chat","type":"slack"}`},
	} {
		headers := []string{jsonBody}
		if try.user != "" {
			headers = append(headers, bearer(try.user))
		}
		lines.take()
		got := f.do(http.MethodPost, testRulePath, try.body, headers...)
		if got.status != try.want || !strings.Contains(got.body, try.answer) {
			t.Errorf("%s as %q: %d, want %d with %s: %s", try.body, try.user, got.status, try.want, try.answer, got.body)
		}
		if said := strings.Join(lines.take(), "\n"); !strings.Contains(said, try.line) || try.line == "" && said != "" {
			t.Errorf("%s as %q is audited as %q, want %q", try.body, try.user, said, try.line)
		}
		if got.status == http.StatusOK {
			validate(t, success(http.MethodPost, testRulePath), got.body)
		} else {
			got.problem(t, try.want, "")
		}
	}
	if got := strings.Join(list.tested, " "); got != "shop/absent shop/invalid shop/busy shop/exploited /all" {
		t.Errorf("tested: %s", got)
	}
}

// The list is bounded, for each namespace and in all, and an operator that sends nothing says so.
func TestNotificationRulesAreBounded(t *testing.T) {
	t.Parallel()
	list := &ruleList{}
	for i := range 60 {
		for n := range 50 {
			list.rules = append(list.rules, ruleOf(fmt.Sprintf("n-%02d", n), fmt.Sprintf("r-%02d", i)))
		}
	}
	f := newFixture(t, func(c *server.Config) { c.NotificationRules = list })
	if got := f.do(http.MethodGet, rulesPath, ""); strings.Count(got.body, `"name":"r-`) != 2000 || !strings.Contains(got.body, `"omitted":1000`) {
		t.Errorf("%d rules, %d", strings.Count(got.body, `"name":"r-`), got.status)
	}
	list.rules = list.rules[:0]
	for i := range 60 {
		list.rules = append(list.rules, ruleOf("shop", fmt.Sprintf("r-%02d", i)))
	}
	if got := f.do(http.MethodGet, rulesPath, ""); strings.Count(got.body, `"name":"r-`) != 50 || !strings.Contains(got.body, `"omitted":10`) {
		t.Errorf("%d rules of a namespace, %d", strings.Count(got.body, `"name":"r-`), got.status)
	}
	without := newFixture(t, nil)
	without.do(http.MethodGet, rulesPath, "").problem(t, http.StatusNotImplemented, "its controller notifications is disabled")
	without.do(http.MethodPost, testRulePath, `{"name": "r"}`, jsonBody).problem(t, http.StatusNotImplemented, "its controller notifications is disabled")
}
