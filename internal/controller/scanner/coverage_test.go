package scanner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

func TestCoverageOfContainers(t *testing.T) {
	later := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	web := inventory.Owner{Kind: "Deployment", Name: "web"}
	scanned := store.Image{Database: &vuln.DatabaseBuild{ID: "b"}}
	failed := store.Image{}
	failed.Reason, failed.Message, failed.NextAttempt = vuln.ReasonImageTooLarge, "it is too large", later
	v := &view{
		build: vuln.DatabaseBuild{ID: "b"}, hasBuild: true,
		images: map[vuln.ImageKey]store.Image{imageKey("a"): scanned, imageKey("f"): failed},
		containers: []inventory.Container{
			{Namespace: "n", Pod: "web-1", Name: "c", Image: "a:1", Key: imageKey("a"), Owner: web, WaitingMessage: "CrashLoopBackOff"},
			{Namespace: "n", Pod: "web-2", Name: "c", Image: "a:1", Key: imageKey("a"), Owner: web},
			{Namespace: "n", Pod: "web-3", Name: "c", Image: "a:1", Owner: web, WaitingReason: "ErrImagePull", WaitingMessage: "not found"},
			{Namespace: "n", Pod: "web-4", Name: "c", Image: "f:1", Key: imageKey("f"), Owner: web, WaitingMessage: "CrashLoopBackOff"},
			{Namespace: "n", Pod: "alone", Name: "c", Image: "a:1", Key: imageKey("a"), Skip: inventory.SkipIgnoreLabel},
		},
	}
	deployment := store.Workload{Namespace: "n", Kind: "Deployment", Name: "web"}
	want := []store.ContainerCoverage{
		{Workload: deployment, Container: "c", Image: imageKey("a"), Reference: "a:1", Pods: 2, State: "Scanned"},
		{Workload: deployment, Container: "c", Reference: "a:1", Pods: 1, State: "Failed", Reason: "ImageNotFound", Message: "not found"},
		{
			Workload: deployment, Container: "c", Image: imageKey("f"), Reference: "f:1", Pods: 1, State: "Failed", Reason: "ImageTooLarge",
			Message: "it is too large", NextAttempt: later,
		},
		{
			Workload: store.Workload{Namespace: "n", Kind: "Pod", Name: "alone"}, Container: "c", Image: imageKey("a"), Reference: "a:1", Pods: 1,
			State: "Skipped", Reason: "IgnoreLabel",
		},
	}
	if diff := cmp.Diff(want, coverageOf(v)); diff != "" {
		t.Errorf("coverage (-want +got):\n%s", diff)
	}
}
