package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/singleflight"

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
	// refreshRetry is when the provider is asked again after it could not be. It is shorter than the lease by refreshPatience: of a session whose
	// refresh is due later, a replica is asking, and requests that need the answer wait for it. They read the session every refreshPoll.
	refreshRetry    = 15 * time.Second
	refreshPatience = refreshLease - refreshRetry
	refreshPoll     = 100 * time.Millisecond
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
	// waiting has those who wait for another replica or request to refresh a session, by its ID.
	waiting singleflight.Group
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
		ProviderSession: m.hashOf("session", grant.SessionID), CreatedAt: m.beginning(now, grant),
	}
	if session.Content, err = keys.seal(sessionContent{grant, now}); err != nil {
		return "", err
	}
	session.RefreshAt, session.ExpiresAt = refreshTime(now, grant), expiryOf(session.CreatedAt, now, grant)
	return secret, m.Store.CreateSession(ctx, session)
}

// beginning is when a session began by the clock of the provider, so that it can be compared with when the provider ended sessions, however much the clocks
// differ. A provider whose clock differs by more than is accepted of logout tokens does not make it older.
func (m *sessionManager) beginning(now time.Time, grant oidc.Grant) time.Time {
	if earliest := now.Add(-oidc.MaxLogoutAge); grant.Issued.Before(earliest) {
		return earliest
	}
	return grant.Issued
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
	session, content, err := m.load(ctx, keys)
	if err != nil {
		return nil, err
	}
	now := m.clock()
	switch {
	case !now.Before(session.RefreshAt):
		return m.refreshUntil(ctx, keys, session, content)
	case m.stale(content):
		return m.awaitRefresh(ctx, keys)
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

// load reads a session that has not ended.
func (m *sessionManager) load(ctx context.Context, keys sessionKeys) (session store.Session, content sessionContent, err error) {
	session, err = m.Store.Session(ctx, keys.id)
	if errors.Is(err, store.ErrNotFound) {
		return session, content, errSessionEnded()
	}
	if err != nil {
		return session, content, err
	}
	if !m.clock().Before(session.ExpiresAt) {
		return session, content, errSessionEnded()
	}
	if content, err = keys.open(session.Content); err != nil {
		m.log.Error(err, "Cannot read a session")
		return session, content, errSessionEnded()
	}
	return session, content, nil
}

// awaitRefresh waits until the provider has confirmed a session to another request or replica that is asking it.
func (m *sessionManager) awaitRefresh(ctx context.Context, keys sessionKeys) (*sessionContent, error) {
	answer := m.waiting.DoChan(keys.id, func() (any, error) {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshPatience)
		defer cancel()
		poll := time.NewTicker(refreshPoll)
		defer poll.Stop()
		for {
			session, content, err := m.load(bounded, keys)
			switch {
			case err != nil:
				return nil, err
			case !m.stale(content):
				return &content, nil
			case !session.RefreshAt.After(m.clock().Add(refreshRetry)):
				return nil, errUnconfirmed(nil)
			}
			select {
			case <-bounded.Done():
				return nil, errUnconfirmed(bounded.Err())
			case <-poll.C:
			}
		}
	})
	select {
	case result := <-answer:
		content, _ := result.Val.(*sessionContent)
		return content, result.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// refreshUntil refreshes a session, and waits for that until the deadline of the context. The answer must be kept even if the client goes away or does not wait any longer: it
// may hold the only refresh token that is still valid.
func (m *sessionManager) refreshUntil(ctx context.Context, keys sessionKeys, session store.Session, content sessionContent) (*sessionContent, error) {
	type outcome struct {
		content *sessionContent
		err     error
	}
	answer := make(chan outcome, 1)
	go func() {
		defer func() {
			// As the HTTP server does with those of requests.
			if problem := recover(); problem != nil {
				answer <- outcome{err: fmt.Errorf("refresh the session: panic: %v", problem)}
			}
		}()
		refreshed, err := m.refresh(context.WithoutCancel(ctx), keys, session, content)
		answer <- outcome{refreshed, err}
	}()
	var late <-chan time.Time
	if deadline, bounded := ctx.Deadline(); bounded {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case o := <-answer:
		return o.content, o.err
	case <-late:
		return nil, context.DeadlineExceeded
	}
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
		if m.stale(content) {
			return m.awaitRefresh(ctx, keys)
		}
		return &content, nil
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
		// Those who wait for the answer must not wait any longer.
		session.RefreshAt = m.clock().Add(refreshRetry)
		if _, kept := m.Store.UpdateSession(ctx, session); kept != nil {
			return nil, kept
		}
		if m.stale(content) {
			return nil, errUnconfirmed(err)
		}
		return &content, nil
	}
	now = m.clock()
	content = sessionContent{grant, now}
	if session.Content, err = keys.seal(content); err != nil {
		return nil, err
	}
	// The session at the provider can be another one by now.
	session.ProviderSession = m.hashOf("session", grant.SessionID)
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

// stale says that the provider confirmed a session too long ago. Without a refresh token it is never asked, and the session ends with the ID token.
func (m *sessionManager) stale(content sessionContent) bool {
	return content.RefreshToken != "" && m.clock().Sub(content.Confirmed) > staleAfter
}

// errUnconfirmed is the answer while the provider cannot be asked about a session that it confirmed too long ago.
func errUnconfirmed(cause error) error {
	return problem.Unavailable(cause, "the identity provider is unavailable: cannot check who you are; try again")
}
