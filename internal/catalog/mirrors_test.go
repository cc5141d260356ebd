package catalog

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/registries"
)

// unreachable is a registry that nothing serves.
const unreachable = "127.0.0.1:1"

// mirrored pushes an image below a prefix, and returns its reference at another registry, which does not exist.
func (f *fakeRegistry) mirrored(t *testing.T, prefix string) string {
	t.Helper()
	image := debian(t)
	tag, err := name.NewTag(f.host + "/" + prefix + "team/app:latest")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, image); err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return unreachable + "/team/app@" + digest.String()
}

func mirrors(hosts ...string) registries.Config {
	return registries.Config{Registries: []registries.Registry{{Host: unreachable, Mirrors: hosts}}}
}

func TestMirrors(t *testing.T) {
	const prefix = "cache/of/hub/"
	empty, limited, full := newRegistry(t), newRegistry(t), newRegistry(t)
	reference := full.mirrored(t, prefix)
	limited.guard = only("/v2/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	for name, hosts := range map[string][]string{
		"the first": {full.host + "/" + prefix}, "after one without the image": {empty.host, full.host + "/" + prefix},
		"after one that nobody serves": {unreachable, full.host + "/" + prefix}, "after one that limits requests": {limited.host, full.host + "/" + prefix},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := runIn(t, t.Context(), Request{Image: reference, Registries: mirrors(hosts...)})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(wantDebian, names(t, result)); diff != "" {
				t.Errorf("packages (-want +got):\n%s", diff)
			}
			if !strings.Contains(string(result.SBOM), reference) || strings.Contains(string(result.SBOM), full.host) {
				t.Error("the SBOM names the mirror, not the image")
			}
		})
	}
}

// TestMirrorsFailBeforeTheRegistry: the error is that of the registry, and names what the mirrors responded.
func TestMirrorsFailBeforeTheRegistry(t *testing.T) {
	origin, mirror := newRegistry(t), newRegistry(t)
	reference := origin.push(t, debian(t))
	config := registries.Config{Registries: []registries.Registry{{Host: origin.host, Mirrors: []string{mirror.host}}}}
	if _, err := runIn(t, t.Context(), Request{Image: reference, Registries: config}); err != nil {
		t.Errorf("the registry serves what its mirror does not: %v", err)
	}
	origin.guard = basicAuth("robot", secret)
	_, err := runIn(t, t.Context(), Request{Image: reference, Registries: config})
	wantFailure(t, err, model.ReasonImagePullDenied, "the mirrors failed before")
	wantFailure(t, err, model.ReasonImagePullDenied, "get manifests/"+strings.Split(reference, "@")[1]+" of "+mirror.host+"/team/app")
}

// TestMirrorsGetTheirOwnCredentials: those of the registry stay with it.
func TestMirrorsGetTheirOwnCredentials(t *testing.T) {
	mirror := newRegistry(t)
	reference := mirror.mirrored(t, "")
	var sent atomic.Bool
	mirror.guard = func(w http.ResponseWriter, r *http.Request) bool {
		if user, _, _ := r.BasicAuth(); user == "origin" {
			sent.Store(true)
		}
		return basicAuth("mirror", secret)(w, r)
	}
	origins, own := dockerConfig(t, unreachable, "origin", secret), dockerConfig(t, mirror.host, "mirror", secret)
	if _, err := runIn(t, t.Context(), Request{Image: reference, Registries: mirrors(mirror.host), DockerConfigs: []string{origins}}); err == nil {
		t.Error("the mirror served the image without its credentials")
	}
	if _, err := runIn(t, t.Context(), Request{Image: reference, Registries: mirrors(mirror.host), DockerConfigs: []string{origins, own}}); err != nil {
		t.Error(err)
	}
	if sent.Load() {
		t.Error("the mirror got the credentials of the registry")
	}
}

// missing responds that there is no such document.
func missing(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }

// TestHostileMirrors: a mirror cannot serve another image, and what it does not serve comes from the registry.
func TestHostileMirrors(t *testing.T) {
	origin := newRegistry(t)
	reference := origin.push(t, debian(t))
	for name, guard := range map[string]guard{
		"another manifest":   replaceIn("/manifests/", []byte(`{"schemaVersion":2,"layers":[]}`)),
		"a page for sign-in": replaceIn("/v2/", []byte("<html>")),
		"other layers":       replaceIn("/blobs/", []byte("{}")),
		"no layers":          only("/blobs/", missing),
		"nothing":            only("/v2/", missing),
	} {
		t.Run(name, func(t *testing.T) {
			mirror := newRegistry(t)
			mirror.push(t, debian(t))
			mirror.guard = guard
			config := registries.Config{Registries: []registries.Registry{{Host: origin.host, Mirrors: []string{mirror.host}}}}
			result, err := runIn(t, t.Context(), Request{Image: reference, Registries: config})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(wantDebian, names(t, result)); diff != "" {
				t.Errorf("packages (-want +got):\n%s", diff)
			}
			if result.Stats.Files != 6 {
				t.Errorf("%d files, want those of the layers once", result.Stats.Files)
			}
		})
	}
}

// TestPrivateAuthorities: a CA bundle counts for the host that it is configured for, or for all.
func TestPrivateAuthorities(t *testing.T) {
	plain := newRegistry(t)
	server := httptest.NewUnstartedServer(plain.server.Config.Handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "https://")
	reference := strings.Replace(plain.push(t, debian(t)), plain.host, host, 1)
	bundle := string(pemOf(server.Certificate()))
	for name, tt := range map[string]struct {
		config  registries.Config
		trusted bool
	}{
		"none":                {registries.Config{}, false},
		"of another registry": {registries.Config{Registries: []registries.Registry{{Host: "other.example", CABundle: bundle}}}, false},
		"of the registry":     {registries.Config{Registries: []registries.Registry{{Host: host, CABundle: bundle}}}, true},
		"of all":              {registries.Config{CABundle: bundle}, true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := runIn(t, t.Context(), Request{Image: reference, Registries: tt.config})
			if tt.trusted && err != nil {
				t.Error(err)
			}
			if !tt.trusted {
				wantFailure(t, err, model.ReasonRegistryUnavailable, "certificate of the registry is not trusted")
			}
		})
	}
}

// TestProxy: requests to registries use the proxy, which may have any address.
func TestProxy(t *testing.T) {
	origin := newRegistry(t)
	digest := strings.Split(origin.push(t, debian(t)), "@")[1]
	target, err := url.Parse(origin.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		asked.Add(1)
		r.SetURL(target)
	}})
	t.Cleanup(proxy.Close)
	// The proxy knows this name, and nobody else. It tunnels nothing, so that TLS fails and plain HTTP is tried.
	const host = "registry.invalid:5000"
	config := registries.Config{Proxy: registries.Proxy{URL: proxy.URL}, Registries: []registries.Registry{{Host: host, PlainHTTP: true}}}
	image := host + "/team/app@" + digest
	if _, err := runIn(t, t.Context(), Request{Image: image, Registries: config}); err != nil || asked.Load() == 0 {
		t.Errorf("%v, after %d requests through the proxy", err, asked.Load())
	}
}
