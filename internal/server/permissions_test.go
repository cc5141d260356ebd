package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/store"
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

// permissionsOf is what an image says that a user may do with it, nil if it does not say.
func (f *fixture) permissionsOf(user, image string) map[string]bool {
	f.t.Helper()
	a := f.do(http.MethodGet, "/api/v1/images/"+escape(image), "", f.as(user))
	if a.status != http.StatusOK {
		f.t.Fatalf("%s as %s: %d %s", image, user, a.status, a.body)
	}
	var answer struct{ Permissions map[string]bool }
	f.must(json.Unmarshal([]byte(a.body), &answer))
	return answer.Permissions
}

// An image says what its caller may do with it, also where the caller does not see it, as the requests ask for it.
func TestPermissionsOfImages(t *testing.T) {
	t.Parallel()
	f := newMatrixFixture(t, nil, func(c *server.Config) {
		c.Reviews.Access = limitedReviews{AccessReviewer: c.Reviews.Access, refuses: func(user, verb, namespace string) bool {
			return user == "two" && verb == auth.VerbDelete && namespace == "bank"
		}}
	})
	both, updates, nothing := map[string]bool{"delete": true, "update": true}, map[string]bool{"delete": false, "update": true}, map[string]bool{"delete": false, "update": false}
	for user, images := range map[string]map[string]map[string]bool{
		"one": {shopImage: both, sharedImage: nothing}, "two": {shopImage: both, bankImage: updates, sharedImage: nothing}, "all": {darkImage: both, looseImage: both, sharedImage: both},
		"none": {shopImage: nothing}, signedIn: {shopImage: both}, anonymous: {shopImage: nothing},
	} {
		for image, want := range images {
			if diff := cmp.Diff(want, f.permissionsOf(user, image)); diff != "" {
				t.Errorf("%s as %s (-want +got):\n%s", image, user, diff)
			}
		}
	}
	f.do(http.MethodDelete, "/scan-results/"+escape(bankImage), "", f.as("two")).problem(t, http.StatusForbidden, "every namespace")
	if list := f.do(http.MethodGet, "/api/v1/images", "", f.as("one")); list.status != http.StatusOK || strings.Contains(list.body, `"permissions"`) {
		t.Errorf("a list: %d %s", list.status, list.body)
	}
}

// What an image says that its caller may do is what the requests answer, for each user and image of the matrix.
func TestPermissionsAreThoseOfRequests(t *testing.T) {
	t.Parallel()
	for user := range matrixUsers {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			f := newMatrixFixture(t, nil, nil)
			says := map[string]map[string]bool{}
			for image := range runners {
				switch a := f.do(http.MethodGet, "/api/v1/images/"+escape(image), "", f.as(user)); a.status {
				case http.StatusOK:
					says[image] = f.permissionsOf(user, image)
				case http.StatusNotFound:
				default:
					t.Fatalf("%s: %d %s", image, a.status, a.body)
				}
			}
			if says[shopImage] == nil || says[sharedImage] == nil {
				t.Fatalf("the user sees %v", says)
			}
			// Images that are removed cannot be scanned any more.
			for _, try := range []struct{ permission, method, before, behind string }{
				{"update", http.MethodPost, "/api/v1/images/", "/scan"}, {"delete", http.MethodDelete, "/scan-results/", ""},
			} {
				for image, permissions := range says {
					a := f.do(try.method, try.before+escape(image)+try.behind, "", f.as(user))
					refused := a.status == http.StatusForbidden || a.status == http.StatusUnauthorized
					if permissions == nil || permissions[try.permission] == refused {
						t.Errorf("the permission to %s %s is %v, but a request: %d %s", try.permission, image, permissions, a.status, a.body)
					}
				}
			}
		})
	}
}

// Whether an image is in namespaces that its caller does not see takes few questions to the Kubernetes API, however many these are.
func TestPermissionsInManyNamespaces(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	f := newMatrixFixture(t, nil, func(c *server.Config) {
		c.Reviews.Access = limitedReviews{AccessReviewer: c.Reviews.Access, refuses: func(user, verb, namespace string) bool {
			if user == "one" && verb == auth.VerbDelete && namespace != "" {
				asked.Add(1)
			}
			return false
		}}
	})
	var uses []store.Use
	for n := range 100 {
		uses = append(uses, store.Use{
			Image:    model.ImageKey{ImageID: sharedImage, Platform: linux},
			Workload: store.Workload{Namespace: fmt.Sprintf("zone-%d", n), Kind: "Deployment", Name: "web"}, Container: "app",
		})
	}
	f.must(f.store.RecordUses(t.Context(), "zones/scanner", uses))
	if got := f.permissionsOf("one", sharedImage); got == nil || got["delete"] {
		t.Errorf("permissions: %v", got)
	}
	if n := asked.Load(); n > 2 {
		t.Errorf("%d reviews of one verb", n)
	}
}

// Reading an image does not depend on whether its caller's other permissions can be checked.
func TestPermissionsThatCannotBeChecked(t *testing.T) {
	t.Parallel()
	f := newMatrixFixture(t, nil, func(c *server.Config) {
		c.Reviews.Access = limitedReviews{AccessReviewer: c.Reviews.Access, fails: func(_, verb, _ string) bool { return verb == auth.VerbUpdate }}
	})
	for _, user := range []string{"one", "all"} {
		if got := f.permissionsOf(user, shopImage); got != nil {
			t.Errorf("as %s: %v", user, got)
		}
	}
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
