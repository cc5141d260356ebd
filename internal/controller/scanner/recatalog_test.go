package scanner

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	testclock "k8s.io/utils/clock/testing"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// cataloged adds an image with an SBOM of a cataloger.
func (w world) cataloged(name, cataloger string, mutate ...func(*store.Image)) world {
	w = w.runs(name, store.ImageState{State: store.StateScanned})
	image := w.images[imageKey(name)]
	image.Cataloger = cataloger
	for _, m := range mutate {
		m(&image)
	}
	w.images[imageKey(name)] = image
	return w
}

// attempted is an image of which attempts to catalog it again failed.
func attempted(failures int, in time.Duration) func(*store.Image) {
	return func(i *store.Image) {
		i.Attempts, i.NextAttempt, i.Recatalog = failures, now.Add(in), store.Recatalog{Cataloger: "syft v2", Open: true}
	}
}

func TestPlanCatalogsAgain(t *testing.T) {
	done := func(i *store.Image) { i.Recatalog = store.Recatalog{Cataloger: "syft v2"} }
	reported := func(i *store.Image) { i.FromReport = true }
	one := func(s *scannerv1.Scanner) { s.Spec.Concurrency = new(int32(1)) }
	pending := store.ImageState{State: store.StatePending}
	type want struct {
		start        []string
		recataloging int
		next         time.Duration
	}
	tests := map[string]struct {
		mutate func(*scannerv1.Scanner)
		world  world
		off    bool
		want   want
	}{
		"off":                                      {nil, newWorld().cataloged("a", "syft v1"), true, want{next: auditInterval}},
		"one of another version":                   {nil, newWorld().cataloged("a", "syft v2").cataloged("b", "syft v1"), false, want{[]string{"b"}, 1, scanjob.PodDelay}},
		"one of a version that is not known":       {nil, newWorld().cataloged("a", ""), false, want{[]string{"a"}, 1, scanjob.PodDelay}},
		"one at a time":                            {nil, newWorld().cataloged("a", "").cataloged("b", ""), false, want{[]string{"a"}, 1, scanjob.PodDelay}},
		"one is under way":                         {nil, newWorld().cataloged("a", "", attempted(0, 0)).attempt("a", "s", false).cataloged("b", ""), false, want{nil, 1, watchInterval}},
		"with the fewest failures":                 {nil, newWorld().cataloged("a", "", attempted(1, 0)).cataloged("b", ""), false, want{[]string{"b"}, 1, scanjob.PodDelay}},
		"one that failed":                          {nil, newWorld().cataloged("a", "", attempted(1, 0)), false, want{[]string{"a"}, 1, scanjob.PodDelay}},
		"the backoff":                              {nil, newWorld().cataloged("a", "", attempted(1, time.Minute)), false, want{next: time.Minute}},
		"scan Jobs of another version":             {nil, newWorld().cataloged("a", "syft v1", done), false, want{next: auditInterval}},
		"a report":                                 {nil, newWorld().cataloged("a", "", reported), false, want{next: auditInterval}},
		"a suspended Scanner":                      {func(s *scannerv1.Scanner) { s.Spec.Suspend = true }, newWorld().cataloged("a", ""), false, want{next: auditInterval}},
		"behind a new image":                       {one, newWorld().cataloged("a", "").runs("new", pending), false, want{[]string{"new"}, 0, scanjob.PodDelay}},
		"behind new images that wait":              {one, newWorld().cataloged("a", "").runs("new", pending).runs("newer", pending), false, want{[]string{"new"}, 0, scanjob.PodDelay}},
		"beside a new image when a slot is free":   {nil, newWorld().cataloged("a", "").runs("new", pending), false, want{[]string{"new", "a"}, 1, scanjob.PodDelay}},
		"behind images of another Scanner":         {nil, newWorld().cataloged("a", "").contended(1), false, want{next: auditInterval}},
		"while the registry pauses the credential": {nil, newWorld().cataloged("a", "").held(time.Minute, "ns-a"), false, want{next: auditInterval}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			settings := Recatalog{PerHour: 5, Cataloger: "syft v2"}
			if tt.off {
				settings.PerHour = 0
			}
			scanner := scannerWith(tt.mutate)
			for key := range tt.world.attempts { // Those of the Scanner itself.
				attempt := tt.world.attempts[key]
				attempt.ScannerUID = string(scanner.UID)
				tt.world.attempts[key] = attempt
			}
			tt.world.active = active(tt.world.attempts)
			p := makePlan(scanner, tt.world.observed, Limits{Scans: 6, PerRegistry: 4}, settings, now)
			got := want{recataloging: p.recataloging, next: p.next}
			for _, req := range p.start {
				name, _, _ := strings.Cut(strings.TrimPrefix(req.Key.ImageID, "r.example/"), "@")
				got.start = append(got.start, name)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCatalogingAgainFails has attempts that fail, and then one that does not.
func TestCatalogingAgainFails(t *testing.T) {
	key := imageKey("a")
	result := store.Image{
		ImageState: store.ImageState{Key: key, State: store.StateScanned, Nonce: "nonce"}, Cataloger: "syft v1", Database: &model.DatabaseBuild{ID: "build"},
	}
	result.Counts.High = 3
	known, cataloger := memory{key: result}, &starter{attempts: map[string]Attempt{}}
	r, recorder := newReconciler(t, known, cataloger, scannerWith(nil), podOf("a", key.ImageID, time.Hour))
	clk := testclock.NewFakeClock(now)
	r.Clock, r.Recatalog = clk, Recatalog{PerHour: 1, Cataloger: "syft v2"}
	for failures := range 3 {
		_, scanner := reconcileOnce(t, r)
		if condition := meta.FindStatusCondition(scanner.Status.Conditions, scannerv1.ConditionReady); condition.Reason == string(scannerv1.Scanning) {
			t.Errorf("Ready is %s", condition.Reason)
		}
		cataloger.fail(t, known, key, model.Outcome{Reason: model.ReasonOutOfDisk, Message: "full"})
		_, scanner = reconcileOnce(t, r)
		got, want := known[key], result
		want.Attempts, want.NextAttempt = failures+1, clk.Now().Add(backoff(failures, key))
		want.Recatalog = store.Recatalog{Cataloger: "syft v2", Open: true}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after a failure (-want +got):\n%s", diff)
		}
		if scanner.Status.Findings.High != 3 || scanner.Status.Containers.Failed > 0 || scanner.Status.Containers.Pending > 0 {
			t.Errorf("the result is not shown: %+v", scanner.Status)
		}
		select {
		case event := <-recorder.Events:
			if !strings.Contains(event, "could not be cataloged again, its result remains: OutOfDisk: full") {
				t.Errorf("event %q", event)
			}
		default:
			t.Error("there is no event")
		}
		if started := len(cataloger.started); started != failures+1 {
			t.Errorf("%d attempts, want %d", started, failures+1)
		}
		clk.Step(backoff(failures, key))
	}
	reconcileOnce(t, r)
	renewed := known[key]
	renewed.Cataloger, renewed.Nonce, renewed.Recatalog.Open, renewed.Attempts = "syft v2", "another", false, 0
	known[key] = renewed
	reconcileOnce(t, r)
	if len(cataloger.started) != 4 {
		t.Errorf("%d attempts, want 4", len(cataloger.started))
	}
}

// TestCatalogingAgainIsRefused has a namespace that takes no Jobs, and then a Scanner with an error in its spec.
func TestCatalogingAgainIsRefused(t *testing.T) {
	key := imageKey("a")
	known := memory{key: {ImageState: store.ImageState{Key: key, State: store.StateScanned, Nonce: "nonce"}}}
	cataloger := &starter{refuse: "r.example/a", attempts: map[string]Attempt{}}
	r, _ := newReconciler(t, known, cataloger, scannerWith(nil), podOf("a", key.ImageID, time.Hour))
	r.Recatalog = Recatalog{PerHour: 1, Cataloger: "syft v2"}
	reconcileOnce(t, r)
	if got := known[key]; got.State != store.StateScanned || got.Attempts != 1 || got.Reason != "" {
		t.Errorf("after a refusal: %+v", got)
	}
	known[key] = store.Image{ImageState: store.ImageState{Key: key, State: store.StateScanned, Nonce: "nonce"}}
	cataloger.refuse, cataloger.invalid = "", &specError{"no such class"}
	_, scanner := reconcileOnce(t, r)
	if condition := meta.FindStatusCondition(scanner.Status.Conditions, scannerv1.ConditionReady); condition.Reason != string(scannerv1.Failed) {
		t.Errorf("Ready is %s", condition.Reason)
	}
	if got := known[key]; got.State != store.StateScanned || got.Attempts != 0 {
		t.Errorf("after an error in the spec: %+v", got)
	}
}
