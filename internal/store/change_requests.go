package store

import "context"

// EventChangeRequested says that a client changed something through the API, or tried to. Its data is a ChangeRequest.
const EventChangeRequested EventKind = "change.requested"

// ChangeOutcome says what became of a ChangeRequest.
type ChangeOutcome string

// The outcomes.
const (
	ChangeSucceeded ChangeOutcome = "succeeded"
	ChangeFailed    ChangeOutcome = "failed"
)

// ChangeRequest is a change that a client asks for through the API, as it is audited.
type ChangeRequest struct {
	// User is who asks, as Kubernetes names it; "" without authentication.
	User string `json:"user,omitempty"`
	// Verb says what is to be done with Object.
	Verb    string        `json:"verb"`
	Object  ChangeObject  `json:"object"`
	Outcome ChangeOutcome `json:"outcome"`
	// Recorded says that the event log holds the request.
	Recorded bool `json:"-"`
}

// ChangeObject is what a ChangeRequest is about.
type ChangeObject struct {
	// Resource is "scanresults", "sboms", "databases" or the resource of a kind of exceptions.
	Resource string `json:"resource"`
	// Name is the image ID for the first two, "" for the third, and the name of an exception, after its namespace and a slash if it has one.
	Name string `json:"name,omitempty"`
}

// changeRequestKey finds the request in a context.
type changeRequestKey struct{}

// WithChangeRequest returns a context of the request. The first transaction that writes events under it records the request as
// succeeded: there is no change without its record, and no record without its change.
func WithChangeRequest(ctx context.Context, request *ChangeRequest) context.Context {
	return context.WithValue(ctx, changeRequestKey{}, request)
}

// ChangeRequestOf returns the request of a context, nil when there is none.
func ChangeRequestOf(ctx context.Context) *ChangeRequest {
	request, _ := ctx.Value(changeRequestKey{}).(*ChangeRequest)
	return request
}
