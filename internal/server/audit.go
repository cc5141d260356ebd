package server

import (
	"context"
	"net/http"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

const (
	// recordTimeout bounds recording a request to change something.
	recordTimeout = 5 * time.Second
	// maxAuditText bounds what a client says of itself and of an object in the log, in bytes.
	maxAuditText = 1 << 10
)

// change is what an operation does with what. Operations without one change nothing.
type change struct{ verb, resource string }

// changing is a request to change something, from when it is admitted until it is answered.
type changing struct {
	s       *Server
	request store.ChangeRequest
	// admitted says that the caller may make the change, trusted that a permission says so. What others ask for is recorded only with the
	// change: a scan pod, which is not trusted, cannot fill the event log.
	admitted, trusted bool
}

// changingKey finds the request in a context.
type changingKey struct{}

// audit begins to follow a request that its guard has let in. The context is for the change.
func (s *Server) audit(r *http.Request, route route) (context.Context, *changing) {
	ctx := r.Context()
	if route.change == (change{}) {
		return ctx, nil
	}
	c := &changing{s: s, admitted: route.Verb != "", trusted: route.Verb != ""}
	c.request = store.ChangeRequest{Verb: route.change.verb, Object: store.ChangeObject{Resource: route.change.resource, Name: r.PathValue("imageId")}}
	if admission, found := auth.AdmissionOf(ctx); found {
		c.request.User = admission.User
	}
	return context.WithValue(store.WithChangeRequest(ctx, &c.request), changingKey{}, c), c
}

// admitChange says that the caller of a request may make its change, when only the operation could tell.
func admitChange(ctx context.Context) {
	if c, _ := ctx.Value(changingKey{}).(*changing); c != nil {
		c.admitted = true
	}
}

// nameChange says which object a request is about, when only its body tells.
func nameChange(ctx context.Context, name string) {
	if request := store.ChangeRequestOf(ctx); request != nil {
		request.Object.Name = name
	}
}

// changeObject names the object that a request is about, when only the operation can tell.
func changeObject(ctx context.Context, resource, name string) {
	if request := store.ChangeRequestOf(ctx); request != nil {
		request.Object = store.ChangeObject{Resource: resource, Name: name}
	}
}

// end logs and records the request. Refused callers are only counted: they change nothing, and may be many.
func (c *changing) end(ctx context.Context, status int) {
	if c == nil || !c.admitted || status == http.StatusForbidden {
		return
	}
	request := c.request
	request.Outcome = store.ChangeFailed
	if request.Recorded || (status >= http.StatusOK && status < http.StatusMultipleChoices) {
		request.Outcome = store.ChangeSucceeded
	}
	log := c.s.log.WithName("audit").WithValues("user", truncate.Text(request.User, maxAuditText), "verb", request.Verb,
		"resource", request.Object.Resource, "name", truncate.Text(request.Object.Name, maxAuditText))
	log.Info("Change requested", "outcome", string(request.Outcome), "status", status)
	// After a failure of ours there may be no database to record it in.
	if request.Recorded || !c.trusted || status >= http.StatusInternalServerError {
		return
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	if err := c.s.store.RecordChangeRequest(bounded, request); err != nil {
		log.Error(err, "Cannot record a requested change")
	}
}
