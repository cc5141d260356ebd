package rollout

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	// lookInterval is how often the judge looks without being woken.
	lookInterval = time.Minute
	// waitAtMost is how long a rollout waits for the scans of its images.
	waitAtMost = 72 * time.Hour
	// tellAtMost is how long it is tried to tell a workload: Kubernetes keeps events no longer.
	tellAtMost = time.Hour
)

// Verdicts is the part of the store that the judge needs.
type Verdicts interface {
	JudgeRollouts(ctx context.Context, giveUp time.Time, limit int) (int, error)
	UntoldRollouts(ctx context.Context, after int64, limit int) ([]store.RolloutDetail, error)
	RolloutTold(ctx context.Context, id int64) error
}

// Judge finds out what rollouts did as soon as both images are scanned, and tells the workloads by Kubernetes Events. It is a runnable of
// a controller-runtime manager, on the leader alone.
type Judge struct {
	Store Verdicts
	// Hub wakes the judge.
	Hub *feed.Hub
	// Live reads workloads from the API server; Client creates Events.
	Live   client.Reader
	Client client.Client
	// Instance names this process in Events.
	Instance string
	Clock    clock.WithTicker
	Log      logr.Logger

	// after is the last rollout that was tried to be told; 0 begins with the first one.
	after int64
}

// NeedLeaderElection says that the judge runs on the leader alone.
func (j *Judge) NeedLeaderElection() bool { return true }

// Start judges until the context is done. What fails is tried again the next time.
func (j *Judge) Start(ctx context.Context) error {
	ticker := j.Clock.NewTicker(lookInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		subscription := j.Hub.Subscribe(ctx, feed.Filter{Kinds: []store.EventKind{store.EventImageMatched, store.EventRolloutChanged}})
		j.follow(ctx, subscription, ticker.C())
		subscription.Close()
		if errors.Is(subscription.Err(), feed.ErrStopped) {
			return nil
		}
	}
	return nil
}

// follow looks at the rollouts, and again whenever something happened, until the subscription ends.
func (j *Judge) follow(ctx context.Context, subscription *feed.Subscription, tick <-chan time.Time) {
	for {
		j.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick:
		case _, open := <-subscription.C():
			if !open {
				return
			}
			drain(subscription)
		}
	}
}

// drain takes what has come already: one look is enough for all of it.
func drain(subscription *feed.Subscription) {
	for {
		select {
		case _, open := <-subscription.C():
			if !open {
				return
			}
		default:
			return
		}
	}
}

// look judges what can be judged and tells what was not told.
func (j *Judge) look(ctx context.Context) {
	for taken := store.MaxJudged; taken == store.MaxJudged; {
		var err error
		if taken, err = j.Store.JudgeRollouts(ctx, j.Clock.Now().Add(-waitAtMost), store.MaxJudged); err != nil {
			j.complain(ctx, err, "Rollouts cannot be judged, trying again later")
			break
		}
	}
	for more := true; more; {
		more = j.tellAll(ctx)
	}
}

// tellAll tries to tell some workloads, and reports whether to go on at once. Those that cannot be told hold up no others: the next ones
// come first, then all from the first one on. Where none can be told it does not go on, to spare the API server.
func (j *Judge) tellAll(ctx context.Context) bool {
	untold, err := j.Store.UntoldRollouts(ctx, j.after, store.MaxJudged)
	if err != nil {
		j.complain(ctx, err, "Rollouts cannot be told, trying again later")
		return false
	}
	told := 0
	for i := range untold {
		r := &untold[i]
		err := j.tell(ctx, r)
		if err == nil || j.Clock.Since(r.Verdict.At) > tellAtMost {
			err = errors.Join(err, j.Store.RolloutTold(ctx, r.ID))
		}
		if err != nil {
			j.complain(ctx, err, "A workload cannot be told what its rollout did", "namespace", r.Workload.Namespace, "kind", r.Workload.Kind, "name", r.Workload.Name)
			continue
		}
		told++
	}
	if len(untold) < store.MaxJudged {
		j.after = 0
		return false
	}
	j.after = untold[len(untold)-1].ID
	return told > 0
}

// complain logs an error, unless it is that of the end.
func (j *Judge) complain(ctx context.Context, err error, message string, keysAndValues ...any) {
	if ctx.Err() == nil {
		j.Log.Error(err, message, keysAndValues...)
	}
}
