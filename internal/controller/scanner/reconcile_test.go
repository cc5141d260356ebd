package scanner

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/metrics"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

func testScheme(tb testing.TB) *runtime.Scheme {
	tb.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), scannerv1.AddToScheme(scheme)); err != nil {
		tb.Fatal(err)
	}
	return scheme
}

// memory is a Store that knows images by their keys.
type memory map[model.ImageKey]store.Image

func (m memory) WantImages(_ context.Context, keys []model.ImageKey) (map[model.ImageKey]store.Image, error) {
	found := map[model.ImageKey]store.Image{}
	for _, key := range keys {
		if _, known := m[key]; !known {
			m[key] = store.Image{ImageState: store.ImageState{Key: key, State: store.StatePending, Nonce: "nonce"}}
		}
		found[key] = m[key]
	}
	return found, nil
}

func (m memory) CountsWithin(context.Context, store.Namespaces, []model.ImageKey) (map[model.ImageKey]store.Counts, error) {
	return nil, nil
}

func (m memory) RecordFailure(_ context.Context, key model.ImageKey, attempt int, outcome model.Outcome, next time.Time) (bool, error) {
	image, known := m[key]
	if !known || image.Attempts != attempt {
		return false, nil
	}
	image.Attempts, image.NextAttempt = attempt+1, next
	if !cataloged(&image) {
		image.State, image.Reason, image.Message = store.StateFailed, outcome.Reason, outcome.Message
	}
	m[key] = image
	return true, nil
}

func (m memory) EndAttempt(_ context.Context, key model.ImageKey, attempt int, next time.Time) (bool, error) {
	image, known := m[key]
	if !known || image.Attempts != attempt {
		return false, nil
	}
	image.Attempts, image.NextAttempt = attempt+1, next
	m[key] = image
	return true, nil
}

func (m memory) BeginRecatalog(_ context.Context, key model.ImageKey, attempt int, cataloger string, _ int) (bool, error) {
	image, known := m[key]
	if !known || image.Attempts != attempt {
		return false, nil
	}
	image.Recatalog = store.Recatalog{Cataloger: cataloger, Open: true}
	m[key] = image
	return true, nil
}

func (m memory) RetryPartial(_ context.Context, key model.ImageKey, attempt int) (bool, error) {
	image, known := m[key]
	if !known || image.Attempts != attempt || !image.Partial() {
		return false, nil
	}
	image.Recatalog.Open = true
	m[key] = image
	return true, nil
}

func (memory) RecordQueued(context.Context, model.ImageKey, int) (bool, error) { return true, nil }

func (memory) RecordChange(context.Context, store.ObjectChange) error { return nil }

func (memory) RecordUses(context.Context, string, []store.Use) error { return nil }

func (memory) AddUses(context.Context, string, []store.Use) error { return nil }

func (memory) RecordCoverage(context.Context, string, []store.ContainerCoverage) error { return nil }

func (m memory) RaiseSizeClass(_ context.Context, repository string, class model.SizeClass) error {
	// As strict as the SQL store.
	if err := (model.ImageKey{ImageID: repository}).Validate(); err != nil {
		return err
	}
	for key, image := range m {
		if key.Repository() == repository {
			image.SizeClass = class
			m[key] = image
		}
	}
	return nil
}

func (memory) RegistryPauses(context.Context) ([]store.RegistryPause, error) { return nil, nil }

func (memory) PauseRegistry(context.Context, store.RegistryPause) error { return nil }

func (memory) Scopes(context.Context) ([]string, error) { return nil, nil }

func (memory) ForgetScope(context.Context, string) error { return nil }

func (memory) ExpireUses(context.Context, string, time.Time) error { return nil }

func (memory) ForgetImages(context.Context, time.Time, int) ([]model.ImageKey, error) {
	return nil, nil
}

func (memory) WantTagLookups(_ context.Context, _ string, wanted []store.WantedTags) ([]store.TagLookup, error) {
	return make([]store.TagLookup, len(wanted)), nil
}

func (memory) KnownTagDigests(context.Context, string, string, string, model.Platform, string, int) ([]string, error) {
	return nil, nil
}

func (memory) FailTagLookup(context.Context, string, int, model.Outcome, string, time.Time) (bool, error) {
	return false, nil
}

func (memory) Changes(context.Context, store.Namespaces, store.ChangeQuery) (store.ChangePage, error) {
	return store.ChangePage{}, nil
}

// starter is a Cataloger whose attempts are under way once they are started.
type starter struct {
	refuse  string
	invalid *specError
	// failing are what the API server says to starts, by namespace.
	failing  map[string]error
	attempts map[string]Attempt
	started  []model.ImageKey
	requests []scanjob.Request
	tried    []string              // The namespaces of starts that failed.
	took     func(scanjob.Request) // What happens during a start; nil for nothing.
	refused  map[string]bool       // The namespaces whose starts are refused.
	hurried  int                   // How many starts had little time.
	broken   map[string]error      // What fails about the starts of images with a name.
	tries    int                   // How many of those there were.
}

func (s *starter) Attempts(context.Context) (map[string]Attempt, error) {
	return maps.Clone(s.attempts), nil
}

func (*starter) DeleteEnded(context.Context) time.Duration { return 0 }

func (s *starter) Start(ctx context.Context, _ types.NamespacedName, req scanjob.Request) error {
	err := callAPI(ctx, func(ctx context.Context) error {
		if _, limited := ctx.Deadline(); limited {
			s.hurried++
		}
		if s.took != nil {
			s.took(req)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if s.refused[req.Namespace] || s.refuse != "" && strings.Contains(req.Key.ImageID, s.refuse) {
		return &RefusedError{model.Outcome{Reason: model.ReasonUnschedulable, Message: "no room"}}
	}
	for name, err := range s.broken {
		if strings.HasPrefix(req.Key.ImageID, name) {
			s.tries++
			return err
		}
	}
	if s.invalid != nil {
		return s.invalid
	}
	if err := s.failing[req.Namespace]; err != nil {
		s.tried = append(s.tried, req.Namespace)
		return &NamespaceError{req.Namespace, err}
	}
	attempt := Attempt{
		Key: req.Key, ScannerUID: req.ScannerUID, SizeClass: req.SizeClass, Namespace: req.Namespace, For: req.For, JobSpec: req.JobSpec,
		Volume: req.Volume != nil,
	}
	if req.Lookup != nil {
		attempt.Lookup = req.Lookup.ID
	}
	s.attempts[req.Name] = attempt
	s.started, s.requests = append(s.started, req.Key), append(s.requests, req)
	return nil
}

func (*starter) Mounts(string) bool { return true }

func (*starter) Made(*corev1.Pod) bool { return false }

func (*starter) Grow(_ corev1.ResourceRequirements, class model.SizeClass) (model.SizeClass, bool) {
	return class.Next()
}

type noDatabase struct{}

func (noDatabase) Build() (model.DatabaseBuild, bool) { return model.DatabaseBuild{}, false }

func (noDatabase) Missing() (reason, message string) { return "", "" }

func podOf(name, imageID string, age time.Duration) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "c"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "c", ImageID: imageID}},
		},
	}
}

func newReconciler(tb testing.TB, s Store, cataloger Cataloger, objects ...client.Object) (*Reconciler, *events.FakeRecorder) {
	tb.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{
		corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
	}}}
	recorder := events.NewFakeRecorder(100)
	shown, err := metrics.NewScans(prometheus.NewRegistry())
	if err != nil {
		tb.Fatal(err)
	}
	r := &Reconciler{
		Client: fake.NewClientBuilder().WithScheme(testScheme(tb)).WithStatusSubresource(&scannerv1.Scanner{}).
			WithObjects(append(objects, node)...).Build(),
		Store: s, Cataloger: cataloger, Databases: noDatabase{}, Recorder: recorder,
		Clock: testclock.NewFakeClock(now), Namespace: "operator", Limits: DefaultLimits(), Metrics: shown,
	}
	r.statuses = kube.NewStatusWriter(r.Client, statusesPerSecond, r.Clock)
	r.reconciles = &agenda{clock: clockOf(r)}
	return r, recorder
}

func reconcileOnce(t *testing.T, r *Reconciler) (ctrl.Result, *scannerv1.Scanner) {
	t.Helper()
	name := types.NamespacedName{Namespace: "ns", Name: "s"}
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: name})
	if err != nil {
		t.Fatal(err)
	}
	scanner := &scannerv1.Scanner{}
	if err := r.Client.Get(t.Context(), name, scanner); err != nil {
		t.Fatal(err)
	}
	return result, scanner
}

func TestRefusedStartDoesNotBlockOthers(t *testing.T) {
	refused, fine := imageKey("refused"), imageKey("fine")
	known, cataloger := memory{}, &starter{refuse: "refused", attempts: map[string]Attempt{}}
	r, _ := newReconciler(t, known, cataloger, scannerWith(func(s *scannerv1.Scanner) { s.Spec.Concurrency = new(int32(1)) }),
		podOf("a", refused.ImageID, 2*time.Hour), podOf("b", fine.ImageID, time.Hour))

	result, _ := reconcileOnce(t, r)
	if known[refused].Reason != model.ReasonUnschedulable || !known[refused].NextAttempt.After(now) {
		t.Errorf("the refused image: %+v, want it failed with a time of the next attempt", known[refused])
	}
	if result.RequeueAfter != retryRefused {
		t.Errorf("reconciled again after %s, want %s", result.RequeueAfter, retryRefused)
	}
	_, scanner := reconcileOnce(t, r)
	if len(cataloger.started) != 1 || cataloger.started[0] != fine {
		t.Errorf("started %v, want the other image alone", cataloger.started)
	}
	if ready := meta.FindStatusCondition(scanner.Status.Conditions, scannerv1.ConditionReady); ready == nil || ready.Reason != string(scannerv1.Scanning) {
		t.Errorf("Ready: %+v, want Scanning", ready)
	}
}

func TestJobsStartTellsARefusalFromAFailure(t *testing.T) {
	job := schema.GroupResource{Group: "batch", Resource: "jobs"}
	tests := map[string]struct {
		err     error
		refused bool
	}{
		"quota or admission":  {apierrors.NewForbidden(job, "scan", errors.New("exceeded quota")), true},
		"not valid":           {apierrors.NewInvalid(schema.GroupKind{Group: "batch", Kind: "Job"}, "scan", nil), true},
		"namespace is gone":   {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop"), true},
		"webhook is away":     {apierrors.NewInternalError(errors.New("failed calling webhook: no endpoints")), true},
		"server has trouble":  {apierrors.NewInternalError(errors.New("etcd")), false},
		"too many requests":   {apierrors.NewTooManyRequestsError("later"), false},
		"server is not there": {errors.New("connection refused"), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithScheme(testScheme(t)).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return tt.err },
			}).Build()
			jobs := NewJobs(c, c, recorded{}, testclock.NewFakeClock(now), scanjob.DefaultOptions())
			err := jobs.Start(t.Context(), types.NamespacedName{Namespace: "ns", Name: "s"}, scanjob.Request{
				Name: "scan", Namespace: "shop", Key: imageKey("a"),
			})
			if _, refused := errors.AsType[*RefusedError](err); err == nil || refused != tt.refused {
				t.Errorf("Start: %v, refused %t, want %t", err, refused, tt.refused)
			}
			if failed, ok := errors.AsType[*NamespaceError](err); ok == tt.refused || ok && failed.Namespace != "shop" {
				t.Errorf("Start: %v, want an error of the namespace unless the start is refused", err)
			}
			attempts, err := jobs.Attempts(t.Context())
			if err != nil || len(attempts) != 0 {
				t.Errorf("attempts %v, %v; want none", attempts, err)
			}
		})
	}
}

// fail ends the attempt at an image that is under way.
func (s *starter) fail(t *testing.T, known memory, key model.ImageKey, outcome model.Outcome) {
	t.Helper()
	name := scanjob.Name(key, "nonce", known[key].Attempts)
	attempt, started := s.attempts[name]
	if !started {
		t.Fatalf("attempt %d was not started", known[key].Attempts)
	}
	attempt.Done, attempt.Outcome = true, outcome
	s.attempts[name] = attempt
}

func TestOutOfMemoryGetsMoreOfIt(t *testing.T) {
	key := imageKey("a")
	known, cataloger := memory{}, &starter{attempts: map[string]Attempt{}}
	r, recorder := newReconciler(t, known, cataloger, scannerWith(nil), podOf("a", key.ImageID, time.Hour))
	clk := testclock.NewFakeClock(now)
	r.Clock = clk
	var classes []model.SizeClass
	var pauses []time.Duration
	for range 4 {
		reconcileOnce(t, r)
		attempt := cataloger.attempts[scanjob.Name(key, "nonce", known[key].Attempts)]
		classes = append(classes, attempt.SizeClass)
		cataloger.fail(t, known, key, model.Outcome{Reason: model.ReasonOutOfMemory, Message: "killed"})
		reconcileOnce(t, r)
		pause := known[key].NextAttempt.Sub(clk.Now())
		pauses = append(pauses, pause)
		clk.Step(pause)
	}
	if diff := cmp.Diff([]model.SizeClass{model.SizeSmall, model.SizeMedium, model.SizeLarge, model.SizeLarge}, classes); diff != "" {
		t.Errorf("size classes (-want +got):\n%s", diff)
	}
	want := []time.Duration{backoff(0, key), backoff(0, key), backoff(2, key), backoff(3, key)}
	if diff := cmp.Diff(want, pauses); diff != "" {
		t.Errorf("pauses (-want +got):\n%s", diff)
	}
	if len(recorder.Events) != 4 {
		t.Errorf("%d events, want one for each attempt", len(recorder.Events))
	}
}

func TestTwoScannersOfOneImage(t *testing.T) {
	key := imageKey("a")
	known, cataloger := memory{}, &starter{attempts: map[string]Attempt{}}
	second := scannerWith(func(s *scannerv1.Scanner) { s.Name, s.UID = "second", "second" })
	r, _ := newReconciler(t, known, cataloger, scannerWith(nil), second, podOf("a", key.ImageID, time.Hour))
	reconcileOnce(t, r)
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(second)}); err != nil {
		t.Fatal(err)
	}
	if len(cataloger.started) != 1 {
		t.Errorf("started %v, want the image once", cataloger.started)
	}
	var read scannerv1.Scanner
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(second), &read); err != nil || read.Status.Containers.Total != 1 {
		t.Errorf("the second Scanner is not served: %+v, %v", read.Status, err)
	}
}

// A longer note is refused by the API server, and nobody would see the event.
func TestEventsFitTheirLimit(t *testing.T) {
	key := imageKey("a")
	known := memory{}
	name := scanjob.Name(key, "nonce", 0)
	cataloger := &starter{attempts: map[string]Attempt{name: {
		ScannerUID: "me", Done: true, Outcome: model.Outcome{Reason: model.ReasonCatalogFailed, Message: strings.Repeat("ü", 2000)},
	}}}
	r, recorder := newReconciler(t, known, cataloger, scannerWith(nil), podOf("a", key.ImageID, time.Hour))
	reconcileOnce(t, r)
	select {
	case event := <-recorder.Events:
		if note := strings.TrimPrefix(event, "Warning ScanFailed "); len(note) > kube.MaxNote || strings.ContainsRune(note, '\uFFFD') {
			t.Errorf("the note has %d bytes, more than %d, or half a rune", len(note), kube.MaxNote)
		}
	default:
		t.Error("no event")
	}
}

func TestScansOfVanishedPodsKeepTheirSlots(t *testing.T) {
	gone, next := imageKey("gone"), imageKey("next")
	known, cataloger := memory{}, &starter{attempts: map[string]Attempt{}}
	pod := podOf("a", gone.ImageID, time.Hour)
	r, _ := newReconciler(t, known, cataloger, scannerWith(func(s *scannerv1.Scanner) { s.Spec.Concurrency = new(int32(1)) }), pod)
	reconcileOnce(t, r)
	if err := errors.Join(r.Client.Delete(t.Context(), pod), r.Client.Create(t.Context(), podOf("b", next.ImageID, time.Minute))); err != nil {
		t.Fatal(err)
	}
	_, scanner := reconcileOnce(t, r)
	if len(cataloger.started) != 1 || cataloger.started[0] != gone {
		t.Fatalf("started %v, want the first image alone until its scan has ended", cataloger.started)
	}
	if ready := meta.FindStatusCondition(scanner.Status.Conditions, scannerv1.ConditionReady); ready == nil || ready.Reason != string(scannerv1.Waiting) {
		t.Errorf("Ready: %+v, want Waiting", ready)
	}
	name := scanjob.Name(gone, "nonce", 0)
	cataloger.attempts[name] = Attempt{Key: gone, ScannerUID: "me", Done: true}
	if reconcileOnce(t, r); len(cataloger.started) != 2 || cataloger.started[1] != next {
		t.Errorf("started %v, want the second image now", cataloger.started)
	}
}

func TestConflictIsNoFailure(t *testing.T) {
	r, _ := newReconciler(t, memory{}, &starter{attempts: map[string]Attempt{}}, scannerWith(nil))
	inner, _ := r.Client.(client.WithWatch)
	r.Client = interceptor.NewClient(inner, interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return apierrors.NewConflict(schema.GroupResource{Resource: "scanners"}, "s", errors.New("changed"))
		},
	})
	r.statuses = kube.NewStatusWriter(r.Client, statusesPerSecond, r.Clock)
	result, _ := reconcileOnce(t, r)
	if result != kube.RetryConflict {
		t.Errorf("%+v, want another try after a growing pause", result)
	}
}
