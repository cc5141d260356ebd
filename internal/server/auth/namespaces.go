package auth

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

const (
	// namespacesTTL is how long the names of the namespaces are remembered, namespacesTimeout bounds listing them.
	namespacesTTL     = 10 * time.Second
	namespacesTimeout = 10 * time.Second
	// maxNamedNamespaces bounds the names in the description of a session.
	maxNamedNamespaces = 100
)

// knownNamespaces remembers the names of the namespaces that there is anything of.
type knownNamespaces struct {
	list       func(ctx context.Context) ([]string, error)
	remembered *cache.LRUExpireCache
	flights    singleflight.Group
}

func newKnownNamespaces(list func(ctx context.Context) ([]string, error), clock func() time.Time) *knownNamespaces {
	return &knownNamespaces{list: list, remembered: cache.NewLRUExpireCacheWithClock(1, clockFunc(clock))}
}

// names lists them by name. Who asks first may go away: others wait for the same answer.
func (k *knownNamespaces) names(ctx context.Context) ([]string, error) {
	if known, ok := k.remembered.Get(""); ok {
		names, _ := known.([]string)
		return names, nil
	}
	found, err, _ := k.flights.Do("", func() (any, error) {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), namespacesTimeout)
		defer cancel()
		names, err := k.list(bounded)
		if err == nil {
			k.remembered.Add("", names, namespacesTTL)
		}
		return names, err
	})
	names, _ := found.([]string)
	return names, err
}

// SessionNamespaces are the namespaces that a caller sees.
type SessionNamespaces struct {
	// All says that the caller sees the whole cluster.
	All bool
	// Names are the first of them by name, Visible is how many there are.
	Names   []string
	Visible int
	// Total is how many the operator has records of, also those that the caller does not see. 0 for a caller who sees none.
	Total int
}

// describe says what is visible to a caller. That others have namespaces, and how many, is told to those who see at least one.
func (g *Guard) describe(ctx context.Context, visible store.Namespaces) (*SessionNamespaces, error) {
	known, err := g.namespaces.names(ctx)
	if err != nil {
		return nil, err
	}
	names, total := known, len(known)
	if !visible.All() {
		names = visible.Names()
		// The list may have become shorter since the permissions were checked.
		if total = max(total, len(names)); len(names) == 0 {
			total = 0
		}
	}
	return &SessionNamespaces{All: visible.All(), Names: names[:min(len(names), maxNamedNamespaces)], Visible: len(names), Total: total}, nil
}

// shownTo returns what a caller sees. If the permissions of this caller are not looked at in single namespaces, that is nothing.
func (g *Guard) shownTo(ctx context.Context, p *principal) (store.Namespaces, error) {
	visible, err := g.visible(ctx, p)
	if refused, ok := problem.As(err); ok && refused.Status == http.StatusForbidden {
		return store.Namespaces{}, nil
	}
	return visible, err
}
