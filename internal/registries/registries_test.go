package registries

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
)

// authority returns a certificate in PEM.
func authority(tb testing.TB) string {
	tb.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

func TestParse(t *testing.T) {
	want := Config{
		Proxy: Proxy{URL: "http://proxy.example:3128", NoProxy: []string{".internal", "10.0.0.0/8"}}, CABundle: authority(t),
		Registries: []Registry{{Host: "docker.io", Mirrors: []string{"mirror.example/hub", "10.0.0.1:5000"}}, {Host: "10.0.0.1:5000", PlainHTTP: true}},
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	if got, err := Parse("registries:\n- host: quay.io\n  plainHTTP: true\n"); err != nil || !slices.Equal(got.PlainHTTP(), []string{"quay.io"}) {
		t.Errorf("YAML: %+v, %v", got, err)
	}
	if got, err := Parse(`{"registries": [{"host": "docker.io", "plainHTTP": true}]}`); err != nil || !slices.Equal(got.PlainHTTP(), []string{"index.docker.io"}) {
		t.Errorf("Docker Hub: %+v, %v", got, err)
	}
	if got, err := Parse(""); err != nil || !cmp.Equal(got, Config{}) {
		t.Errorf("no text: %+v, %v", got, err)
	}
}

// list returns a list of n entries in JSON.
func list(n int, entry func(i int) string) string {
	var entries []string
	for i := range n {
		entries = append(entries, entry(i))
	}
	return "[" + strings.Join(entries, ",") + "]"
}

func TestInvalid(t *testing.T) {
	const password = "hunter2"
	for text, want := range map[string]string{
		`{`:                        "decode",
		`{"mirrors": []}`:          "unknown field",
		strings.Repeat(" ", 65537): "65537 bytes are more than the maximum of 65536",
		`{"proxy": {"url": "http://user:` + password + `@proxy"}}`:                                                  "proxy.url: a user name or password is not allowed",
		`{"proxy": {"url": "http://user:` + password + `@pro xy"}}`:                                                 "proxy.url: expected a URL",
		`{"proxy": {"url": "ftp://proxy"}}`:                                                                         "proxy.url: expected http://HOST:PORT",
		`{"proxy": {"url": "robot:` + password + `@proxy:3128"}}`:                                                   "proxy.url: expected",
		`{"proxy": {"url": "http://proxy?password=` + password + `"}}`:                                              "proxy.url: expected",
		`{"proxy": {"url": "http://"}}`:                                                                             "proxy.url",
		`{"proxy": {"noProxy": ["a"]}}`:                                                                             "proxy.noProxy: requires proxy.url",
		`{"proxy": {"url": "http://proxy", "noProxy": ["a,b"]}}`:                                                    "proxy.noProxy[0]",
		`{"proxy": {"url": "http://proxy", "noProxy": ` + list(65, func(int) string { return `"a"` }) + `}}`:        "proxy.noProxy: 65 entries are more than the maximum of 64",
		`{"caBundle": "none"}`:                                                                                      "caBundle: contains no PEM certificate",
		`{"registries": [{"host": ""}]}`:                                                                            `registries[0].host: "" is not host[:port]`,
		`{"registries": [{"host": "https://quay.io"}]}`:                                                             "registries[0].host",
		`{"registries": [{"host": "quay.io/team"}]}`:                                                                "registries[0].host",
		`{"registries": [{"host": "quay.io"}, {"host": "Quay.io"}]}`:                                                `registries[1].host: "Quay.io" is listed twice`,
		`{"registries": [{"host": "docker.io"}, {"host": "index.docker.io"}]}`:                                      "registries[1].host",
		`{"registries": [{"host": "quay.io", "mirrors": ["https://mirror"]}]}`:                                      "registries[0].mirrors[0]",
		`{"registries": [{"host": "quay.io", "mirrors": ["mirror/UPPER"]}]}`:                                        "registries[0].mirrors[0]",
		`{"registries": [{"host": "quay.io", "mirrors": ` + list(9, func(int) string { return `"m"` }) + `}]}`:      "registries[0].mirrors: 9 entries are more than the maximum of 8",
		`{"registries": [{"host": "quay.io", "caBundle": "-----BEGIN"}]}`:                                           "registries[0].caBundle: contains no PEM certificate",
		`{"registries": ` + list(65, func(i int) string { return fmt.Sprintf(`{"host": "r%d.example"}`, i) }) + `}`: "registries: 65 entries are more than the maximum of 64",
	} {
		_, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got %v, want %s", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), password) {
			t.Errorf("the error contains the password: %v", err)
		}
	}
}

func TestMirrors(t *testing.T) {
	config := Config{Registries: []Registry{
		{Host: "docker.io", Mirrors: []string{"mirror.example/hub/", "mirror", "docker.io"}}, {Host: "quay.io:443", Mirrors: []string{"10.0.0.1:5000/a/b"}},
	}}
	for image, want := range map[string][]string{
		"nginx":                     {"mirror.example/hub/library/nginx", "mirror/library/nginx", "index.docker.io/library/nginx"},
		"registry-1.docker.io/a/b":  {"mirror.example/hub/a/b", "mirror/a/b", "index.docker.io/a/b"},
		"QUAY.io:443/team/app":      {"10.0.0.1:5000/a/b/team/app"},
		"quay.io/team/app":          {"10.0.0.1:5000/a/b/team/app"},
		"quay.io:5000/team/app":     nil,
		"mirror.example/hub/alpine": nil,
	} {
		repository, err := name.NewRepository(image)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, mirror := range config.Mirrors(repository) {
			got = append(got, mirror.Name())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", image, diff)
		}
	}
}

func TestProxyFunc(t *testing.T) {
	config := Config{Proxy: Proxy{URL: "http://proxy:3128", NoProxy: []string{"internal.example", "10.0.0.0/8"}}}
	for target, want := range map[string]bool{
		"https://quay.io/v2/": true, "http://quay.io/v2/": true, "https://a.internal.example": false, "https://10.1.2.3:5000": false, "http://localhost": false,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		proxy, err := config.ProxyFunc()(request)
		if err != nil || (proxy != nil) != want || proxy != nil && proxy.Host != "proxy:3128" {
			t.Errorf("%s: proxy %v, %v", target, proxy, err)
		}
	}
}

// TestKeys: a key is trusted in its repositories and below.
func TestKeys(t *testing.T) {
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	small, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // too small on purpose
	if err != nil {
		t.Fatal(err)
	}
	dh, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key := publicPEM(t, ecKey.Public())
	entry := func(key string, repositories ...string) string {
		text, err := json.Marshal(Config{Attestations: []Attestation{{PublicKey: key, Repositories: repositories}}})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for prefix, want := range map[string]map[string]bool{
		"":                           {"nginx": true, "quay.io/a": true},
		"quay.io":                    {"quay.io/a": true, "quay.io:5000/a": false, "quay.io.evil.example/a": false},
		"quay.io/team":               {"quay.io/team": true, "quay.io/team/app": true, "quay.io/teams": false, "quay.io/a/team": false},
		"docker.io/library":          {"nginx": true, "index.docker.io/library/a": true, "team/app": false},
		"Registry-1.docker.io:443/a": {"a/b": true},
	} {
		var prefixes []string
		if prefix != "" {
			prefixes = []string{prefix}
		}
		config, err := Parse(entry(key, prefixes...))
		if err != nil {
			t.Fatal(err)
		}
		for image, covered := range want {
			repository, err := name.NewRepository(image)
			if err != nil {
				t.Fatal(err)
			}
			keys := config.Keys(repository)
			if (len(keys) == 1) != covered || covered && (!ecKey.PublicKey.Equal(keys[0].Public) || !strings.HasPrefix(keys[0].ID, "sha256:")) {
				t.Errorf("%q in %s: %+v", prefix, image, keys)
			}
		}
	}
	private, err := x509.MarshalPKCS8PrivateKey(ecKey)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		entry(""):        "attestations[0].publicKey: expected one public key in PEM",
		entry(key + key): "attestations[0].publicKey: expected one public key in PEM",
		entry(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))): "attestations[0].publicKey: expected one public key in PEM",
		entry("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"):                "attestations[0].publicKey: decode",
		entry(publicPEM(t, small.Public())):                                                "has 1024 bits",
		entry(publicPEM(t, dh.Public())):                                                   "not supported",
		entry(key, "https://quay.io"):                                                      `attestations[0].repositories[0]: "https://quay.io" is not host[:port][/path]`,
		entry(key, make([]string, 65)...):                                                  "attestations[0].repositories: 65 entries",
		`{"attestations": [` + strings.Repeat(`{},`, 16) + `{}]}`:                          "attestations: 17 entries",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.100s: got %v, want %s", text, err, want)
		}
	}
}

func publicPEM(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// FuzzParse: whatever is accepted can be used.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", "{}", `{"proxy":{"url":"http://p:1","noProxy":["a"]},"registries":[{"host":"docker.io","mirrors":["m/x"],"plainHTTP":true}]}`,
		"registries: [{host: \"[::1]:5000\", mirrors: [\"[::1]/a\"]}]", "caBundle: x", authority(f),
	} {
		f.Add(text)
	}
	repository, err := name.NewRepository("docker.io/library/nginx")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		config, err := Parse(text)
		if err != nil {
			return
		}
		for _, mirror := range config.Mirrors(repository) {
			if _, err := name.NewRepository(mirror.RepositoryStr()); err != nil {
				t.Errorf("the mirror %s: %v", mirror.Name(), err)
			}
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://registry.example/v2/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := config.ProxyFunc()(request); err != nil {
			t.Errorf("proxy of %q: %v", config.Proxy.URL, err)
		}
	})
}
