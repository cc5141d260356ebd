package auth_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scanner-operator/scanner-operator/internal/server/auth"
)

// apiServer answers reviews: a token is the name of its user.
type apiServer struct {
	mu sync.Mutex
	// users have a valid token; readers of them may get /metrics.
	users, readers []string
	err            error
	// tokens and accesses count reviews.
	tokens, accesses int
}

func (s *apiServer) reviews() auth.Reviews {
	return auth.Reviews{Tokens: tokenReviews{s}, Access: accessReviews{s}}
}

type tokenReviews struct{ s *apiServer }

func (r tokenReviews) Create(_ context.Context, review *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.s.tokens++
	review = review.DeepCopy()
	// A token for other audiences than the API server's is none for metrics.
	if len(review.Spec.Audiences) == 0 && slices.Contains(r.s.users, review.Spec.Token) {
		review.Status.Authenticated = true
		review.Status.User = authenticationv1.UserInfo{
			Username: review.Spec.Token, UID: "u", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}},
		}
	}
	return review, r.s.err
}

type accessReviews struct{ s *apiServer }

func (r accessReviews) Create(_ context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.s.accesses++
	review = review.DeepCopy()
	spec := review.Spec
	review.Status.Allowed = spec.ResourceAttributes == nil && spec.NonResourceAttributes != nil &&
		*spec.NonResourceAttributes == authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"} &&
		slices.Contains(r.s.readers, spec.User) && spec.UID == "u" && slices.Equal(spec.Groups, []string{"g"}) && len(spec.Extra["k"]) == 1
	return review, r.s.err
}

// scraper sends requests through a filter of metrics.
type scraper struct {
	t       *testing.T
	handler http.Handler
}

func newScraper(t *testing.T, s *apiServer, clock func() time.Time) scraper {
	t.Helper()
	handler, err := auth.MetricsFilter(s.reviews(), clock)(logr.Discard(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("up 1\n"))
	}))
	if err != nil {
		t.Fatal(err)
	}
	return scraper{t, handler}
}

func (s scraper) scrape(method, path, authorization string) *httptest.ResponseRecorder {
	s.t.Helper()
	request := httptest.NewRequestWithContext(s.t.Context(), method, path, nil)
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	recorder := httptest.NewRecorder()
	s.handler.ServeHTTP(recorder, request)
	return recorder
}

func TestMetricsFilter(t *testing.T) {
	s := newScraper(t, &apiServer{users: []string{"prometheus", "person"}, readers: []string{"prometheus"}}, time.Now)
	for _, test := range []struct {
		name, method, path, authorization string
		want                              int
	}{
		{"permitted", http.MethodGet, "/metrics", "Bearer prometheus", 200},
		{"query", http.MethodGet, "/metrics?name=up", "Bearer prometheus", 200},
		{"no token", http.MethodGet, "/metrics", "", 401},
		{"another scheme", http.MethodGet, "/metrics", "Basic prometheus", 401},
		{"no valid token", http.MethodGet, "/metrics", "Bearer unknown", 401},
		{"nothing like a token", http.MethodGet, "/metrics", "Bearer a b", 401},
		{"not permitted", http.MethodGet, "/metrics", "Bearer person", 403},
		{"another verb", http.MethodPost, "/metrics", "Bearer prometheus", 403},
		{"another path", http.MethodGet, "/debug/pprof", "Bearer prometheus", 403},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := s.scrape(test.method, test.path, test.authorization)
			if got.Code != test.want {
				t.Errorf("got %d %s, want %d", got.Code, got.Body, test.want)
			}
			if metrics := got.Body.String() == "up 1\n"; metrics != (test.want == http.StatusOK) {
				t.Errorf("the body is %q", got.Body)
			}
			if challenge := got.Header().Get("WWW-Authenticate"); (challenge != "") != (test.want == http.StatusUnauthorized) {
				t.Errorf("WWW-Authenticate is %q", challenge)
			}
		})
	}
}

func TestMetricsFilterWithoutAPIServer(t *testing.T) {
	api := &apiServer{users: []string{"prometheus"}, readers: []string{"prometheus"}, err: errors.New("secret address refused")}
	s := newScraper(t, api, time.Now)
	got := s.scrape(http.MethodGet, "/metrics", "Bearer prometheus")
	if got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") == "" || strings.Contains(got.Body.String(), "secret") {
		t.Errorf("got %d %v %s, want 503 with Retry-After", got.Code, got.Header(), got.Body)
	}
	api.err = nil
	if got := s.scrape(http.MethodGet, "/metrics", "Bearer prometheus"); got.Code != http.StatusOK {
		t.Errorf("a failure was remembered: %d %s", got.Code, got.Body)
	}
}

// A scrape is no question to the API server each time, and a permission that was revoked ends.
func TestMetricsFilterRemembers(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	api := &apiServer{users: []string{"prometheus"}, readers: []string{"prometheus"}}
	s := newScraper(t, api, func() time.Time { return now })
	for range 5 {
		if got := s.scrape(http.MethodGet, "/metrics", "Bearer prometheus"); got.Code != http.StatusOK {
			t.Fatalf("%d %s", got.Code, got.Body)
		}
		now = now.Add(10 * time.Second)
	}
	if api.tokens != 1 || api.accesses != 1 {
		t.Errorf("asked %d times about the token and %d times about the permission, want once each", api.tokens, api.accesses)
	}
	api.readers = nil
	now = now.Add(time.Minute)
	if got := s.scrape(http.MethodGet, "/metrics", "Bearer prometheus"); got.Code != http.StatusForbidden {
		t.Errorf("without the permission: %d %s", got.Code, got.Body)
	}
	api.users = nil
	now = now.Add(2 * time.Minute)
	if got := s.scrape(http.MethodGet, "/metrics", "Bearer prometheus"); got.Code != http.StatusUnauthorized {
		t.Errorf("with a token that ended: %d %s", got.Code, got.Body)
	}
}
