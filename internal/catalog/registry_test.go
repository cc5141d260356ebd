package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/registries"
)

var wantDebian = []string{"openssl 1.1.1k-1"}

func TestPullByDigest(t *testing.T) {
	registry := newRegistry(t)
	reference := registry.push(t, debian(t))
	result, err := runIn(t, t.Context(), Request{Image: reference, Platform: model.Platform{OS: "linux", Architecture: "amd64"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantDebian, names(t, result)); diff != "" {
		t.Errorf("packages (-want +got):\n%s", diff)
	}
	if !strings.HasSuffix(reference, result.ManifestDigest) || result.Stats.Packages != 1 || result.Stats.Files != 6 {
		t.Errorf("got %s, %+v", result.ManifestDigest, result.Stats)
	}
	// Syft writes the configuration in base64.
	if strings.Contains(string(result.SBOM), secret) || !strings.Contains(string(result.SBOM), `"config":null`) {
		t.Error("the SBOM holds the image's environment")
	}
	if !strings.Contains(string(result.SBOM), reference) {
		t.Error("the SBOM does not name the repository digest")
	}
}

// basicAuth admits one user.
func basicAuth(username, password string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		u, p, _ := r.BasicAuth()
		if u == username && p == password {
			return true
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprintf(w, `{"errors":[{"code":"UNAUTHORIZED","message":"you sent %s %s"}]}`, p, r.Header.Get("Authorization"))
		return false
	}
}

func TestBasicAuthentication(t *testing.T) {
	registry := newRegistry(t)
	reference := registry.push(t, debian(t))
	registry.guard = basicAuth("robot", secret)
	wrong, right := dockerConfig(t, registry.host, "robot", "stale"), dockerConfig(t, "https://"+registry.host+"/v1/", "robot", secret)
	elsewhere := dockerConfig(t, "other.example", "robot", secret)
	for name, configs := range map[string][]string{
		"right": {right}, "wrong first": {wrong, right}, "missing file": {t.TempDir() + "/none", right}, "elsewhere": {elsewhere, right},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := runIn(t, t.Context(), Request{Image: reference, DockerConfigs: configs}); err != nil {
				t.Fatal(err)
			}
		})
	}
	for name, configs := range map[string][]string{"none": nil, "wrong": {wrong}, "elsewhere": {elsewhere}} {
		t.Run("denied "+name, func(t *testing.T) {
			_, err := runIn(t, t.Context(), Request{Image: reference, DockerConfigs: configs})
			wantFailure(t, err, model.ReasonImagePullDenied, "401")
			if strings.Contains(err.Error(), "stale") {
				t.Errorf("the error repeats the password that the registry sent back: %v", err)
			}
		})
	}
}

// Whoever reads the failure has to know which Secrets were there, and must not learn what is in them.
func TestRefusalNamesTheCredentials(t *testing.T) {
	registry := newRegistry(t)
	reference := registry.push(t, debian(t))
	registry.guard = basicAuth("robot", secret)
	wrong, elsewhere := dockerConfig(t, registry.host, "robot", "stale"), dockerConfig(t, "other.example", "robot", secret)
	broken := write(t, "config.json", []byte("{"+secret))
	gone := filepath.Join(t.TempDir(), "team-pull", "config.json")
	_, err := runIn(t, t.Context(), Request{Image: reference, DockerConfigs: []string{wrong, elsewhere, broken, gone}})
	wantFailure(t, err, model.ReasonImagePullDenied, "401")
	message := OutcomeOf(err).Message
	for _, want := range []string{
		fmt.Sprintf("%q, %q (has no credentials for %s), %q (cannot be read), \"team-pull\" (does not exist), then no credentials",
			configName(wrong), configName(elsewhere), registry.host, configName(broken)),
	} {
		if !strings.Contains(message, want) {
			t.Errorf("%s\ndoes not hold\n%s", message, want)
		}
	}
	if strings.Contains(message, secret) || strings.Contains(message, "stale") {
		t.Errorf("a password is in %s", message)
	}
}

// TestBearerToken goes through a token service at another address, with credentials only where that is allowed.
func TestBearerToken(t *testing.T) {
	registry := newRegistry(t)
	reference := registry.push(t, debian(t))
	var asked atomic.Int32
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if _, password, _ := r.BasicAuth(); password != secret || r.URL.Query().Get("scope") != "repository:team/app:pull" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"access_token":"let-me-in"}`))
	}))
	defer tokens.Close()
	registry.guard = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "Bearer let-me-in" {
			return true
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+tokens.URL+`/token",service="registry, of sorts"`)
		w.WriteHeader(http.StatusUnauthorized)
		return false
	}
	request := Request{Image: reference, DockerConfigs: []string{dockerConfig(t, registry.host, "robot", secret)}}

	_, err := runIn(t, t.Context(), request)
	wantFailure(t, err, model.ReasonImagePullDenied, "refused to send the credentials")
	// Nobody's credential may ask, and did.
	if asked.Load() != 1 {
		t.Errorf("the foreign token service was asked %d times, want once and without credentials", asked.Load())
	}
	request.TokenHosts = []string{strings.TrimPrefix(tokens.URL, "http://")}
	if _, err := runIn(t, t.Context(), request); err != nil {
		t.Fatal(err)
	}
}

func TestCredentialsStayHome(t *testing.T) {
	var leaked atomic.Bool
	elsewhere := newRegistry(t)
	elsewhere.guard = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") != "" {
			leaked.Store(true)
		}
		return true
	}
	registry := newRegistry(t)
	image := debian(t)
	reference := registry.push(t, image)
	elsewhere.push(t, image)
	login := basicAuth("robot", secret)
	redirected := false
	registry.guard = func(w http.ResponseWriter, r *http.Request) bool {
		if !login(w, r) {
			return false
		}
		if strings.Contains(r.URL.Path, "/blobs/") {
			redirected = true
			http.Redirect(w, r, elsewhere.server.URL+r.URL.Path+"?signature="+secret, http.StatusTemporaryRedirect)
			return false
		}
		return true
	}
	request := Request{Image: reference, DockerConfigs: []string{dockerConfig(t, registry.host, "robot", secret)}}
	if _, err := runIn(t, t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if leaked.Load() || !redirected {
		t.Errorf("leaked %v, redirected %v", leaked.Load(), redirected)
	}
	elsewhere.server.Close()
	_, err := runIn(t, t.Context(), request)
	wantFailure(t, err, model.ReasonRegistryUnavailable, "blobs/")
}

func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		status     int
		retryAfter string
		reason     model.Reason
		requests   int32
		wait       time.Duration
	}{
		{http.StatusForbidden, "9", model.ReasonImagePullDenied, 1, 0},
		{http.StatusNotFound, "", model.ReasonImageNotFound, 1, 0},
		{http.StatusTooManyRequests, "7", model.ReasonRegistryRateLimited, maxAttempts, 7 * time.Second},
		{http.StatusTooManyRequests, "3600", model.ReasonRegistryRateLimited, 1, time.Hour},
		{http.StatusTooManyRequests, "4000000000", model.ReasonRegistryRateLimited, 1, model.MaxRetryAfter},
		{http.StatusTooManyRequests, "", model.ReasonRegistryRateLimited, maxAttempts, 0},
		{http.StatusServiceUnavailable, "120", model.ReasonRegistryUnavailable, 1, 2 * time.Minute},
		{http.StatusBadGateway, "", model.ReasonRegistryUnavailable, maxAttempts, 0},
		{http.StatusTeapot, "", model.ReasonRegistryUnavailable, 1, 0},
	} {
		t.Run(fmt.Sprint(test.status, test.retryAfter), func(t *testing.T) {
			registry := newRegistry(t)
			reference := registry.push(t, debian(t))
			var requests atomic.Int32
			registry.guard = func(w http.ResponseWriter, _ *http.Request) bool {
				requests.Add(1)
				w.Header().Set("Retry-After", test.retryAfter)
				w.WriteHeader(test.status)
				return false
			}
			var slept time.Duration
			_, err := runIn(t, t.Context(), Request{Image: reference, sleep: func(_ context.Context, d time.Duration) error {
				slept = d
				return nil
			}})
			wantFailure(t, err, test.reason, fmt.Sprint(test.status))
			if got := OutcomeOf(err).RetryAfter; got != test.wait {
				t.Errorf("the outcome asks to wait for %s, want %s", got, test.wait)
			}
			if requests.Load() != test.requests {
				t.Errorf("%d requests, want %d", requests.Load(), test.requests)
			}
			if test.retryAfter == "7" && slept != 7*time.Second {
				t.Errorf("waited %s, want the 7 s that the registry asked for", slept)
			}
		})
	}
}

func TestTroubleThatPasses(t *testing.T) {
	registry := newRegistry(t)
	reference := registry.push(t, debian(t))
	var requests atomic.Int32
	registry.guard = func(w http.ResponseWriter, _ *http.Request) bool {
		switch requests.Add(1) {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			panic(http.ErrAbortHandler)
		case 4:
			// Part of the configuration, then the connection ends.
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte("{"))
			panic(http.ErrAbortHandler)
		default:
			return true
		}
		return false
	}
	result, err := runIn(t, t.Context(), Request{Image: reference})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantDebian, names(t, result)); diff != "" {
		t.Error(diff)
	}
}

func TestBrokenLayerIsFetchedAgain(t *testing.T) {
	registry := newRegistry(t)
	content := debianTar(t)
	layer := newRawLayer(gzipped(t, content), content)
	reference := registry.push(t, imageOf(t, layer))
	digest, _ := layer.Digest()
	var broken atomic.Int32
	registry.guard = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, digest.String()) || broken.Add(1) > 2 {
			return true
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(layer.compressed)))
		_, _ = w.Write(layer.compressed[:len(layer.compressed)/2])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	result, err := runIn(t, t.Context(), Request{Image: reference})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantDebian, names(t, result)); diff != "" {
		t.Error(diff)
	}
	broken.Store(-100)
	_, err = runIn(t, t.Context(), Request{Image: reference})
	wantFailure(t, err, model.ReasonRegistryUnavailable, "interrupted")
}

func TestPlatforms(t *testing.T) {
	registry := newRegistry(t)
	add := func(index v1.ImageIndex, platform v1.Platform, version string) v1.ImageIndex {
		content := tarOf(t, regular("etc/os-release", "ID=debian\nVERSION_ID=11\n"),
			regular("var/lib/dpkg/status", "Package: app\nStatus: install ok installed\nVersion: "+version+"\n\n"))
		image := imageFor(t, platform.OS, platform.Architecture, newRawLayer(content, content))
		return mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &platform}})
	}
	index := add(empty.Index, v1.Platform{OS: "unknown", Architecture: "unknown"}, "attestation")
	index = add(index, v1.Platform{OS: "linux", Architecture: "amd64"}, "amd64")
	index = add(index, v1.Platform{OS: "linux", Architecture: "amd64", Variant: "v3"}, "amd64v3")
	index = add(index, v1.Platform{OS: "linux", Architecture: "arm", Variant: "v6"}, "armv6")
	index = add(index, v1.Platform{OS: "linux", Architecture: "arm", Variant: "v7"}, "armv7")
	outer := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: index})
	reference := registry.push(t, index)
	for platform, want := range map[string]string{
		"linux/amd64": "app amd64", "linux/amd64/v3": "app amd64v3", "linux/amd64/v2": "app amd64",
		"linux/arm": "app armv7", "linux/arm/v7": "app armv7", "linux/arm/v6": "app armv6",
	} {
		p, err := model.ParsePlatform(platform)
		if err != nil {
			t.Fatal(err)
		}
		result, err := runIn(t, t.Context(), Request{Image: reference, Platform: p})
		if err != nil {
			t.Errorf("%s: %v", platform, err)
			continue
		}
		if diff := cmp.Diff([]string{want}, names(t, result)); diff != "" {
			t.Errorf("%s: %s", platform, diff)
		}
		if strings.HasSuffix(reference, result.ManifestDigest) {
			t.Errorf("%s: the manifest digest is that of the index", platform)
		}
	}
	arm := model.Platform{OS: "linux", Architecture: "arm64"}
	_, err := runIn(t, t.Context(), Request{Image: reference, Platform: arm})
	wantFailure(t, err, model.ReasonPlatformMismatch, "linux/arm/v7")
	_, err = runIn(t, t.Context(), Request{Image: registry.push(t, debian(t)), Platform: arm})
	wantFailure(t, err, model.ReasonPlatformMismatch, "built for linux/amd64")
	if _, err = runIn(t, t.Context(), Request{Image: registry.push(t, outer), Platform: model.Platform{OS: "linux", Architecture: "arm"}}); err != nil {
		t.Errorf("index in an index: %v", err)
	}
}

func TestPlainHTTPOnlyWhereAllowed(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1:5000": true, "localhost": true, "[::1]:5000": true, "127.9.9.9": true, "registry.lan:5000": true, "named.lan:80": true,
		"registry.lan:5001": false, "registry.lan": false, "10.0.0.1:5000": false, "evil.localhost.example": false, "localhost.example": false, "127.0.0.1.example": false,
	} {
		rules := hostRules{registry: "x", plainHTTP: []string{"registry.lan:5000", "named.lan"}}
		if got := rules.plainHTTPAllowed(host); got != want {
			t.Errorf("%s: %v, want %v", host, got, want)
		}
	}
	// The rule holds for what is sent, wherever it comes from.
	client, err := newHTTPClient(hostRules{registry: "registry.example"}, registries.Config{}, "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Get("http://registry.example/v2/") //nolint:noctx,bodyclose // nothing is sent
	wantFailure(t, withoutURL(err), model.ReasonRegistryUnavailable, "plain HTTP")
}

func TestAddresses(t *testing.T) {
	public, local := hostRules{registry: "registry.example"}, hostRules{registry: "127.0.0.1:5000"}
	for _, address := range []string{"169.254.169.254:80", "[fe80::1]:443", "[::ffff:169.254.169.254]:80", "0.0.0.0:80", "[fd00:ec2::254]:80", "100.100.100.200:80", "127.0.0.1:80", "[::1]:80", "224.0.0.1:1"} {
		if err := public.checkAddress(address); err == nil {
			t.Errorf("%s is admitted", address)
		}
	}
	for _, address := range []string{"10.0.0.1:5000", "192.168.1.1:443", "[fd00::1]:443", "203.0.113.9:443"} {
		if err := public.checkAddress(address); err != nil {
			t.Error(err)
		}
	}
	if err := local.checkAddress("127.0.0.1:5001"); err != nil {
		t.Error(err)
	}
	if err := local.checkAddress("169.254.169.254:80"); err == nil {
		t.Error("link-local is admitted for a local registry")
	}
}

func TestCredentialsAllowed(t *testing.T) {
	for _, test := range []struct {
		registry, host string
		want           bool
	}{
		{"index.docker.io", "auth.docker.io", true},
		{"registry.gitlab.example", "gitlab.example", true},
		{"registry.example.co.uk", "other.co.uk", false},
		{"a.github.io", "b.github.io", false},
		{"registry.example", "registry.example:8443", true},
		{"10.0.0.1:5000", "10.0.0.1:5001", false},
		{"10.0.0.1:5000", "10.0.0.1:5000", true},
		{"127.0.0.1:5000", "127.0.0.1:6000", false},
		{"registry.example", "evil.test", false},
		{"registry.example", "tokens.test", true},
	} {
		rules := hostRules{registry: test.registry, tokenHosts: []string{"tokens.test"}}
		if got := rules.credentialsAllowed(test.host); got != test.want {
			t.Errorf("from %s to %s: %v, want %v", test.registry, test.host, got, test.want)
		}
	}
}

func TestNotPullable(t *testing.T) {
	for image, reason := range map[string]model.Reason{
		"sha256:" + strings.Repeat("0", 64): model.ReasonNotPullable,
		"":                                  model.ReasonNotPullable,
		"UPPER/case@sha256:" + strings.Repeat("0", 64):                          model.ReasonNotPullable,
		"./does-not-exist.tar":                                                  model.ReasonImageNotFound,
		strings.Repeat("a", 600):                                                model.ReasonNotPullable,
		"docker.io/library/import-2026-11-23@sha256:" + strings.Repeat("0", 64): model.ReasonNotPullable,
	} {
		_, err := runIn(t, t.Context(), Request{Image: image})
		wantFailure(t, err, reason, "")
	}
}

// TestSlowRegistry lets a registry send next to nothing until the deadline.
func TestSlowRegistry(t *testing.T) {
	registry := newRegistry(t)
	reference := registry.push(t, debian(t))
	released := make(chan struct{})
	defer close(released)
	registry.guard = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") {
			return true
		}
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte("{"))
		w.(http.Flusher).Flush()
		select {
		case <-released:
		case <-r.Context().Done():
		}
		return false
	}
	_, err := runIn(t, t.Context(), Request{Image: reference, Limits: Limits{Timeout: 300 * time.Millisecond}})
	wantFailure(t, err, model.ReasonDeadlineExceeded, "300ms")
}

func TestCancelled(t *testing.T) {
	registry := newRegistry(t)
	reference := registry.push(t, debian(t))
	ctx, cancel := context.WithCancelCause(t.Context())
	registry.guard = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") {
			cancel(&Error{Reason: model.ReasonDeadlineExceeded, Err: fmt.Errorf("received a signal")})
		}
		return true
	}
	_, err := runIn(t, ctx, Request{Image: reference})
	wantFailure(t, err, model.ReasonDeadlineExceeded, "received a signal")
}

func TestOutcomeOf(t *testing.T) {
	encoded, err := json.Marshal(OutcomeOf(failf(model.ReasonImageNotFound, "gone")))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"reason":"ImageNotFound","message":"gone"}`, string(encoded)); diff != "" {
		t.Error(diff)
	}
	if !OutcomeOf(nil).Succeeded() {
		t.Error("no error is not a success")
	}
}
