package imageresolver

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// backoffs holds when the images of pods are tried again. Pods that were deleted are forgotten.
type backoffs struct {
	now func() time.Time

	mu   sync.Mutex
	pods map[item]backoff
}

type backoff struct {
	uid      types.UID
	delay    time.Duration
	until    time.Time
	reportAt time.Time
}

func newBackoffs() *backoffs {
	return &backoffs{now: time.Now, pods: map[item]backoff{}}
}

// failed doubles the delay of a pod.
func (b *backoffs) failed(key item, uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delay, old := firstBackoff, b.pods[key]
	if old.uid == uid && old.delay > 0 {
		delay = min(2*old.delay, maxBackoff)
	}
	now := b.now()
	b.pods[key] = backoff{uid: uid, delay: delay, until: now.Add(delay), reportAt: now.Add(reportBackoff)}
}

// wait returns how long the pod still waits, and whether it is time to report that.
func (b *backoffs) wait(key item, uid types.UID) (left time.Duration, report bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	entry, ok := b.pods[key]
	if !ok || entry.uid != uid {
		return 0, false
	}
	now := b.now()
	if now.Before(entry.reportAt) {
		return entry.reportAt.Sub(now), false
	}
	return max(entry.until.Sub(now), 0), true
}

func (b *backoffs) forget(key item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.pods, key)
}
