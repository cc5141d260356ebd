package auth

import (
	"context"
	"net/http"

	"github.com/scanner-operator/scanner-operator/internal/server/problem"
)

// sessionCookie holds the token of somebody who signed in to the UI.
const sessionCookie = "scanner-operator-session"

// maxCookieToken bounds a token in a cookie: browsers keep cookies of 4096 bytes.
const maxCookieToken = 3800

// Session says who a caller is, and which of the actions that change something it may do.
type Session struct {
	// Authenticated is false for a caller without a valid token; User is "" without authentication.
	Authenticated        bool
	User                 string
	CanDelete, CanUpdate bool
}

// Session describes the caller of a request. A caller without a valid token is an answer, not an error.
func (g *Guard) Session(r *http.Request) (Session, error) {
	if g.mode == None {
		return Session{Authenticated: true, CanDelete: true, CanUpdate: true}, nil
	}
	_, p, err := g.caller(r)
	if refused, ok := problem.As(err); ok && refused.Status == http.StatusUnauthorized {
		return Session{}, nil
	}
	if err != nil {
		return Session{}, err
	}
	return g.session(r.Context(), p)
}

// SignIn describes the owner of a token, and makes the cookie that holds it from now on.
func (g *Guard) SignIn(r *http.Request, token string, secure bool) (Session, *http.Cookie, error) {
	if len(token) > maxCookieToken {
		return Session{}, nil, problem.BadRequest("the token has %d bytes, which exceeds the limit of %d bytes for a session cookie; create one with \"kubectl create token\"",
			len(token), maxCookieToken)
	}
	token, err := checkedToken(token)
	if err != nil {
		return Session{}, nil, err
	}
	p, err := g.authenticate(r, token)
	if err != nil {
		return Session{}, nil, err
	}
	if err := g.charge(callerUser(p), 1); err != nil {
		return Session{}, nil, err
	}
	session, err := g.session(r.Context(), p)
	if err != nil {
		return Session{}, nil, err
	}
	return session, newCookie(token, 0, secure), nil
}

// SignOut returns the cookie that ends a session.
func SignOut(secure bool) *http.Cookie { return newCookie("", -1, secure) }

func (g *Guard) session(ctx context.Context, p *principal) (Session, error) {
	canDelete, err := g.reviews.allowed(ctx, p, action{verb: VerbDelete})
	if err != nil {
		return Session{}, err
	}
	canUpdate, err := g.reviews.allowed(ctx, p, action{verb: VerbUpdate})
	if err != nil {
		return Session{}, err
	}
	return Session{Authenticated: true, User: p.user.Username, CanDelete: canDelete, CanUpdate: canUpdate}, nil
}

// newCookie makes the session's cookie; it goes when the browser is closed, or at once with a negative age.
func newCookie(token string, age int, secure bool) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Secure follows the browser's connection: without TLS there would be no session at all
		Name: sessionCookie, Value: token, Path: "/", MaxAge: age,
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode,
	}
}
