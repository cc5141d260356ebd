package auth

import (
	"context"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// sessionCookie holds the token of somebody who signed in to the UI. With TLS its name has a prefix: see cookieName.
const sessionCookie = "scanner-operator-session"

// maxCookieToken bounds a token in a cookie: browsers keep cookies of 4096 bytes.
const maxCookieToken = 3800

// Methods of a Session.
const (
	MethodToken      = "token"
	MethodProvider   = "provider"
	MethodFrontProxy = "frontProxy"
)

// Session says who a caller is, and which of the actions that change something it may do.
type Session struct {
	// Authenticated is false for a caller without a valid token or session; User is "" without authentication.
	Authenticated        bool
	User                 string
	CanDelete, CanUpdate bool
	// DisplayName is what people call the user; it may be empty. Groups are those of the user.
	DisplayName string
	Groups      []string
	// Method says how the user signed in: MethodToken, MethodProvider or MethodFrontProxy; "" for nobody.
	Method string
	// Namespaces are those that the caller sees, nil for a caller that must sign in first.
	Namespaces *SessionNamespaces
}

// AnonymousRead says whether callers without a token or session can read.
func (g *Guard) AnonymousRead() bool { return g.anonymous != nil }

// anonymousUser is who kube-apiserver takes callers for who have not proved who they are.
func anonymousUser() authenticationv1.UserInfo {
	return authenticationv1.UserInfo{Username: "system:anonymous", Groups: []string{"system:unauthenticated"}}
}

// Session describes the caller of a request. A caller without a valid token is an answer, not an error.
func (g *Guard) Session(r *http.Request) (Session, error) {
	ctx := r.Context()
	if g.mode == None {
		namespaces, err := g.describe(ctx, store.AllNamespaces())
		return Session{Authenticated: true, CanDelete: true, CanUpdate: true, Namespaces: namespaces}, err
	}
	_, p, err := g.caller(r)
	if g.mayReadAnonymously(r, Requirement{Verb: VerbList}, err) {
		visible, err := g.shownTo(ctx, g.anonymous)
		if err != nil {
			return Session{}, err
		}
		namespaces, err := g.describe(ctx, visible)
		return Session{Namespaces: namespaces}, err
	}
	if refused, ok := problem.As(err); ok && refused.Status == http.StatusUnauthorized {
		return Session{}, nil
	}
	if err != nil {
		return Session{}, err
	}
	return g.session(ctx, p)
}

// SignIn describes the owner of a token, and makes the cookie that holds it from now on. A session with the provider ends.
func (g *Guard) SignIn(r *http.Request, token string) (Session, []*http.Cookie, error) {
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
	cookies := []*http.Cookie{g.tokenCookie(token, 0, g.https(r))}
	if g.sessions != nil {
		g.forget(r)
		cookies = append(cookies, g.sessions.sessionCookie(""))
	}
	return session, cookies, nil
}

func (g *Guard) session(ctx context.Context, p *principal) (Session, error) {
	visible, err := g.shownTo(ctx, p)
	if err != nil {
		return Session{}, err
	}
	session := Session{Authenticated: true, User: p.user.Username, Groups: p.user.Groups, Method: MethodToken}
	switch {
	case p.front:
		session.Method = MethodFrontProxy
	case p.session != nil:
		session.Method, session.DisplayName = MethodProvider, p.session.DisplayName
	}
	if session.CanDelete, err = g.somewhere(ctx, p, VerbDelete, visible); err != nil {
		return Session{}, err
	}
	if session.CanUpdate, err = g.somewhere(ctx, p, VerbUpdate, visible); err != nil {
		return Session{}, err
	}
	session.Namespaces, err = g.describe(ctx, visible)
	return session, err
}

// somewhere reports whether somebody may use a verb in the whole cluster or, if it does not see all of it, in a namespace that it sees.
func (g *Guard) somewhere(ctx context.Context, p *principal, verb string, visible store.Namespaces) (bool, error) {
	everywhere, err := g.reviews.allowed(ctx, p, action{verb: verb})
	if err != nil || everywhere || visible.All() {
		return everywhere, err // To ask about each namespace at each visit would take too long.
	}
	return g.reviews.somewhere(ctx, p, verb, visible)
}

// tokenCookie makes the cookie with a token; it goes when the browser is closed, or at once with a negative age.
func (g *Guard) tokenCookie(token string, age int, secure bool) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Secure follows the browser's connection: without TLS there would be no session at all
		Name: cookieName(sessionCookie, g.basePath, secure), Value: token, Path: g.basePath, MaxAge: age,
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode,
	}
}
