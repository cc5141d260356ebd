package scanner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func imageKey(name string) model.ImageKey {
	return model.ImageKey{
		ImageID:  "r.example/" + name + "@sha256:" + strings.Repeat("a", 64),
		Platform: model.Platform{OS: "linux", Architecture: "amd64"},
	}
}

// world builds a view in which one pod runs each image.
type world struct{ *observed }

func newWorld() world {
	return world{&observed{images: map[model.ImageKey]store.Image{}, attempts: map[string]Attempt{}, pauses: map[credential]store.RegistryPause{}, operator: "operator", queues: &queues{}}}
}

func (w world) runs(name string, state store.ImageState) world {
	key := imageKey(name)
	state.Key, state.Nonce = key, "nonce-"+name
	w.images[key] = store.Image{ImageState: state}
	w.containers = append(w.containers, inventory.Container{Namespace: "ns-" + name, Pod: name, Name: "c", Key: key})
	return w
}

func (w world) attempt(name, scannerUID string, done bool) world {
	attempt := Attempt{Key: imageKey(name), ScannerUID: scannerUID, Done: done}
	w.attempts[w.attemptName(imageKey(name))] = attempt
	if !done {
		w.active = append(w.active, attempt)
	}
	return w
}

// elsewhere adds attempts of another Scanner at images that this one does not want.
func (w world) elsewhere(registry string, count int) world {
	for i := range count {
		key := imageKey(fmt.Sprint("elsewhere-", i))
		key.ImageID = registry + strings.TrimPrefix(key.ImageID, "r.example")
		w.active = append(w.active, Attempt{Key: key, ScannerUID: "other"})
	}
	return w
}

// paused pauses the registry for a while, for the credentials of namespaces.
func (w world) paused(pause time.Duration, namespaces ...string) world {
	for _, namespace := range namespaces {
		w.pauses[credential{"r.example", namespace}] = store.RegistryPause{Host: "r.example", Namespace: namespace, Until: now.Add(pause)}
	}
	return w
}

// also runs an image in one more namespace.
func (w world) also(name, namespace string) world {
	w.containers = append(w.containers, inventory.Container{Namespace: namespace, Pod: name, Name: "c", Key: imageKey(name)})
	return w
}

// contended has other namespaces wait for many slots of the operator.
func (w world) contended(others int) world {
	waiting := map[string]int{}
	for i := range others {
		waiting[fmt.Sprint("other-", i)] = 100
	}
	w.queues.set(types.NamespacedName{Namespace: "other", Name: "s"}, demand{limitOperator: waiting})
	return w
}

// waited has the Scanner's images in a namespace wait for slots of the operator.
func (w world) waited(namespace string) world {
	w.queues.set(client.ObjectKeyFromObject(scannerWith(nil)), demand{limitOperator: {namespace: 100}})
	return w
}

// in moves all that runs to a namespace.
func (w world) in(namespace string) world {
	for i := range w.containers {
		w.containers[i].Namespace = namespace
	}
	for i := range w.active {
		w.active[i].Namespace = namespace
	}
	return w
}

// stuck adds attempts in a namespace whose pods have not started for a while.
func (w world) stuck(namespace string, count int, since time.Duration) world {
	for i := range count {
		w.active = append(w.active, Attempt{Key: imageKey(fmt.Sprint("stuck-", i)), ScannerUID: "me", Namespace: namespace, Created: now.Add(-since)})
	}
	return w
}

func scannerWith(mutate func(*scannerv1.Scanner)) *scannerv1.Scanner {
	s := &scannerv1.Scanner{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", UID: "me"}}
	s.Spec.Concurrency = new(int32(2))
	if mutate != nil {
		mutate(s)
	}
	return s
}

func TestMakePlan(t *testing.T) {
	pending := store.ImageState{State: store.StatePending}
	failed := func(in time.Duration) store.ImageState {
		return store.ImageState{State: store.StateFailed, Attempts: 2, NextAttempt: now.Add(in)}
	}
	type want struct {
		start           []string
		running, queued int
		next            time.Duration
		// contends: images wait for slots of the operator.
		contends bool
	}
	wide := scannerWith(func(s *scannerv1.Scanner) { s.Spec.Concurrency = new(int32(50)) })
	tests := map[string]struct {
		scanner *scannerv1.Scanner
		world   world
		want    want
	}{
		"nothing to do": {scannerWith(nil), newWorld().runs("a", store.ImageState{State: store.StateScanned}), want{next: auditInterval}},
		"never more than the limit": {
			scannerWith(nil), newWorld().runs("a", pending).runs("b", pending).runs("c", pending),
			want{start: []string{"a", "b"}, running: 2, queued: 1, next: scanjob.PodDelay},
		},
		"running scans take slots": {
			scannerWith(nil), newWorld().runs("a", pending).runs("b", pending).runs("c", pending).attempt("a", "me", false),
			want{start: []string{"b"}, running: 2, queued: 1, next: scanjob.PodDelay},
		},
		"another Scanner's scan takes no slot and is not started twice": {
			scannerWith(nil), newWorld().runs("a", pending).runs("b", pending).runs("c", pending).attempt("a", "other", false),
			want{start: []string{"b", "c"}, running: 2, next: scanjob.PodDelay},
		},
		"new images before retries": {
			scannerWith(func(s *scannerv1.Scanner) { s.Spec.Concurrency = new(int32(1)) }),
			newWorld().runs("old", failed(-time.Second)).runs("new", pending),
			want{start: []string{"new"}, running: 1, queued: 1, next: scanjob.PodDelay},
		},
		"a retry waits for its time": {
			scannerWith(nil), newWorld().runs("a", failed(40*time.Second)).runs("b", failed(20*time.Second)), want{next: 20 * time.Second},
		},
		"a retry whose time has come": {
			scannerWith(nil), newWorld().runs("a", failed(0)), want{start: []string{"a"}, running: 1, next: scanjob.PodDelay},
		},
		"the operator's limit counts the scans of all": {
			wide, newWorld().runs("a", pending).runs("b", pending).elsewhere("o.example", 5),
			want{start: []string{"a"}, running: 1, queued: 1, next: scanjob.PodDelay, contends: true},
		},
		"the operator's limit is reached": {
			wide, newWorld().runs("a", pending).elsewhere("o.example", 7), want{queued: 1, next: watchInterval, contends: true},
		},
		"while another namespace waits, half of the slots are enough": {
			wide, newWorld().runs("a", pending).runs("b", pending).runs("c", pending).runs("d", pending).attempt("a", "me", false).contended(1).in("ns"),
			want{start: []string{"b in ns", "c in ns"}, running: 3, queued: 1, next: scanjob.PodDelay, contends: true},
		},
		"namespaces that wait for longer come first": {
			wide, newWorld().runs("a", pending).runs("b", pending).contended(40).in("ns"), want{queued: 2, next: watchInterval, contends: true},
		},
		"while many wait, one slot is enough for one that waits for longest": {
			wide, newWorld().runs("a", pending).runs("b", pending).in("ns").waited("ns").contended(40),
			want{start: []string{"a in ns"}, running: 1, queued: 1, next: scanjob.PodDelay, contends: true},
		},
		"a namespace with many images leaves slots of the Scanner to others": {
			scannerWith(nil), newWorld().runs("a", pending).runs("b", pending).runs("c", pending).in("ns").runs("late", pending),
			want{start: []string{"a in ns", "late"}, running: 2, queued: 2, next: scanjob.PodDelay},
		},
		"scans that do not start take no slots of other namespaces": {
			wide, newWorld().runs("a", pending).stuck("stuck", 4, 2*time.Minute), want{start: []string{"a"}, running: 1, next: scanjob.PodDelay},
		},
		"scans that do not start take no slots of the Scanner from other namespaces": {
			scannerWith(nil), newWorld().runs("a", pending).stuck("stuck", 2, 2*time.Minute), want{start: []string{"a"}, running: 1, next: scanjob.PodDelay},
		},
		"scans that do not start take slots of their own namespace": {
			wide, newWorld().runs("a", pending).in("stuck").stuck("stuck", 4, 2*time.Minute), want{queued: 1, next: watchInterval},
		},
		"scans that have just begun take slots of all": {
			wide, newWorld().runs("a", pending).stuck("stuck", 4, startGrace), want{queued: 1, next: watchInterval},
		},
		"a registry takes four at a time": {
			wide, newWorld().runs("a", pending).runs("b", pending).elsewhere("r.example", 3),
			want{start: []string{"a"}, running: 1, queued: 1, next: scanjob.PodDelay},
		},
		"a registry that asked for it is left alone": {
			wide, newWorld().runs("a", pending).runs("b", failed(-time.Second)).paused(time.Minute, "ns-a", "ns-b"), want{queued: 2, next: time.Minute},
		},
		"a pause concerns the credentials of one namespace": {
			wide, newWorld().runs("a", pending).runs("b", pending).paused(time.Hour, "ns-a"),
			want{start: []string{"b"}, running: 1, queued: 1, next: scanjob.PodDelay},
		},
		"a pause of scans without credentials concerns no tenant": {
			wide, newWorld().runs("a", pending).paused(time.Hour, ""), want{start: []string{"a"}, running: 1, next: scanjob.PodDelay},
		},
		"an image that runs elsewhere too is scanned there": {
			wide, newWorld().runs("a", pending).also("a", "ns-other").paused(time.Hour, "ns-a"),
			want{start: []string{"a in ns-other"}, running: 1, next: scanjob.PodDelay},
		},
		"of several pauses, the first to end counts": {
			wide, newWorld().runs("a", pending).also("a", "ns-other").paused(time.Hour, "ns-a").paused(time.Minute, "ns-other"),
			want{queued: 1, next: time.Minute},
		},
		"scans of pods that are gone take slots": {
			scannerWith(nil), func() world {
				w := newWorld().runs("a", pending).runs("b", pending)
				w.active = append(w.active, Attempt{Key: imageKey("gone"), ScannerUID: "me"})
				return w
			}(), want{start: []string{"a"}, running: 1, queued: 1, next: scanjob.PodDelay},
		},
		"a node that is not known yet": {
			scannerWith(nil), func() world {
				w := newWorld()
				w.found.ghosts = map[string]time.Time{"old": now.Add(-time.Hour), "new": now}
				return w
			}(), want{next: retryNode},
		},
		"a node that is not known for some time": {
			scannerWith(nil), func() world {
				w := newWorld()
				w.found.ghosts = map[string]time.Time{"old": now.Add(-time.Minute)}
				return w
			}(), want{next: time.Minute},
		},
		"suspended": {
			scannerWith(func(s *scannerv1.Scanner) { s.Spec.Suspend = true }), newWorld().runs("a", pending), want{queued: 1, next: auditInterval},
		},
		"skipped containers start nothing": {
			scannerWith(nil), func() world {
				w := newWorld().runs("a", pending)
				w.containers[0].Skip = "IgnoreLabel"
				return w
			}(), want{next: auditInterval},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := makePlan(tt.scanner, tt.world.observed, Limits{Scans: 6, PerRegistry: 4, PerNode: 2}, Recatalog{}, now)
			got := want{running: p.running, queued: p.queued, next: p.next, contends: len(p.waiting[limitOperator]) > 0}
			if len(p.waits) != p.queued {
				t.Errorf("%d images are queued, and it is said of %d why", p.queued, len(p.waits))
			}
			for _, req := range p.start {
				name, _, _ := strings.Cut(strings.TrimPrefix(req.Key.ImageID, "r.example/"), "@")
				if req.For != req.Namespace {
					t.Errorf("the attempt at %s runs in %s for %s", name, req.Namespace, req.For)
				}
				if req.Namespace != "ns-"+name {
					name += " in " + req.Namespace
				}
				got.start = append(got.start, name)
				image := tt.world.images[req.Key]
				if wantName := scanjob.Name(req.Key, image.Nonce, image.Attempts); req.Name != wantName {
					t.Errorf("the attempt at %s has the name %s, want %s", name, req.Name, wantName)
				}
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// requestNext asks for the next attempt at an image.
func requestNext(scanner *scannerv1.Scanner, w world, key model.ImageKey) scanjob.Request {
	namespaces, _ := w.places(key)
	return request(scanner, w.observed, key, namespaces[0], w.volume(key, namespaces[0]))
}

func TestRequestCollectsPullSecretsOfOneNamespace(t *testing.T) {
	key := imageKey("a")
	w := newWorld().runs("a", store.ImageState{State: store.StatePending})
	w.containers = []inventory.Container{
		{Namespace: "one", Key: key, Skip: "IgnoreLabel", PullSecrets: []string{"skipped"}},
		{Namespace: "one", Key: key, PullSecrets: []string{"first"}},
		{Namespace: "two", Key: key, PullSecrets: []string{"elsewhere"}},
		{Namespace: "one", Key: key, PullSecrets: []string{"first", "second"}},
		{Namespace: "one", Key: imageKey("b"), PullSecrets: []string{"other-image"}},
	}
	req := requestNext(scannerWith(nil), w, key)
	if diff := cmp.Diff([]string{"first", "second"}, req.PullSecrets); diff != "" || req.Namespace != "one" {
		t.Errorf("namespace %s, pull secrets (-want +got):\n%s", req.Namespace, diff)
	}
}

// A namespace that takes no Jobs must not keep an image that runs elsewhere too from being scanned.
func TestRequestGoesRoundTheNamespaces(t *testing.T) {
	key := imageKey("a")
	for attempts, want := range []string{"one", "two", "one"} {
		w := newWorld().runs("a", store.ImageState{State: store.StateFailed, Attempts: attempts})
		w.containers = []inventory.Container{
			{Namespace: "one", Key: key, PullSecrets: []string{"first"}}, {Namespace: "two", Key: key, PullSecrets: []string{"second"}}, {Namespace: "one", Key: key},
		}
		req := requestNext(scannerWith(func(s *scannerv1.Scanner) { s.Spec.Job.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "all"}} }), w, key)
		secrets := map[string][]string{"one": {"first", "all"}, "two": {"second", "all"}}
		if diff := cmp.Diff(secrets[want], req.PullSecrets); diff != "" || req.Namespace != want {
			t.Errorf("attempt %d is made in %s, want %s; pull secrets (-want +got):\n%s", attempts, req.Namespace, want, diff)
		}
	}
}

func TestPlanRetry(t *testing.T) {
	key := imageKey("a")
	second, first := now.Add(backoff(1, key)), now.Add(backoff(0, key))
	tests := map[string]struct {
		class, ranIn model.SizeClass
		outcome      model.Outcome
		want         retry
	}{
		"any failure":                  {"", "", model.Outcome{Reason: model.ReasonImageNotFound}, retry{at: second}},
		"out of memory":                {"", "", model.Outcome{Reason: model.ReasonOutOfMemory}, retry{at: first, raise: model.SizeMedium}},
		"out of memory again":          {model.SizeMedium, model.SizeMedium, model.Outcome{Reason: model.ReasonOutOfMemory}, retry{at: first, raise: model.SizeLarge}},
		"out of memory in the largest": {model.SizeLarge, model.SizeLarge, model.Outcome{Reason: model.ReasonOutOfMemory}, retry{at: second}},
		"raised in the meantime":       {model.SizeLarge, model.SizeMedium, model.Outcome{Reason: model.ReasonOutOfMemory}, retry{at: first}},
		"the registry says how long": {
			"", "", model.Outcome{Reason: model.ReasonRegistryRateLimited, Message: "429", RetryAfter: 10 * time.Minute},
			retry{at: second, pause: &store.RegistryPause{Host: "r.example", Namespace: "shop", Until: now.Add(10 * time.Minute), Reason: "429"}},
		},
		"the registry says no more than that": {
			"", "", model.Outcome{Reason: model.ReasonRegistryRateLimited},
			retry{at: second, pause: &store.RegistryPause{Host: "r.example", Namespace: "shop", Until: now.Add(firstPause)}},
		},
		"the registry is down for a while": {
			"", "", model.Outcome{Reason: model.ReasonRegistryUnavailable, RetryAfter: time.Second},
			retry{at: second, pause: &store.RegistryPause{Host: "r.example", Namespace: "shop", Until: now.Add(time.Second)}},
		},
		"nobody is put off for a day": {
			"", "", model.Outcome{Reason: model.ReasonRegistryRateLimited, RetryAfter: 24 * time.Hour},
			retry{at: second, pause: &store.RegistryPause{Host: "r.example", Namespace: "shop", Until: now.Add(time.Hour)}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			image := store.Image{ImageState: store.ImageState{Key: key, Attempts: 1}, SizeClass: tt.class}
			got := planRetry(&image, Attempt{SizeClass: tt.ranIn, Outcome: tt.outcome}, credential{"r.example", "shop"}, model.SizeClass.Next, now)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(retry{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestBackoffGrowsWithinBounds(t *testing.T) {
	key, previous := imageKey("a"), time.Duration(0)
	for attempt := range 100 {
		d := backoff(attempt, key)
		if d < min(firstBackoff<<min(attempt, 7), maxBackoff) || d > maxBackoff+maxBackoff/5 || d < previous {
			t.Fatalf("backoff(%d) = %s after %s", attempt, d, previous)
		}
		previous = d
	}
	if backoff(0, key) == backoff(0, imageKey("b")) {
		t.Error("images that fail together come back together")
	}
}
