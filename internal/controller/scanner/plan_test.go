package scanner

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/inventory"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func imageKey(name string) vuln.ImageKey {
	return vuln.ImageKey{
		ImageID:  "r.example/" + name + "@sha256:" + strings.Repeat("a", 64),
		Platform: vuln.Platform{OS: "linux", Architecture: "amd64"},
	}
}

// world builds a view in which one pod runs each image.
type world struct{ *view }

func newWorld() world {
	return world{&view{images: map[vuln.ImageKey]store.Image{}, attempts: map[string]Attempt{}}}
}

func (w world) runs(name string, state store.ImageState) world {
	key := imageKey(name)
	state.Key, state.Nonce = key, "nonce-"+name
	w.images[key] = store.Image{ImageState: state}
	w.containers = append(w.containers, inventory.Container{Namespace: "ns-" + name, Pod: name, Name: "c", Key: key})
	return w
}

func (w world) attempt(name, scannerUID string, done bool) world {
	w.attempts[w.attemptName(imageKey(name))] = Attempt{ScannerUID: scannerUID, Done: done}
	return w
}

func scannerWith(mutate func(*scannerv1.Scanner)) *scannerv1.Scanner {
	s := &scannerv1.Scanner{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", UID: "me"}}
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
	}
	tests := map[string]struct {
		scanner *scannerv1.Scanner
		world   world
		want    want
	}{
		"nothing to do": {scannerWith(nil), newWorld().runs("a", store.ImageState{State: store.StateScanned}), want{next: auditInterval}},
		"never more than the limit": {
			scannerWith(nil), newWorld().runs("a", pending).runs("b", pending).runs("c", pending),
			want{start: []string{"a", "b"}, running: 2, queued: 1, next: auditInterval},
		},
		"running scans take slots": {
			scannerWith(nil), newWorld().runs("a", pending).runs("b", pending).runs("c", pending).attempt("a", "me", false),
			want{start: []string{"b"}, running: 2, queued: 1, next: auditInterval},
		},
		"another Scanner's scan takes no slot and is not started twice": {
			scannerWith(nil), newWorld().runs("a", pending).runs("b", pending).runs("c", pending).attempt("a", "other", false),
			want{start: []string{"b", "c"}, running: 2, next: auditInterval},
		},
		"a foreign Job that carries our labels takes no slot": {
			scannerWith(nil), func() world {
				w := newWorld().runs("a", pending).runs("b", pending)
				w.attempts["scan-of-somebody-else"] = Attempt{ScannerUID: "me"}
				w.attempts["another"] = Attempt{ScannerUID: "me"}
				return w
			}(),
			want{start: []string{"a", "b"}, running: 2, next: auditInterval},
		},
		"new images before retries": {
			scannerWith(func(s *scannerv1.Scanner) { s.Spec.Concurrency = new(int32(1)) }),
			newWorld().runs("old", failed(-time.Second)).runs("new", pending),
			want{start: []string{"new"}, running: 1, queued: 1, next: auditInterval},
		},
		"a retry waits for its time": {
			scannerWith(nil), newWorld().runs("a", failed(40*time.Second)).runs("b", failed(20*time.Second)), want{next: 20 * time.Second},
		},
		"a retry whose time has come": {
			scannerWith(nil), newWorld().runs("a", failed(0)), want{start: []string{"a"}, running: 1, next: auditInterval},
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
			p := makePlan(tt.scanner, tt.world.view, now)
			got := want{running: p.running, queued: p.queued, next: p.next}
			for _, req := range p.start {
				pod := strings.TrimPrefix(req.Namespace, "ns-")
				got.start = append(got.start, pod)
				if wantName := scanjob.Name(req.Key, "nonce-"+pod, tt.world.images[req.Key].Attempts); req.Name != wantName {
					t.Errorf("the attempt at %s has the name %s, want %s", pod, req.Name, wantName)
				}
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
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
	req := request(scannerWith(nil), w.view, key)
	if diff := cmp.Diff([]string{"first", "second"}, req.PullSecrets); diff != "" || req.Namespace != "one" {
		t.Errorf("namespace %s, pull secrets (-want +got):\n%s", req.Namespace, diff)
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
