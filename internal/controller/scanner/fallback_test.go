package scanner

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	testclock "k8s.io/utils/clock/testing"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// A scan of an image volume that fails is followed at once by one from the registry, and nobody is told of a failure.
func TestAutoFallsBackToTheRegistry(t *testing.T) {
	unmounted := model.Outcome{Reason: model.ReasonUnschedulable, Message: "the kubelet cannot start the scan pod: CreateContainerError: ImageVolumeMountFailed"}
	for name, tt := range map[string]struct {
		source scannerv1.ImageSource
		// failed is how the first attempt ends, refused that it cannot be started.
		failed  Attempt
		refused bool
		after   time.Duration
		// want: the registry is asked next. paused: other images on the node are read from their registries too.
		want, paused bool
	}{
		"cannot be mounted":     {"", Attempt{Blocked: true, Node: "a", Outcome: unmounted}, false, blockedGrace, true, true},
		"waits for a node":      {"", Attempt{Blocked: true, Outcome: model.Outcome{Reason: model.ReasonUnschedulable, Message: "0/3 nodes"}}, false, blockedGrace, true, false},
		"denied to the kubelet": {"", Attempt{Done: true, Outcome: model.Outcome{Reason: model.ReasonImagePullDenied}}, false, 0, true, false},
		"does not start":        {"", Attempt{Node: "a", Created: now}, false, volumeStart, true, true},
		"starts slowly":         {"", Attempt{Node: "a", Created: now}, false, volumeStart - 1, false, false},
		"cannot be read":        {"", Attempt{Done: true, Started: true, Outcome: model.Outcome{Reason: model.ReasonCatalogFailed}}, false, 0, true, false},
		"refused":               {"", Attempt{}, true, 0, true, false},
		"out of memory":         {"", Attempt{Done: true, Started: true, Outcome: model.Outcome{Reason: model.ReasonOutOfMemory}}, false, 0, false, false},
		"as the Scanner says":   {scannerv1.SourceImageVolume, Attempt{Done: true, Node: "a", Outcome: unmounted}, false, 0, false, false},
		"refused as it says":    {scannerv1.SourceImageVolume, Attempt{}, true, 0, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			key := imageKey("a")
			pod := podOf("a", key.ImageID, 0)
			pod.Spec.NodeName = "a"
			known, cataloger := memory{}, &starter{attempts: map[string]Attempt{}}
			if tt.refused {
				cataloger.refuse = "r.example/a"
			}
			r, recorder := newReconciler(t, known, cataloger, scannerWith(func(s *scannerv1.Scanner) { s.Spec.Job.Source = tt.source }), pod, nodeNamed("a", nil))
			clk := testclock.NewFakeClock(now)
			r.Clock = clk
			reconcileOnce(t, r)
			cataloger.refuse = ""
			for name, attempt := range cataloger.attempts {
				if !attempt.Volume {
					t.Fatalf("the first attempt is %+v, want one of an image volume", attempt)
				}
				tt.failed.Key, tt.failed.ScannerUID, tt.failed.Volume, tt.failed.For = key, "me", true, "ns"
				if tt.failed.Created.IsZero() {
					tt.failed.Created = now
				}
				cataloger.attempts[name] = tt.failed
			}
			clk.SetTime(now.Add(tt.after))
			reconcileOnce(t, r)
			last := cataloger.requests[max(0, len(cataloger.requests)-1):]
			fellBack := len(last) > 0 && last[0].Attempt == 1 && last[0].Volume == nil
			if image := known[key]; fellBack != tt.want || tt.want && (image.State != store.StatePending || image.Attempts != 1) {
				t.Errorf("requests %+v, image %+v; want the registry asked: %t", cataloger.requests, image.ImageState, tt.want)
			}
			// What neither falls back nor is under way has failed, and users are told.
			failed := !tt.want && name != "starts slowly"
			if told := len(recorder.Events) > 0; told != failed || (known[key].State == store.StateFailed) != failed {
				t.Errorf("told of a failure: %t, state %s, want a failure: %t", told, known[key].State, failed)
			}
			if got := r.fallback.paused(nodeNamed("a", nil), "ns", clk.Now()); got != tt.paused && tt.source == "" {
				t.Errorf("the node is paused: %t, want %t", got, tt.paused)
			}
			if !tt.want {
				return
			}
			// The attempt after the one at the registry may use a volume again.
			for name, attempt := range cataloger.attempts {
				if !attempt.Volume {
					attempt.Done, attempt.Outcome = true, model.Outcome{Reason: model.ReasonImagePullDenied}
					cataloger.attempts[name] = attempt
				}
			}
			reconcileOnce(t, r)
			clk.SetTime(known[key].NextAttempt)
			reconcileOnce(t, r)
			if last := cataloger.requests[len(cataloger.requests)-1]; last.Attempt != 2 || (last.Volume != nil) == tt.paused {
				t.Errorf("attempt %d by volume: %t, want %t", last.Attempt, last.Volume != nil, !tt.paused)
			}
			if image := known[key]; image.State != store.StateFailed || image.Reason != model.ReasonImagePullDenied {
				t.Errorf("after the registry denied it: %+v", image.ImageState)
			}
		})
	}
}

// TestChangedSpecTriesTheVolumeAgain: what blocked a scan of an image volume may be what the change of spec.job corrects.
func TestChangedSpecTriesTheVolumeAgain(t *testing.T) {
	key := imageKey("a")
	pod := podOf("a", key.ImageID, 0)
	pod.Spec.NodeName = "a"
	known, cataloger := memory{}, &starter{attempts: map[string]Attempt{}}
	r, recorder := newReconciler(t, known, cataloger, scannerWith(nil), pod, nodeNamed("a", nil))
	reconcileOnce(t, r)
	for name := range cataloger.attempts {
		cataloger.attempts[name] = Attempt{
			Key: key, ScannerUID: "me", Volume: true, For: "ns", Blocked: true, Created: r.Clock.Now(), JobSpec: "of the previous spec.job",
			Outcome: model.Outcome{Reason: model.ReasonUnschedulable, Message: "0/3 nodes"},
		}
	}
	reconcileOnce(t, r)
	last := cataloger.requests[len(cataloger.requests)-1]
	if image := known[key]; last.Attempt != 1 || last.Volume == nil || image.State != store.StatePending || len(recorder.Events) > 0 {
		t.Errorf("the last request is %+v, the image %+v; want an image volume again, and no failure", last, image.ImageState)
	}
}

// A node is not used for an hour, with the software that it ran, and for the namespace whose image failed there.
func TestPausedNodes(t *testing.T) {
	var f fallback
	f.pauseNode(nodeNamed("a", nil), "one", now)
	upgraded := nodeNamed("a", func(n *corev1.Node) { n.Status.NodeInfo.ContainerRuntimeVersion = "containerd://2.5.0" })
	for name, tt := range map[string]struct {
		node      *corev1.Node
		namespace string
		after     time.Duration
		want      bool
	}{
		"at once":           {nodeNamed("a", nil), "one", 0, true},
		"before an hour":    {nodeNamed("a", nil), "one", volumePause - 1, true},
		"after an hour":     {nodeNamed("a", nil), "one", volumePause, false},
		"another namespace": {nodeNamed("a", nil), "two", 0, false},
		"another node":      {nodeNamed("b", nil), "one", 0, false},
		"upgraded":          {upgraded, "one", 0, false},
	} {
		if got := f.paused(tt.node, tt.namespace, now.Add(tt.after)); got != tt.want {
			t.Errorf("%s: paused %t, want %t", name, got, tt.want)
		}
	}
}

func TestFallbacksAreBounded(t *testing.T) {
	var f fallback
	for i := range 2 * maxFallbacks {
		at := now.Add(time.Duration(i))
		f.pauseNode(nodeNamed(fmt.Sprint(i), nil), "one", at)
		f.useRegistry(imageKey(fmt.Sprint(i)), 1, at)
	}
	if len(f.nodes) > maxFallbacks || len(f.images) > maxFallbacks {
		t.Errorf("%d nodes and %d images are remembered, want at most %d", len(f.nodes), len(f.images), maxFallbacks)
	}
	last := fmt.Sprint(2*maxFallbacks - 1)
	if !f.paused(nodeNamed(last, nil), "one", now) || !f.usesRegistry(imageKey(last), 1) || f.usesRegistry(imageKey(last), 2) {
		t.Error("the last one was forgotten")
	}
}

// A registry that paused or that is busy keeps no scan waiting that does not ask it.
func TestVolumesDoNotWaitForRegistries(t *testing.T) {
	w := newWorld().runs("a", store.ImageState{State: store.StatePending}).on(scannerWith(nil), nodeNamed("a", nil)).elsewhere("r.example", 4).paused(time.Hour, "", "ns-a")
	p := makePlan(scannerWith(nil), w.observed, Limits{Scans: 10, PerRegistry: 4, PerNode: 1}, Recatalog{}, now)
	if len(p.start) != 1 || p.start[0].Volume == nil {
		t.Errorf("started %+v, waiting for %+v", p.start, p.waits)
	}
	volumes := newWorld().runs("b", store.ImageState{State: store.StatePending})
	for i := range 4 {
		volumes.active = append(volumes.active, Attempt{Key: imageKey(fmt.Sprint(i)), ScannerUID: "other", Volume: true})
	}
	if p := makePlan(scannerWith(nil), volumes.observed, Limits{Scans: 10, PerRegistry: 4, PerNode: 1}, Recatalog{}, now); len(p.start) != 1 {
		t.Errorf("scans of volumes hold the slots of their registry: %+v", p.waits)
	}
}

// An image of which a volume showed a part is read from its registry, unless its Scanner reads volumes only. The limit of images that are cataloged
// again does not apply, and the part stays if the registry fails.
func TestPartialImagesAreCompletedFromTheRegistry(t *testing.T) {
	for name, tt := range map[string]struct {
		source     scannerv1.ImageSource
		from       model.ImageSource
		unreadable int64
		want       bool
	}{
		"in part":              {"", model.SourceImageVolume, 3, true},
		"from registries":      {scannerv1.SourceRegistry, model.SourceImageVolume, 3, true},
		"completely":           {"", model.SourceImageVolume, 0, false},
		"from volumes only":    {scannerv1.SourceImageVolume, model.SourceImageVolume, 3, false},
		"not better by itself": {"", model.SourceRegistry, 3, false},
	} {
		key := imageKey("a")
		pod := podOf("a", key.ImageID, 0)
		pod.Spec.NodeName = "a"
		known := memory{key: {ImageState: store.ImageState{Key: key, State: store.StateScanned, Nonce: "nonce"}, Source: tt.from, Unreadable: tt.unreadable}}
		cataloger := &starter{attempts: map[string]Attempt{}}
		r, recorder := newReconciler(t, known, cataloger, scannerWith(func(s *scannerv1.Scanner) { s.Spec.Job.Source = tt.source }), pod, nodeNamed("a", nil))
		clk := testclock.NewFakeClock(now)
		r.Clock = clk
		reconcileOnce(t, r)
		if began := len(cataloger.requests) == 1 && cataloger.requests[0].Volume == nil && known[key].Recatalog.Open; began != tt.want {
			t.Errorf("%s: requests %+v, %+v; want one of the registry: %t", name, cataloger.requests, known[key].Recatalog, tt.want)
		}
		if !tt.want {
			continue
		}
		for name, attempt := range cataloger.attempts {
			attempt.Done, attempt.Outcome = true, model.Outcome{Reason: model.ReasonImagePullDenied}
			cataloger.attempts[name] = attempt
		}
		reconcileOnce(t, r)
		if image := known[key]; image.State != store.StateScanned || image.Attempts != 1 || !image.NextAttempt.After(now) || len(cataloger.requests) != 1 {
			t.Errorf("%s: after the registry denied it: %+v, requests %+v", name, image.ImageState, cataloger.requests)
		}
		clk.SetTime(known[key].NextAttempt)
		reconcileOnce(t, r)
		if len(cataloger.requests) != 2 || cataloger.requests[1].Volume != nil {
			t.Errorf("%s: then %+v, want the registry again", name, cataloger.requests)
		}
		for len(recorder.Events) > 0 {
			<-recorder.Events
		}
	}
}
