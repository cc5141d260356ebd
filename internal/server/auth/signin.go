package auth

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/oauth2"

	"github.com/scanner-operator/scanner-operator/internal/server/auth/oidc"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// SignInFailure is what the UI is told of a sign-in that failed; the log has the details.
type SignInFailure string

// The failures.
const (
	// SignInExpired: the sign-in was begun in another browser, or too long ago, or was finished before.
	SignInExpired SignInFailure = "expired"
	// SignInDenied: the provider did not let the user in.
	SignInDenied SignInFailure = "denied"
	// SignInRejected: what the provider says of the user is not accepted.
	SignInRejected SignInFailure = "rejected"
	// SignInUnavailable: the provider or the store cannot be reached.
	SignInUnavailable SignInFailure = "unavailable"
)

// signInErrorParameter is the parameter of a page with a SignInFailure.
const signInErrorParameter = "signInError"

// maxCode bounds a code of the provider in bytes.
const maxCode = 8 << 10

// Redirect is where a browser goes next, with cookies.
type Redirect struct {
	Location string
	Cookies  []*http.Cookie
	// User is who has signed in, "" for nobody.
	User string
}

// Callback is what the provider sends a browser back with.
type Callback struct{ Code, State, Issuer, Error string }

// errNoProvider is the answer when users can sign in with tokens only.
func errNoProvider() error {
	return problem.New(http.StatusNotFound, "no identity provider is configured; sign in with a token")
}

// Provider says what the identity provider is called and whether it can be used now; name is "" without one.
func (g *Guard) Provider(ctx context.Context) (name string, available bool) {
	if g.sessions == nil {
		return "", false
	}
	return g.sessions.Provider.Name(), g.sessions.Provider.Available(ctx) == nil
}

// StartSignIn sends a browser to the provider. returnTo is a path below the base path.
func (g *Guard) StartSignIn(r *http.Request, returnTo string) (Redirect, error) {
	if g.sessions == nil {
		return Redirect{}, errNoProvider()
	}
	begun := signIn{state: newSecret(), nonce: newSecret(), verifier: oauth2.GenerateVerifier(), returnTo: ReturnPath(returnTo)}
	location, err := g.sessions.Provider.AuthURL(r.Context(), begun.state, begun.nonce, begun.verifier)
	if err != nil {
		g.log.Info("Cannot start a sign-in", "error", err.Error())
		return Redirect{Location: g.below(withError(begun.returnTo, SignInUnavailable))}, nil
	}
	return Redirect{Location: location, Cookies: []*http.Cookie{g.sessions.signInCookie(begun.String())}}, nil
}

// FinishSignIn makes a session for a browser that comes back from the provider. The session is always a new one, and replaces what the
// browser was signed in with before.
func (g *Guard) FinishSignIn(r *http.Request, callback Callback) (Redirect, error) {
	if g.sessions == nil {
		return Redirect{}, errNoProvider()
	}
	returnTo := homePage
	begun, found := g.begunSignIn(r)
	if found {
		returnTo = begun.returnTo
	}
	redirect := Redirect{Location: g.below(returnTo), Cookies: []*http.Cookie{g.sessions.signInCookie("")}}
	var grant oidc.Grant
	// Nothing is asked for a return that does not belong to a sign-in of this browser, and it does not count: others at the address of a proxy can sign in.
	err := errSignInExpired
	if found && subtle.ConstantTimeCompare([]byte(callback.State), []byte(begun.state)) == 1 {
		err = g.limited(callerAddress(r), func() (err error) {
			grant, err = g.redeem(r.Context(), begun, callback)
			return err
		})
	}
	if limited, ok := problem.As(err); ok && limited.Status == http.StatusTooManyRequests {
		return Redirect{}, err
	}
	var secret string
	if err == nil {
		err = g.charge(userCaller(grant.User.Username), 1)
	}
	if err == nil {
		secret, err = g.sessions.create(r.Context(), grant)
	}
	if err != nil {
		reason := failureOf(err)
		g.log.Info("Sign-in failed", "reason", string(reason), "error", err.Error())
		redirect.Location = g.below(withError(returnTo, reason))
		return redirect, nil
	}
	g.forget(r)
	redirect.User = grant.User.Username
	redirect.Cookies = append(redirect.Cookies, g.sessions.sessionCookie(secret), g.tokenCookie("", -1, g.https(r)))
	return redirect, nil
}

// begunSignIn returns the sign-in that a browser has begun.
func (g *Guard) begunSignIn(r *http.Request) (begun signIn, found bool) {
	cookie, err := r.Cookie(g.sessions.cookieName(signInCookieName))
	if err != nil {
		return signIn{}, false
	}
	return parseSignIn(cookie.Value)
}

// Errors of a return from the provider.
var (
	errSignInExpired = errors.New("the browser has not begun this sign-in, or too long ago")
	errSignInDenied  = errors.New("the identity provider reports an error")
)

// redeem redeems the code of a return from the provider to a sign-in.
func (g *Guard) redeem(ctx context.Context, begun signIn, callback Callback) (oidc.Grant, error) {
	switch {
	case callback.Issuer != "" && callback.Issuer != g.sessions.Provider.Issuer():
		return oidc.Grant{}, fmt.Errorf("%w: another issuer sent the browser back, %.200q", oidc.ErrRejected, callback.Issuer)
	case callback.Error != "":
		return oidc.Grant{}, fmt.Errorf("%w: %.200q", errSignInDenied, callback.Error)
	case callback.Code == "" || len(callback.Code) > maxCode:
		return oidc.Grant{}, fmt.Errorf("%w: the code has %d bytes; it must have 1 to %d", oidc.ErrRejected, len(callback.Code), maxCode)
	}
	return g.sessions.Provider.Exchange(ctx, callback.Code, begun.nonce, begun.verifier)
}

func failureOf(err error) SignInFailure {
	switch {
	case errors.Is(err, errSignInExpired), errors.Is(err, oidc.ErrRefused):
		return SignInExpired
	case errors.Is(err, errSignInDenied):
		return SignInDenied
	case errors.Is(err, oidc.ErrRejected):
		return SignInRejected
	default:
		return SignInUnavailable
	}
}

// limited runs ask unless too many before it failed for the same client. Only what the client is to blame for counts.
func (g *Guard) limited(address string, ask func() error) error {
	if wait := g.failures.exhausted(address, g.clock()); wait > 0 && !g.reviewAnyway(address) {
		return problem.TooManyRequests(wait, "too many invalid attempts from this address; try again later")
	}
	err := ask()
	if err != nil && failureOf(err) != SignInUnavailable {
		g.failures.spend(address, 1, g.clock())
	}
	return err
}

// forget ends the session that a browser had before, if any. That it may fail keeps nobody from signing in: it expires.
func (g *Guard) forget(r *http.Request) {
	secret, found := g.sessionSecret(r)
	if !found {
		return
	}
	keys, err := keysOf(secret)
	if err != nil {
		return
	}
	if err := g.sessions.Store.DeleteSessions(r.Context(), store.SessionSelector{ID: keys.id}); err != nil {
		g.log.Info("Cannot end the previous session of a browser", "error", err.Error())
	}
}

// SignedOut is what a browser needs that has signed out.
type SignedOut struct {
	Cookies []*http.Cookie
	// EndSessionURL is where it signs out at the provider, "" for nowhere.
	EndSessionURL string
	// User is who has signed out, "" if that is not known.
	User string
}

// SignOut ends the session of a browser or, with everywhere, all sessions of its user. Tokens stay valid until they expire, and a front proxy ends its
// sessions itself.
func (g *Guard) SignOut(r *http.Request, everywhere bool) (SignedOut, error) {
	out := SignedOut{Cookies: []*http.Cookie{g.tokenCookie("", -1, g.https(r))}}
	if g.sessions == nil {
		return out, nil
	}
	out.Cookies = append(out.Cookies, g.sessions.sessionCookie(""), g.sessions.signInCookie(""))
	shown, p, err := g.caller(r)
	switch {
	case (err != nil || p.front) && !everywhere:
		return out, g.endSession(r)
	case err != nil:
		return SignedOut{}, err
	}
	out.User = p.user.Username
	var selector store.SessionSelector
	if p.session != nil {
		keys, err := keysOf(shown.session)
		if err != nil {
			return SignedOut{}, err
		}
		selector.ID = keys.id
		out.EndSessionURL = g.sessions.Provider.EndSessionURL(r.Context(), p.session.Grant)
	}
	if everywhere {
		selector = store.SessionSelector{Owner: ownerOf(p.user.Username)}
	}
	if selector == (store.SessionSelector{}) {
		return out, nil
	}
	return out, g.sessions.Store.DeleteSessions(r.Context(), selector)
}

// endSession ends the session of a browser, also while nobody can say whose it is.
func (g *Guard) endSession(r *http.Request) error {
	secret, found := g.sessionSecret(r)
	if !found {
		return nil
	}
	keys, err := keysOf(secret)
	if err != nil {
		return nil //nolint:nilerr // no session has such a secret
	}
	return g.sessions.Store.DeleteSessions(r.Context(), store.SessionSelector{ID: keys.id})
}

// EndSessionsOf ends the sessions that a logout token of the provider names.
func (g *Guard) EndSessionsOf(r *http.Request, logoutToken string) error {
	if g.sessions == nil {
		return errNoProvider()
	}
	var ended oidc.Logout
	// Failed sign-ins from the same address, such as that of a proxy, must not suppress it.
	err := g.limited("logout "+callerAddress(r), func() (err error) {
		ended, err = g.sessions.Provider.VerifyLogout(r.Context(), logoutToken)
		return err
	})
	switch {
	case errors.Is(err, oidc.ErrRejected):
		g.log.Info("Logout token refused", "error", err.Error())
		return problem.BadRequest("the logout token is not valid; the operator's log has the reason")
	case errors.Is(err, oidc.ErrUnavailable):
		return problem.Unavailable(err, "the identity provider is unavailable: cannot verify the logout token; try again")
	case err != nil:
		return err
	}
	g.log.Info("The identity provider ended sessions", "subject", ended.Subject)
	return g.sessions.Store.DeleteSessions(r.Context(), store.SessionSelector{
		Subject: g.sessions.hashOf("subject", ended.Subject), ProviderSession: g.sessions.hashOf("session", ended.SessionID), CreatedBefore: ended.Before,
	})
}
