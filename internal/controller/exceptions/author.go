package exceptions

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
)

// authorOf is the user who decided, "" if nobody can tell.
func (r *Reconciler) authorOf(exception client.Object) string {
	if !r.TrustAuthors {
		return ""
	}
	return exception.GetAnnotations()[scannerv1alpha1.AnnotationAuthor]
}

// authorChanged passes updates that change the author.
func authorChanged() predicate.Predicate {
	author := func(o client.Object) string { return o.GetAnnotations()[scannerv1alpha1.AnnotationAuthor] }
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld != nil && e.ObjectNew != nil && author(e.ObjectOld) != author(e.ObjectNew)
	}}
}
