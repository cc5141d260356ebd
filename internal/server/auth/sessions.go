package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"

	"github.com/scanner-operator/scanner-operator/internal/server/auth/oidc"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Bounds of sessions of users who signed in with the provider.
const (
	// sessionLifetime is how long a session lasts at most, sessionIdle how long without a request. A session is extended in steps of
	// sessionStep.
	sessionLifetime = 24 * time.Hour
	sessionIdle     = 8 * time.Hour
	sessionStep     = 5 * time.Minute
	// refreshEvery is after which time at most the provider is asked again who the user is, refreshAtLeast after which time at least.
	refreshEvery   = 15 * time.Minute
	refreshAtLeast = time.Minute
	// refreshLease is how long a replica may take to ask; others do not ask meanwhile.
	refreshLease = 30 * time.Second
	// staleAfter is how long a session can be used while the provider cannot be asked.
	staleAfter = time.Hour
)

// Sessions are those of users who signed in with an OpenID Connect provider.
type Sessions struct {
	Store    store.Sessions
	Provider *oidc.Provider
}

// sessionManager authenticates sessions.
type sessionManager struct {
	Sessions
	basePath string
	clock    func() time.Time
	log      logr.Logger
}

// errSessionEnded is the answer to who comes with a session that is not there any more.
func errSessionEnded() error {
	return problem.New(http.StatusUnauthorized, "the session has ended; sign in again")
}

// create makes a session of somebody who has signed in, and returns the secret for the cookie.
func (m *sessionManager) create(ctx context.Context, grant oidc.Grant) (secret string, err error) {
	secret = newSecret()
	keys, err := keysOf(secret)
	if err != nil {
		return "", err
	}
	now := m.clock()
	session := store.Session{
		ID: keys.id, Owner: ownerOf(grant.User.Username), Subject: m.hashOf("subject", grant.Subject),
		ProviderSession: m.hashOf("session", grant.SessionID), CreatedAt: now,
	}
	if session.Content, err = keys.seal(sessionContent{grant, now}); err != nil {
		return "", err
	}
	session.RefreshAt, session.ExpiresAt = refreshTime(now, grant), expiryOf(now, now, grant)
	return secret, m.Store.CreateSession(ctx, session)
}

// ownerOf stands for a user.
func ownerOf(user string) string { return sessionHash("user", user) }

// hashOf stands for something that the provider names, "" for nothing.
func (m *sessionManager) hashOf(kind, name string) string {
	if name == "" {
		return ""
	}
	return sessionHash(kind, m.Provider.Issuer(), name)
}

// expiryOf is when a session ends. Without a refresh token nobody can be asked once the ID token has expired.
func expiryOf(created, now time.Time, grant oidc.Grant) time.Time {
	expiry := earlier(created.Add(sessionLifetime), now.Add(sessionIdle))
	if grant.RefreshToken == "" {
		expiry = earlier(expiry, grant.Expires)
	}
	return expiry
}

// refreshTime is when the provider is asked again.
func refreshTime(now time.Time, grant oidc.Grant) time.Time {
	if grant.RefreshToken == "" {
		return now.Add(sessionLifetime)
	}
	next := earlier(now.Add(refreshEvery), grant.Expires)
	if soonest := now.Add(refreshAtLeast); next.Before(soonest) {
		return soonest
	}
	return next
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// authenticate says whose session a secret belongs to, or fails with a problem: 401, or 503 when the store or the provider cannot be asked.
// Sessions are not cached: one that was ended on another replica has ended here.
func (m *sessionManager) authenticate(ctx context.Context, secret string) (*sessionContent, error) {
	keys, err := keysOf(secret)
	if err != nil {
		return nil, errSessionEnded()
	}
	session, err := m.Store.Session(ctx, keys.id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, errSessionEnded()
	}
	if err != nil {
		return nil, err
	}
	now := m.clock()
	if !now.Before(session.ExpiresAt) {
		return nil, errSessionEnded()
	}
	content, err := keys.open(session.Content)
	if err != nil {
		m.log.Error(err, "Cannot read a session")
		return nil, errSessionEnded()
	}
	if !now.Before(session.RefreshAt) {
		// The answer must be kept even if the client goes away: it may hold the only refresh token that is still valid.
		return m.refresh(context.WithoutCancel(ctx), keys, session, content)
	}
	if expiry := expiryOf(session.CreatedAt, now, content.Grant); expiry.Sub(session.ExpiresAt) >= sessionStep {
		session.ExpiresAt = expiry
		// Who loses against another request has been extended by it.
		if _, err := m.Store.UpdateSession(ctx, session); err != nil {
			return nil, err
		}
	}
	return &content, nil
}

// refresh asks the provider again who the user is. One replica asks at a time; a refresh token may be valid only once. Meanwhile nobody
// updates the session: it is not due, and has been extended.
func (m *sessionManager) refresh(ctx context.Context, keys sessionKeys, session store.Session, content sessionContent) (*sessionContent, error) {
	now := m.clock()
	session.RefreshAt, session.ExpiresAt = now.Add(refreshLease), expiryOf(session.CreatedAt, now, content.Grant)
	first, err := m.Store.UpdateSession(ctx, session)
	if err != nil {
		return nil, err
	}
	if !first {
		return m.unconfirmed(content, nil)
	}
	session.Version++
	grant, err := m.Provider.Refresh(ctx, content.Grant)
	if err == nil && grant.User.Username != content.User.Username {
		err = fmt.Errorf("%w: the user name has changed from %q to %q", oidc.ErrRejected, content.User.Username, grant.User.Username)
	}
	switch {
	case errors.Is(err, oidc.ErrRefused), errors.Is(err, oidc.ErrRejected):
		m.log.Info("The identity provider ended a session", "user", content.User.Username, "error", err.Error())
		if err := m.Store.DeleteSessions(ctx, store.SessionSelector{ID: session.ID}); err != nil {
			return nil, err
		}
		return nil, errSessionEnded()
	case err != nil:
		m.log.Info("Cannot refresh a session", "user", content.User.Username, "error", err.Error())
		return m.unconfirmed(content, err)
	}
	now = m.clock()
	content = sessionContent{grant, now}
	if session.Content, err = keys.seal(content); err != nil {
		return nil, err
	}
	session.RefreshAt, session.ExpiresAt = refreshTime(now, grant), expiryOf(session.CreatedAt, now, grant)
	kept, err := m.Store.UpdateSession(ctx, session)
	if err != nil {
		return nil, err
	}
	if kept {
		return &content, nil
	}
	// It was ended meanwhile, or, when the provider took longer than the lease, another replica asks.
	if _, err := m.Store.Session(ctx, session.ID); errors.Is(err, store.ErrNotFound) {
		return nil, errSessionEnded()
	} else if err != nil {
		return nil, err
	}
	return &content, nil
}

// unconfirmed is the content of a session whose user the provider could not be asked about, unless that has been so for too long.
func (m *sessionManager) unconfirmed(content sessionContent, cause error) (*sessionContent, error) {
	if m.clock().Sub(content.Confirmed) > staleAfter {
		return nil, problem.Unavailable(cause, "the identity provider is unavailable: cannot check who you are; try again")
	}
	return &content, nil
}
