package store

import (
	"context"
	"errors"
	"time"
)

// ErrTooManySessions says that MaxSessions sessions are open.
var ErrTooManySessions = errors.New("too many sessions")

// Bounds of Sessions.
const (
	// MaxSessions is the maximum number of sessions, MaxSessionsOfOwner that of one owner.
	MaxSessions        = 100_000
	MaxSessionsOfOwner = 20
	// MaxSessionContent is the maximum size of Session.Content in bytes.
	MaxSessionContent = 256 << 10
	// MaxSessionKey is the maximum length of the texts of a Session in bytes.
	MaxSessionKey = 64
)

// Sessions is the part of the store about users who signed in with an identity provider. All replicas share it.
type Sessions interface {
	// CreateSession keeps a new session, and deletes those that have expired, and the oldest of the same owner beyond
	// MaxSessionsOfOwner. Beyond MaxSessions it returns ErrTooManySessions.
	CreateSession(ctx context.Context, session Session) error
	// Session returns a session, or ErrNotFound when there is none or it has expired.
	Session(ctx context.Context, id string) (Session, error)
	// UpdateSession replaces ProviderSession, Content, RefreshAt and ExpiresAt of a session if it still has that Version, and increases the version. It
	// returns false, and changes nothing, when it was updated or deleted meanwhile.
	UpdateSession(ctx context.Context, session Session) (bool, error)
	// DeleteSessions deletes the sessions with all fields of the selector that are not empty, at least one of which beside CreatedBefore must be set.
	DeleteSessions(ctx context.Context, selector SessionSelector) error
}

// Session is a session of a user. Its texts are hashes: they identify, and tell nothing.
type Session struct {
	ID string
	// Owner stands for the user, Subject for the user's ID at the provider, ProviderSession for the session there; the last may be
	// empty. Sessions are deleted by them.
	Owner, Subject, ProviderSession string
	// Content is encrypted with a key that the store does not have.
	Content []byte
	// Version is 0 at first.
	Version   int64
	CreatedAt time.Time
	// RefreshAt is when the provider should be asked again, ExpiresAt when the session ends.
	RefreshAt, ExpiresAt time.Time
}

// SessionSelector selects the sessions that have all that is set. With a Subject, sessions without a ProviderSession have any: the provider did not
// name theirs.
type SessionSelector struct {
	ID, Owner, Subject, ProviderSession string
	// CreatedBefore selects those that began before it.
	CreatedBefore time.Time
}
