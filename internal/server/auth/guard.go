package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server/auth/frontproxy"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Mode says how callers prove who they are.
type Mode string

// The modes.
const (
	// Kubernetes asks the Kubernetes API server about bearer tokens and about what their owners may do.
	Kubernetes Mode = "kubernetes"
	// None lets everybody in.
	None Mode = "none"
)

// Verbs on the resource "scanresults".
const (
	VerbGet    = "get"
	VerbList   = "list"
	VerbUpdate = "update"
	VerbDelete = "delete"
)

// maxToken bounds a token in bytes.
const maxToken = 16 << 10

// ProxiedHeader holds the token of a caller behind the service proxy of the Kubernetes API server, which removes the header Authorization. The token must
// have been made for Audience: that proxy does not verify to whom it passes the header on.
const ProxiedHeader = "X-Scanner-Authorization"

// tokenPattern is the b64token of RFC 6750.
var tokenPattern = regexp.MustCompile(`^[A-Za-z0-9\-._~+/]+=*$`)

// Config configures a guard.
type Config struct {
	Mode Mode
	// Reviews and Uploads are required by Kubernetes.
	Reviews Reviews
	Uploads UploadAuthorizer
	// Namespaces lists the namespaces that there is anything of, by name.
	Namespaces func(ctx context.Context) ([]string, error)
	Limits     RateLimits
	Clock      func() time.Time
	// BasePath is the path below which browsers reach the server, from the first slash to the last: that of cookies and of addresses to return
	// to. "/" by default.
	BasePath string
	// HTTPS reports whether the browser that sent a request speaks TLS, to the server or to a proxy in front of it. By default it is looked at whether the request
	// came over TLS.
	HTTPS func(r *http.Request) bool
	// Sessions are those of users who sign in with a provider; nil without one.
	Sessions *Sessions
	// FrontProxy knows the proxies that are trusted to name users; nil trusts none.
	FrontProxy *frontproxy.Proxy
	// AnonymousRead lets callers without a token or session read what the user system:anonymous may.
	AnonymousRead bool
	Log           logr.Logger
}

// Guard decides which requests are let in.
type Guard struct {
	mode     Mode
	uploads  UploadAuthorizer
	basePath string
	https    func(r *http.Request) bool
	clock    func() time.Time
	log      logr.Logger
	// reviews is nil without authentication, sessions without a provider, proxy unless one is trusted, anonymous unless callers may read without a
	// token.
	reviews    *reviewer
	sessions   *sessionManager
	proxy      *frontproxy.Proxy
	anonymous  *principal
	namespaces *knownNamespaces
	// requests bounds what each caller asks, failures the refused tokens of each address.
	requests, failures *limiter
	// reserve bounds those tokens of each address that are looked at although it used up what it may fail; throttled counts the tokens
	// of such addresses.
	reserve   *limiter
	throttled atomic.Uint64
}

// New makes a guard.
func New(config Config) *Guard {
	g := &Guard{
		mode: config.Mode, uploads: config.Uploads, basePath: cmp.Or(config.BasePath, rootPath), https: config.HTTPS, clock: config.Clock, log: config.Log,
		namespaces: newKnownNamespaces(config.Namespaces, config.Clock),
		requests:   newLimiter(config.Limits.RequestRate, config.Limits.RequestBurst),
		failures:   newLimiter(config.Limits.FailureRate, config.Limits.FailureBurst),
		reserve:    newLimiter(reserveFactor*config.Limits.FailureRate, config.Limits.FailureBurst),
	}
	if g.https == nil {
		g.https = func(r *http.Request) bool { return r.TLS != nil }
	}
	if config.Mode == Kubernetes {
		// A token that was made for us, or else one that was made for the API server, as people have.
		g.reviews = newReviewer(config.Reviews, g.namespaces, config.Clock, []string{Audience}, nil)
		g.proxy = config.FrontProxy
		if config.Sessions != nil {
			g.sessions = &sessionManager{Sessions: *config.Sessions, basePath: g.basePath, clock: config.Clock, log: config.Log}
		}
		if config.AnonymousRead {
			g.anonymous = g.reviews.principalOf(anonymousUser())
		}
	}
	return g
}

// Requirement is what an operation requires of its callers.
type Requirement struct {
	// Verb is what the caller must be allowed to do with scan results. "" when the operation requires nothing, or checks by
	// itself.
	Verb string
	// Cluster says that the permission must be that for the whole cluster. Otherwise callers who may list scan results in some namespaces are let
	// in, and see these alone.
	Cluster bool
	// Identified says that callers must have proved who they are, although they only have to be allowed to read: the operation asks for more permissions by
	// itself.
	Identified bool
	// Decides says the same of callers who see no namespace only: the others only have to be allowed to read.
	Decides bool
	// Audience says that the token must have been made for Audience: the API server's own tokens are for reading and deleting.
	Audience bool
	// SignsIn says that the operation looks at a token in the body, and counts by itself.
	SignsIn bool
	// Cost is how much of its caller's allowance a request takes, 0 for 1.
	Cost int
}

// Admission is how a caller was let in.
type Admission struct {
	// Caller is who the caller is for limits, User its name. Identity is who it is for SubjectAccessReviews.
	Caller, User string
	Identity     authenticationv1.UserInfo
	// Anonymous says that the caller has not proved who it is.
	Anonymous bool
	// Visible are the namespaces that the caller sees.
	Visible    store.Namespaces
	credential credential
	required   Requirement
}

// credential is what a caller proves with who it is: a token, the secret of a session, what a front proxy says, or nothing. Only a token is ever
// proxied: sent in ProxiedHeader.
type credential struct {
	token, session string
	proxied        bool
	front          *frontUser
}

// admissionKey finds the admission in the context of a request. Without authentication there is none.
type admissionKey struct{}

// AdmissionOf returns how the caller of a request was let in; found is false when nobody was asked.
func AdmissionOf(ctx context.Context) (a Admission, found bool) {
	a, found = ctx.Value(admissionKey{}).(Admission)
	return a, found
}

// Admit lets a request in if its caller may do what the operation does. The context that it returns holds the admission.
func (g *Guard) Admit(r *http.Request, required Requirement) (context.Context, error) {
	ctx := r.Context()
	switch {
	case g.mode == None:
		return withVisible(ctx, store.AllNamespaces()), g.charge(callerAddress(r), required.Cost)
	case required.SignsIn:
		// It is charged to who turns out to have signed in: others at the same address must not be able to keep anybody from it.
		return ctx, nil
	case required.Verb == "":
		return ctx, g.charge(g.callerUnproven(r), required.Cost)
	}
	shown, p, err := g.caller(r)
	if g.mayReadAnonymously(r, required, err) {
		shown, p, err = credential{}, g.anonymous, nil
	}
	if err != nil {
		if limited := g.charge(callerAddress(r), required.Cost); limited != nil {
			return nil, limited
		}
		return nil, err
	}
	admission := Admission{
		Caller: callerUser(p), User: p.user.Username, Identity: p.user, Anonymous: p == g.anonymous, credential: shown, required: required,
	}
	if admission.Anonymous {
		// What one of them asks for must not count for all.
		admission.Caller = callerAddress(r)
	}
	if err := g.charge(admission.Caller, required.Cost); err != nil {
		return nil, err
	}
	if required.Audience && !p.audience {
		return nil, problem.New(http.StatusForbidden, "uploading a report requires a token with the audience %q", Audience)
	}
	visible, err := g.see(ctx, p, required)
	if err != nil {
		return nil, err
	}
	admission.Visible = visible
	return withVisible(context.WithValue(ctx, admissionKey{}, admission), visible), nil
}

// Readmit asks again whether who was let in still would be, and would see the same: otherwise the error is ErrNamespacesChanged.
func (g *Guard) Readmit(ctx context.Context, a Admission) error {
	p, err := g.principalOf(ctx, a.credential)
	if err != nil {
		return err
	}
	visible, err := g.see(ctx, p, a.required)
	if err == nil && visible.Digest() != a.Visible.Digest() {
		err = ErrNamespacesChanged
	}
	return err
}

// AuthorizeUpload lets the bearer of a token deliver the SBOM of an image if the upload authorizer does. It returns what the upload
// authorizer does, and nothing when anybody may.
func (g *Guard) AuthorizeUpload(r *http.Request, key model.ImageKey) (delivery store.Delivery, err error) {
	if g.mode == None {
		return store.Delivery{}, nil
	}
	token, err := g.uploadToken(r)
	if err != nil {
		return store.Delivery{}, err
	}
	err = g.try(r, token, func() (err error) {
		delivery, err = g.uploads.AuthorizeUpload(r.Context(), token, key)
		return err
	})
	return delivery, err
}

// refusal is for somebody who may not do something with scan results.
func refusal(p *principal, verb string) error {
	return problem.New(http.StatusForbidden, "user %q is not allowed to %s %s.%s", p.user.Username, verb, resourceName, resourceGroup)
}

// caller says who sent a request, and with which credential.
func (g *Guard) caller(r *http.Request) (credential, *principal, error) {
	shown, err := g.credentialOf(r)
	if err != nil {
		g.countUntrusted(r, err)
		return credential{}, nil, err
	}
	if shown.front != nil {
		return shown, g.frontPrincipal(shown.front), nil
	}
	if shown.session != "" {
		if !g.reviews.wasProven(shown.session) {
			// The SQL database is asked about it.
			if err := g.charge(callerAddress(r), 1); err != nil {
				return credential{}, nil, err
			}
		}
		p, err := g.principalOf(r.Context(), shown)
		return shown, p, err
	}
	p, err := g.authenticate(r, shown.token)
	if err == nil && shown.proxied && !p.audience {
		return credential{}, nil, problem.New(http.StatusUnauthorized, "the token in the header %s must have the audience %q, because the proxy of the "+
			"API server does not verify to whom it sends a token", ProxiedHeader, Audience)
	}
	return shown, p, err
}

// principalOf says whose credential it is.
func (g *Guard) principalOf(ctx context.Context, shown credential) (*principal, error) {
	switch {
	case shown.front != nil:
		if err := g.proxy.Verify(shown.front.chain); err != nil {
			return nil, errUntrusted(err)
		}
		return g.frontPrincipal(shown.front), nil
	case shown.session != "":
		session, err := g.sessions.authenticate(ctx, shown.session)
		if err != nil {
			return nil, err
		}
		g.reviews.prove(shown.session)
		p := g.reviews.principalOf(session.User)
		// The provider issued its token for this program.
		p.audience, p.session = true, session
		return p, nil
	case shown.token != "":
		return g.reviews.authenticate(ctx, shown.token)
	default:
		return g.anonymous, nil
	}
}

// mayReadAnonymously says whether a caller that could not be authenticated may read like everybody. A token that is sent on purpose must be
// valid, and so must what a front proxy sends; cookies are sent by browsers, also when they are of no use any more.
func (g *Guard) mayReadAnonymously(r *http.Request, required Requirement, err error) bool {
	refused, ok := problem.As(err)
	if _, proxied := errors.AsType[frontProxyError](err); proxied {
		return false
	}
	return g.anonymous != nil && !required.Identified && ok && refused.Status == http.StatusUnauthorized && r.Header.Get("Authorization") == "" && r.Header.Get(ProxiedHeader) == "" &&
		reads(required.Verb)
}

// authenticate asks whose token it is. An address that tried many tokens which nobody accepts has to wait before it may try another:
// each is a question to the API server. Tokens that the answer is known of do not wait and do not count: a page that is still
// open with a session that has ended must not keep its user from signing in.
func (g *Guard) authenticate(r *http.Request, token string) (*principal, error) {
	if known, ok := g.reviews.remembered(token); ok {
		return orUnauthorized(known)
	}
	var p *principal
	err := g.try(r, token, func() (err error) {
		p, err = g.reviews.authenticate(r.Context(), token)
		return err
	})
	return p, err
}

// credentialOf returns what a trusted front proxy says of a request, or its bearer token, or the secret or the token of its session. The proxy comes
// first, as for kube-apiserver: it has authenticated the client, and passes on cookies and perhaps the password that the client sent to the proxy.
func (g *Guard) credentialOf(r *http.Request) (credential, error) {
	chain, refused := g.trustedProxy(r)
	if chain != nil {
		return g.frontCredential(r, chain)
	}
	if token, found, err := bearerToken(r); found || err != nil {
		return credential{token: token}, err
	}
	if header := r.Header.Get(ProxiedHeader); header != "" {
		token, err := tokenOf(ProxiedHeader, header)
		return credential{token: token, proxied: true}, err
	}
	if secret, found := g.sessionSecret(r); found {
		return credential{session: secret}, nil
	}
	if token, found, err := g.cookieToken(r); found || err != nil {
		return credential{token: token}, err
	}
	if refused != nil {
		return credential{}, refused
	}
	return credential{}, errNoCredential()
}

// sessionSecret returns the secret of a session with the provider, if the request has one.
func (g *Guard) sessionSecret(r *http.Request) (secret string, found bool) {
	if g.sessions == nil {
		return "", false
	}
	cookie, err := r.Cookie(g.sessions.cookieName(providerCookie))
	if err != nil || cookie.Value == "" {
		return "", false
	}
	return cookie.Value, true
}

func errNoCredential() error {
	return problem.New(http.StatusUnauthorized, "authentication required: send a bearer token or sign in")
}

// uploadToken returns the token of a scan pod: a bearer token, or that of a session with a token.
func (g *Guard) uploadToken(r *http.Request) (string, error) {
	if token, found, err := bearerToken(r); found || err != nil {
		return token, err
	}
	if token, found, err := g.cookieToken(r); found || err != nil {
		return token, err
	}
	return "", errNoCredential()
}

// cookieToken returns the token of the cookie of a session, if there is one.
func (g *Guard) cookieToken(r *http.Request) (token string, found bool, err error) {
	cookie, err := r.Cookie(cookieName(sessionCookie, g.basePath, g.https(r)))
	if err != nil {
		return "", false, nil //nolint:nilerr // there is no such cookie
	}
	token, err = checkedToken(cookie.Value)
	return token, true, err
}

// bearerToken returns the token of the Authorization header, if there is one.
func bearerToken(r *http.Request) (token string, found bool, err error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return "", false, nil
	}
	token, err = tokenOf("Authorization", header)
	return token, err == nil, err
}

// tokenOf returns the token in the value of a header.
func tokenOf(name, value string) (string, error) {
	scheme, token, _ := strings.Cut(value, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", problem.New(http.StatusUnauthorized, "the %s header does not have the form \"Bearer TOKEN\"", name)
	}
	return checkedToken(strings.TrimSpace(token))
}

// checkedToken refuses what no API server has to be asked about.
func checkedToken(token string) (string, error) {
	if len(token) > maxToken || !tokenPattern.MatchString(token) {
		return "", problem.New(http.StatusUnauthorized, "the token is malformed")
	}
	return token, nil
}

// Validate says what a mode lacks.
func (c Config) Validate() error {
	if c.Namespaces == nil {
		return errors.New("the namespaces are required")
	}
	switch c.Mode {
	case None:
		if c.Sessions != nil || c.FrontProxy != nil || c.AnonymousRead {
			return fmt.Errorf("signing in with an identity provider or a front proxy, and reading without a token, require auth %q", Kubernetes)
		}
		return nil
	case Kubernetes:
		if c.Reviews.Tokens == nil || c.Reviews.Access == nil || c.Uploads == nil {
			return fmt.Errorf("auth %q requires reviews and an upload authorizer", Kubernetes)
		}
		return nil
	default:
		return fmt.Errorf("auth %q is neither %q nor %q", c.Mode, Kubernetes, None)
	}
}
