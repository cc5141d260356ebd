package auth

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/scanner-operator/scanner-operator/internal/server/problem"
)

// Audience is what tokens for this API are made for.
const Audience = "scanner-operator"

// The resource that permissions are about.
const (
	resourceGroup = "scanner.zoltankerezsi.xyz"
	resourceName  = "scanresults"
)

// credentialID is the extra information in which the API server names the credential of a request.
const credentialID = "authentication.kubernetes.io/credential-id"

// Bounds on asking the API server.
const (
	allowTTL       = grantTTL
	allowPathTTL   = time.Minute
	identityTTL    = time.Minute
	denyTTL        = 10 * time.Second
	provenTTL      = 12 * time.Hour
	cacheSize      = 4096
	reviewTimeout  = 10 * time.Second
	reviewsAtATime = 64
)

// TokenReviewer creates TokenReviews; k8s.io/client-go's TokenReviewInterface is one.
type TokenReviewer interface {
	Create(ctx context.Context, review *authenticationv1.TokenReview, opts metav1.CreateOptions) (*authenticationv1.TokenReview, error)
}

// AccessReviewer creates SubjectAccessReviews; k8s.io/client-go's SubjectAccessReviewInterface is one.
type AccessReviewer interface {
	Create(ctx context.Context, review *authorizationv1.SubjectAccessReview, opts metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error)
}

// Reviews asks the Kubernetes API server about tokens and permissions.
type Reviews struct {
	Tokens TokenReviewer
	Access AccessReviewer
}

// NewReviews makes Reviews from a cluster's configuration and HTTP client.
func NewReviews(config *rest.Config, client *http.Client) (Reviews, error) {
	// Reviews are bounded here, and callers wait for them: they must not wait for controllers that share a rate limit.
	config = rest.CopyConfig(config)
	config.QPS, config.RateLimiter = -1, nil
	tokens, err := authenticationclient.NewForConfigAndClient(config, client)
	if err != nil {
		return Reviews{}, fmt.Errorf("client for token reviews: %w", err)
	}
	access, err := authorizationclient.NewForConfigAndClient(config, client)
	if err != nil {
		return Reviews{}, fmt.Errorf("client for access reviews: %w", err)
	}
	return Reviews{Tokens: tokens.TokenReviews(), Access: access.SubjectAccessReviews()}, nil
}

// principal is who a token belongs to.
type principal struct {
	user authenticationv1.UserInfo
	// audience says that the token was made for us, and not for the API server.
	audience bool
	// key stands for the user in caches.
	key cacheKey
	// session is that of a user who signed in with the provider, nil for others.
	session *sessionContent
	// front says that a front proxy has named the user.
	front bool
}

// principalOf is a user who was not authenticated by a TokenReview. What it may do is remembered for its name and groups: as soon as they
// change, it is asked again.
func (r *reviewer) principalOf(user authenticationv1.UserInfo) *principal {
	return &principal{user: user, key: r.identityKey(user)}
}

// identityKey stands for all that an authorizer knows of a user, but not for the token that proved it: one user can have any number of tokens, and
// each would be asked about in all namespaces.
func (r *reviewer) identityKey(user authenticationv1.UserInfo) cacheKey {
	// Numbers keep names that others choose, such as those of groups, from being taken for something else.
	parts := append([]string{"user", user.Username, user.UID, strconv.Itoa(len(user.Groups))}, slices.Sorted(slices.Values(user.Groups))...)
	for _, name := range slices.Sorted(maps.Keys(user.Extra)) {
		if values := user.Extra[name]; name != credentialID {
			parts = append(append(parts, name, strconv.Itoa(len(values))), values...)
		}
	}
	return r.keys.key(parts...)
}

// clockFunc is a clock of caches.
type clockFunc func() time.Time

// Now returns the time.
func (f clockFunc) Now() time.Time { return f() }

// action is what somebody wants to do: use a verb on a path of the server or, when there is no path, on a resource, scan results if it is "", in a
// namespace or, without one, in the whole cluster. name is that of an object, "" for all.
type action struct{ verb, path, namespace, resource, name string }

// reviewer asks the API server and remembers its answers for a short time.
type reviewer struct {
	reviews Reviews
	clock   func() time.Time
	// audiences are those that a token may have been made for, by preference; nil stands for those of the API server.
	audiences [][]string
	keys      keyer
	// identities holds a *principal for each token, decisions a bool for each token and action.
	identities, decisions *cache.LRUExpireCache
	// granted holds a bool for each caller, verb and namespace, resolved what is visible.
	namespaces        *knownNamespaces
	granted, resolved *cache.LRUExpireCache
	grantSlots        *semaphore.Weighted
	// proven holds tokens that were good some time ago, whether they still are or not.
	proven  *cache.LRUExpireCache
	flights singleflight.Group
	slots   *semaphore.Weighted
}

func newReviewer(reviews Reviews, namespaces *knownNamespaces, clock func() time.Time, audiences ...[]string) *reviewer {
	return &reviewer{
		reviews: reviews, clock: clock, audiences: audiences, keys: newKeyer(), namespaces: namespaces,
		identities: cache.NewLRUExpireCacheWithClock(cacheSize, clockFunc(clock)),
		decisions:  cache.NewLRUExpireCacheWithClock(4*cacheSize, clockFunc(clock)),
		proven:     cache.NewLRUExpireCacheWithClock(4*cacheSize, clockFunc(clock)),
		slots:      semaphore.NewWeighted(reviewsAtATime),
		granted:    cache.NewLRUExpireCacheWithClock(grantCache, clockFunc(clock)),
		resolved:   cache.NewLRUExpireCacheWithClock(cacheSize, clockFunc(clock)),
		grantSlots: semaphore.NewWeighted(allGrantsAtATime),
	}
}

// authenticate says who a token belongs to, or fails with a problem: 401, or 503 when the API server cannot be asked.
func (r *reviewer) authenticate(ctx context.Context, token string) (*principal, error) {
	if known, ok := r.remembered(token); ok {
		return orUnauthorized(known)
	}
	key := r.keys.key("token", token)
	found, err := r.once(ctx, "token:"+string(key[:]), func(ctx context.Context) (any, error) {
		p, err := r.review(ctx, token)
		if err != nil {
			return nil, err
		}
		ttl := denyTTL
		if p != nil {
			p.key, ttl = r.identityKey(p.user), identityTTL
			r.prove(token)
		}
		r.identities.Add(key, p, ttl)
		return p, nil
	})
	if err != nil {
		return nil, err
	}
	p, _ := found.(*principal)
	return orUnauthorized(p)
}

// remembered returns whose token it is, nil for nobody's, if that was asked a short time ago.
func (r *reviewer) remembered(token string) (known *principal, ok bool) {
	value, ok := r.identities.Get(r.keys.key("token", token))
	known, _ = value.(*principal)
	return known, ok
}

// prove remembers that a token was good, wasProven says so.
func (r *reviewer) prove(token string) {
	r.proven.Add(r.keys.key("token", token), struct{}{}, provenTTL)
}

func (r *reviewer) wasProven(token string) bool {
	_, ok := r.proven.Get(r.keys.key("token", token))
	return ok
}

func orUnauthorized(p *principal) (*principal, error) {
	if p == nil {
		return nil, problem.New(http.StatusUnauthorized, "the token is invalid or expired")
	}
	return p, nil
}

// allowed says whether somebody may do something.
func (r *reviewer) allowed(ctx context.Context, p *principal, a action) (bool, error) {
	key := r.keys.key("access", string(p.key[:]), a.verb, a.path, a.namespace, a.resource, a.name)
	if value, ok := r.decisions.Get(key); ok {
		known, _ := value.(bool)
		return known, nil
	}
	found, err := r.once(ctx, "access:"+string(key[:]), func(ctx context.Context) (any, error) {
		review, err := r.reviews.Access.Create(ctx, accessReview(p.user, a), metav1.CreateOptions{})
		if err != nil {
			return nil, problem.Unavailable(err, "the Kubernetes API server is unavailable: cannot check permissions; try again")
		}
		allowed := review.Status.Allowed && !review.Status.Denied
		ttl := denyTTL
		switch {
		case allowed && a.path != "":
			ttl = allowPathTTL
		case allowed:
			ttl = allowTTL
		}
		r.decisions.Add(key, allowed, ttl)
		return allowed, nil
	})
	allowed, _ := found.(bool)
	return allowed, err
}

// once asks a question that others may be asking at the same time. The question outlives the caller who asked first, since
// others wait for its answer, but not for long.
func (r *reviewer) once(ctx context.Context, question string, ask func(context.Context) (any, error)) (any, error) {
	answer := r.flights.DoChan(question, func() (any, error) {
		if !r.slots.TryAcquire(1) {
			return nil, problem.Unavailable(nil, "too many concurrent authentication requests; try again")
		}
		defer r.slots.Release(1)
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
		defer cancel()
		return ask(bounded)
	})
	select {
	case result := <-answer:
		return result.Val, result.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// review returns whose token it is, nil for nobody's.
func (r *reviewer) review(ctx context.Context, token string) (*principal, error) {
	for _, audiences := range r.audiences {
		status, err := reviewToken(ctx, r.reviews.Tokens, token, audiences)
		if err != nil {
			return nil, err
		}
		if status != nil {
			return &principal{user: status.User, audience: audiences != nil}, nil
		}
	}
	return nil, nil //nolint:nilnil // no error: the answer is that the token belongs to nobody
}

// reviewToken returns nil for a token that is not valid for the audiences. An API server that answers without saying for which
// of the audiences the token is good has not understood the question: it is no answer.
func reviewToken(ctx context.Context, tokens TokenReviewer, token string, audiences []string) (*authenticationv1.TokenReviewStatus, error) {
	review, err := tokens.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, problem.Unavailable(err, "the Kubernetes API server is unavailable: cannot check tokens; try again")
	}
	status := review.Status
	if !status.Authenticated || status.User.Username == "" {
		return nil, nil //nolint:nilnil // no error: the answer is that the token is not valid
	}
	if audiences != nil && !slices.ContainsFunc(audiences, func(a string) bool { return slices.Contains(status.Audiences, a) }) {
		return nil, nil //nolint:nilnil // as above
	}
	return &status, nil
}

func accessReview(user authenticationv1.UserInfo, a action) *authorizationv1.SubjectAccessReview {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for name, values := range user.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	spec := authorizationv1.SubjectAccessReviewSpec{User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra}
	if a.path != "" {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: a.path, Verb: a.verb}
	} else {
		spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Namespace: a.namespace, Group: resourceGroup, Version: versionOf(a.resource), Resource: cmp.Or(a.resource, resourceName), Name: a.name, Verb: a.verb,
		}
	}
	return &authorizationv1.SubjectAccessReview{Spec: spec}
}

// versionOf is the version of a resource in requests about it: that of objects which users write with the API is v1alpha1.
func versionOf(resource string) string {
	if resource == "" || resource == resourceName {
		return "v1"
	}
	return "v1alpha1"
}
