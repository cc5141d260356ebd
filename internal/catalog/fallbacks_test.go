package catalog

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// TestFallbacks: containerd reports the first of several names of an image, and only another one can be pulled.
func TestFallbacks(t *testing.T) {
	full, empty, limited := newRegistry(t), newRegistry(t), newRegistry(t)
	unreachable := full.mirrored(t, "")
	_, digest, _ := strings.Cut(unreachable, "@")
	digest = "@" + digest
	fallback := full.host + "/team/app"
	limited.guard = only("/v2/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	for name, request := range map[string]Request{
		"unreachable":              {Image: unreachable, Fallbacks: []string{fallback}},
		"not found":                {Image: empty.host + "/team/app" + digest, Fallbacks: []string{fallback}},
		"limited":                  {Image: limited.host + "/team/app" + digest, Fallbacks: []string{fallback}},
		"loaded into a node":       {Image: "docker.io/library/import-2026-11-23" + digest, Fallbacks: []string{fallback}},
		"after one that fails too": {Image: unreachable, Fallbacks: []string{"UPPER/case", limited.host + "/team/app", fallback}},
	} {
		t.Run(name, func(t *testing.T) {
			var warnings []string
			request.Warn = func(text string) { warnings = append(warnings, text) }
			result, err := runIn(t, t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(wantDebian, names(t, result)); diff != "" {
				t.Errorf("packages (-want +got):\n%s", diff)
			}
			if !strings.Contains(string(result.SBOM), `"repoDigests":["`+fallback+digest) || !strings.Contains(string(result.SBOM), request.Image) {
				t.Error("the SBOM does not name the image, or where it was pulled from")
			}
			if len(warnings) != len(request.Fallbacks) || !strings.Contains(warnings[len(warnings)-1], "from "+fallback+" instead") {
				t.Errorf("warnings: %q", warnings)
			}
		})
	}
}

// TestFallbacksOfOthers: whoever names a repository decides neither the result nor what others read of the failure, and gets no credentials.
func TestFallbacksOfOthers(t *testing.T) {
	origin := newRegistry(t)
	reference := origin.push(t, debian(t))
	origin.guard = only("/v2/", missing)
	named := func(t *testing.T) *fakeRegistry {
		other := newRegistry(t)
		other.mirrored(t, "private/")
		return other
	}
	var sent atomic.Bool
	release := make(chan struct{})
	defer close(release)
	for name, guard := range map[string]guard{
		"another image": replaceIn("/manifests/", []byte(`{"schemaVersion":2,"layers":[]}`)),
		"too large":     replaceIn("/manifests/", []byte(strings.Repeat(" ", 8<<20))),
		"a delay": only("/v2/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		}),
		"a page": replaceIn("/v2/", []byte("<html>")),
		"nothing": func(_ http.ResponseWriter, r *http.Request) bool {
			select {
			case <-r.Context().Done():
			case <-release:
			}
			return false
		},
		"a request for credentials": func(w http.ResponseWriter, r *http.Request) bool {
			if _, _, with := r.BasicAuth(); with {
				sent.Store(true)
			}
			return basicAuth("robot", secret)(w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			other := named(t)
			other.guard = guard
			wildcard := dockerConfig(t, strings.Replace(other.host, "127", "1*", 1), "robot", secret)
			request := Request{Image: reference, Fallbacks: []string{other.host + "/private/team/app"}, DockerConfigs: []string{wildcard}}
			if name == "nothing" {
				request.Limits.Timeout = 2 * time.Second
			}
			_, err := runIn(t, t.Context(), request)
			wantFailure(t, err, model.ReasonImageNotFound, "the repositories that the pods name failed too")
			if outcome := OutcomeOf(err); outcome.RetryAfter != 0 || strings.Contains(outcome.Message, "private/team") || strings.Contains(outcome.Message, other.host) {
				t.Errorf("the outcome is that of the fallback: %+v", outcome)
			}
		})
	}
	if sent.Load() {
		t.Error("credentials for a host with a wildcard were sent to a host that a pod names")
	}
	other := named(t)
	other.guard = basicAuth("robot", secret)
	own := dockerConfig(t, other.host, "robot", secret)
	if _, err := runIn(t, t.Context(), Request{Image: reference, Fallbacks: []string{other.host + "/private/team/app"}, DockerConfigs: []string{own}}); err != nil {
		t.Errorf("with the credentials of the host: %v", err)
	}
}
