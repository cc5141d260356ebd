package server

import (
	"context"
	"net/http"
	"regexp"
	"strings"
)

// sessionCookie holds the token of somebody who signed in to the UI.
const sessionCookie = "scanner-operator-session"

// maxToken bounds a token; maxCookieToken is what fits into a cookie of the 4096 bytes that browsers keep.
const (
	maxToken       = 16 << 10
	maxCookieToken = 3800
)

// tokenPattern is the b64token of RFC 6750.
var tokenPattern = regexp.MustCompile(`^[A-Za-z0-9\-._~+/]+=*$`)

// admission is how a caller was let in.
type admission struct {
	token, verb string
	// caller is who the caller is for limiters.
	caller string
}

// admissionKey finds the admission in the context of a request. Without authentication there is none.
type admissionKey struct{}

func admissionOf(ctx context.Context) (admission, bool) {
	a, found := ctx.Value(admissionKey{}).(admission)
	return a, found
}

// admit lets a request in if its caller may do what the operation does.
func (s *Server) admit(r *http.Request, route route) (context.Context, error) {
	ctx := r.Context()
	switch {
	case s.config.Auth == AuthNone:
		return ctx, s.charge(callerAddress(r), route)
	case route.signsIn:
		// It is charged to who turns out to have signed in: others at the same address must not be able to keep anybody from it.
		return ctx, nil
	case route.verb == "":
		return ctx, s.charge(s.callerUnproven(r), route)
	}
	token, p, err := s.caller(r)
	if err != nil {
		if limited := s.charge(callerAddress(r), route); limited != nil {
			return nil, limited
		}
		return nil, err
	}
	if err := s.charge(callerUser(p), route); err != nil {
		return nil, err
	}
	if route.audience && !p.audience {
		return nil, problemf(http.StatusForbidden, "uploads need a token that was made for the audience %q", Audience)
	}
	if err := s.permit(ctx, p, route.verb); err != nil {
		return nil, err
	}
	return context.WithValue(ctx, admissionKey{}, admission{token, route.verb, callerUser(p)}), nil
}

// permit refuses somebody who may not do something with scan results.
func (s *Server) permit(ctx context.Context, p *principal, verb string) error {
	allowed, err := s.reviews.allowed(ctx, p, verb)
	if err != nil {
		return err
	}
	if !allowed {
		return problemf(http.StatusForbidden, "%s may not %s %s.%s", p.user.Username, verb, resourceName, resourceGroup)
	}
	return nil
}

// readmit asks again whether who was let in still would be.
func (s *Server) readmit(ctx context.Context, a admission) error {
	p, err := s.reviews.authenticate(ctx, a.token)
	if err != nil {
		return err
	}
	return s.permit(ctx, p, a.verb)
}

// caller says who sent a request, and with which token.
func (s *Server) caller(r *http.Request) (string, *principal, error) {
	token, err := tokenOf(r)
	if err != nil {
		return "", nil, err
	}
	p, err := s.signIn(r, token)
	return token, p, err
}

// tokenOf returns the bearer token of a request, or that of its session.
func tokenOf(r *http.Request) (string, error) {
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, token, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return "", problemf(http.StatusUnauthorized, "the Authorization header is not of the form \"Bearer TOKEN\"")
		}
		return checkedToken(strings.TrimSpace(token))
	}
	if cookie, err := r.Cookie(sessionCookie); err == nil {
		return checkedToken(cookie.Value)
	}
	return "", problemf(http.StatusUnauthorized, "this needs a bearer token, or signing in")
}

// checkedToken refuses what no API server has to be asked about.
func checkedToken(token string) (string, error) {
	if len(token) > maxToken || !tokenPattern.MatchString(token) {
		return "", problemf(http.StatusUnauthorized, "the token is not one that Kubernetes issues")
	}
	return token, nil
}
