//go:build faults

package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
)

// versionImage has a tag that is a version: newer ones are looked up.
const versionImage = "r.example/first:1.0.0"

// Scenarios about what is decided on findings, and who is told of them. Their transactions are not disturbed.
func init() {
	scenarios = append(scenarios,
		scenario{
			name: "exception", args: only("scanner,exceptions"), scans: true, requestsOnly: true,
			arrange: scanned,
			act: func(t *testing.T, w *world) {
				w.create(t, objectOf("VulnerabilityException", "exception", `{"match":{"packages":["pkg:golang/golang.org/x/net"]},
					"status":"NotAffected","justification":"vulnerable_code_not_in_execute_path"}`))
			},
			settled: all(
				has("VulnerabilityException", "exception", "Applied", "True/Applied"), has("VulnerabilityException", "exception", "Used", "True/FindingsMatched"), suppressed,
			),
		},
		scenario{
			name: "notification-rule", args: only("notifications"), requestsOnly: true,
			arrange: func(*testing.T, *world) {},
			act: func(t *testing.T, w *world) {
				w.create(t, objectOf("NotificationRule", "rule", `{"group":{"by":"Workload"},"sinks":[{"name":"receiver","webhook":{"url":"http://receiver.invalid/"}}]}`))
			},
			settled: has("NotificationRule", "rule", scannerv1alpha1.ConditionDelivering, "True/Delivering"),
		},
		scenario{
			name: "policy", args: only("scanner,policies"), scans: true, requestsOnly: true, cluster: true,
			arrange: scanned,
			act: func(t *testing.T, w *world) {
				w.createInCluster(t, objectOf("VulnerabilityPolicy", "policy", `{"select":"finding.fixable","dueIn":{"critical":7,"high":30}}`))
			},
			settled: all(has("VulnerabilityPolicy", "policy", scannerv1alpha1.ConditionValid, "True/Applied"), dueFindings),
		},
		scenario{
			// What a receiver refused is tried again after a minute.
			name: "report-sink", args: append(only("scanner,reportsinks"), "--policy-reports"), scans: true, requestsOnly: true, cluster: true,
			patience: time.Minute + 10*time.Second,
			arrange:  scanned,
			act: func(t *testing.T, w *world) {
				w.createInCluster(t, objectOf("ReportSink", "sink", `{"policyReport":{}}`))
			},
			settled: all(has("ReportSink", "sink", scannerv1alpha1.ConditionDelivering, "True/Delivering"), some("Report")),
		},
		scenario{
			name: "newer-tags", args: only("scanner"), scans: true, requestsOnly: true,
			arrange: func(t *testing.T, w *world) {
				w.create(t, podOf("first", versionImage))
				w.create(t, &scannerv1.Scanner{ObjectMeta: metav1.ObjectMeta{Name: "scanner"}, Spec: scannerv1.ScannerSpec{IgnoreLabel: "ignore"}})
				w.settle(t, all(is("Scanner", "scanner", "True/Reconciled"), counted(1)))
			},
			act: func(t *testing.T, w *world) {
				w.patch(t, &scannerv1.Scanner{}, "scanner", `{"spec":{"newerTags":{}}}`)
			},
			settled: all(is("Scanner", "scanner", "True/Reconciled"), has("Scanner", "scanner", scannerv1.ConditionNewerTagsComplete, "True/LookedUp")),
		},
	)
}

// objectOf returns an object of the API group of the operator.
func objectOf(kind, name, spec string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(scannerv1alpha1.GroupVersion.WithKind(kind))
	object.SetName(name)
	var content map[string]any
	if err := json.Unmarshal([]byte(spec), &content); err != nil {
		panic(err)
	}
	object.Object["spec"] = content
	return object
}

// some is the condition that there is an object of a kind.
func some(kind string) condition {
	return func(_ context.Context, _ *world, s snapshot) error {
		if len(s.of(kind)) == 0 {
			return errors.New("there is no " + kind)
		}
		return nil
	}
}

// suppressed is the condition that the Scanner counts no finding any more. It rests between reconciles.
func suppressed(_ context.Context, _ *world, s snapshot) error {
	for _, scanner := range s.of("Scanner") {
		if high, found, _ := unstructured.NestedInt64(scanner.Object, "status", "findings", "high"); found && high > 0 {
			return fmt.Errorf("the Scanner counts %d findings", high)
		}
	}
	return nil
}

// dueFindings is the condition that findings are due because of the policy.
func dueFindings(_ context.Context, _ *world, s snapshot) error {
	for _, policy := range s.of("VulnerabilityPolicy") {
		if due, _, _ := unstructured.NestedInt64(policy.Object, "status", "dueFindings"); due == 0 {
			return errors.New("no finding is due")
		}
	}
	return nil
}
