package scanner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/coverage"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

func TestCoverageOfContainers(t *testing.T) {
	later := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	web := inventory.Owner{Kind: "Deployment", Name: "web"}
	scanned := store.Image{Database: &model.DatabaseBuild{ID: "b"}}
	failed := store.Image{}
	failed.Reason, failed.Message, failed.NextAttempt = model.ReasonImageTooLarge, "it is too large", later
	v := &observed{
		build: model.DatabaseBuild{ID: "b"}, hasBuild: true,
		images: map[model.ImageKey]store.Image{imageKey("a"): scanned, imageKey("f"): failed},
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
			State: "Skipped", Reason: "IgnoreLabel", Message: coverage.Advice("IgnoreLabel"),
		},
	}
	if diff := cmp.Diff(want, coverageOf(v, plan{})); diff != "" {
		t.Errorf("coverage (-want +got):\n%s", diff)
	}
}

// Whoever asks why a container is not scanned gets an answer, whatever the reason.
func TestExplain(t *testing.T) {
	later, key := now.Add(time.Hour), imageKey("a")
	pending := store.Image{ImageState: store.ImageState{Key: key, State: store.StatePending}}
	failed := store.Image{ImageState: store.ImageState{
		Key: key, State: store.StateFailed, Reason: model.ReasonOutOfDisk, Message: "the node is full", NextAttempt: now,
	}}
	running := func(outcome model.Outcome) []Attempt { return []Attempt{{Key: key, Outcome: outcome}} }
	tests := map[string]struct {
		container inventory.Container
		image     store.Image
		active    []Attempt
		plan      plan
		message   string
		next      time.Time
	}{
		"not pulled":         {inventory.Container{}, pending, nil, plan{}, coverage.Advice(coverage.ReasonNotPulled), time.Time{}},
		"in the pod's words": {inventory.Container{WaitingReason: "ErrImagePull", WaitingMessage: "401"}, pending, nil, plan{}, "401", time.Time{}},
		"node not known": {
			inventory.Container{NodeUnknown: true}, pending, nil, plan{},
			"waiting until the node of the pod is known: its platform selects the image of an index", time.Time{},
		},
		"no repository": {inventory.Container{Key: model.ImageKey{ImageID: "sha256:1"}}, pending, nil, plan{}, coverage.Advice("NotPullable"), time.Time{}},
		"failed":        {inventory.Container{Key: key}, failed, nil, plan{}, "the node is full", now},
		"failed, registry paused": {
			inventory.Container{Key: key}, failed, nil, plan{waits: map[model.ImageKey]wait{key: {why: "paused", until: later}}}, "the node is full", later,
		},
		"waits": {
			inventory.Container{Key: key}, pending, nil, plan{waits: map[model.ImageKey]wait{key: {why: waitsOperator}}}, waitsOperator, time.Time{},
		},
		"waits for a registry": {
			inventory.Container{Key: key}, pending, nil, plan{waits: map[model.ImageKey]wait{key: {why: "paused", until: later}}}, "paused", later,
		},
		"runs":        {inventory.Container{Key: key}, pending, running(model.Outcome{}), plan{}, "scan is running", time.Time{}},
		"starts":      {inventory.Container{Key: key}, pending, nil, plan{start: []scanjob.Request{{Key: key}}}, "scan is running", time.Time{}},
		"cannot run":  {inventory.Container{Key: key}, pending, running(model.Outcome{Reason: model.ReasonUnschedulable, Message: "no node"}), plan{}, "no node", time.Time{}},
		"is next":     {inventory.Container{Key: key}, pending, nil, plan{}, coverage.Advice(coverage.ReasonNotCataloged), time.Time{}},
		"no database": {inventory.Container{Key: key}, store.Image{ImageState: store.ImageState{State: store.StateCataloged}}, nil, plan{}, coverage.Advice("NoDatabase"), time.Time{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			v := &observed{containers: []inventory.Container{tt.container}, images: map[model.ImageKey]store.Image{key: tt.image}, active: tt.active}
			if w := tt.plan.waits[key]; !w.until.IsZero() {
				v.pauses = map[credential]store.RegistryPause{v.credentialOf(key, tt.container.Namespace): {Until: w.until}}
			}
			got := coverageOf(v, tt.plan)[0]
			if got.Message != tt.message || !got.NextAttempt.Equal(tt.next) || got.Message == "" {
				t.Errorf("%s/%s: %q, next %s; want %q, %s", got.State, got.Reason, got.Message, got.NextAttempt, tt.message, tt.next)
			}
		})
	}
}

// TestCoverageSaysWhereAnImageWasPulledFrom: to the pod that names the repository alone.
func TestCoverageSaysWhereAnImageWasPulledFrom(t *testing.T) {
	key := imageKey("a")
	v := &observed{
		build: model.DatabaseBuild{ID: "b"}, hasBuild: true,
		images:     map[model.ImageKey]store.Image{key: {Database: &model.DatabaseBuild{ID: "b"}, PulledFrom: "b.example/x"}},
		containers: []inventory.Container{{Namespace: "n", Name: "c", Image: "b.example/x:1", Key: key}, {Namespace: "n", Name: "d", Image: "r.example/a:1", Key: key}},
	}
	const failed = "the image could not be pulled from the repository in its image ID"
	for i, want := range []string{failed + ", and was pulled from b.example/x, which the pod names", failed} {
		if got := coverageOf(v, plan{})[i]; got.Message != want || got.State != "Scanned" {
			t.Errorf("%s: %q, want %q", got.State, got.Message, want)
		}
	}
}
