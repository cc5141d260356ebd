package auth_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
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

// namespaceReviews answer about single namespaces, and count these answers.
type namespaceReviews struct {
	allowed func(verb string) bool
	takes   func()
	asked   atomic.Int64
}

func (r *namespaceReviews) Create(ctx context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	review = review.DeepCopy()
	if attributes := review.Spec.ResourceAttributes; attributes.Namespace != "" {
		if end, bounded := ctx.Deadline(); !bounded || time.Until(end) > 10*time.Second {
			return nil, errors.New("a review has more than ten seconds")
		}
		r.asked.Add(1)
		review.Status.Allowed = r.allowed(attributes.Verb)
		r.takes()
	}
	return review, nil
}

func guardWith(clock *standingClock, names []string, reviews *namespaceReviews) *auth.Guard {
	return auth.New(auth.Config{
		Mode: auth.Kubernetes, Clock: clock.Now, Namespaces: func(context.Context) ([]string, error) { return names, nil },
		Reviews: auth.Reviews{Tokens: tokenReviews{&apiServer{users: []string{"person"}}}, Access: reviews},
		Limits:  auth.RateLimits{RequestRate: 1e6, RequestBurst: 1e6, FailureRate: 1e6, FailureBurst: 1e6},
	})
}

// TestLateReviewsOfNamespaces: a permission lasts from when the API server was asked, not from when it answered: it may have been revoked meanwhile.
func TestLateReviewsOfNamespaces(t *testing.T) {
	clock := &standingClock{now: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}
	revoked := false
	reviews := &namespaceReviews{allowed: func(string) bool { return !revoked }, takes: func() { clock.pass(9 * time.Second) }}
	guard := guardWith(clock, []string{"a"}, reviews)
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	request.Header.Set("Authorization", "Bearer person")
	if _, err := guard.Admit(request, auth.Requirement{Verb: auth.VerbList}); err != nil {
		t.Fatal(err)
	}
	revoked = true
	clock.pass(17 * time.Second)
	_, err := guard.Admit(request, auth.Requirement{Verb: auth.VerbList})
	if refused, ok := problem.As(err); !ok || refused.Status != http.StatusForbidden {
		t.Errorf("26 seconds after the question: %v, want 403", err)
	}
}

// TestRefusedChangesAreRemembered: however many namespaces an image runs in, a caller who may change nothing there causes few reviews.
func TestRefusedChangesAreRemembered(t *testing.T) {
	clock := &standingClock{now: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}
	var names []string
	for n := range 200 {
		names = append(names, fmt.Sprint("n", n))
	}
	reviews := &namespaceReviews{allowed: func(verb string) bool { return verb == auth.VerbList }, takes: func() {}}
	guard := guardWith(clock, names, reviews)
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	request.Header.Set("Authorization", "Bearer person")
	ctx, err := guard.Admit(request, auth.Requirement{Verb: auth.VerbList})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if may, err := guard.May(ctx, auth.VerbDelete, names); err != nil || may.All() || len(may.Names()) > 0 {
			t.Fatalf("may delete in %v, %v", may, err)
		}
		clock.pass(15 * time.Second)
	}
	if asked := reviews.asked.Load(); asked != int64(2*len(names)) {
		t.Errorf("%d reviews, want one for each namespace and verb", asked)
	}
}
