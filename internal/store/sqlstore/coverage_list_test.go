package sqlstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/store"
)

// TestMessagesOfCoverage lists containers of images that failed, or that wait, after attempts for several namespaces. Who sees some namespaces reads only messages about attempts
// that were made for these.
func TestMessagesOfCoverage(t *testing.T) {
	eachDatabase(t, func(t *testing.T, config Config) {
		s := withFixes(t, config)
		err := s.write(t.Context(), "coverage", func(tx *txn) error {
			var rows []any
			for i, one := range []struct {
				image int
				state string
			}{{0, "Failed"}, {1, "Failed"}, {2, "Failed"}, {0, "Pending"}, {0, "Scanned"}} {
				key := fixKey(one.image)
				rows = append(rows, "scope", fmt.Sprint(i), "one", "Deployment", "web", []string{"a", "b", "c", "d", "e"}[i], key.ImageID, key.Platform.String(), "", 1, one.state, "", "why", 0, 1)
			}
			rows = append(rows, "scope", "5", "one", "Deployment", "web", "f", "", "", "", 1, "Failed", "", "no image", 0, 1)
			// The attempt at image 2 was made for no namespace.
			return errors.Join(tx.Insert("container_coverage", coverageColumns, rows, ""),
				tx.Insert("image_failures", []string{"image_pk", "namespace"}, []any{1, "one", 2, "elsewhere"}, ""))
		})
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			in   store.Namespaces
			want []string
		}{
			"all":           {store.AllNamespaces(), []string{"why", "why", "why", "why", "why", "no image"}},
			"one":           {store.OnlyNamespaces("one"), []string{"why", "", "", "", "why", "no image"}},
			"one and other": {store.OnlyNamespaces("one", "elsewhere"), []string{"why", "why", "", "", "why", "no image"}},
		} {
			page, err := s.ListCoverage(t.Context(), c.in, store.CoverageQuery{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range page.Containers {
				got = append(got, page.Containers[i].Message)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: messages (-want +got):\n%s", name, diff)
			}
		}
	})
}
