package server

import (
	"context"
	"net/http"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
)

// GetSession says who is asking. Nobody is an answer, not an error.
func (o operations) GetSession(ctx context.Context, _ api.GetSessionRequestObject) (api.GetSessionResponseObject, error) {
	session, err := o.s.session(ctx, requestOf(ctx))
	if err != nil {
		return nil, err
	}
	return api.GetSession200JSONResponse(session), nil
}

// CreateSession signs in: a token that Kubernetes accepts goes into a cookie that scripts cannot read.
func (o operations) CreateSession(ctx context.Context, request api.CreateSessionRequestObject) (api.CreateSessionResponseObject, error) {
	r := requestOf(ctx)
	if o.s.config.Auth == AuthNone {
		session, err := o.s.session(ctx, r)
		return api.CreateSession200JSONResponse(session), err
	}
	if request.Body == nil || request.Body.Token == "" {
		return nil, badRequest("token is missing")
	}
	token := request.Body.Token
	if len(token) > maxCookieToken {
		return nil, badRequest("the token has %d bytes, more than the %d that fit into a cookie; make one with \"kubectl create token\"",
			len(token), maxCookieToken)
	}
	token, err := checkedToken(token)
	if err != nil {
		return nil, err
	}
	p, err := o.s.signIn(r, token)
	if err != nil {
		return nil, err
	}
	if err := o.s.charge(callerUser(p), route{}); err != nil {
		return nil, err
	}
	session, err := o.s.sessionOf(ctx, p)
	if err != nil {
		return nil, err
	}
	return signedIn{api.CreateSession200JSONResponse(session), newCookie(r, token, 0)}, nil
}

// DeleteSession signs out.
func (o operations) DeleteSession(ctx context.Context, _ api.DeleteSessionRequestObject) (api.DeleteSessionResponseObject, error) {
	return signedOut{newCookie(requestOf(ctx), "", -1)}, nil
}

// session describes the caller of a request.
func (s *Server) session(ctx context.Context, r *http.Request) (api.Session, error) {
	if s.config.Auth == AuthNone {
		return api.Session{Auth: api.None, Authenticated: true, CanDelete: true, CanUpdate: true}, nil
	}
	_, p, err := s.caller(r)
	if problem, ok := asProblem(err); ok && problem.status == http.StatusUnauthorized {
		return api.Session{Auth: api.Kubernetes}, nil
	}
	if err != nil {
		return api.Session{}, err
	}
	return s.sessionOf(ctx, p)
}

func (s *Server) sessionOf(ctx context.Context, p *principal) (api.Session, error) {
	canDelete, err := s.reviews.allowed(ctx, p, verbDelete)
	if err != nil {
		return api.Session{}, err
	}
	canUpdate, err := s.reviews.allowed(ctx, p, verbUpdate)
	if err != nil {
		return api.Session{}, err
	}
	return api.Session{
		Auth: api.Kubernetes, Authenticated: true, User: &p.user.Username, CanDelete: canDelete, CanUpdate: canUpdate,
	}, nil
}

// newCookie makes the session's cookie; it goes when the browser is closed, or at once with a negative age.
func newCookie(r *http.Request, token string, age int) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Secure follows the browser's connection: without TLS there would be no session at all
		Name: sessionCookie, Value: token, Path: "/", MaxAge: age,
		HttpOnly: true, Secure: isHTTPS(r), SameSite: http.SameSiteStrictMode,
	}
}

// signedIn is the answer to signing in, with the cookie.
type signedIn struct {
	api.CreateSession200JSONResponse
	cookie *http.Cookie
}

// VisitCreateSessionResponse writes the answer.
func (a signedIn) VisitCreateSessionResponse(w http.ResponseWriter) error {
	http.SetCookie(w, a.cookie)
	return a.CreateSession200JSONResponse.VisitCreateSessionResponse(w)
}

// signedOut is the answer to signing out.
type signedOut struct{ cookie *http.Cookie }

// VisitDeleteSessionResponse writes the answer.
func (a signedOut) VisitDeleteSessionResponse(w http.ResponseWriter) error {
	http.SetCookie(w, a.cookie)
	w.WriteHeader(http.StatusNoContent)
	return nil
}
