package catalog

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/registries"
)

// guard sees a request before the registry does, and returns false if it has answered it.
type guard = func(http.ResponseWriter, *http.Request) bool

// only applies a handler to requests whose path contains part.
func only(part string, handle http.HandlerFunc) guard {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, part) {
			return true
		}
		handle(w, r)
		return false
	}
}

func redirectTo(location string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", location)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
}

// endless writes chunks until nobody reads them any longer.
func endless(status int, start, chunk string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, err := io.WriteString(w, start)
		for whole := strings.Repeat(chunk, 1+(64<<10)/len(chunk)); err == nil; {
			_, err = io.WriteString(w, whole)
		}
	}
}

// trickle writes a byte now and then until nobody reads them any longer.
func trickle(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		for {
			if _, err := io.WriteString(w, " "); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			select {
			case <-ticker.C:
			case <-r.Context().Done():
				return
			}
		}
	}
}

// runAgainst catalogs a sound image in a registry behind a guard, with credentials for the registry. It checks that nothing but this
// image is asked for, in a bounded number of requests.
func runAgainst(t *testing.T, limits Limits, hostile func(*fakeRegistry) guard) (*Result, error) {
	t.Helper()
	registry := newRegistry(t)
	reference := registry.push(t, debian(t))
	inner := hostile(registry)
	var requests atomic.Int32
	registry.guard = func(w http.ResponseWriter, r *http.Request) bool {
		requests.Add(1)
		if !strings.HasPrefix(r.URL.Path, "/v2/team/app/manifests/") && !strings.HasPrefix(r.URL.Path, "/v2/team/app/blobs/") && r.URL.Path != "/token" {
			t.Errorf("%s is asked for", r.URL)
		}
		return inner(w, r)
	}
	result, err := runHostile(t, Request{Image: reference, Limits: limits, DockerConfigs: []string{dockerConfig(t, registry.host, "robot", secret)}})
	// Two credentials, anonymous access included; each request may be repeated, redirected and answered with a challenge.
	if n := requests.Load(); n > 2*maxAttempts*(maxRedirects+2) {
		t.Errorf("%d requests", n)
	}
	return result, err
}

func TestHostileRedirects(t *testing.T) {
	other := newBystander(t)
	resolveAll(t, "169.254.169.254", "fe80::1")
	const refused = "refused to connect to "
	for name, test := range map[string]struct {
		location string
		reason   model.Reason
		phrase   string
	}{
		"to a link-local address":      {"https://169.254.169.254/latest/meta-data/", model.ReasonRegistryUnavailable, refused + "169.254.169.254"},
		"to one in IPv6":               {"https://[fe80::1]/", model.ReasonRegistryUnavailable, refused + "fe80::1"},
		"to IPv4 in IPv6":              {"https://[::ffff:169.254.169.254]/", model.ReasonRegistryUnavailable, refused},
		"to an address as one number":  {"https://2852039166/", model.ReasonRegistryUnavailable, ""},
		"to a metadata service":        {"https://100.100.100.200/", model.ReasonRegistryUnavailable, refused},
		"to a metadata service, IPv6":  {"https://[fd00:ec2::254]/", model.ReasonRegistryUnavailable, refused},
		"to no address":                {"https://0.0.0.0/", model.ReasonRegistryUnavailable, refused},
		"to a link-local name":         {"https://metadata.hostile.test/", model.ReasonRegistryUnavailable, refused},
		"to plain HTTP":                {"http://169.254.169.254/", model.ReasonRegistryUnavailable, "plain HTTP"},
		"to plain HTTP by name":        {"http://metadata.hostile.test/", model.ReasonRegistryUnavailable, "plain HTTP"},
		"to a file":                    {"file:///etc/passwd", model.ReasonRegistryUnavailable, ""},
		"to another host":              {other.url, model.ReasonImagePullDenied, "403"},
		"to another host, with a name": {"http://robot:x@" + other.host, model.ReasonImagePullDenied, "refused to send"},
		"in circles":                   {"?again", model.ReasonRegistryUnavailable, "more than 5 times"},
		"nowhere":                      {"http://", model.ReasonRegistryUnavailable, ""},
		"to a broken address":          {"https://[::1/%zz\x7f", model.ReasonRegistryUnavailable, ""},
	} {
		for _, part := range []string{"/manifests/", "/blobs/"} {
			t.Run(name+" from "+strings.Trim(part, "/"), func(t *testing.T) {
				_, err := runAgainst(t, Limits{}, func(*fakeRegistry) guard {
					login := basicAuth("robot", secret)
					redirect := only(part, redirectTo(test.location))
					return func(w http.ResponseWriter, r *http.Request) bool { return login(w, r) && redirect(w, r) }
				})
				wantFailure(t, err, test.reason, test.phrase)
			})
		}
	}
	if other.asked() == 0 {
		t.Error("no redirect was followed")
	}
}

// A proxy connects to whatever it is told, so that addresses are refused before it is asked.
func TestHostileRedirectsThroughProxy(t *testing.T) {
	proxy := newBystander(t)
	t.Setenv("HTTPS_PROXY", proxy.url)
	for _, host := range []string{"169.254.169.254", "[fe80::1]", "[fe80::1%25eth0]", "[::ffff:169.254.169.254]", "100.100.100.200", "127.0.0.1", "0.0.0.0"} {
		t.Run(strings.Trim(host, "[]"), func(t *testing.T) {
			client, err := newHTTPClient(hostRules{registry: "registry.example"}, registries.Config{}, "")
			if err != nil {
				t.Fatal(err)
			}
			// The environment is read once in a process.
			client.Transport.(roundTripper).next.(*http.Transport).Proxy = func(*http.Request) (*url.URL, error) { return url.Parse(proxy.url) }
			defer client.CloseIdleConnections()
			_, err = client.Get("https://" + host + "/latest/meta-data/")
			wantFailure(t, withoutURL(err), model.ReasonRegistryUnavailable, "refused to connect")
		})
	}
	if proxy.asked() != 0 {
		t.Errorf("the proxy is asked %d times", proxy.asked())
	}
}

// challenge demands a token of a service.
func challenge(realm string, more ...string) guard {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/token" {
			return true
		}
		for _, header := range more {
			w.Header().Add("WWW-Authenticate", header)
		}
		w.Header().Add("WWW-Authenticate", `Bearer realm="`+realm+`",service="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
		return false
	}
}

func TestHostileTokenServices(t *testing.T) {
	other := newBystander(t)
	resolveAll(t, "169.254.169.254")
	// own answers at the registry's own address.
	own := func(handle http.HandlerFunc) func(*fakeRegistry) guard {
		return func(f *fakeRegistry) guard {
			demand := challenge("http://" + f.host + "/token")
			return func(w http.ResponseWriter, r *http.Request) bool { return demand(w, r) && only("/token", handle)(w, r) }
		}
	}
	realm := func(realm string) func(*fakeRegistry) guard {
		return func(*fakeRegistry) guard { return challenge(realm) }
	}
	answer := func(body string) func(*fakeRegistry) guard {
		return own(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
	}
	for name, test := range map[string]struct {
		hostile func(*fakeRegistry) guard
		limits  Limits
		reason  model.Reason
		phrase  string
	}{
		"at another host":            {realm(other.url + "/token"), Limits{}, model.ReasonImagePullDenied, "refused to send the credentials"},
		"at a link-local address":    {realm("https://169.254.169.254/token"), Limits{}, model.ReasonRegistryUnavailable, "refused to connect"},
		"at a link-local name":       {realm("https://tokens.hostile.test/token"), Limits{}, model.ReasonRegistryUnavailable, "refused to connect"},
		"without TLS":                {realm("http://tokens.hostile.test/token"), Limits{}, model.ReasonRegistryUnavailable, "plain HTTP"},
		"with a name and a password": {realm("http://u:p@" + other.host + "/token"), Limits{}, model.ReasonRegistryUnavailable, "no valid token service"},
		"at no address":              {realm("/token"), Limits{}, model.ReasonRegistryUnavailable, "no valid token service"},
		"redirects":                  {own(redirectTo(other.url + "/token")), Limits{}, model.ReasonImagePullDenied, "403"},
		"redirects to link-local":    {own(redirectTo("https://169.254.169.254/")), Limits{}, model.ReasonRegistryUnavailable, "refused to connect"},
		"never enough":               {answer(`{"token":"t"}`), Limits{}, model.ReasonImagePullDenied, "401"},
		"endless":                    {own(endless(http.StatusOK, `{"token":"`, "x")), Limits{}, model.ReasonRegistryUnavailable, "JSON"},
		"endless refusal":            {own(endless(http.StatusForbidden, `{"errors":[`, "{},")), Limits{}, model.ReasonImagePullDenied, "403"},
		"one byte at a time":         {own(trickle(http.StatusOK)), Limits{Timeout: 300 * time.Millisecond}, model.ReasonDeadlineExceeded, "300ms"},
		"a token of two lines":       {answer(`{"token":"a\r\nX-Evil: b"}`), Limits{}, model.ReasonRegistryUnavailable, "no valid token"},
		"deep JSON":                  {answer(strings.Repeat(`{"token":`, 20_000)), Limits{}, model.ReasonRegistryUnavailable, "JSON"},
		"quotes the password": {own(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, password, _ := r.BasicAuth()
			_, _ = fmt.Fprintf(w, `{"errors":[{"code":"DENIED","message":"not %s %s"}]}`, password, r.Header.Get("Authorization"))
		}), Limits{}, model.ReasonImagePullDenied, "403"},
		"many challenges": {func(*fakeRegistry) guard {
			return challenge(other.url, slices.Repeat([]string{"Evil " + strings.Repeat(`a="b",`, 10)}, 500)...)
		}, Limits{}, model.ReasonImagePullDenied, "refused to send"},
		"a long challenge": {realm("http://" + strings.Repeat("a", 20<<10)), Limits{}, model.ReasonImagePullDenied, "401"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := runAgainst(t, test.limits, test.hostile)
			wantFailure(t, err, test.reason, test.phrase)
		})
	}
	t.Run("redirects an identity token", func(t *testing.T) {
		registry := newRegistry(t)
		reference := registry.push(t, debian(t))
		demand := challenge("http://" + registry.host + "/token")
		registry.guard = func(w http.ResponseWriter, r *http.Request) bool {
			if demand(w, r) {
				redirectTo(other.url+"/token")(w, r)
			}
			return false
		}
		config := fmt.Sprintf(`{"auths":{%q:{"auth":%q,"identitytoken":%q}}}`, registry.host, base64.StdEncoding.EncodeToString([]byte("u:p")), secret)
		_, err := runHostile(t, Request{Image: reference, DockerConfigs: []string{write(t, "config.json", []byte(config))}})
		wantFailure(t, err, model.ReasonImagePullDenied, "refused to send")
	})
}

func TestHostileResponses(t *testing.T) {
	brief := Limits{Timeout: 300 * time.Millisecond}
	guarded := func(g guard) func(*fakeRegistry) guard { return func(*fakeRegistry) guard { return g } }
	var changes atomic.Int32
	for name, test := range map[string]struct {
		guard  guard
		limits Limits
		reason model.Reason
		phrase string
	}{
		"one byte at a time, manifest": {only("/manifests/", trickle(http.StatusOK)), brief, model.ReasonDeadlineExceeded, "300ms"},
		"one byte at a time, blob":     {only("/blobs/", trickle(http.StatusOK)), brief, model.ReasonDeadlineExceeded, "300ms"},
		"one byte at a time, refusal":  {only("/manifests/", trickle(http.StatusForbidden)), brief, model.ReasonDeadlineExceeded, "300ms"},
		"no response":                  {only("/manifests/", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), brief, model.ReasonDeadlineExceeded, "300ms"},
		"endless manifest":             {only("/manifests/", endless(http.StatusOK, "", " ")), Limits{}, model.ReasonImageTooLarge, "4194304 bytes"},
		"endless list of manifests":    {only("/manifests/", endless(http.StatusOK, `{"schemaVersion":2,"manifests":[{}`, ",{}")), Limits{}, model.ReasonImageTooLarge, "4194304 bytes"},
		"endless blob":                 {only("/blobs/", endless(http.StatusOK, "", "x")), Limits{}, model.ReasonImageTooLarge, "8388608 bytes"},
		"endless refusal":              {only("/manifests/", endless(http.StatusNotFound, `{"errors":[`, "{},")), Limits{}, model.ReasonImageNotFound, "404"},
		"endless headers": {only("/manifests/", func(w http.ResponseWriter, _ *http.Request) {
			for i := range 5000 {
				w.Header().Set(fmt.Sprintf("X-Evil-%d", i), strings.Repeat("x", 100))
			}
		}), Limits{}, model.ReasonRegistryUnavailable, "manifests/"},
		"endless early hints": {only("/manifests/", func(w http.ResponseWriter, _ *http.Request) {
			for range 10_000 {
				w.WriteHeader(http.StatusEarlyHints)
			}
		}), Limits{}, model.ReasonRegistryUnavailable, "manifests/"},
		"wait for years": {only("/manifests/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "4294967295")
			w.WriteHeader(http.StatusTooManyRequests)
		}), Limits{}, model.ReasonRegistryRateLimited, "429"},
		"connection ends": {only("/manifests/", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), Limits{}, model.ReasonRegistryUnavailable, "manifests/"},
		"not HTTP":        {only("/manifests/", notHTTP), Limits{}, model.ReasonRegistryUnavailable, "manifests/"},
		"manifest changes every time": {only("/manifests/", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"schemaVersion":2,"n":%d}`, changes.Add(1))
		}), Limits{}, model.ReasonCatalogFailed, "modified in transit"},
		"blobs change every time":   {only("/blobs/", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintf(w, `{"n":%d}`, changes.Add(1)) }), Limits{}, model.ReasonCatalogFailed, "modified in transit"},
		"manifest of another image": {replaceIn("/manifests/", []byte(`{"schemaVersion":2}`)), Limits{}, model.ReasonCatalogFailed, "modified in transit"},
		"compressed twice": {only("/manifests/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(zerosIn(t, 8<<20, newGzipWriter))
		}), Limits{}, model.ReasonCatalogFailed, "modified in transit"},
		"quotes control characters": {only("/manifests/", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"errors":[{"code":"\u001b[31m","message":"\r\n\u0000\u202e`+strings.Repeat("x", 10_000)+`"}]}`)
		}), Limits{}, model.ReasonImagePullDenied, "403"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := runAgainst(t, test.limits, guarded(test.guard))
			wantFailure(t, err, test.reason, test.phrase)
			if message := OutcomeOf(err).Message; strings.ContainsAny(message, "\x00\r\x1b") || len(message) > 2000 {
				t.Errorf("the message is %q", message)
			}
		})
	}
	t.Run("lists without an end", func(t *testing.T) {
		result, err := runAgainst(t, Limits{}, func(f *fakeRegistry) guard {
			return func(w http.ResponseWriter, _ *http.Request) bool {
				for _, list := range []string{"/v2/_catalog", "/v2/team/app/tags/list", "/v2/team/app/referrers/sha256:0"} {
					w.Header().Add("Link", `<http://`+f.host+list+`?last=x>; rel="next"`)
				}
				w.Header().Set("OCI-Filters-Applied", "artifactType")
				return true
			}
		})
		wantSound(t, result, err)
	})
}

func notHTTP(w http.ResponseWriter, _ *http.Request) {
	connection, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	_, _ = connection.Write(bytes.Repeat([]byte("SSH-2.0-evil\x00\xff\n"), 10_000))
	_ = connection.Close()
}
