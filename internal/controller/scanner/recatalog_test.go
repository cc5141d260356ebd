package scanner

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	testclock "k8s.io/utils/clock/testing"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
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

// limitState is the state of the limit per hour.
type limitState int

const (
	on limitState = iota
	off
	reached
)

func TestPlanCatalogsAgain(t *testing.T) {
	done := func(i *store.Image) { i.Recatalog = store.Recatalog{Cataloger: "syft v2"} }
	asked := func(i *store.Image) { i.Recatalog = store.Recatalog{Cataloger: store.AnyCataloger, Open: true} }
	answered := func(i *store.Image) { i.Recatalog = store.Recatalog{Cataloger: store.AnyCataloger} }
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
		limits limitState
		want   want
	}{
		"off":                                      {nil, newWorld().cataloged("a", "syft v1"), off, want{next: auditInterval}},
		"one of another version":                   {nil, newWorld().cataloged("a", "syft v2").cataloged("b", "syft v1"), on, want{[]string{"b"}, 1, scanjob.PodDelay}},
		"one of a version that is not known":       {nil, newWorld().cataloged("a", ""), on, want{[]string{"a"}, 1, scanjob.PodDelay}},
		"one at a time":                            {nil, newWorld().cataloged("a", "").cataloged("b", ""), on, want{[]string{"a"}, 1, scanjob.PodDelay}},
		"one is under way":                         {nil, newWorld().cataloged("a", "", attempted(0, 0)).attempt("a", "s", false).cataloged("b", ""), on, want{nil, 1, watchInterval}},
		"with the fewest failures":                 {nil, newWorld().cataloged("a", "", attempted(1, 0)).cataloged("b", ""), on, want{[]string{"b"}, 1, scanjob.PodDelay}},
		"one that failed":                          {nil, newWorld().cataloged("a", "", attempted(1, 0)), on, want{[]string{"a"}, 1, scanjob.PodDelay}},
		"the backoff":                              {nil, newWorld().cataloged("a", "", attempted(1, time.Minute)), on, want{next: time.Minute}},
		"scan Jobs of another version":             {nil, newWorld().cataloged("a", "syft v1", done), on, want{next: auditInterval}},
		"a report":                                 {nil, newWorld().cataloged("a", "", reported), on, want{next: auditInterval}},
		"a suspended Scanner":                      {func(s *scannerv1.Scanner) { s.Spec.Suspend = true }, newWorld().cataloged("a", ""), on, want{next: auditInterval}},
		"behind a new image":                       {one, newWorld().cataloged("a", "").runs("new", pending), on, want{[]string{"new"}, 0, scanjob.PodDelay}},
		"behind new images that wait":              {one, newWorld().cataloged("a", "").runs("new", pending).runs("newer", pending), on, want{[]string{"new"}, 0, scanjob.PodDelay}},
		"beside a new image when a slot is free":   {nil, newWorld().cataloged("a", "").runs("new", pending), on, want{[]string{"new", "a"}, 1, scanjob.PodDelay}},
		"behind images of another Scanner":         {nil, newWorld().cataloged("a", "").contended(1), on, want{next: auditInterval}},
		"while the registry pauses the credential": {nil, newWorld().cataloged("a", "").paused(time.Minute, "ns-a"), on, want{next: auditInterval}},
		"another one during the pause":             {nil, newWorld().cataloged("a", "").cataloged("b", "").paused(time.Minute, "ns-a"), on, want{[]string{"b"}, 1, scanjob.PodDelay}},
		"one whose Job has not ended":              {nil, newWorld().cataloged("a", "syft v2", done).attempt("a", "s", false).cataloged("b", ""), on, want{nil, 1, watchInterval}},
		"after the limit was reached":              {nil, newWorld().cataloged("a", ""), reached, want{next: time.Minute}},
		"one that was asked for":                   {nil, newWorld().cataloged("a", "syft v2", asked), off, want{[]string{"a"}, 1, scanjob.PodDelay}},
		"one that was asked for, over the limit":   {nil, newWorld().cataloged("a", "").cataloged("b", "syft v2", asked), reached, want{[]string{"b"}, 1, scanjob.PodDelay}},
		"one that was asked for and failed":        {nil, newWorld().cataloged("a", "syft v2", attempted(1, time.Minute), asked), off, want{next: time.Minute}},
		"one that was asked for before":            {nil, newWorld().cataloged("a", "syft v2", answered), on, want{next: auditInterval}},
		"one that was begun before":                {nil, newWorld().cataloged("a", "").cataloged("b", "", attempted(1, 0)), reached, want{[]string{"b"}, 1, scanjob.PodDelay}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			settings := Recatalog{PerHour: 5, Cataloger: "syft v2"}
			switch tt.limits {
			case off:
				settings.PerHour = 0
			case reached:
				settings.pausedUntil = now.Add(time.Minute)
			case on:
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

// TestCatalogingAgainStaysInItsNamespace: no other namespace decides what replaces an SBOM, and pull secrets that were needed are needed again.
func TestCatalogingAgainStaysInItsNamespace(t *testing.T) {
	in := func(namespace string, secrets ...string) inventory.Container {
		return inventory.Container{Namespace: namespace, Key: imageKey("a"), PullSecrets: secrets}
	}
	for name, tt := range map[string]struct {
		containers []inventory.Container
		scannedIn  string
		want       string
	}{
		"the operator's":                         {[]inventory.Container{in("one")}, "operator", "operator"},
		"that of a tenant":                       {[]inventory.Container{in("one", "s"), in("two", "s")}, "two", "two"},
		"a tenant's, and others have no secrets": {[]inventory.Container{in("one"), in("two", "s")}, "two", "two"},
		"where no pod runs it any more":          {[]inventory.Container{in("one", "s")}, "two", ""},
		"not known":                              {[]inventory.Container{in("one", "s")}, "", "one"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld().cataloged("a", "syft v1", func(i *store.Image) { i.ScannedIn = tt.scannedIn })
			w.containers, w.home = tt.containers, Home{Namespace: "operator"}
			p := makePlan(scannerWith(nil), w.observed, Limits{Scans: 6, PerRegistry: 4}, Recatalog{PerHour: 5, Cataloger: "syft v2"}, now)
			got := ""
			for _, req := range p.start {
				got = req.Namespace
			}
			if got != tt.want {
				t.Errorf("cataloged again in %q, want %q", got, tt.want)
			}
		})
	}
}

// limitedMemory is a store whose limit per hour is reached.
type limitedMemory struct {
	memory
	asked int
}

func (m *limitedMemory) BeginRecatalog(context.Context, model.ImageKey, int, string, int) (bool, error) {
	m.asked++
	return false, nil
}

// TestLimitOfCatalogingAgain: a Scanner does not ask for the limit at each reconcile.
func TestLimitOfCatalogingAgain(t *testing.T) {
	key := imageKey("a")
	known := &limitedMemory{memory: memory{key: {ImageState: store.ImageState{Key: key, State: store.StateScanned, Nonce: "nonce"}}}}
	cataloger := &starter{attempts: map[string]Attempt{}}
	r, _ := newReconciler(t, known, cataloger, scannerWith(nil), podOf("a", key.ImageID, time.Hour))
	clk := testclock.NewFakeClock(now)
	r.Clock, r.Recatalog = clk, Recatalog{PerHour: 1, Cataloger: "syft v2"}
	for _, want := range []int{1, 1, 1} {
		reconcileOnce(t, r)
		if known.asked != want || len(cataloger.started) != 0 {
			t.Errorf("asked %d times, want %d; %d attempts", known.asked, want, len(cataloger.started))
		}
	}
	clk.Step(recatalogPause)
	if reconcileOnce(t, r); known.asked != 2 {
		t.Errorf("asked %d times after the pause, want 2", known.asked)
	}
}
