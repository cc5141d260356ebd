package server

import (
	"context"
	"net/http"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// providerPatience is how long the description of a session waits for the identity provider. Users who are signed in do not wait.
const providerPatience = 2 * time.Second

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
	session, cookies, err := o.s.guard.SignIn(requestOf(ctx), request.Body.Token)
	if err != nil {
		return nil, err
	}
	keepConnection(ctx)
	o.s.auditSession("Signed in", session.User, session.Method)
	return signedIn{api.CreateSession200JSONResponse(o.s.toSession(ctx, session)), cookies}, nil
}

// StartSignIn sends a browser to the identity provider.
func (o operations) StartSignIn(ctx context.Context, request api.StartSignInRequestObject) (api.StartSignInResponseObject, error) {
	redirect, err := o.s.guard.StartSignIn(requestOf(ctx), value(request.Params.ReturnTo))
	if err != nil {
		return nil, err
	}
	return redirected(redirect), nil
}

// FinishSignIn signs in who comes back from the identity provider.
func (o operations) FinishSignIn(ctx context.Context, request api.FinishSignInRequestObject) (api.FinishSignInResponseObject, error) {
	redirect, err := o.s.guard.FinishSignIn(requestOf(ctx), auth.Callback{
		Code: value(request.Params.Code), State: value(request.Params.State), Issuer: value(request.Params.Iss), Error: value(request.Params.Error),
	})
	if err != nil {
		return nil, err
	}
	if redirect.User != "" {
		o.s.auditSession("Signed in", redirect.User, auth.MethodProvider)
	}
	return redirected(redirect), nil
}

// EndProviderSession ends the sessions of somebody who has signed out at the identity provider.
func (o operations) EndProviderSession(ctx context.Context, request api.EndProviderSessionRequestObject) (api.EndProviderSessionResponseObject, error) {
	if request.Body == nil || request.Body.LogoutToken == "" {
		return nil, problem.BadRequest("logout_token is required")
	}
	if err := o.s.guard.EndSessionsOf(requestOf(ctx), request.Body.LogoutToken); err != nil {
		return nil, err
	}
	return api.EndProviderSession200Response{}, nil
}

// DeleteSession signs out.
func (o operations) DeleteSession(ctx context.Context, request api.DeleteSessionRequestObject) (api.DeleteSessionResponseObject, error) {
	out, err := o.s.guard.SignOut(requestOf(ctx), value(request.Params.Everywhere))
	if err != nil {
		return nil, err
	}
	if out.User != "" {
		o.s.auditSession("Signed out", out.User, "")
	}
	return signedOut(out), nil
}

// auditSession logs that somebody signed in or out.
func (s *Server) auditSession(message, user, method string) {
	s.log.WithName("audit").Info(message, "user", truncate.Text(user, maxAuditText), "method", method)
}

// session describes the caller of a request.
func (s *Server) session(ctx context.Context) (api.Session, error) {
	session, err := s.guard.Session(requestOf(ctx))
	if err != nil {
		return api.Session{}, err
	}
	return s.toSession(ctx, session), nil
}

func (s *Server) toSession(ctx context.Context, session auth.Session) api.Session {
	out := api.Session{
		Auth: api.SessionAuth(s.config.Auth), Authenticated: session.Authenticated, User: optional(session.User),
		CanDelete: session.CanDelete, CanUpdate: session.CanUpdate, DisplayName: optional(session.DisplayName), Groups: optionalList(session.Groups),
		Method: optional(api.SessionMethod(session.Method)), AnonymousRead: optional(s.guard.AnonymousRead()),
	}
	if seen := session.Namespaces; seen != nil {
		out.Namespaces = &api.SessionNamespaces{All: seen.All, Visible: seen.Visible, Names: append([]string{}, seen.Names...), Total: optional(seen.Total)}
	}
	patience := providerPatience
	if session.Authenticated {
		patience = 0
	}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if name, available := s.guard.Provider(bounded); name != "" {
		out.Provider = &api.IdentityProvider{Name: name, Available: available}
	}
	return out
}

// signedIn is the answer to signing in, with the cookies.
type signedIn struct {
	api.CreateSession200JSONResponse
	cookies []*http.Cookie
}

// VisitCreateSessionResponse writes the answer.
func (a signedIn) VisitCreateSessionResponse(w http.ResponseWriter) error {
	setCookies(w, a.cookies)
	return a.CreateSession200JSONResponse.VisitCreateSessionResponse(w)
}

// redirected is the answer that sends a browser on.
type redirected auth.Redirect

// VisitStartSignInResponse writes the answer.
func (a redirected) VisitStartSignInResponse(w http.ResponseWriter) error {
	setCookies(w, a.Cookies)
	w.Header().Set("Location", a.Location)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// VisitFinishSignInResponse writes the answer.
func (a redirected) VisitFinishSignInResponse(w http.ResponseWriter) error {
	return a.VisitStartSignInResponse(w)
}

// signedOut is the answer to signing out.
type signedOut auth.SignedOut

// VisitDeleteSessionResponse writes the answer.
func (a signedOut) VisitDeleteSessionResponse(w http.ResponseWriter) error {
	setCookies(w, a.Cookies)
	if a.EndSessionURL != "" {
		return api.DeleteSession200JSONResponse{EndSessionUrl: a.EndSessionURL}.VisitDeleteSessionResponse(w)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func setCookies(w http.ResponseWriter, cookies []*http.Cookie) {
	for _, cookie := range cookies {
		http.SetCookie(w, cookie)
	}
}
