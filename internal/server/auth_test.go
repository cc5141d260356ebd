package server_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/live"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// cluster is an API server that answers reviews.
type cluster struct {
	mu sync.Mutex
	// audiences of each token; apiServer is what people's tokens are made for.
	audiences map[string][]string
	// verbs that each user may use; the user of a token has its name.
	verbs map[string][]string
	// grants are the verbs that each user or group may use in each namespace.
	grants map[string]map[string][]string
	// decides are the actions on exceptions that each user may take, as "verb resource" or "verb resource namespace".
	decides map[string][]string
	// ignorant API servers do not know audiences.
	ignorant bool
	err      error
	// failsIn is a namespace about which no review is answered.
	failsIn  string
	tokens   int
	accesses int
	block    chan struct{}
}

const apiServer = "https://kubernetes.default.svc"

type tokenReviews struct{ c *cluster }

func (r tokenReviews) Create(ctx context.Context, review *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.c.tokens++
	if r.c.block != nil {
		block := r.c.block
		r.c.mu.Unlock()
		select {
		case <-block:
		case <-ctx.Done():
		}
		r.c.mu.Lock()
	}
	if r.c.err != nil {
		return nil, r.c.err
	}
	audiences, known := r.c.audiences[review.Spec.Token]
	review = review.DeepCopy()
	wanted := review.Spec.Audiences
	if len(wanted) == 0 || r.c.ignorant {
		wanted = []string{apiServer}
	}
	for _, a := range wanted {
		if known && slices.Contains(audiences, a) {
			review.Status.Authenticated = true
			review.Status.User = authenticationv1.UserInfo{Username: review.Spec.Token, Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}
			if !r.c.ignorant {
				review.Status.Audiences = append(review.Status.Audiences, a)
			}
		}
	}
	return review, nil
}

type accessReviews struct{ c *cluster }

func (r accessReviews) Create(_ context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.c.accesses++
	if r.c.err != nil {
		return nil, r.c.err
	}
	review = review.DeepCopy()
	attributes := review.Spec.ResourceAttributes
	if r.c.failsIn != "" && attributes.Namespace == r.c.failsIn {
		return nil, errors.New("no answer")
	}
	_, hasToken := r.c.audiences[review.Spec.User]
	known := !hasToken || len(review.Spec.Groups) == 1 && len(review.Spec.Extra) == 1
	if attributes.Resource != "scanresults" {
		wanted := strings.TrimSpace(attributes.Verb + " " + attributes.Resource + " " + attributes.Namespace)
		review.Status.Allowed = known && attributes.Group == "scanner.zoltankerezsi.xyz" && slices.Contains(r.c.decides[review.Spec.User], wanted)
		return review, nil
	}
	review.Status.Allowed = known && attributes.Group == "scanner.zoltankerezsi.xyz" && attributes.Resource == "scanresults" &&
		(slices.Contains(r.c.verbs[review.Spec.User], attributes.Verb) ||
			slices.ContainsFunc(append([]string{review.Spec.User}, review.Spec.Groups...), func(subject string) bool {
				return slices.Contains(r.c.grants[subject][attributes.Namespace], attributes.Verb)
			}))
	return review, nil
}

func (c *cluster) calls() (tokens, accesses int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tokens, c.accesses
}

// set changes the cluster under its lock.
func (c *cluster) set(change func(*cluster)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
}

// uploads lets the bearer of one token upload.
type uploads struct{ token string }

func (u uploads) AuthorizeUpload(_ context.Context, token string, _ model.ImageKey) (store.Delivery, error) {
	if token != u.token {
		return store.Delivery{}, errors.New("not shown")
	}
	return store.Delivery{Job: "job-uid", Source: model.SourceImageVolume}, nil
}

func newCluster() *cluster {
	return &cluster{
		grants: map[string]map[string][]string{},
		audiences: map[string][]string{
			"admin": {auth.Audience}, "person": {apiServer}, "both": {auth.Audience, apiServer}, "reader": {auth.Audience}, "nobody": {auth.Audience}, "foreign": {"vault"},
		},
		verbs: map[string][]string{
			"admin": {"get", "list", "update", "delete"}, "person": {"get", "list", "update", "delete"}, "both": {"get"}, "reader": {"get", "list"},
		},
	}
}

// newGuardedFixture starts a server that asks a cluster.
func newGuardedFixture(t *testing.T, c *cluster, change func(*server.Config)) *fixture {
	t.Helper()
	return newFixture(t, func(config *server.Config) {
		config.Auth = auth.Kubernetes
		config.Reviews = auth.Reviews{Tokens: tokenReviews{c}, Access: accessReviews{c}}
		config.Uploads = uploads{"pod"}
		if change != nil {
			change(config)
		}
	})
}

func bearer(token string) string { return "Authorization: Bearer " + token }

// Every operation asks for its verb, and refuses who may not use it, before it looks at anything else.
func TestWhoMayDoWhat(t *testing.T) {
	rematcher := &rematcher{}
	f := newGuardedFixture(t, newCluster(), func(c *server.Config) { c.Rematcher = rematcher })
	f.seed()
	image := "/api/v1/images/" + escape(scannedID)
	body := uploadOf(reportedID)
	for _, test := range []struct {
		request                                string
		none, admin, person, reader, both, pod int
	}{
		{"GET /scan-results", 401, 200, 200, 200, 403, 401},
		{"GET /scan-results/" + escape(scannedID), 401, 200, 200, 200, 200, 401},
		{"PUT /scan-results", 401, 200, 403, 403, 403, 401},
		{"GET /api/v1/overview", 401, 200, 200, 200, 403, 401},
		{"GET /api/v1/images", 401, 200, 200, 200, 403, 401},
		{"GET /api/v1/images?pageSize=0", 401, 400, 400, 400, 403, 401},
		{"GET " + image, 401, 200, 200, 200, 200, 401},
		{"GET " + image + "/findings", 401, 200, 200, 200, 200, 401},
		{"GET " + image + "/sbom", 401, 200, 200, 200, 200, 401},
		{"GET /api/v1/databases", 401, 200, 200, 200, 403, 401},
		{"GET /api/v1/databases/" + escape(build.ID) + "/changes", 401, 200, 200, 200, 403, 401},
		{"GET /api/v1/databases/a/changes?pageSize=0", 401, 400, 400, 400, 403, 401},
		{"POST /api/v1/databases/rematch", 401, 202, 202, 403, 403, 401},
		{"GET /subscribe", 401, 426, 426, 426, 403, 401},
		{"PUT " + image + "/sbom", 401, 500, 500, 500, 500, 204},
		{"DELETE /scan-results/" + escape(failedID), 401, 204, 404, 403, 403, 401},
		{"GET /api/v1/session", 200, 200, 200, 200, 200, 200},
		{"DELETE /api/v1/session", 204, 204, 204, 204, 204, 204},
		{"GET /", 200, 200, 200, 200, 200, 200},
	} {
		method, path, _ := strings.Cut(test.request, " ")
		for _, as := range []struct {
			token string
			want  int
		}{{"", test.none}, {"admin", test.admin}, {"person", test.person}, {"reader", test.reader}, {"both", test.both}, {"pod", test.pod}} {
			var headers []string
			if as.token != "" {
				headers = append(headers, bearer(as.token))
			}
			a := f.do(method, path, body, headers...)
			if a.status != as.want {
				t.Errorf("%s as %q: %d, want %d: %s", test.request, as.token, a.status, as.want, a.body)
			}
			if a.status >= 400 {
				a.problem(t, a.status, "")
			}
			if a.status == http.StatusUnauthorized && a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s: WWW-Authenticate is missing", test.request)
			}
			a.secure(t)
		}
	}
	if want := []store.Delivery{{Job: "job-uid", Source: model.SourceImageVolume}}; !slices.Equal(f.ingest.deliveries, want) {
		t.Errorf("SBOMs of %+v were ingested, want that of the pod", f.ingest.deliveries)
	}
	if got := rematcher.requests(); len(got) != 2 {
		t.Errorf("matching again was requested %d times, want twice", len(got))
	}
}

func TestTokens(t *testing.T) {
	c := newCluster()
	f := newGuardedFixture(t, c, nil)
	for _, test := range []struct {
		header string
		status int
	}{
		{"Authorization: Bearer admin", 200},
		{"Authorization: bearer  admin ", 200},
		{"Authorization: Bearer foreign", 401},
		{"Authorization: Bearer unknown", 401},
		{"Authorization: Bearer nobody", 403},
		{"Cookie: scanner-operator-session=admin", 200},
		{"Cookie: scanner-operator-session=unknown", 401},
	} {
		if a := f.do(http.MethodGet, "/api/v1/overview", "", test.header); a.status != test.status {
			t.Errorf("%s: %d %s", test.header, a.status, a.body)
		}
	}
	before, _ := c.calls()
	for _, header := range []string{
		"Authorization: Basic YTpi", "Authorization: Bearer", "Authorization: Bearer a b", "Authorization: Bearer \"x\"", "Authorization: Bearer " + strings.Repeat("x", 17000),
		"Cookie: scanner-operator-session=", "Cookie: other=admin",
	} {
		f.do(http.MethodGet, "/api/v1/overview", "", header).problem(t, 401, "")
	}
	if after, _ := c.calls(); after != before {
		t.Errorf("the API server was asked %d times about what is no token", after-before)
	}

	// An API server that ignores audiences says nothing about ours: its tokens are those of people.
	c.set(func(c *cluster) {
		c.ignorant = true
		c.audiences["late"] = []string{apiServer}
		c.verbs["late"] = []string{"list", "update"}
	})
	if a := f.do(http.MethodGet, "/api/v1/overview", "", bearer("late")); a.status != http.StatusOK {
		t.Errorf("reading: %d %s", a.status, a.body)
	}
	f.do(http.MethodPut, "/scan-results", uploadOf("a"), bearer("late")).problem(t, 403, "audience")
}

func TestAPIServerGone(t *testing.T) {
	c := newCluster()
	f := newGuardedFixture(t, c, nil)
	c.set(func(c *cluster) { c.err = errors.New("secret address refused") })
	a := f.do(http.MethodGet, "/api/v1/overview", "", bearer("admin"))
	a.problem(t, 503, "API server")
	if strings.Contains(a.body, "secret") {
		t.Error(a.body)
	}
	c.set(func(c *cluster) { c.err = nil })
	if a := f.do(http.MethodGet, "/api/v1/overview", "", bearer("admin")); a.status != http.StatusOK {
		t.Errorf("afterwards: %d %s", a.status, a.body)
	}
}

// Answers are remembered for a short time: yes for a minute, no for ten seconds.
func TestAnswersAreRemembered(t *testing.T) {
	c := newCluster()
	var now atomic.Int64
	now.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	f := newGuardedFixture(t, c, func(config *server.Config) {
		config.Clock = func() time.Time { return time.Unix(0, now.Load()) }
	})
	get := func(token string, want int) {
		t.Helper()
		if a := f.do(http.MethodGet, "/api/v1/overview", "", bearer(token)); a.status != want {
			t.Fatalf("%s: %d %s", token, a.status, a.body)
		}
	}
	for range 3 {
		get("admin", 200)
		get("unknown", 401)
		get("nobody", 403)
	}
	if tokens, accesses := c.calls(); tokens != 4 || accesses != 2 {
		t.Errorf("asked %d times about tokens and %d times about permissions, want 4 and 2", tokens, accesses)
	}
	c.set(func(c *cluster) {
		delete(c.audiences, "admin")
		c.audiences["unknown"] = []string{auth.Audience}
		c.verbs["unknown"], c.verbs["nobody"] = []string{"list"}, []string{"list"}
	})
	now.Add(int64(10 * time.Second))
	get("admin", 200)
	get("unknown", 401)
	get("nobody", 403)
	now.Add(1)
	get("unknown", 200)
	get("nobody", 200)
	now.Add(int64(50*time.Second) - 1)
	get("admin", 200)
	now.Add(1)
	get("admin", 401)
}

// Many requests with one token ask the API server once.
func TestConcurrentReviewsAreOne(t *testing.T) {
	c := newCluster()
	c.block = make(chan struct{})
	f := newGuardedFixture(t, c, nil)
	var waiting sync.WaitGroup
	for range 20 {
		waiting.Go(func() {
			if a := f.do(http.MethodGet, "/api/v1/overview", "", bearer("admin")); a.status != http.StatusOK {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	close(c.block)
	waiting.Wait()
	if tokens, _ := c.calls(); tokens > 20 {
		t.Errorf("asked %d times", tokens)
	}
}

func TestSession(t *testing.T) {
	c := newCluster()
	f := newGuardedFixture(t, c, nil)
	const path = "/api/v1/session"
	a := f.do(http.MethodGet, path, "")
	validate(t, success(http.MethodGet, path), a.body)
	if !strings.Contains(a.body, `"authenticated":false`) {
		t.Error(a.body)
	}
	in := f.do(http.MethodPost, path, `{"token":"admin"}`, "Content-Type: application/json")
	validate(t, success(http.MethodPost, path), in.body)
	if in.status != http.StatusOK || !strings.Contains(in.body, `"user":"admin"`) || !strings.Contains(in.body, `"canDelete":true`) || !strings.Contains(in.body, `"canUpdate":true`) {
		t.Errorf("%d %s", in.status, in.body)
	}
	if cookie := in.header.Get("Set-Cookie"); cookie != "scanner-operator-session=admin; Path=/; HttpOnly; SameSite=Strict" {
		t.Error(cookie)
	}
	secure := f.do(http.MethodPost, path, `{"token":"reader"}`, "X-Forwarded-Proto: https")
	if !strings.Contains(secure.header.Get("Set-Cookie"), "Secure") || secure.header.Get("Strict-Transport-Security") == "" || !strings.Contains(secure.body, `"canDelete":false`) || !strings.Contains(secure.body, `"canUpdate":false`) {
		t.Errorf("%v %s", secure.header, secure.body)
	}
	if a := f.do(http.MethodGet, path, "", "Cookie: scanner-operator-session=admin"); !strings.Contains(a.body, `"authenticated":true`) {
		t.Error(a.body)
	}
	if a := f.do(http.MethodGet, path, "", "Cookie: scanner-operator-session=unknown"); !strings.Contains(a.body, `"authenticated":false`) {
		t.Error(a.body)
	}
	out := f.do(http.MethodDelete, path, "", "Cookie: scanner-operator-session=admin")
	if out.status != http.StatusNoContent || !strings.Contains(out.header.Get("Set-Cookie"), "scanner-operator-session=; Path=/; Max-Age=0") {
		t.Errorf("%d %v", out.status, out.header)
	}
	for _, test := range []struct {
		body, detail string
		status       int
	}{
		{`{"token":"unknown"}`, "invalid or expired", 401},
		{`{"token":"a b"}`, "", 401},
		{`{"token":""}`, "required", 400},
		{`{}`, "required", 400},
		{`{"token":1}`, "", 400},
		{`x`, "", 400},
		{``, "", 400},
		{`{"token":"` + strings.Repeat("x", 4000) + `"}`, "cookie", 400},
		{`{"token":"` + strings.Repeat("x", 70000) + `"}`, "limit of 65536", 413},
	} {
		a := f.do(http.MethodPost, path, test.body)
		a.problem(t, test.status, test.detail)
		if a.header.Get("Set-Cookie") != "" {
			t.Errorf("%s sets a cookie", test.body)
		}
	}
	c.set(func(c *cluster) { c.err = errors.New("down") })
	f.do(http.MethodGet, path, "", bearer("late")).problem(t, 503, "")
}

func TestWithoutAuthentication(t *testing.T) {
	f := newFixture(t, nil)
	if a := f.do(http.MethodPost, "/api/v1/session", `{"token":"x"}`); a.status != http.StatusOK || a.header.Get("Set-Cookie") != "" {
		t.Errorf("%d %v", a.status, a.header)
	}
	for host, status := range map[string]int{
		"localhost": 200, "LOCALHOST:8000": 200, "127.0.0.1:1": 200, "127.1.2.3": 200, "[::1]:8000": 200, "[::1]": 200,
		"evil.example": 421, "localhost.evil.example:8000": 421, "10.0.0.1": 421, "127.0.0.1.nip.io": 421,
	} {
		if a := f.do(http.MethodGet, "/api/v1/overview", "", "Host: "+host); a.status != status {
			t.Errorf("%s: %d", host, a.status)
		} else if status != http.StatusOK {
			a.problem(t, status, "localhost")
		}
	}
}

func TestOtherSites(t *testing.T) {
	f := newFixture(t, nil)
	for _, request := range []string{"PUT /scan-results", "DELETE /scan-results/a", "POST /api/v1/session", "DELETE /api/v1/session", "PUT /api/v1/images/a/sbom", "POST /api/v1/databases/rematch"} {
		method, path, _ := strings.Cut(request, " ")
		for _, header := range []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: https://evil.example", "Origin: null"} {
			f.do(method, path, uploadOf("a"), header).problem(t, 403, "cross-origin request refused")
		}
	}
	if a := f.do(http.MethodPut, "/scan-results", uploadOf("a"), "Sec-Fetch-Site: same-origin"); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestConfigurationIsRefused(t *testing.T) {
	valid := server.Config{
		Auth: auth.None, BindAddress: "127.0.0.1:0", Store: &idStore{Store: store.Store(nil)}, Ingest: &ingester{},
		Feed: func(context.Context) live.Subscription { return nil },
	}
	for _, test := range []struct {
		name, want string
		change     func(*server.Config)
	}{
		{"all interfaces", "loopback", func(c *server.Config) { c.BindAddress = ":8000" }},
		{"IPv4 wildcard", "loopback", func(c *server.Config) { c.BindAddress = "0.0.0.0:8000" }},
		{"IPv6 wildcard", "loopback", func(c *server.Config) { c.BindAddress = "[::]:8000" }},
		{"a name", "loopback", func(c *server.Config) { c.BindAddress = "example.com:8000" }},
		{"no port", "host:port", func(c *server.Config) { c.BindAddress = "127.0.0.1" }},
		{"auth", "neither", func(c *server.Config) { c.Auth = "open" }},
		{"no reviews", "requires reviews", func(c *server.Config) { c.Auth = auth.Kubernetes }},
		{"no store", "must be set", func(c *server.Config) { c.Store = nil }},
	} {
		config := valid
		test.change(&config)
		if _, err := server.New(config); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	for _, address := range []string{"127.0.0.1:0", "localhost:0", "[::1]:0", "127.8.8.8:0"} {
		config := valid
		config.BindAddress = address
		if _, err := server.New(config); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}
