package exceptions

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
	"github.com/scanner-operator/scanner-operator/internal/kube"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// exception is an object of one of the kinds, with its spec and status.
type exception struct {
	client.Object
	kind   string
	spec   *scannerv1alpha1.ExceptionSpec
	status *scannerv1alpha1.ExceptionStatus
	// copied makes a deep copy.
	copied func() exception
	// round is 0 for an exception of the cluster, and for others 1 for the oldest one of their namespace, 2 for the next one, and so on.
	round int
}

func ofCluster(e *scannerv1alpha1.ClusterVulnerabilityException) exception {
	return exception{
		Object: e, kind: kube.KindClusterVulnerabilityException.Kind, spec: &e.Spec, status: &e.Status,
		copied: func() exception { return ofCluster(e.DeepCopy()) },
	}
}

func ofNamespace(e *scannerv1alpha1.VulnerabilityException) exception {
	return exception{
		Object: e, kind: kube.KindVulnerabilityException.Kind, spec: &e.Spec, status: &e.Status,
		copied: func() exception { return ofNamespace(e.DeepCopy()) },
	}
}

// name is how the store names the exception.
func (e exception) name() store.DecisionObject {
	return store.DecisionObject{Kind: e.kind, Namespace: e.GetNamespace(), Name: e.GetName()}
}

// list returns the exceptions that are not being deleted, in the order of their precedence when there are too many: those of the cluster first, then
// the oldest one of each namespace, then the second one of each, and so on.
func (r *Reconciler) list(ctx context.Context) ([]exception, error) {
	var cluster scannerv1alpha1.ClusterVulnerabilityExceptionList
	if err := r.client.List(ctx, &cluster); err != nil {
		return nil, fmt.Errorf("list the ClusterVulnerabilityExceptions: %w", err)
	}
	var namespaced scannerv1alpha1.VulnerabilityExceptionList
	if err := r.client.List(ctx, &namespaced); err != nil {
		return nil, fmt.Errorf("list the VulnerabilityExceptions: %w", err)
	}
	exceptions := make([]exception, 0, len(cluster.Items)+len(namespaced.Items))
	for i := range cluster.Items {
		exceptions = append(exceptions, ofCluster(&cluster.Items[i]))
	}
	for i := range namespaced.Items {
		exceptions = append(exceptions, ofNamespace(&namespaced.Items[i]))
	}
	exceptions = slices.DeleteFunc(exceptions, func(e exception) bool { return !e.GetDeletionTimestamp().IsZero() })
	inTurn(exceptions)
	return exceptions, nil
}

// inTurn sorts exceptions by their precedence, as list returns them.
func inTurn(exceptions []exception) {
	slices.SortFunc(exceptions, func(a, b exception) int {
		return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	rounds := map[string]int{}
	for i := range exceptions {
		if namespace := exceptions[i].GetNamespace(); namespace != "" {
			rounds[namespace]++
			exceptions[i].round = rounds[namespace]
		}
	}
	slices.SortStableFunc(exceptions, func(a, b exception) int { return cmp.Compare(a.round, b.round) })
}

// decision is what the store is told of an exception, but for its places. It fails if the end of the exception cannot be read.
func (r *Reconciler) decision(e exception) (store.Decision, error) {
	spec := e.spec
	end, err := spec.End()
	if err != nil {
		return store.Decision{}, fmt.Errorf("spec.expiresAt: %w", err)
	}
	return store.Decision{
		Object: e.name(), UID: string(e.GetUID()), Vulnerabilities: spec.Match.Vulnerabilities, Packages: spec.Match.Packages, Images: spec.Match.Images,
		Status: model.DecisionStatus(spec.Status), Justification: string(spec.Justification), Comment: spec.Comment,
		ExpiresAt: end, Unfixed: spec.ExpireWhenFixed, DryRun: spec.Mode == scannerv1alpha1.ModeDryRun,
		Author: r.authorOf(e),
	}, nil
}
