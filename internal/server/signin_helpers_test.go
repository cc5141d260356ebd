package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/auth/oidc"
	"github.com/scanner-operator/scanner-operator/test/dexserver"
)

const (
	// external is where browsers reach the replicas, as behind a proxy.
	external     = "https://scanner.example"
	externalHost = "scanner.example"
	sessionPath  = "/api/v1/session"
	callbackPath = sessionPath + "/callback"
	overviewPath = "/api/v1/overview"

	// The cookies of a sign-in and of a session.
	signInCookie  = "__Host-scanner-operator-sign-in"
	sessionCookie = "__Host-scanner-operator-user"
	tokenCookie   = "__Host-scanner-operator-session"

	password     = "correct horse"
	clientSecret = "secret of the client"
)

// startedDex is dex, for all tests.
var startedDex = sync.OnceValues(func() (*dexserver.Server, error) { return dexserver.Start("../../test/dex", "127.0.0.1") })

func dexServer(t *testing.T) *dexserver.Server {
	t.Helper()
	dex, err := startedDex()
	if err != nil {
		t.Fatal(err)
	}
	return dex
}

// rbac answers SubjectAccessReviews by user and group names, and remembers the last identity.
type rbac struct {
	mu    sync.Mutex
	verbs map[string][]string
	// only are the namespaces of subjects that have their verbs in one namespace.
	only map[string]string
	last authorizationv1.SubjectAccessReviewSpec
}

// Create implements auth.AccessReviewer.
func (r *rbac) Create(_ context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	review = review.DeepCopy()
	r.last = review.Spec
	for _, subject := range append([]string{review.Spec.User}, review.Spec.Groups...) {
		only, limited := r.only[subject]
		review.Status.Allowed = review.Status.Allowed ||
			slices.Contains(r.verbs[subject], review.Spec.ResourceAttributes.Verb) && (!limited || only == review.Spec.ResourceAttributes.Namespace)
	}
	return review, nil
}

func (r *rbac) identity() (user string, groups []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last.User, r.last.Groups
}

// reading are the verbs of readers.
var reading = []string{auth.VerbGet, auth.VerbList}

// steppedClock is the real time and what it was moved by.
type steppedClock struct{ ahead atomic.Int64 }

func (c *steppedClock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *steppedClock) step(by time.Duration) { c.ahead.Add(int64(by)) }

// signInFixture is a server whose users sign in with a provider.
type signInFixture struct {
	*fixture
	rbac     *rbac
	clock    *steppedClock
	provider *oidc.Provider
	log      *logText
}

// logText is all that was logged.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logText) logger() logr.Logger {
	return funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.text.WriteString(args + "\n")
	}, funcr.Options{Verbosity: 1})
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// newSignInFixture starts a server; others are replicas, which share their store and their permissions.
func newSignInFixture(t *testing.T, config oidc.Config, shared *signInFixture, change func(*server.Config)) *signInFixture {
	t.Helper()
	f := &signInFixture{rbac: &rbac{verbs: map[string][]string{}}, clock: &steppedClock{}, log: &logText{}}
	if shared != nil {
		f.rbac, f.clock, f.log = shared.rbac, shared.clock, shared.log
	}
	if config.RedirectURL == "" {
		config.RedirectURL, config.PostLogoutURL = external+callbackPath, external+"/"
	}
	config.Clock = f.clock.now
	var err error
	if f.provider, err = oidc.New(config); err != nil {
		t.Fatal(err)
	}
	f.fixture = newFixture(t, func(c *server.Config) {
		c.Auth, c.Uploads, c.Provider, c.Clock, c.Log = auth.Kubernetes, uploads{"pod"}, f.provider, f.clock.now, f.log.logger()
		c.Reviews = auth.Reviews{Tokens: tokenReviews{newCluster()}, Access: f.rbac}
		if shared != nil {
			c.Store = shared.store
		}
		if change != nil {
			change(c)
		}
	})
	if shared != nil {
		f.store = shared.store
	}
	t.Cleanup(f.provider.CloseIdleConnections)
	return f
}

// file writes a file for the test.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// dexConfig registers a client of this test at dex.
func dexConfig(t *testing.T, dex *dexserver.Server, backchannel string) oidc.Config {
	t.Helper()
	return dexConfigAt(t, dex, external, backchannel)
}

// dexConfigAt is like dexConfig, for an operator at a URL.
func dexConfigAt(t *testing.T, dex *dexserver.Server, at, backchannel string) oidc.Config {
	t.Helper()
	client := dexserver.Client{
		ID: strings.ToLower(t.Name()), Secret: clientSecret, RedirectURIs: []string{at + callbackPath},
		PostLogoutRedirectURIs: []string{at + "/"}, BackchannelLogoutURI: backchannel,
	}
	if err := dex.SetClient(client); err != nil {
		t.Fatal(err)
	}
	return oidc.Config{
		Issuer: dex.Issuer, ClientID: client.ID, ClientSecretFile: file(t, "secret", clientSecret+"\n"), CAFile: file(t, "ca.crt", dex.CA),
		Scopes: []string{"openid", "profile", "email", "groups", "offline_access"}, UsernameClaim: "email", GroupsClaim: "groups", GroupsPrefix: "oidc:",
	}
}

// dexUser registers a user of this test at dex, and returns the e-mail address.
func dexUser(t *testing.T, dex *dexserver.Server, name string, groups ...string) string {
	t.Helper()
	user := dexserver.User{
		Email: name + "." + strings.ToLower(t.Name()) + "@example.com", Username: strings.ToUpper(name), UserID: t.Name() + name, EmailVerified: true, Groups: groups,
	}
	if err := dex.SetUser(user, password); err != nil {
		t.Fatal(err)
	}
	return user.Email
}

// browser keeps cookies as a browser does, those of the provider apart.
type browser struct {
	t        *testing.T
	cookies  map[string]string
	provider *http.Client
}

// newBrowser makes a browser that trusts the provider.
func newBrowser(t *testing.T, ca string) *browser {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(ca))
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return &browser{t: t, cookies: map[string]string{}, provider: &http.Client{
		Transport: transport, Jar: jar, Timeout: patience,
		CheckRedirect: func(r *http.Request, _ []*http.Request) error {
			if r.URL.Host == externalHost {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}}
}

// do sends a request of a page of our own.
func (b *browser) do(f *signInFixture, method, target string, headers ...string) answer {
	b.t.Helper()
	var pairs []string
	for name, value := range b.cookies {
		pairs = append(pairs, name+"="+value)
	}
	if len(pairs) > 0 {
		headers = append(headers, "Cookie: "+strings.Join(pairs, "; "))
	}
	headers = append(headers, "X-Forwarded-Proto: https")
	client := f.client
	f.client = &http.Client{Transport: client.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	a := f.do(method, target, "", headers...)
	f.client = client
	for _, cookie := range (&http.Response{Header: a.header}).Cookies() {
		if cookie.MaxAge < 0 {
			delete(b.cookies, cookie.Name)
		} else {
			b.cookies[cookie.Name] = cookie.Value
		}
	}
	return a
}

// start begins a sign-in, and returns where the provider wants the browser.
func (b *browser) start(f *signInFixture, returnTo string) string {
	b.t.Helper()
	a := b.do(f, http.MethodGet, sessionPath+"/sign-in?returnTo="+url.QueryEscape(returnTo))
	if a.status != http.StatusSeeOther {
		b.t.Fatalf("start a sign-in: %d %s", a.status, a.body)
	}
	return a.header.Get("Location")
}

// atDex signs in at dex, and returns the path with which dex sends the browser back.
func (b *browser) atDex(location, user string) string {
	b.t.Helper()
	response := b.get(location)
	if response.StatusCode == http.StatusOK {
		form := url.Values{"login": {user}, "password": {password}}
		request, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, response.Request.URL.String(), strings.NewReader(form.Encode()))
		if err != nil {
			b.t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response = b.send(request)
	}
	back, found := strings.CutPrefix(response.Header.Get("Location"), external)
	if !found {
		b.t.Fatalf("dex did not send the browser back: %d %v", response.StatusCode, response.Header)
	}
	return back
}

func (b *browser) get(location string) *http.Response {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, location, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.send(request)
}

func (b *browser) send(request *http.Request) *http.Response {
	b.t.Helper()
	response, err := b.provider.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		b.t.Fatal(err)
	}
	return response
}

// signIn signs in with dex.
func (b *browser) signIn(f *signInFixture, user string) {
	b.t.Helper()
	a := b.do(f, http.MethodGet, b.atDex(b.start(f, "/"), user))
	if a.status != http.StatusSeeOther || a.header.Get("Location") != "/" || b.cookies[sessionCookie] == "" {
		b.t.Fatalf("sign in: %d %v %s\n%s", a.status, a.header, a.body, f.log)
	}
}

// expect reads, and checks the status.
func (b *browser) expect(f *signInFixture, status int) {
	b.t.Helper()
	if a := b.do(f, http.MethodGet, overviewPath); a.status != status {
		b.t.Errorf("reading: %d, want %d: %s\n%s", a.status, status, a.body, f.log)
	}
}

// session describes the session.
func (b *browser) session(f *signInFixture) (s struct {
	Authenticated, AnonymousRead, CanDelete bool
	User, DisplayName, Method               string
	Groups                                  []string
	Provider                                *struct {
		Name      string
		Available bool
	}
}) {
	b.t.Helper()
	a := b.do(f, http.MethodGet, sessionPath)
	validate(b.t, success(http.MethodGet, sessionPath), a.body)
	if err := json.Unmarshal([]byte(a.body), &s); err != nil {
		b.t.Fatal(err)
	}
	return s
}

// failed checks that a sign-in failed for a reason, and left no session.
func (b *browser) failed(a answer, want string) {
	b.t.Helper()
	if location := a.header.Get("Location"); a.status != http.StatusSeeOther || location != want {
		b.t.Errorf("%d to %q, want %q: %s", a.status, location, want, a.body)
	}
	if b.cookies[sessionCookie] != "" {
		b.t.Error("there is a session")
	}
}

// cookieOf is the header that sets a cookie.
func cookieOf(a answer, name string) string {
	for _, header := range a.header.Values("Set-Cookie") {
		if strings.HasPrefix(header, name+"=") {
			return header
		}
	}
	return ""
}

func decodeJSON(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}
