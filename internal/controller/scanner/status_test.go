package scanner

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/coverage"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

func TestSetStatusReady(t *testing.T) {
	build := model.DatabaseBuild{ID: "b", Built: now, Source: model.DatabaseSourceOfficial}
	scanned := func(w world) world {
		w.build, w.hasBuild = build, true
		for key, image := range w.images {
			image.State, image.Database = store.StateScanned, &build
			image.Counts = store.Counts{SeverityCounts: model.SeverityCounts{Critical: 1, High: 2}, KEV: 1, Fixable: 3}
			w.images[key] = image
		}
		return w
	}
	withBuild := func(w world) world { w.build, w.hasBuild = build, true; return w }
	tests := map[string]struct {
		scanner *scannerv1.Scanner
		world   world
		reason  scannerv1.StatusReason
		message string
	}{
		"nothing runs":    {scannerWith(nil), newWorld(), scannerv1.Reconciled, ""},
		"all is scanned":  {scannerWith(nil), scanned(newWorld().runs("a", store.ImageState{})), scannerv1.Reconciled, ""},
		"scans run":       {scannerWith(nil), newWorld().runs("a", store.ImageState{State: store.StatePending}).attempt("a", "me", false), scannerv1.Scanning, ""},
		"a scan starts":   {scannerWith(nil), newWorld().runs("a", store.ImageState{State: store.StatePending}), scannerv1.Scanning, ""},
		"suspended":       {scannerWith(func(s *scannerv1.Scanner) { s.Spec.Suspend = true }), newWorld().runs("a", store.ImageState{State: store.StatePending}), scannerv1.Waiting, "suspended"},
		"no database yet": {scannerWith(nil), newWorld().runs("a", store.ImageState{State: store.StateCataloged}), scannerv1.Waiting, "No vulnerability database"},
		"to be matched":   {scannerWith(nil), withBuild(newWorld().runs("a", store.ImageState{State: store.StateCataloged})), scannerv1.Waiting, "matched"},
		"an image that is scanned in part": {
			scannerWith(nil), func() world {
				w := scanned(newWorld().runs("a", store.ImageState{}))
				for key, image := range w.images {
					image.Unreadable = 2
					w.images[key] = image
				}
				return w
			}(), scannerv1.Reconciled, "the results of 1 container are partial: 1 FilesUnreadable",
		},
		"an image that is not pulled is Waiting, never Reconciled": {
			scannerWith(nil), func() world {
				w := scanned(newWorld().runs("a", store.ImageState{}))
				w.containers = append(w.containers, inventory.Container{Pod: "new"})
				return w
			}(), scannerv1.Waiting, "1 container is waiting for an image",
		},
		"an image that cannot be pulled": {
			scannerWith(nil), func() world {
				w := scanned(newWorld().runs("a", store.ImageState{}))
				w.containers = append(w.containers, inventory.Container{Pod: "new", WaitingReason: "ErrImagePull", WaitingMessage: "manifest unknown"})
				return w
			}(), scannerv1.Failed, "1 ImageNotFound",
		},
		"a failed image": {
			scannerWith(nil), withBuild(newWorld().runs("a", store.ImageState{
				State: store.StateFailed, Reason: model.ReasonImageTooLarge, NextAttempt: now.Add(time.Hour),
			})), scannerv1.Failed, "1 ImageTooLarge",
		},
		"a failed image whose registry is paused longer than its backoff": {
			scannerWith(nil), withBuild(newWorld().runs("a", store.ImageState{
				State: store.StateFailed, Reason: model.ReasonRegistryRateLimited, NextAttempt: now.Add(-time.Second),
			}).paused(time.Hour, "ns-a")), scannerv1.Failed, "1 RegistryRateLimited",
		},
		"a new image whose registry is paused": {
			scannerWith(nil), withBuild(newWorld().runs("a", store.ImageState{State: store.StatePending}).paused(time.Hour, "ns-a")), scannerv1.Waiting, "their registry",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			setStatus(tt.scanner, tt.world.observed, makePlan(tt.scanner, tt.world.observed, DefaultLimits(), Recatalog{}, now))
			ready := meta.FindStatusCondition(tt.scanner.Status.Conditions, scannerv1.ConditionReady)
			if ready.Reason != string(tt.reason) || !strings.Contains(ready.Message, tt.message) {
				t.Errorf("Ready = %s: %q, want %s: …%s…", ready.Reason, ready.Message, tt.reason, tt.message)
			}
			if (ready.Status == metav1.ConditionTrue) != (tt.reason == scannerv1.Reconciled) {
				t.Errorf("Ready is %s with reason %s", ready.Status, ready.Reason)
			}
			before := tt.scanner.Status.DeepCopy()
			setStatus(tt.scanner, tt.world.observed, makePlan(tt.scanner, tt.world.observed, DefaultLimits(), Recatalog{}, now.Add(time.Second)))
			if diff := cmp.Diff(before, &tt.scanner.Status); diff != "" {
				t.Errorf("the same state gives another status:\n%s", diff)
			}
		})
	}
}

func TestSetStatusCountsImagesOnce(t *testing.T) {
	build := model.DatabaseBuild{ID: "b", Built: now, Source: model.DatabaseSourceSample}
	w := newWorld().runs("a", store.ImageState{State: store.StateScanned})
	image := w.images[imageKey("a")]
	image.Database, image.Counts = &build, store.Counts{SeverityCounts: model.SeverityCounts{Critical: 2}, KEV: 1, Fixable: 1}
	w.images[imageKey("a")], w.build, w.hasBuild = image, build, true
	w.containers = append(w.containers, w.containers[0], inventory.Container{Skip: "IgnoreLabel"})

	s := scannerWith(nil)
	setStatus(s, w.observed, plan{})
	if got := s.Status.Findings; got.Critical != 2 || got.KEV != 1 || got.Fixable != 1 {
		t.Errorf("findings = %+v", got)
	}
	if c := s.Status.Containers; c.Total != 3 || c.Scanned != 2 || c.Skipped != 1 || s.Status.Coverage != "100%" || s.Status.Images != 1 {
		t.Errorf("containers = %+v, coverage %s, images %d", c, s.Status.Coverage, s.Status.Images)
	}
	if c := meta.FindStatusCondition(s.Status.Conditions, scannerv1.ConditionDatabaseReady); c.Reason != "SampleDatabase" {
		t.Errorf("DatabaseReady = %+v: the sample database must be named", c)
	}
	w.missing, w.missingMessage = "NotInstalled", "The leader has none."
	setStatus(s, w.observed, plan{})
	c := meta.FindStatusCondition(s.Status.Conditions, scannerv1.ConditionDatabaseReady)
	if c.Status != metav1.ConditionFalse || c.Reason != w.missing || c.Message != w.missingMessage {
		t.Errorf("DatabaseReady = %+v: the missing database must be reported", c)
	}
	if !meta.IsStatusConditionTrue(s.Status.Conditions, scannerv1.ConditionCoverageComplete) {
		t.Error("CoverageComplete is not true")
	}
}

func TestCoverageCompleteNamesWhatIsLeftOut(t *testing.T) {
	failed := func() world {
		return newWorld().runs("a", store.ImageState{State: store.StateFailed, Reason: model.ReasonImageTooLarge})
	}
	beyond := func(w world, names ...string) world { w.beyond = names; return w }
	tests := map[string]struct {
		world           world
		reason, message string
	}{
		"nothing":     {newWorld(), "Complete", "All containers that are not skipped have a current result."},
		"a container": {failed(), "Incomplete", "1 container has no current result: 1 ImageTooLarge."},
		"a namespace": {
			beyond(newWorld(), "a"), "NamespacesNotWatched", "1 selected namespace is not watched: --watch-namespaces excludes a.",
		},
		"many of both": {
			beyond(failed(), "a", "b", "c", "d", "e", "f", "g"), "Incomplete", "1 container has no current result: 1 ImageTooLarge. " +
				"7 selected namespaces are not watched: --watch-namespaces excludes a, b, c, d, e and 2 more.",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := scannerWith(nil)
			setStatus(s, tt.world.observed, plan{})
			c := meta.FindStatusCondition(s.Status.Conditions, scannerv1.ConditionCoverageComplete)
			if c.Reason != tt.reason || c.Message != tt.message || (c.Status == metav1.ConditionTrue) != (tt.reason == "Complete") {
				t.Errorf("CoverageComplete is %s, %s: %q; want %s: %q", c.Status, c.Reason, c.Message, tt.reason, tt.message)
			}
		})
	}
}

// What a report says of an image is no scan of it: the image is covered when it has been cataloged.
func TestCoverageDoesNotCountReports(t *testing.T) {
	w := newWorld().runs("pending", store.ImageState{State: store.StatePending}).
		runs("failed", store.ImageState{State: store.StateFailed, Reason: model.ReasonImagePullDenied})
	w.build, w.hasBuild = model.DatabaseBuild{ID: "b", Built: now}, true
	for key, image := range w.images {
		image.Database, image.FromReport = &w.build, true
		w.images[key] = image
	}
	want := []coverage.Result{
		{State: coverage.Pending, Reason: coverage.ReasonNotCataloged}, {State: coverage.Failed, Reason: string(model.ReasonImagePullDenied)},
	}
	for i := range w.containers {
		if got := cover(&w.containers[i], w.observed); got != want[i] {
			t.Errorf("%s: got %+v, want %+v", w.containers[i].Pod, got, want[i])
		}
	}
	if got := due(w.observed, now, new(time.Hour)); len(got) != 2 {
		t.Errorf("%v are to be cataloged, want both", got)
	}
}

func TestSetFailedKeepsErrorTextOut(t *testing.T) {
	s := scannerWith(nil)
	setFailed(s, errors.New("dial tcp 10.0.0.1:54321: refused"))
	ready := meta.FindStatusCondition(s.Status.Conditions, scannerv1.ConditionReady)
	if strings.Contains(ready.Message, "54321") || ready.Reason != string(scannerv1.Failed) {
		t.Errorf("Ready = %+v: the text of an error changes from try to try, and each change is a write", ready)
	}
	setFailed(s, fmt.Errorf("read: %w", store.ErrUnavailable))
	if ready = meta.FindStatusCondition(s.Status.Conditions, scannerv1.ConditionReady); !strings.Contains(ready.Message, "database") {
		t.Errorf("Ready = %+v does not name the cause", ready)
	}
}

// The API server keeps whole seconds, and a status that differs from what it gave back is written again and again.
func TestSetStatusDatabaseBuiltIsWhatTheServerKeeps(t *testing.T) {
	w := newWorld()
	w.build, w.hasBuild = model.DatabaseBuild{ID: "b", Built: now.Add(123 * time.Millisecond)}, true
	scanner := scannerWith(nil)
	setStatus(scanner, w.observed, plan{})
	if built := scanner.Status.DatabaseBuilt; built == nil || !built.Equal(new(built.Rfc3339Copy())) {
		t.Errorf("databaseBuilt is %v, which has a fraction of a second", built)
	}
}
