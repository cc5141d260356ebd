package notificationrules

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/notify"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// Access reads and tests rules for users, on any replica.
type Access struct {
	// Client reads from the cache.
	Client client.Reader
	Config *notify.Config
	Tester *notify.Tester
}

// List returns all rules, those of the cluster first, which have no namespace, and then by namespace and name.
func (a *Access) List(ctx context.Context) ([]scannerv1alpha1.NotificationRule, error) {
	objects, err := listRules(ctx, a.Client)
	if err != nil {
		return nil, err
	}
	all := make([]scannerv1alpha1.NotificationRule, 0, len(objects))
	for _, o := range objects {
		one := scannerv1alpha1.NotificationRule{Spec: *o.spec, Status: *o.status}
		one.Namespace, one.Name, one.UID = o.GetNamespace(), o.GetName(), o.GetUID()
		all = append(all, one)
	}
	slices.SortFunc(all, func(x, y scannerv1alpha1.NotificationRule) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return all, nil
}

// Test sends a test message to the sinks of a rule; namespace is "" for rules of the cluster. It returns store.ErrNotFound if there is no such rule, an
// error that is notify.ErrInvalid if it sends nothing, and notify.ErrTestLater if it cannot be tested now.
func (a *Access) Test(ctx context.Context, namespace, name string) ([]notify.SinkTest, error) {
	objects, err := listRules(ctx, a.Client)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(objects, func(o object) bool { return o.GetNamespace() == namespace && o.GetName() == name })
	if i < 0 {
		return nil, store.ErrNotFound
	}
	rule, err := notify.NewRule(definition(objects[i]), a.Config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", notify.ErrInvalid, err)
	}
	return a.Tester.Test(ctx, rule)
}
