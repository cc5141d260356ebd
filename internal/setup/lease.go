package setup

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
)

// leaseTimeout bounds a request for the Lease: half of the time in which a leader must renew it.
const leaseTimeout = 5 * time.Second

// lease is the lock of the leader election. It differs from that of client-go in one point: it does not release a Lease that another replica
// holds. A leader that was paused for longer than its lease, for example with its machine, releases the Lease when it continues. client-go then
// knows from before the pause that it leads, and would release the Lease of its successor, so that a third replica could lead besides it.
type lease struct {
	resourcelock.Interface

	mu     sync.Mutex
	holder string
}

// newLease returns the lock of the leader election in a namespace. Its Events are recorded as soon as events has a manager.
func newLease(cluster *rest.Config, namespace string, events *leaseEvents) (*lease, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("determine the host name: %w", err)
	}
	// AddUserAgent changes its argument.
	config := rest.AddUserAgent(rest.CopyConfig(cluster), "leader-election")
	config.Timeout = leaseTimeout
	core, err := corev1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create a client for the leader election: %w", err)
	}
	coordination, err := coordinationv1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create a client for the leader election: %w", err)
	}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, namespace, leaderElectionID, core, coordination,
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID()), EventRecorder: events})
	if err != nil {
		return nil, fmt.Errorf("create the lock of the leader election: %w", err)
	}
	return &lease{Interface: lock}, nil
}

// Get implements resourcelock.Interface.
func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.holder = record.HolderIdentity
	}
	return record, raw, err
}

// Update implements resourcelock.Interface. An update without a holder releases the Lease.
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	holder := l.holder
	l.mu.Unlock()
	if record.HolderIdentity == "" && holder != l.Identity() {
		return fmt.Errorf("the Lease %s is not held by this replica, but by %s", l.Describe(), cmp.Or(holder, "nobody"))
	}
	return l.Interface.Update(ctx, record)
}

// leaseEvents records the Events of the leader election. The lock exists before the manager that records Events.
type leaseEvents struct{ manager ctrl.Manager }

// Eventf implements resourcelock.EventRecorder.
func (e *leaseEvents) Eventf(object runtime.Object, kind, reason, message string, args ...any) {
	if e.manager != nil {
		// The leader election of client-go uses the Events of the core API group.
		e.manager.GetEventRecorderFor(leaderElectionID).Eventf(object, kind, reason, message, args...) //nolint:staticcheck // see above
	}
}
