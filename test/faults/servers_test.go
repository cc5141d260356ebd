//go:build faults

package faults

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/setup"
)

// serverFaults kill a server of the control plane, which starts again at once: etcd before the API server gets a request, or the API server
// after it has accepted the request, whose answer is lost.
var serverFaults = []string{"kill-etcd", "kill-apiserver"}

// leaderFaults end or pause the leader of several operators until another one leads. It is paused before the API server gets a request,
// which then comes from somebody who leads no more, or after the API server has accepted it.
var leaderFaults = []string{"sigterm", "sigkill", "sigstop-before", "sigstop-committed"}

// disturbsServers says whether a fault needs a control plane of its own.
func disturbsServers(fault string) bool { return slices.Contains(serverFaults, fault) }

// before brings about what happens to the control plane or the leader before the API server gets a request.
func (p *proxy) before(fault string) {
	switch fault {
	case "kill-etcd":
		<-p.world.acted
		p.world.plane.kill(etcd)
	case "sigterm":
		p.world.depose(syscall.SIGTERM)
	case "sigstop-before":
		<-p.world.depose(syscall.SIGSTOP)
	}
}

// after brings about what happens after the API server has accepted a request. It returns whether the answer is lost.
func (p *proxy) after(fault string) bool {
	switch fault {
	case "kill-apiserver":
		<-p.world.acted
		p.world.plane.kill(apiServer)
		return true
	case "sigkill":
		p.world.depose(syscall.SIGKILL)
		return true
	case "sigstop-committed":
		p.world.depose(syscall.SIGSTOP)
	}
	return false
}

// depose sends a signal to the leader. When another one leads, the leader continues or starts again, and the channel is closed. While nobody
// leads, nothing happens.
func (w *world) depose(signal syscall.Signal) <-chan struct{} {
	deposed := make(chan struct{})
	holder, _ := w.holder()
	at := slices.IndexFunc(w.managers, func(m *manager) bool { return m.proxy.identity() == holder })
	if holder == "" || at < 0 {
		close(deposed)
		return deposed
	}
	leader := w.managers[at]
	leader.depose(signal, deposed)
	go func() {
		defer close(deposed)
		w.slot.rest(func() {
			for ticker := time.NewTicker(tick); ; {
				select {
				case <-ticker.C:
				case <-w.ended:
					return
				}
				if now, err := w.holder(); err == nil && now != "" && now != holder {
					leader.signal(syscall.SIGCONT, func() {})
					return
				}
			}
		})
	}()
	return deposed
}

// replaced is the condition that leaders that were deposed have started again: they end when they notice that another one leads.
func replaced(ctx context.Context, w *world, _ snapshot) error {
	for _, m := range w.managers {
		if m.wasDeposed() {
			return errors.New("an operator that leads no more has not started again")
		}
		if err := w.get(ctx, "http://"+m.health+"/readyz", nil); err != nil {
			return err
		}
	}
	return nil
}

// holder returns the identity of the leader, "" when nobody leads.
func (w *world) holder() (string, error) {
	var list coordinationv1.LeaseList
	if err := w.c.List(context.Background(), &list, client.InNamespace(w.namespace)); err != nil {
		return "", err
	}
	for i := range list.Items {
		if holder := list.Items[i].Spec.HolderIdentity; holder != nil {
			return *holder, nil
		}
	}
	return "", nil
}

// decoder reads what operators send, in JSON or as protobuf.
var decoder = serializer.NewCodecFactory(setup.Scheme()).UniversalDeserializer()

// asks reads the body of a request: the name of the object to create, and who wants to lead.
func (p *proxy) asks(d *request, r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	object, _, err := decoder.Decode(body, nil, nil)
	if err != nil {
		// Not all patches are objects.
		return nil //nolint:nilerr // Nothing is to be read.
	}
	if lease, is := object.(*coordinationv1.Lease); is && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
		p.mu.Lock()
		p.leads = *lease.Spec.HolderIdentity
		p.mu.Unlock()
	}
	if accessor, err := meta.Accessor(object); err == nil && d.object == "" {
		d.object = accessor.GetName()
	}
	return nil
}

// identity is what the operator calls itself in Leases.
func (p *proxy) identity() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leads
}

// doubt notes a request that the API server may have done or not, because a server was killed.
func (t *trace) doubt(r *request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.armed && !r.review() && !r.dryRun && r.resource != leases && r.resource != events {
		t.doubts = append(t.doubts, *r)
	}
}

// resolve notes those of the requests in doubt that the API server has done, as the objects show.
func (t *trace) resolve(s snapshot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.doubts = slices.DeleteFunc(t.doubts, func(r request) bool {
		at := slices.IndexFunc(s, func(object *unstructured.Unstructured) bool {
			plural, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
			return plural.Resource == r.resource && object.GetName() == r.object
		})
		switch {
		case r.creates() && at >= 0 && !t.existing[s[at].GetUID()]:
			note(t.creates, &r)
		case r.deletes() && (at < 0 || s[at].GetDeletionTimestamp() != nil):
			note(t.deletes, &r)
		default:
			return false
		}
		return true
	})
}
