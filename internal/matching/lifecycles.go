package matching

import (
	"context"
	"fmt"

	"github.com/scanner-operator/scanner-operator/internal/match"
)

// batchDistros is how many distributions are looked up at a time.
const batchDistros = 500

// saveLifecycles saves what a database says of the distributions of images, as far as that was not saved for its build.
func (r *runner) saveLifecycles(ctx context.Context, database *match.Database) error {
	if database == nil {
		return nil
	}
	build := database.Build().ID
	for {
		names, err := r.store.OutdatedLifecycles(ctx, build, batchDistros)
		if err != nil {
			return fmt.Errorf("list the distributions of images: %w", err)
		}
		if len(names) == 0 {
			return nil
		}
		lifecycles, err := database.Lifecycles(ctx, names)
		if err != nil {
			return err
		}
		if err := r.store.SaveLifecycles(ctx, build, lifecycles); err != nil {
			return fmt.Errorf("save the lifecycles of distributions: %w", err)
		}
	}
}
