package auth_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
)

// slowReviews allow everything in single namespaces. Each answer about a namespace takes time.
type slowReviews struct {
	clock *standingClock
	takes time.Duration
}

func (r slowReviews) Create(_ context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	review = review.DeepCopy()
	if review.Status.Allowed = review.Spec.ResourceAttributes.Namespace != ""; review.Status.Allowed {
		r.clock.pass(r.takes)
	}
	return review, nil
}

// TestSlowReviewsOfNamespaces: a permission that was answered long ago does not count together with those that were answered last. Those are
// remembered for the next attempt.
func TestSlowReviewsOfNamespaces(t *testing.T) {
	clock := &standingClock{now: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}
	names := []string{"a", "b"}
	guard := auth.New(auth.Config{
		Mode: auth.Kubernetes, Clock: clock.Now, Namespaces: func(context.Context) ([]string, error) { return names, nil },
		Reviews: auth.Reviews{Tokens: tokenReviews{&apiServer{users: []string{"person"}}}, Access: slowReviews{clock, 6 * time.Second}},
		Limits:  auth.RateLimits{RequestRate: 1e6, RequestBurst: 1e6, FailureRate: 1e6, FailureBurst: 1e6},
	})
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	request.Header.Set("Authorization", "Bearer person")
	_, err := guard.Admit(request, auth.Requirement{Verb: auth.VerbList})
	if refused, ok := problem.As(err); !ok || refused.Status != http.StatusServiceUnavailable {
		t.Fatalf("after 12 seconds: %v, want 503", err)
	}
	ctx, err := guard.Admit(request, auth.Requirement{Verb: auth.VerbList})
	if err != nil || !slices.Equal(auth.Visible(ctx).Names(), names) {
		t.Errorf("then: %v, want %v", err, names)
	}
}
