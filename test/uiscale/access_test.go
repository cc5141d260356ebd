//go:build uiscale

package uiscale

import (
	"context"
	"errors"
	"io"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// token is that of the only user, who may read and change all results.
const token = "token-of-the-specs"

// reviews knows the token.
type reviews struct{}

// Create implements auth.TokenReviewer.
func (reviews) Create(_ context.Context, review *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	review = review.DeepCopy()
	if review.Spec.Token == token && slices.Contains(review.Spec.Audiences, auth.Audience) {
		review.Status.Authenticated, review.Status.Audiences = true, []string{auth.Audience}
		review.Status.User = authenticationv1.UserInfo{Username: "jane@example.com"}
	}
	return review, nil
}

// accessReviews permits the user everything about results.
type accessReviews struct{}

// Create implements auth.AccessReviewer.
func (accessReviews) Create(_ context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	review = review.DeepCopy()
	attributes := review.Spec.ResourceAttributes
	review.Status.Allowed = attributes != nil && attributes.Resource == "scanresults" && review.Spec.User == "jane@example.com"
	return review, nil
}

var errNoUploads = errors.New("nothing is uploaded")

// noUploads refuses all uploads.
type noUploads struct{}

// AuthorizeUpload implements auth.UploadAuthorizer.
func (noUploads) AuthorizeUpload(context.Context, string, model.ImageKey) (store.Delivery, error) {
	return store.Delivery{}, errNoUploads
}

// IngestSBOM implements server.Ingester.
func (noUploads) IngestSBOM(context.Context, model.ImageKey, store.Delivery, io.Reader) error {
	return errNoUploads
}

// IngestNewerTags implements server.Ingester.
func (noUploads) IngestNewerTags(context.Context, store.Delivery, io.Reader) error {
	return errNoUploads
}

// IngestReport implements server.Ingester.
func (noUploads) IngestReport(context.Context, string, server.UploadedReport) error {
	return errNoUploads
}

// previews finds nothing in other versions of packages: no vulnerability database is at hand.
type previews struct{}

// MatchVersions implements server.Previewer.
func (previews) MatchVersions(_ context.Context, packages []model.Package, _ []string) ([]model.PackageAnswer, model.DatabaseBuild, error) {
	return make([]model.PackageAnswer, len(packages)), model.DatabaseBuild{ID: "build"}, nil
}
