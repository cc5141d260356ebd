package auth

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
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

// tokenPattern is the b64token of RFC 6750.
var tokenPattern = regexp.MustCompile(`^[A-Za-z0-9\-._~+/]+=*$`)

// Config configures a guard.
type Config struct {
	Mode Mode
	// Reviews and Uploads are required by Kubernetes.
	Reviews Reviews
	Uploads UploadAuthorizer
	Limits  RateLimits
	Clock   func() time.Time
}

// Guard decides which requests are let in.
type Guard struct {
	mode    Mode
	uploads UploadAuthorizer
	clock   func() time.Time
	// reviews is nil without authentication.
	reviews *reviewer
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
		mode: config.Mode, uploads: config.Uploads, clock: config.Clock,
		requests: newLimiter(config.Limits.RequestRate, config.Limits.RequestBurst),
		failures: newLimiter(config.Limits.FailureRate, config.Limits.FailureBurst),
		reserve:  newLimiter(reserveFactor*config.Limits.FailureRate, config.Limits.FailureBurst),
	}
	if config.Mode == Kubernetes {
		// A token that was made for us, or else one that was made for the API server, as people have.
		g.reviews = newReviewer(config.Reviews, config.Clock, []string{Audience}, nil)
	}
	return g
}

// Requirement is what an operation requires of its callers.
type Requirement struct {
	// Verb is what the caller must be allowed to do with scan results. "" when the operation requires nothing, or checks by
	// itself.
	Verb string
	// Audience says that the token must have been made for Audience: the API server's own tokens are for reading and deleting.
	Audience bool
	// SignsIn says that the operation looks at a token in the body, and counts by itself.
	SignsIn bool
	// Cost is how much of its caller's allowance a request takes, 0 for 1.
	Cost int
}

// Admission is how a caller was let in.
type Admission struct {
	// Caller is who the caller is for limits, User its name.
	Caller, User string
	token, verb  string
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
		return ctx, g.charge(callerAddress(r), required.Cost)
	case required.SignsIn:
		// It is charged to who turns out to have signed in: others at the same address must not be able to keep anybody from it.
		return ctx, nil
	case required.Verb == "":
		return ctx, g.charge(g.callerUnproven(r), required.Cost)
	}
	token, p, err := g.caller(r)
	if err != nil {
		if limited := g.charge(callerAddress(r), required.Cost); limited != nil {
			return nil, limited
		}
		return nil, err
	}
	if err := g.charge(callerUser(p), required.Cost); err != nil {
		return nil, err
	}
	if required.Audience && !p.audience {
		return nil, problem.New(http.StatusForbidden, "uploading a report requires a token with the audience %q", Audience)
	}
	if err := g.permit(ctx, p, required.Verb); err != nil {
		return nil, err
	}
	return context.WithValue(ctx, admissionKey{}, Admission{Caller: callerUser(p), User: p.user.Username, token: token, verb: required.Verb}), nil
}

// Readmit asks again whether who was let in still would be.
func (g *Guard) Readmit(ctx context.Context, a Admission) error {
	p, err := g.reviews.authenticate(ctx, a.token)
	if err != nil {
		return err
	}
	return g.permit(ctx, p, a.verb)
}

// AuthorizeUpload lets the bearer of a token deliver the SBOM of an image if the upload authorizer does. It returns the UID of the Job that
// delivers it, "" when anybody may.
func (g *Guard) AuthorizeUpload(r *http.Request, key model.ImageKey) (job string, err error) {
	if g.mode == None {
		return "", nil
	}
	token, err := tokenOf(r)
	if err != nil {
		return "", err
	}
	err = g.try(r, token, func() (err error) {
		job, err = g.uploads.AuthorizeUpload(r.Context(), token, key)
		return err
	})
	return job, err
}

// permit refuses somebody who may not do something with scan results.
func (g *Guard) permit(ctx context.Context, p *principal, verb string) error {
	allowed, err := g.reviews.allowed(ctx, p, action{verb: verb})
	if err != nil {
		return err
	}
	if !allowed {
		return problem.New(http.StatusForbidden, "user %q is not allowed to %s %s.%s", p.user.Username, verb, resourceName, resourceGroup)
	}
	return nil
}

// caller says who sent a request, and with which token.
func (g *Guard) caller(r *http.Request) (string, *principal, error) {
	token, err := tokenOf(r)
	if err != nil {
		return "", nil, err
	}
	p, err := g.authenticate(r, token)
	return token, p, err
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

// tokenOf returns the bearer token of a request, or that of its session.
func tokenOf(r *http.Request) (string, error) {
	if token, found, err := bearerToken(r); found || err != nil {
		return token, err
	}
	if cookie, err := r.Cookie(sessionCookie); err == nil {
		return checkedToken(cookie.Value)
	}
	return "", problem.New(http.StatusUnauthorized, "authentication required: send a bearer token or sign in")
}

// bearerToken returns the token of the Authorization header, if there is one.
func bearerToken(r *http.Request) (token string, found bool, err error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return "", false, nil
	}
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", false, problem.New(http.StatusUnauthorized, "the Authorization header does not have the form \"Bearer TOKEN\"")
	}
	token, err = checkedToken(strings.TrimSpace(token))
	return token, err == nil, err
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
	switch c.Mode {
	case None:
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
