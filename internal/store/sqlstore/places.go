package sqlstore

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqldb"
)

// maxSelector is the most bytes of a description of places.
const maxSelector = 64 << 10

// tooManyPlacesError is the error about more places than the bounds allow.
type tooManyPlacesError struct{ namespaces, workloads int }

func (e tooManyPlacesError) Error() string {
	return fmt.Sprintf("it applies in %d namespaces and to %d workloads besides, the maximum is %d and %d; select fewer",
		e.namespaces, e.workloads, store.MaxDecisionNamespaces, store.MaxDecisionWorkloads)
}

// namespacePlace is the place of a namespace: as a whole in what a decision or a policy names, and without workloads of an image.
func namespacePlace(name string) store.Workload { return store.Workload{Namespace: name} }

func comparePlaces(a, b store.Workload) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

// readPlaces reads where a decision or a policy applies: in order, and each once. A whole namespace is a namespacePlace. The digest tells the places apart.
func readPlaces(named *store.DecisionPlaces) (places []store.Workload, digest string, err error) {
	if named.Selector == "" || len(named.Selector) > maxSelector {
		return nil, "", fmt.Errorf("the description of its places has %d bytes; it needs 1 to %d", len(named.Selector), maxSelector)
	}
	if len(named.Namespaces) > store.MaxDecisionNamespaces || len(named.Workloads) > store.MaxDecisionWorkloads {
		return nil, "", tooManyPlacesError{len(named.Namespaces), len(named.Workloads)}
	}
	known := map[store.Workload]bool{}
	for _, name := range named.Namespaces {
		known[namespacePlace(name)] = true
	}
	for _, w := range named.Workloads {
		if w.Kind == "" || w.Name == "" {
			return nil, "", fmt.Errorf("a workload of the namespace %q has no kind or no name", w.Namespace)
		}
		known[store.Workload{
			Namespace: w.Namespace, Kind: sqldb.Truncate(w.Kind, maxIdentifier), Name: sqldb.Truncate(w.Name, maxIdentifier),
		}] = true
	}
	for at := range known {
		if err := checkIdentifier("a namespace where it applies", at.Namespace); err != nil {
			return nil, "", err
		}
		if whole := namespacePlace(at.Namespace); at == whole || !known[whole] {
			places = append(places, at)
		}
	}
	slices.SortFunc(places, comparePlaces)
	texts := make([]string, 0, 3*len(places))
	for _, at := range places {
		texts = append(texts, at.Namespace, at.Kind, at.Name)
	}
	return places, contentDigest(texts...), nil
}
