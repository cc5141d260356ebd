package scanner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// withNewerTags is a Scanner that looks up newer tags.
func withNewerTags(s *scannerv1.Scanner) { s.Spec.NewerTags = &scannerv1.NewerTagsSpec{} }

// tagged adds an image with findings that a container names with a tag.
func (w world) tagged(name, tag string, counts model.SeverityCounts) world {
	w = w.cataloged(name, "syft", func(i *store.Image) { i.Counts.SeverityCounts = counts })
	w.containers[len(w.containers)-1].Image = "r.example/" + name + ":" + tag
	return w
}

// lookup adds the lookup of an image, as WantTagLookups returns it.
func (w world) lookup(name string, mutate ...func(*store.TagLookup)) world {
	lookup := store.TagLookup{
		ID: "id-" + name, Nonce: "nonce-" + name, WantedTags: store.WantedTags{Key: imageKey(name), Repository: "r.example/" + name, Tag: "1.0", Namespaces: []string{"ns-" + name}},
	}
	for _, m := range mutate {
		m(&lookup)
	}
	w.lookups = append(w.lookups, lookup)
	return w
}

// looking adds a lookup that is under way for a Scanner.
func (w world) looking(scannerUID string) world {
	w.active = append(w.active, Attempt{Key: imageKey("looking"), Lookup: "id", ScannerUID: scannerUID})
	return w
}

func TestWantedTags(t *testing.T) {
	w := newWorld().tagged("low", "1.0", model.SeverityCounts{Low: 9}).tagged("critical", "1.1", model.SeverityCounts{Critical: 1}).tagged("none", "1.0", model.SeverityCounts{}).
		tagged("latest", "latest", model.SeverityCounts{Critical: 3}).tagged("pinned", "2.0@sha256:"+strings.Repeat("a", 64), model.SeverityCounts{High: 1}).
		runs("pending", store.ImageState{State: store.StatePending})
	w.containers[len(w.containers)-1].Image = "r.example/pending:1.0"
	w = w.also("critical", "other").also("critical", "other").also("critical", "skipped")
	for i := range 3 {
		w.containers[len(w.containers)-1-i].Image = "r.example/critical:1.1"
	}
	w.containers[len(w.containers)-1].Skip = "Ignored"
	for name, image := range map[string]string{"digest": "r.example/x@sha256:" + strings.Repeat("a", 64), "bare": "x", "imported": "docker.io/library/import-2024-01-01:1.0"} {
		w = w.tagged(name, "", model.SeverityCounts{Critical: 1})
		w.containers[len(w.containers)-1].Image = image
	}
	// The node decides which registry a short name means.
	w = w.tagged("short", "", model.SeverityCounts{Medium: 1})
	w.containers[len(w.containers)-1].Image = "short:3.0"
	describe := func(maxImages int) (all []string, omitted int) {
		wanted, omitted := w.wantedTags(maxImages)
		for _, want := range wanted {
			all = append(all, fmt.Sprint(want.Repository, ":", want.Tag, " ", want.Namespaces))
		}
		return all, omitted
	}
	want := []string{"r.example/critical:1.1 [ns-critical other]", "r.example/pinned:2.0 [ns-pinned]", "r.example/short:3.0 [ns-short]", "r.example/low:1.0 [ns-low]"}
	got, omitted := describe(100)
	if diff := cmp.Diff(want, got); diff != "" || omitted != 0 {
		t.Errorf("%d omitted (-want +got):\n%s", omitted, diff)
	}
	got, omitted = describe(2)
	if diff := cmp.Diff(want[:2], got); diff != "" || omitted != 2 {
		t.Errorf("%d omitted (-want +got):\n%s", omitted, diff)
	}
}

// TestNamespacesTakeTurns: the images of one namespace do not take all places, however severe their findings are.
func TestNamespacesTakeTurns(t *testing.T) {
	w := newWorld()
	for i := range 5 {
		w = w.tagged(fmt.Sprint("big-", i), "1.0", model.SeverityCounts{Critical: 9 - i})
		w.containers[len(w.containers)-1].Namespace = "big"
	}
	w = w.tagged("small-0", "1.0", model.SeverityCounts{Low: 2}).tagged("small-1", "1.0", model.SeverityCounts{Low: 1})
	w.containers[len(w.containers)-1].Namespace, w.containers[len(w.containers)-2].Namespace = "small", "small"
	// An image of both counts for both, and is there once.
	w = w.also("big-1", "small")
	w.containers[len(w.containers)-1].Image = "r.example/big-1:1.0"
	wanted, omitted := w.wantedTags(4)
	var got []string
	for _, want := range wanted {
		got = append(got, strings.TrimPrefix(want.Repository, "r.example/"))
	}
	if diff := cmp.Diff([]string{"big-0", "big-1", "small-0", "big-2"}, got); diff != "" || omitted != 3 {
		t.Errorf("%d omitted (-want +got):\n%s", omitted, diff)
	}
}

func TestPlanLooksUpNewerTags(t *testing.T) {
	at := func(lookedUp, next time.Duration) func(*store.TagLookup) {
		return func(l *store.TagLookup) {
			if l.Attempts = 1; lookedUp != 0 {
				l.LookedUpAt = now.Add(lookedUp)
			}
			if next != 0 {
				l.NextAttempt = now.Add(next)
			}
		}
	}
	day := 24*time.Hour + spread(24*time.Hour/10, imageKey("a"))
	high := model.SeverityCounts{High: 1}
	one := func() world { return newWorld().tagged("a", "1.0", high).lookup("a") }
	for name, tt := range map[string]struct {
		mutate func(*scannerv1.Scanner)
		world  world
		want   string
		next   time.Duration
	}{
		"one":                             {nil, one(), "id-a", scanjob.PodDelay},
		"one at a time":                   {nil, one().looking("me"), "", watchInterval},
		"beside one of another Scanner":   {nil, one().looking("other"), "id-a", scanjob.PodDelay},
		"two of other Scanners":           {nil, one().looking("other").looking("third"), "", watchInterval},
		"the first that is due":           {nil, newWorld().tagged("a", "1.0", high).tagged("b", "1.0", high).lookup("a", at(-time.Hour, 0)).lookup("b"), "id-b", scanjob.PodDelay},
		"one that was looked up":          {nil, newWorld().tagged("a", "1.0", high).lookup("a", at(-24*time.Hour, 0)), "", min(auditInterval, day-24*time.Hour)},
		"one that is due again":           {nil, newWorld().tagged("a", "1.0", high).lookup("a", at(-27*time.Hour, 0)), "id-a", scanjob.PodDelay},
		"one that failed":                 {nil, newWorld().tagged("a", "1.0", high).lookup("a", at(0, time.Minute)), "", time.Minute},
		"one that failed, at last":        {nil, newWorld().tagged("a", "1.0", high).lookup("a", at(-72*time.Hour, -time.Minute)), "id-a", scanjob.PodDelay},
		"one that did not fail":           {nil, newWorld().tagged("a", "1.0", high).tagged("b", "1.0", high).lookup("a", at(0, -time.Second)).lookup("b"), "id-b", scanjob.PodDelay},
		"a suspended Scanner":             {func(s *scannerv1.Scanner) { s.Spec.Suspend = true }, one(), "", auditInterval},
		"behind a new image":              {nil, one().runs("new", store.ImageState{State: store.StatePending}), "", scanjob.PodDelay},
		"behind images of others":         {nil, one().contended(1), "", watchInterval},
		"a registry that is paused":       {nil, one().paused(time.Minute, "ns-a"), "", time.Minute},
		"another one during the pause":    {nil, one().tagged("b", "1.0", high).lookup("b").paused(time.Minute, "ns-a"), "id-b", scanjob.PodDelay},
		"a registry without a free slot":  {nil, one().elsewhere("r.example", 4), "", watchInterval},
		"slots are those of all attempts": {nil, one().elsewhere("other.example", 6), "", watchInterval},
	} {
		t.Run(name, func(t *testing.T) {
			scanner := scannerWith(withNewerTags)
			if tt.mutate != nil {
				tt.mutate(scanner)
			}
			p := makePlan(scanner, tt.world.observed, Limits{Scans: 6, PerRegistry: 4}, Recatalog{}, now)
			got := ""
			if p.lookup != nil {
				got = p.lookup.Lookup.ID
			}
			if got != tt.want || p.next != tt.next || p.running+p.recataloging != len(p.start) {
				t.Errorf("%q, next after %s, %d running; want %q, %s", got, p.next, p.running, tt.want, tt.next)
			}
		})
	}
}

func TestLookupRequest(t *testing.T) {
	w := newWorld().tagged("a", "1.0", model.SeverityCounts{High: 1}).also("a", "second").also("a", "free").lookup("a")
	w.home.Namespace = "operator"
	w.containers[0].PullSecrets, w.containers[1].PullSecrets = []string{"pull"}, []string{"pull-2"}
	w.lookups[0].Namespaces = []string{"free", "ns-a", "second"}
	w.lookups[0].Repository = "other.example/a"
	scanner := scannerWith(withNewerTags)
	scanner.Spec.NewerTags.Limit = new(int32(2))
	var places []string
	for failures := range 4 {
		w.lookups[0].Failures, w.lookups[0].Attempts, w.lookups[0].Failure.Reason = failures, failures, model.ReasonImagePullDenied
		req := makePlan(scanner, w.observed, DefaultLimits(), Recatalog{}, now).lookup
		places = append(places, fmt.Sprint(req.Namespace, " for ", req.For, " with ", req.PullSecrets))
		want := &scanjob.Lookup{ID: "id-a", Reference: "other.example/a:1.0", Limit: 2}
		key := model.ImageKey{ImageID: "other.example/a@" + imageKey("a").Digest(), Platform: imageKey("a").Platform}
		if diff := cmp.Diff(want, req.Lookup); diff != "" || req.Key != key || req.Volume != nil || req.Name != scanjob.Name(key, "nonce-a", failures) || req.Attempt != failures {
			t.Errorf("%+v (-want +got):\n%s", req, diff)
		}
	}
	// Without credentials first, then with those of each namespace that has some, since the registry denies.
	want := []string{"operator for free with []", "ns-a for ns-a with [pull]", "second for second with [pull-2]", "operator for free with []"}
	if diff := cmp.Diff(want, places); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
	// Another failure is no reason to let the namespaces decide.
	w.lookups[0].Failures, w.lookups[0].Failure.Reason = 1, model.ReasonRegistryUnavailable
	if req := makePlan(scanner, w.observed, DefaultLimits(), Recatalog{}, now).lookup; req.Namespace != "operator" {
		t.Errorf("runs in %s after a failure that is not about credentials", req.Namespace)
	}
	// Others run the image with another tag.
	w.lookups[0].Namespaces, w.lookups[0].Failures = []string{"second"}, 0
	if req := makePlan(scanner, w.observed, DefaultLimits(), Recatalog{}, now).lookup; req.Namespace != "second" {
		t.Errorf("runs in %s, whose containers have another tag", req.Namespace)
	}
}

// tagMemory is a Store that knows lookups.
type tagMemory struct {
	memory
	known   []string
	lookups map[string]*store.TagLookup
	failed  []string
	// broken, unpaused and unlisted are what FailTagLookup, PauseRegistry and KnownTagDigests fail with, and tries counts that.
	broken, unpaused, unlisted error
	tries                      int
}

func (m *tagMemory) PauseRegistry(context.Context, store.RegistryPause) error {
	if m.unpaused != nil {
		m.tries++
	}
	return m.unpaused
}

func (m *tagMemory) WantTagLookups(_ context.Context, scope string, wanted []store.WantedTags) ([]store.TagLookup, error) {
	var found []store.TagLookup
	for _, w := range wanted {
		id := fmt.Sprint(scope, " ", w.Repository, ":", w.Tag)
		if m.lookups[id] == nil {
			m.lookups[id] = &store.TagLookup{ID: id, Nonce: "nonce", WantedTags: w}
		}
		found = append(found, *m.lookups[id])
	}
	return found, nil
}

func (m *tagMemory) KnownTagDigests(_ context.Context, scope, namespace, repository string, platform model.Platform, cataloger string, limit int) ([]string, error) {
	if m.unlisted != nil && repository == "r.example/a" {
		m.tries++
		return nil, m.unlisted
	}
	if repository == "r.example/b" {
		return nil, nil
	}
	if scope != "ns/s" || namespace != "ns" || repository != "r.example/a" || platform != imageKey("a").Platform || cataloger != "syft" || limit != scanjob.MaxKnown {
		return nil, fmt.Errorf("digests of %s %s %s %s", scope, repository, platform, cataloger)
	}
	return m.known, nil
}

func (m *tagMemory) FailTagLookup(_ context.Context, id string, attempt int, outcome model.Outcome, namespace string, next time.Time) (bool, error) {
	if m.broken != nil {
		m.tries++
		return false, m.broken
	}
	lookup := m.lookups[id]
	if lookup == nil || lookup.Attempts != attempt {
		return false, nil
	}
	lookup.Attempts, lookup.Failures, lookup.NextAttempt, lookup.Failure, lookup.For = attempt+1, lookup.Failures+1, next, outcome, namespace
	m.failed = append(m.failed, fmt.Sprint(outcome.Reason, " ", namespace))
	return true, nil
}

func taggedPod() *corev1.Pod {
	pod := podOf("a", imageKey("a").ImageID, time.Hour)
	pod.Spec.Containers[0].Image = "r.example/a:1.0"
	return pod
}

func newTagMemory() *tagMemory {
	image := store.Image{ImageState: store.ImageState{Key: imageKey("a"), State: store.StateScanned, Nonce: "image"}, Cataloger: "syft"}
	image.Counts.High = 1
	return &tagMemory{memory: memory{imageKey("a"): image}, known: []string{"sha256:1"}, lookups: map[string]*store.TagLookup{}}
}

func tagsComplete(s *scannerv1.Scanner) string {
	condition := meta.FindStatusCondition(s.Status.Conditions, scannerv1.ConditionNewerTagsComplete)
	if condition == nil {
		return ""
	}
	return string(condition.Status) + " " + condition.Reason
}

// TestLookupsOfNewerTags follows one lookup: it fails, is tried again with growing waits, and succeeds.
func TestLookupsOfNewerTags(t *testing.T) {
	known, cataloger := newTagMemory(), &starter{attempts: map[string]Attempt{}}
	r, _ := newReconciler(t, known, cataloger, scannerWith(withNewerTags), taggedPod())
	clk := testclock.NewFakeClock(now)
	r.Clock, r.Recatalog = clk, Recatalog{Cataloger: "syft"}
	_, scanner := reconcileOnce(t, r)
	if got := tagsComplete(scanner); got != "False LookupsPending" || len(cataloger.requests) != 1 {
		t.Fatalf("%s, requests %+v", got, cataloger.requests)
	}
	if got := cataloger.requests[0].Lookup; got == nil || got.Reference != "r.example/a:1.0" || got.Limit != 3 || !slices.Equal(got.Known, known.known) {
		t.Errorf("%+v", got)
	}
	if ready := meta.FindStatusCondition(scanner.Status.Conditions, scannerv1.ConditionReady); ready.Reason == string(scannerv1.Scanning) {
		t.Error("a lookup makes the Scanner scan")
	}
	lookup := func() *store.TagLookup { return known.lookups["ns/s r.example/a:1.0"] }
	end := func(outcome model.Outcome) {
		t.Helper()
		name := lookupName(lookup())
		attempt := cataloger.attempts[name]
		attempt.Done, attempt.Outcome = true, outcome
		cataloger.attempts[name] = attempt
	}
	var waits []time.Duration
	for range 4 {
		reconcileOnce(t, r) // It is not started twice.
		end(model.Outcome{Reason: model.ReasonImagePullDenied, Message: "denied"})
		_, scanner = reconcileOnce(t, r)
		waits = append(waits, lookup().NextAttempt.Sub(clk.Now()))
		if got := tagsComplete(scanner); got != "False LookupsFailed" {
			t.Error(got)
		}
		clk.SetTime(lookup().NextAttempt)
		reconcileOnce(t, r)
	}
	if diff := cmp.Diff([]time.Duration{backoff(0, imageKey("a")), backoff(1, imageKey("a")), 24 * time.Hour, 24 * time.Hour}, waits); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
	if len(cataloger.requests) != 5 {
		t.Errorf("%d lookups were started, want 5", len(cataloger.requests))
	}
	// The result arrives before the Job ends.
	lookup().Attempts, lookup().Failures, lookup().LookedUpAt, lookup().Failure, lookup().NextAttempt = lookup().Attempts+1, 0, clk.Now(), model.Outcome{}, time.Time{}
	_, scanner = reconcileOnce(t, r)
	if got := tagsComplete(scanner); got != "True LookedUp" || len(cataloger.requests) != 5 {
		t.Errorf("%s, %d lookups", got, len(cataloger.requests))
	}
	// A Job that succeeds without a result has failed.
	delete(cataloger.attempts, scanjob.Name(imageKey("a"), "nonce", lookup().Attempts-1))
	clk.Step(27 * time.Hour)
	reconcileOnce(t, r)
	end(model.Outcome{})
	reconcileOnce(t, r)
	if got := lookup().Failure.Reason; got != model.ReasonUploadFailed {
		t.Errorf("a result that did not arrive: %q", got)
	}

	// Without spec.newerTags, nothing is wanted and the condition goes.
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(scanner), scanner); err != nil {
		t.Fatal(err)
	}
	scanner.Spec.NewerTags = nil
	if err := r.Client.Update(t.Context(), scanner); err != nil {
		t.Fatal(err)
	}
	if _, scanner = reconcileOnce(t, r); tagsComplete(scanner) != "" {
		t.Errorf("the condition stays: %s", tagsComplete(scanner))
	}
}

func TestLookupsThatCannotStart(t *testing.T) {
	for name, tt := range map[string]struct {
		cataloger *starter
		mutate    func(*Reconciler, *scannerv1.Scanner)
		condition string
		failed    []string
	}{
		"refused":       {&starter{refuse: "r.example", attempts: map[string]Attempt{}}, nil, "False LookupsFailed", []string{"Unschedulable ns"}},
		"spec.job":      {&starter{invalid: &specError{"spec.job"}, attempts: map[string]Attempt{}}, nil, "False LookupsFailed", []string{"Unschedulable ns"}},
		"not supported": {&starter{attempts: map[string]Attempt{}}, func(r *Reconciler, _ *scannerv1.Scanner) { r.NoNewerTags = "no Jobs" }, "False NotSupported", nil},
		"left out":      {&starter{attempts: map[string]Attempt{}}, func(_ *Reconciler, s *scannerv1.Scanner) { s.Spec.NewerTags.MaxImages = new(int32(0)) }, "False ImagesOmitted", nil},
	} {
		t.Run(name, func(t *testing.T) {
			known := newTagMemory()
			scanner := scannerWith(withNewerTags)
			r, _ := newReconciler(t, known, tt.cataloger)
			r.Recatalog.Cataloger = "syft"
			if tt.mutate != nil {
				tt.mutate(r, scanner)
			}
			for _, object := range []client.Object{scanner, taggedPod()} {
				if err := r.Client.Create(t.Context(), object); err != nil {
					t.Fatal(err)
				}
			}
			_, scanner = reconcileOnce(t, r)
			if diff := cmp.Diff(tt.failed, known.failed); diff != "" || tagsComplete(scanner) != tt.condition || len(tt.cataloger.requests) > 0 {
				t.Errorf("%s, started %v (-want +got):\n%s", tagsComplete(scanner), tt.cataloger.requests, diff)
			}
		})
	}
}

// TestALookupThatFailsStopsNoOther: errors about one lookup keep no scan from being started, and no other lookup.
func TestALookupThatFailsStopsNoOther(t *testing.T) {
	broken := errors.New("a row is too long")
	newPod := podOf("new", imageKey("new").ImageID, time.Minute)
	for name, tt := range map[string]struct {
		// fails has the error occur, after the lookup was started if it has an outcome.
		fails   func(*tagMemory, *starter)
		outcome model.Reason
	}{
		"its end cannot be recorded":     {func(m *tagMemory, _ *starter) { m.broken = broken }, model.ReasonImagePullDenied},
		"its registry cannot be paused":  {func(m *tagMemory, _ *starter) { m.unpaused = broken }, model.ReasonRegistryRateLimited},
		"it cannot be started":           {func(_ *tagMemory, c *starter) { c.broken = map[string]error{"r.example/a@": broken} }, ""},
		"what is known cannot be listed": {func(m *tagMemory, _ *starter) { m.unlisted = broken }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			known, cataloger := newTagMemory(), &starter{attempts: map[string]Attempt{}}
			second := known.memory[imageKey("a")]
			second.Key, second.Counts.High = imageKey("b"), 0
			second.Counts.Low = 1
			known.memory[imageKey("b")] = second
			other := podOf("b", imageKey("b").ImageID, time.Hour)
			other.Spec.Containers[0].Image = "r.example/b:1.0"
			r, _ := newReconciler(t, known, cataloger, scannerWith(withNewerTags), taggedPod(), other)
			r.Recatalog.Cataloger = "syft"
			clk := clockOf(r)
			if tt.outcome == "" {
				tt.fails(known, cataloger)
			}
			reconcileOnce(t, r)
			if tt.outcome != "" {
				tt.fails(known, cataloger)
				attempt := cataloger.attempts[scanjob.Name(imageKey("a"), "nonce", 0)]
				attempt.Done, attempt.Outcome = true, model.Outcome{Reason: tt.outcome}
				cataloger.attempts[scanjob.Name(imageKey("a"), "nonce", 0)] = attempt
			}
			if err := r.Client.Create(t.Context(), newPod.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			result, scanner := reconcileOnce(t, r)
			if ready := meta.FindStatusCondition(scanner.Status.Conditions, scannerv1.ConditionReady); ready.Reason == string(scannerv1.Failed) || result.RequeueAfter > retryRead {
				t.Errorf("%+v, next after %s; want the Scanner ready, and another try within %s", ready, result.RequeueAfter, retryRead)
			}
			if !slices.Contains(cataloger.started, imageKey("new")) {
				t.Errorf("started %v, want the new image", cataloger.started)
			}
			known.memory[imageKey("new")] = store.Image{ImageState: store.ImageState{Key: imageKey("new"), State: store.StateScanned}}
			delete(cataloger.attempts, scanjob.Name(imageKey("new"), "nonce", 0))
			reconcileOnce(t, r)
			if !slices.Contains(cataloger.started, imageKey("b")) {
				t.Errorf("started %v, want the other lookup", cataloger.started)
			}
			// It waits longer each time, and is tried again.
			delete(cataloger.attempts, scanjob.Name(imageKey("b"), "nonce", 0))
			known.lookups["ns/s r.example/b:1.0"].LookedUpAt = clk.Now()
			tries := known.tries + cataloger.tries
			for range 30 {
				clk.Step(10 * time.Second)
				reconcileOnce(t, r)
			}
			if tries = known.tries + cataloger.tries - tries; tries < 3 || tries > 7 {
				t.Errorf("%d tries in five minutes, want some", tries)
			}
			known.broken, known.unpaused, known.unlisted, cataloger.broken = nil, nil, nil, nil
			clk.Step(maxLookupWait)
			reconcileOnce(t, r)
			clk.Step(time.Hour)
			reconcileOnce(t, r)
			if last := cataloger.started[len(cataloger.started)-1]; last != imageKey("a") {
				t.Errorf("started %v, want the lookup at last", cataloger.started)
			}
		})
	}
}

// TestLimitedRegistryPausesLookups: a registry that limits requests is asked by no other lookup with the same credentials until the pause ends.
func TestLimitedRegistryPausesLookups(t *testing.T) {
	w := newWorld().tagged("a", "1.0", model.SeverityCounts{High: 1}).tagged("b", "1.0", model.SeverityCounts{High: 1}).lookup("a").lookup("b").in("ns")
	for i := range w.lookups {
		w.lookups[i].Namespaces = []string{"ns"}
	}
	r, _ := newReconciler(t, memory{}, &starter{})
	attempt := Attempt{Key: imageKey("a"), Lookup: "id-a", Namespace: "ns", For: "ns", Outcome: model.Outcome{Reason: model.ReasonRegistryRateLimited, RetryAfter: time.Hour}}
	if err := r.failLookup(t.Context(), scannerWith(withNewerTags), w.observed, &w.lookups[0], attempt, time.Hour); err != nil {
		t.Fatal(err)
	}
	if p := makePlan(scannerWith(withNewerTags), w.observed, DefaultLimits(), Recatalog{}, now); p.lookup != nil {
		t.Errorf("%s is looked up during the pause", p.lookup.Lookup.ID)
	}
}

func TestTagsOfReferences(t *testing.T) {
	key := func(image string) model.ImageKey {
		return model.ImageKey{ImageID: image + "@sha256:" + strings.Repeat("a", 64), Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
	}
	for _, tt := range []struct{ reference, image, want string }{
		{"nginx:1.27", "docker.io/library/nginx", "docker.io/library/nginx:1.27"},
		{"nginx:1.27", "mirror.example/nginx", "mirror.example/nginx:1.27"},
		{"team/app:2", "docker.io/team/app", "docker.io/team/app:2"},
		{"localhost/app:2", "r.example/app", "localhost/app:2"},
		{"localhost:5000/app:2", "r.example/app", "localhost:5000/app:2"},
		{"r.example/app:2.1-alpine@sha256:" + strings.Repeat("b", 64), "r.example/app", "r.example/app:2.1-alpine"},
		{"r.example:5000/app", "r.example/app", ":"},
		{"nginx", "docker.io/library/nginx", ":"},
		{"r.example/app:stable", "r.example/app", ":"},
		{"r.example/APP:1.0", "r.example/app", ":"},
	} {
		repository, tag := taggedBy(&inventory.Container{Image: tt.reference, Key: key(tt.image)})
		if got := repository + ":" + tag; got != tt.want {
			t.Errorf("%s: %s, want %s", tt.reference, got, tt.want)
		}
	}
	if _, tag := taggedBy(&inventory.Container{Image: "r.example/app:1.0", Key: model.ImageKey{ImageID: key("r.example/app").ImageID}}); tag != "" {
		t.Error("an image whose platform is not known is looked up")
	}
}
