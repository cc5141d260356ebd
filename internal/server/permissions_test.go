package server_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
)

// limitedReviews refuses or fails what the functions say of a user, a verb and a namespace.
type limitedReviews struct {
	auth.AccessReviewer
	refuses, fails func(user, verb, namespace string) bool
}

// Create implements auth.AccessReviewer.
func (r limitedReviews) Create(ctx context.Context, review *authorizationv1.SubjectAccessReview, opts metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	user, verb, namespace := review.Spec.User, review.Spec.ResourceAttributes.Verb, review.Spec.ResourceAttributes.Namespace
	if r.fails != nil && r.fails(user, verb, namespace) {
		return nil, errors.New("away")
	}
	review, err := r.AccessReviewer.Create(ctx, review, opts)
	if err == nil && r.refuses != nil && r.refuses(user, verb, namespace) {
		review.Status.Allowed = false
	}
	return review, err
}

// A refusal says which permission is missing, also when it is not the one that the request is about.
func TestRefusalsNameTheMissingPermission(t *testing.T) {
	t.Parallel()
	f := newMatrixFixture(t, nil, func(c *server.Config) {
		c.AnonymousRead = false
		c.Reviews.Access = limitedReviews{AccessReviewer: c.Reviews.Access, refuses: func(user, verb, namespace string) bool {
			return user == "one" && verb == auth.VerbList || user == "two" && (verb == auth.VerbList && namespace == "bank" || verb == auth.VerbDelete)
		}}
	})
	put := func(user, image string) answer {
		return f.do(http.MethodPut, "/scan-results", uploadOf(image), bearer(user), "Content-Type: application/json")
	}
	put("one", shopImage).problem(t, http.StatusForbidden, `user "one" is not allowed to update scanresults.scanner.zoltankerezsi.xyz in the whole cluster, nor to list`)
	put("two", bankImage).problem(t, http.StatusForbidden, "and the permission to list them in one of these")
	f.do(http.MethodDelete, "/scan-results/"+escape(shopImage), "", bearer("two")).problem(t, http.StatusForbidden, `user "two" is not allowed to delete`)
	if a := put("two", shopImage); a.status != http.StatusOK {
		t.Errorf("with both permissions: %d %s", a.status, a.body)
	}
}
