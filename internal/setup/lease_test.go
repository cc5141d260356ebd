package setup

import (
	"context"
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// pausedLock is the lock of a leader that stops at a renewal until another replica has its Lease.
type pausedLock struct {
	resourcelock.Interface
	renewals int
	pause    func()
}

// Get fails after the pause as long as the leader tries to renew: the time for that is over.
func (l *pausedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	return l.Interface.Get(ctx)
}

func (l *pausedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" {
		return l.Interface.Update(ctx, record)
	}
	if l.renewals++; l.renewals == 2 {
		l.pause()
		return errors.New("the answer came after the pause")
	}
	return l.Interface.Update(ctx, record)
}

// TestLeaseKeepsConfiguration makes sure that the time limit of requests for the Lease is not that of the watches of all caches, which would start
// again every few seconds.
func TestLeaseKeepsConfiguration(t *testing.T) {
	config := &rest.Config{Host: "https://127.0.0.1:1", UserAgent: "scanner-operator"}
	if _, err := newLease(config, "default", &leaseEvents{}); err != nil {
		t.Fatal(err)
	}
	if config.Timeout != 0 || config.UserAgent != "scanner-operator" {
		t.Errorf("timeout %s and user agent %q of all clients", config.Timeout, config.UserAgent)
	}
}

// TestPausedLeaderKeepsTheLeaseOfItsSuccessor runs the leader election of client-go.
func TestPausedLeaderKeepsTheLeaseOfItsSuccessor(t *testing.T) {
	client := fake.NewClientset()
	leases := client.CoordinationV1().Leases("default")
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: leaderElectionID}, Client: client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: "paused"},
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	successor := func() {
		held, err := leases.Get(ctx, leaderElectionID, metav1.GetOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		held.Spec.HolderIdentity = new("successor")
		if _, err := leases.Update(ctx, held, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
		stop() // The time to renew is over.
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &pausedLock{Interface: &lease{Interface: lock}, pause: successor}, ReleaseOnCancel: true,
		LeaseDuration: time.Second, RenewDeadline: 500 * time.Millisecond, RetryPeriod: 10 * time.Millisecond,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	elector.Run(ctx)
	checkHolder(t, client, "successor")
}

// TestLeaderReleasesItsLease: the next replica does not wait until it expires.
func TestLeaderReleasesItsLease(t *testing.T) {
	client := fake.NewClientset()
	lock := &lease{Interface: &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: leaderElectionID}, Client: client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: "leader"},
	}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, ReleaseOnCancel: true, LeaseDuration: time.Minute, RenewDeadline: 30 * time.Second, RetryPeriod: 10 * time.Millisecond,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { stop() }, OnStoppedLeading: func() {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	elector.Run(ctx)
	checkHolder(t, client, "")
}

func checkHolder(t *testing.T, client *fake.Clientset, want string) {
	t.Helper()
	var held *coordinationv1.Lease
	held, err := client.CoordinationV1().Leases("default").Get(t.Context(), leaderElectionID, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	if held.Spec.HolderIdentity != nil {
		got = *held.Spec.HolderIdentity
	}
	if got != want {
		t.Errorf("the Lease is held by %q, want %q", got, want)
	}
}
