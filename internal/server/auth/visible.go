package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Bounds on asking about namespaces.
const (
	// grantTTL is how long a permission in a namespace is remembered, resolvedTTL for how long what is visible is not put together anew. With the
	// pause between the checks of WebSockets, a permission that was revoked ends within a minute.
	grantTTL    = 25 * time.Second
	resolvedTTL = 10 * time.Second
	// A refusal is remembered for refusalShare for each namespace that there is, so that a caller causes ten reviews per second at most, but not for
	// longer than maxRefusalTTL.
	refusalShare  = 100 * time.Millisecond
	maxRefusalTTL = 10 * time.Minute
	// grantCache bounds the answers that are remembered, one for each token, verb and namespace.
	grantCache = 100000
	// grantsAtATime bounds the reviews at a time for one caller, allGrantsAtATime those for all.
	grantsAtATime    = 16
	allGrantsAtATime = 48
	// resolveTimeout bounds finding out what is visible. A caller waits for reviewTimeout; after that it can ask again, and what was answered counts.
	resolveTimeout = time.Minute
)

// PermissionAge is how long ago the API server may have granted what a request sees.
const PermissionAge = grantTTL + resolvedTTL

// ErrNamespacesChanged says that a caller sees other namespaces than when it was let in.
var ErrNamespacesChanged = errors.New("the namespaces that the caller may see have changed")

// visible returns the namespaces in which somebody may list scan results: all, if the permission is that for the whole cluster.
func (r *reviewer) visible(ctx context.Context, p *principal) (store.Namespaces, error) {
	everywhere, err := r.allowed(ctx, p, action{verb: VerbList})
	if err != nil {
		return store.Namespaces{}, err
	}
	if everywhere {
		return store.AllNamespaces(), nil
	}
	key := r.keys.key("visible", string(p.key[:]))
	if known, ok := r.resolved.Get(key); ok {
		names, _ := known.(store.Namespaces)
		return names, nil
	}
	answer := r.flights.DoChan("visible:"+string(key[:]), func() (any, error) {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveTimeout)
		defer cancel()
		began := r.clock()
		names, err := r.resolve(bounded, p)
		if err != nil {
			return store.Namespaces{}, err
		}
		left := resolvedTTL - r.clock().Sub(began)
		if left <= 0 {
			// The first answers are too old. Most of the others are remembered when they are asked for again.
			return store.Namespaces{}, errStillChecking()
		}
		r.resolved.Add(key, names, left)
		return names, nil
	})
	patience := time.NewTimer(reviewTimeout)
	defer patience.Stop()
	select {
	case result := <-answer:
		names, _ := result.Val.(store.Namespaces)
		return names, result.Err
	case <-patience.C:
		return store.Namespaces{}, errStillChecking()
	case <-ctx.Done():
		return store.Namespaces{}, ctx.Err()
	}
}

func errStillChecking() error {
	return problem.Unavailable(nil, "the permissions in the namespaces are still being checked; try again")
}

// resolve asks about each namespace.
func (r *reviewer) resolve(ctx context.Context, p *principal) (store.Namespaces, error) {
	known, err := r.namespaces.names(ctx)
	if err != nil {
		return store.Namespaces{}, err
	}
	if len(known) > store.MaxNamespaces {
		return store.Namespaces{}, problem.New(http.StatusForbidden,
			"permissions are checked in up to %d namespaces: reading requires the permission to list %s.%s in the whole cluster", store.MaxNamespaces, resourceName, resourceGroup)
	}
	granted, err := r.grants(ctx, p, VerbList, known, refusalTTL(len(known)))
	return store.OnlyNamespaces(granted...), err
}

func refusalTTL(namespaces int) time.Duration {
	return min(max(time.Duration(namespaces)*refusalShare, denyTTL), maxRefusalTTL)
}

// grants returns those of some namespaces in which somebody may use a verb.
func (r *reviewer) grants(ctx context.Context, p *principal, verb string, names []string, refused time.Duration) ([]string, error) {
	allowed := make([]bool, len(names))
	group, bounded := errgroup.WithContext(ctx)
	group.SetLimit(grantsAtATime)
	for i, name := range names {
		key := r.keys.key("grant", string(p.key[:]), verb, name)
		if value, ok := r.granted.Get(key); ok {
			allowed[i], _ = value.(bool)
			continue
		}
		group.Go(func() (err error) {
			allowed[i], err = r.grant(bounded, p, action{verb: verb, namespace: name}, key, refused)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	granted := make([]string, 0, len(names))
	for i, name := range names {
		if allowed[i] {
			granted = append(granted, name)
		}
	}
	return granted, nil
}

// grant asks about one namespace. It waits for others.
func (r *reviewer) grant(ctx context.Context, p *principal, a action, key cacheKey, refused time.Duration) (bool, error) {
	if err := r.grantSlots.Acquire(ctx, 1); err != nil {
		return false, err
	}
	defer r.grantSlots.Release(1)
	bounded, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	began := r.clock()
	review, err := r.reviews.Access.Create(bounded, accessReview(p.user, a), metav1.CreateOptions{})
	if err != nil {
		return false, problem.Unavailable(err, "the Kubernetes API server is unavailable: cannot check permissions; try again")
	}
	allowed := review.Status.Allowed && !review.Status.Denied
	ttl := refused
	if allowed {
		ttl = grantTTL
	}
	// An answer that took long is about what was permitted when it was asked for.
	if ttl -= r.clock().Sub(began); ttl > 0 {
		r.granted.Add(key, allowed, ttl)
	}
	return allowed, nil
}

// visibleKey finds in the context of a request what it may see.
type visibleKey struct{}

// Visible returns the namespaces that a request may see: none, if nobody has said so.
func Visible(ctx context.Context) store.Namespaces {
	names, _ := ctx.Value(visibleKey{}).(store.Namespaces)
	return names
}

// withVisible returns a context in which these namespaces are visible.
func withVisible(ctx context.Context, names store.Namespaces) context.Context {
	return context.WithValue(ctx, visibleKey{}, names)
}

// visible returns the namespaces that somebody sees. What is shown to everybody is shown to users, too.
func (g *Guard) visible(ctx context.Context, p *principal) (store.Namespaces, error) {
	if g.anonymous == nil || p == g.anonymous {
		return g.reviews.visible(ctx, p)
	}
	own, err := g.reviews.visible(ctx, p)
	if err != nil || own.All() {
		return own, err
	}
	shared, err := g.shownTo(ctx, g.anonymous)
	if err != nil || shared.All() {
		return shared, err
	}
	return store.OnlyNamespaces(append(own.Names(), shared.Names()...)...), nil
}

// everywhere says whether somebody may use a verb in the whole cluster. Everybody may read what callers without a token may.
func (g *Guard) everywhere(ctx context.Context, p *principal, verb string) (bool, error) {
	allowed, err := g.reviews.allowed(ctx, p, action{verb: verb})
	if err == nil && !allowed && g.anonymous != nil && reads(verb) {
		allowed, err = g.reviews.allowed(ctx, g.anonymous, action{verb: verb})
	}
	return allowed, err
}

func reads(verb string) bool { return verb == VerbGet || verb == VerbList }

// see returns what the caller of an operation may see: everything, if it may use the verb in the whole cluster. Who may use it nowhere is refused, unless the
// operation asks for other permissions: they may be those in a namespace that there is nothing of yet.
func (g *Guard) see(ctx context.Context, p *principal, required Requirement) (store.Namespaces, error) {
	everywhere, err := g.everywhere(ctx, p, required.Verb)
	switch {
	case err != nil:
		return store.Namespaces{}, err
	case everywhere:
		return store.AllNamespaces(), nil
	case required.Cluster:
		return store.Namespaces{}, refusal(p, required.Verb)
	}
	names, err := g.visible(ctx, p)
	if err != nil {
		return store.Namespaces{}, err
	}
	if !names.All() && len(names.Names()) == 0 {
		if required.Identified || required.Decides && p != g.anonymous {
			return names, nil
		}
		if !reads(required.Verb) {
			return store.Namespaces{}, problem.New(http.StatusForbidden, "user %[1]q is not allowed to %[2]s %[3]s.%[4]s in the whole cluster, nor to list %[3]s.%[4]s in any namespace: to %[2]s those of a namespace requires both permissions there",
				p.user.Username, required.Verb, resourceName, resourceGroup)
		}
		return store.Namespaces{}, refusal(p, required.Verb)
	}
	if reads(required.Verb) {
		return names, nil
	}
	some, err := g.reviews.somewhere(ctx, p, required.Verb, names)
	if err == nil && !some {
		err = refusal(p, required.Verb)
	}
	return names, err
}

// somewhere reports whether somebody may use a verb in one of the namespaces that it sees.
func (r *reviewer) somewhere(ctx context.Context, p *principal, verb string, visible store.Namespaces) (bool, error) {
	names, refused := visible.Names(), denyTTL
	if visible.All() {
		known, err := r.namespaces.names(ctx)
		if err != nil {
			return false, err
		}
		names = known[:min(len(known), store.MaxNamespaces)]
		refused = refusalTTL(len(names))
	}
	bounded, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	granted, err := r.grants(bounded, p, verb, names, refused)
	return len(granted) > 0, err
}

// May returns in which of some namespaces the caller of a request may use a verb: all there are, if it may in the whole cluster or if nobody is asked.
func (g *Guard) May(ctx context.Context, verb string, names []string) (store.Namespaces, error) {
	if g.mode == None {
		return store.AllNamespaces(), nil
	}
	admitted, found := AdmissionOf(ctx)
	if !found {
		return store.Namespaces{}, nil
	}
	p, err := g.principalOf(ctx, admitted.credential)
	if err != nil {
		return store.Namespaces{}, err
	}
	everywhere, err := g.reviews.allowed(ctx, p, action{verb: verb})
	if err != nil {
		return store.Namespaces{}, err
	}
	if everywhere {
		return store.AllNamespaces(), nil
	}
	bounded, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	granted, err := g.reviews.grants(bounded, p, verb, slices.Clone(names), refusalTTL(len(names)))
	return store.OnlyNamespaces(granted...), err
}

// MayInAll reports whether the caller of a request may use a verb in all of some namespaces or, if there are none, in the whole cluster.
func (g *Guard) MayInAll(ctx context.Context, verb string, names []string) (bool, error) {
	if admitted, found := AdmissionOf(ctx); found && admitted.Anonymous && !reads(verb) {
		return false, nil
	}
	// Who may not, seldom may in the first one. Then nobody is asked about the others.
	for _, part := range [][]string{names[:min(1, len(names))], names} {
		may, err := g.May(ctx, verb, part)
		if err != nil || may.All() {
			return may.All(), err
		}
		if len(part) == 0 || slices.ContainsFunc(part, func(name string) bool { return !may.Contains(name) }) {
			return false, nil
		}
	}
	return true, nil
}

// Access is something that a caller may want to do with objects in the Kubernetes API.
type Access struct {
	// Verb is one of Kubernetes, Resource a resource of the group of scan results.
	Verb, Resource string
	// Namespace is "" for the whole cluster, Name "" for all objects.
	Namespace, Name string
}

// String states the permission, as messages to users do.
func (a Access) String() string {
	where := "in the whole cluster"
	if a.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", a.Namespace)
	}
	return fmt.Sprintf("the permission to %s %s.%s %s", a.Verb, a.Resource, resourceGroup, where)
}

// Allowed says whether the caller of a request may do something in the Kubernetes API: who has not proved who it is may not, and everybody may
// if nobody is asked.
func (g *Guard) Allowed(ctx context.Context, a Access) (bool, error) {
	if g.mode == None {
		return true, nil
	}
	admitted, found := AdmissionOf(ctx)
	if !found || admitted.Anonymous {
		return false, nil
	}
	p, err := g.principalOf(ctx, admitted.credential)
	if err != nil {
		return false, err
	}
	return g.reviews.allowed(ctx, p, action{verb: a.Verb, namespace: a.Namespace, resource: a.Resource, name: a.Name})
}
