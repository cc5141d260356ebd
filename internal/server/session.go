package server

import (
	"context"
	"net/http"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
)

// GetSession says who is asking. Nobody is an answer, not an error.
func (o operations) GetSession(ctx context.Context, _ api.GetSessionRequestObject) (api.GetSessionResponseObject, error) {
	session, err := o.s.session(ctx)
	if err != nil {
		return nil, err
	}
	return api.GetSession200JSONResponse(session), nil
}

// CreateSession signs in: a token that Kubernetes accepts goes into a cookie that scripts cannot read.
func (o operations) CreateSession(ctx context.Context, request api.CreateSessionRequestObject) (api.CreateSessionResponseObject, error) {
	if o.s.config.Auth == auth.None {
		session, err := o.s.session(ctx)
		return api.CreateSession200JSONResponse(session), err
	}
	if request.Body == nil || request.Body.Token == "" {
		return nil, problem.BadRequest("token is required")
	}
	r := requestOf(ctx)
	session, cookie, err := o.s.guard.SignIn(r, request.Body.Token, isHTTPS(r))
	if err != nil {
		return nil, err
	}
	keepConnection(ctx)
	return signedIn{api.CreateSession200JSONResponse(o.s.toSession(session)), cookie}, nil
}

// DeleteSession signs out.
func (o operations) DeleteSession(ctx context.Context, _ api.DeleteSessionRequestObject) (api.DeleteSessionResponseObject, error) {
	return signedOut{auth.SignOut(isHTTPS(requestOf(ctx)))}, nil
}

// session describes the caller of a request.
func (s *Server) session(ctx context.Context) (api.Session, error) {
	session, err := s.guard.Session(requestOf(ctx))
	return s.toSession(session), err
}

func (s *Server) toSession(session auth.Session) api.Session {
	return api.Session{
		Auth: api.SessionAuth(s.config.Auth), Authenticated: session.Authenticated, User: optional(session.User),
		CanDelete: session.CanDelete, CanUpdate: session.CanUpdate,
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
