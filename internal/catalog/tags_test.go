package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/registries"
)

// tagged is a registry with an image that has these tags, and a request for them.
func tagged(t *testing.T, tags ...string) (*fakeRegistry, Request) {
	t.Helper()
	f, image := newRegistry(t), debian(t)
	first, err := name.NewTag(f.host + "/team/app:" + tags[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(first, image); err != nil {
		t.Fatal(err)
	}
	for _, tag := range tags[1:] {
		if err := remote.Tag(first.Context().Tag(tag), image); err != nil {
			t.Fatal(err)
		}
	}
	return f, Request{Image: first.Name(), sleep: noSleep}
}

// wantTags checks tags, and a part of why others can be missing.
func wantTags(t *testing.T, list *TagList, err error, want []string, cut string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, list.Tags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	if (list.Cut == "") != (cut == "") || !strings.Contains(list.Cut, cut) {
		t.Errorf("cut: %q, want %q", list.Cut, cut)
	}
}

// pageOf writes a page of tags, with a link to the next one unless it is "".
func pageOf(t *testing.T, w http.ResponseWriter, link string, tags ...string) {
	t.Helper()
	content, err := json.Marshal(map[string]any{"name": "team/app", "tags": tags})
	if err != nil {
		t.Error(err)
	}
	if link != "" {
		w.Header().Set("Link", "<"+link+`>; rel="next"`)
	}
	_, _ = w.Write(content)
}

func TestTags(t *testing.T) {
	f, request := tagged(t, "1.27.1", "1.27.4", "latest")
	list, err := Tags(t.Context(), request)
	wantTags(t, list, err, []string{"1.27.1", "1.27.4", "latest"}, "")
	if list.Repository != f.host+"/team/app" {
		t.Errorf("listed at %s", list.Repository)
	}
	// This registry cuts full pages without a link to the next one.
	tags := []string{"1.0"}
	for i := range tagsPerPage + 5 {
		tags = append(tags, fmt.Sprintf("2.%04d", i))
	}
	_, request = tagged(t, tags...)
	list, err = Tags(t.Context(), request)
	wantTags(t, list, err, tags, "")
}

func TestTagsPages(t *testing.T) {
	f, request := tagged(t, "1.0")
	for name, link := range map[string]string{
		"path": "/v2/team/app/tags/list?last=b&n=2", "query": "?last=b&n=2", "relative": "list?n=2&last=b", "whole": f.server.URL + "/v2/team/app/tags/list?last=b&n=2",
		"another scheme, as behind a proxy": "https://" + f.host + "/v2/team/app/tags/list?last=b&n=2", "escaped": "/v2/team/app/tags/list?last=%62&n=2",
	} {
		var asked []string
		f.guard = only("/tags/list", func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.String())
			if r.URL.Query().Get("last") == "" {
				w.Header().Add("Link", `</elsewhere>; rel="prev"`)
				w.Header().Add("Link", "<"+link+`>; title="x"; rel=next`)
				pageOf(t, w, "", "a", "b")
				return
			}
			pageOf(t, w, "", "b", "c")
		})
		list, err := Tags(t.Context(), request)
		wantTags(t, list, err, []string{"a", "b", "c"}, "")
		if want := []string{"/v2/team/app/tags/list?n=1000", "/v2/team/app/tags/list?last=b&n=2"}; !slices.Equal(asked, want) {
			t.Errorf("%s: asked for %q", name, asked)
		}
	}
}

// TestHostileTagLinks: a link leads to no other place, and not around in circles.
func TestHostileTagLinks(t *testing.T) {
	other := newBystander(t)
	f, request := tagged(t, "1.0")
	request.DockerConfigs = []string{dockerConfig(t, f.host, "robot", secret)}
	for link, cut := range map[string]string{
		other.url + "/v2/team/app/tags/list?last=b":               "names another host",
		"//" + other.host + "/v2/team/app/tags/list?last=b":       "names another host",
		"http://169.254.169.254/v2/team/app/tags/list?last=b":     "names another host",
		"http://robot:x@" + f.host + "/v2/team/app/tags/list?a=b": "names another host",
		"file:x?last=b":                                                     "names another host",
		"http://[::1/%zz":                                                   "names another host",
		"/v2/other/app/tags/list?last=b":                                    "names another address",
		"/v2/team/app/tags/list/../../manifests/1?a=":                       "names another address",
		"../%2e%2e/../v2/other/tags/list?last=b":                            "names another address",
		"/v2/team/app/manifests/1.0?last=b":                                 "names another address",
		"/v2/team/app/tags/list":                                            "invalid query",
		"/v2/team/app/tags/list?a=%zz":                                      "invalid query",
		"/v2/team/app/tags/list?a=" + strings.Repeat("b", maxTagQueryBytes): "invalid query",
		"/" + strings.Repeat("a", maxLinkBytes):                             "a link of more than 16384 bytes",
		"/v2/team/app/tags/list?n=1000":                                     "repeats its pages",
	} {
		t.Run(cut, func(t *testing.T) {
			requests := 0
			f.guard = only("", func(w http.ResponseWriter, r *http.Request) {
				requests++
				if r.URL.Path != "/v2/team/app/tags/list" {
					t.Errorf("%s: asked for %s", link, r.URL)
				}
				pageOf(t, w, link, "a")
			})
			list, err := Tags(t.Context(), request)
			wantTags(t, list, err, []string{"a"}, cut)
			if requests != 1 {
				t.Errorf("%s: %d requests", link, requests)
			}
		})
	}
	if other.asked() != 0 {
		t.Errorf("%d requests to another host", other.asked())
	}
}

// TestHostileTagLists: lists without an end, and what is no list.
func TestHostileTagLists(t *testing.T) {
	f, request := tagged(t, "1.0")
	number := func(r *http.Request) int {
		n, _ := strconv.Atoi(r.URL.Query().Get("page"))
		return n
	}
	link := func(r *http.Request) string { return "?page=" + strconv.Itoa(number(r)+1) }
	many := func(n int) (tags []string) {
		for i := range n {
			tags = append(tags, fmt.Sprint(i))
		}
		return tags
	}
	var requests atomic.Int32
	for name, test := range map[string]struct {
		handle         http.HandlerFunc
		tags, requests int
		cut            string
	}{
		"always new tags": {func(w http.ResponseWriter, r *http.Request) {
			pageOf(t, w, link(r), fmt.Sprint(number(r)))
		}, maxTagPages, maxTagPages, "more than 200 pages"},
		"always the same tags": {func(w http.ResponseWriter, r *http.Request) { pageOf(t, w, link(r), "a", "b") }, 2, 2, "repeats its pages"},
		"always no tags":       {func(w http.ResponseWriter, r *http.Request) { pageOf(t, w, link(r)) }, 0, 1, "repeats its pages"},
		"in circles": {func(w http.ResponseWriter, r *http.Request) {
			pageOf(t, w, "?page="+strconv.Itoa((number(r)+1)%3), fmt.Sprint(requests.Load()))
		}, 4, 4, "repeats its pages"},
		"very many tags":      {func(w http.ResponseWriter, _ *http.Request) { pageOf(t, w, "", many(MaxTags+1)...) }, MaxTags, 1, "more than 100000 tags"},
		"as many as possible": {func(w http.ResponseWriter, _ *http.Request) { pageOf(t, w, "", many(MaxTags)...) }, MaxTags, 2, ""},
		"very much else": {func(w http.ResponseWriter, r *http.Request) {
			pageOf(t, w, link(r), fmt.Sprint(number(r)), strings.Repeat("-", 7<<20))
		}, 5, 5, "more than 33554432 bytes"},
		"null": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"name":"team/app","tags":null}`))
		}, 0, 1, ""},
		"no tags": {func(w http.ResponseWriter, _ *http.Request) {
			pageOf(t, w, "", "", "a b", "\x1b[31m", strings.Repeat("a", 129), "../x", "ü")
		}, 0, 1, ""},
		"full page": {func(w http.ResponseWriter, _ *http.Request) {
			pageOf(t, w, "", slices.Repeat([]string{strings.Repeat("a", 5000)}, 1000)...)
		}, 0, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			requests.Store(0)
			f.guard = only("", func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				test.handle(w, r)
			})
			list, err := Tags(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			if len(list.Tags) != test.tags || int(requests.Load()) != test.requests || (list.Cut == "") != (test.cut == "") || !strings.Contains(list.Cut, test.cut) {
				t.Errorf("%d tags after %d requests, cut %q", len(list.Tags), requests.Load(), list.Cut)
			}
		})
	}
	for phrase, handle := range map[string]http.HandlerFunc{
		"no list of tags in JSON":               func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"is no list of tags":                    func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"tags":[{}]}`)) },
		"larger than the limit of 8388608 byte": endless(http.StatusOK, `{"tags":["`, "a"),
	} {
		f.guard = only("", handle)
		if _, err := Tags(t.Context(), request); err == nil || !strings.Contains(err.Error(), phrase) {
			t.Errorf("%s: %v", phrase, err)
		}
	}
}

// TestTagsTime: what was listed in time is there, and the list says that it is cut.
func TestTagsTime(t *testing.T) {
	f, request := tagged(t, "1.0")
	request.Limits.Timeout = 500 * time.Millisecond
	hang := func(r *http.Request) { <-r.Context().Done() }
	f.guard = only("", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("last") != "" {
			hang(r)
		}
		pageOf(t, w, "?last=a", "a")
	})
	list, err := Tags(t.Context(), request)
	wantTags(t, list, err, []string{"a"}, "takes longer than 500ms")
	// Another registry each time: a request can still be on its way to the one before.
	f, request = tagged(t, "1.0")
	request.Limits.Timeout = 500 * time.Millisecond
	f.guard = only("", func(_ http.ResponseWriter, r *http.Request) { hang(r) })
	_, err = Tags(t.Context(), request)
	wantFailure(t, err, model.ReasonDeadlineExceeded, "listing the tags of "+f.host+"/team/app exceeded the limit of 500ms")
	// Who interrupts the command wants no list.
	ctx, cancel := context.WithCancel(t.Context())
	f, request = tagged(t, "1.0")
	f.guard = only("", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("last") != "" {
			cancel()
			hang(r)
		}
		pageOf(t, w, "?last=a", "a")
	})
	_, err = Tags(ctx, request)
	wantFailure(t, err, model.ReasonDeadlineExceeded, "canceled")
}

func TestTagsRefused(t *testing.T) {
	f, request := tagged(t, "1.0")
	for _, test := range []struct {
		status     int
		retryAfter string
		reason     model.Reason
		requests   int32
		phrase     string
	}{
		{http.StatusUnauthorized, "", model.ReasonImagePullDenied, 1, "provide credentials that may list the tags"},
		{http.StatusForbidden, "", model.ReasonImagePullDenied, 1, "provide credentials that may list the tags"},
		{http.StatusNotFound, "", model.ReasonImageNotFound, 1, "check the name of the repository"},
		{http.StatusMethodNotAllowed, "", model.ReasonRegistryUnavailable, 1, "the registry does not list tags: compare with a tag that you know"},
		{http.StatusTooManyRequests, "7", model.ReasonRegistryRateLimited, maxAttempts, "try again in 7s"},
		{http.StatusTooManyRequests, "3600", model.ReasonRegistryRateLimited, 1, "try again in 1h0m0s"},
		{http.StatusTooManyRequests, "", model.ReasonRegistryRateLimited, maxAttempts, "try again later"},
		{http.StatusBadGateway, "", model.ReasonRegistryUnavailable, maxAttempts, "502"},
	} {
		var requests atomic.Int32
		f.guard = only("", func(w http.ResponseWriter, _ *http.Request) {
			requests.Add(1)
			w.Header().Set("Retry-After", test.retryAfter)
			w.WriteHeader(test.status)
		})
		var slept time.Duration
		request.sleep = func(_ context.Context, d time.Duration) error {
			slept = d
			return nil
		}
		_, err := Tags(t.Context(), request)
		wantFailure(t, err, test.reason, test.phrase)
		if !strings.Contains(err.Error(), fmt.Sprintf("get tags/list of %s/team/app", f.host)) || requests.Load() != test.requests {
			t.Errorf("%d: %v after %d requests", test.status, err, requests.Load())
		}
		if test.retryAfter == "7" && slept != 7*time.Second {
			t.Errorf("waited %s, want the 7 s that the registry asked for", slept)
		}
	}
	// A limit that ends while the list is read.
	var requests atomic.Int32
	f.guard = only("", func(w http.ResponseWriter, r *http.Request) {
		switch last := r.URL.Query().Get("last"); {
		case last == "":
			pageOf(t, w, "?last=a", "a")
		case requests.Add(1) == 1:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			pageOf(t, w, "", "b")
		}
	})
	list, err := Tags(t.Context(), request)
	wantTags(t, list, err, []string{"a", "b"}, "")
}

func TestTagsCredentials(t *testing.T) {
	f, request := tagged(t, "1.0", "1.1")
	f.guard = basicAuth("robot", secret)
	_, err := Tags(t.Context(), request)
	wantFailure(t, err, model.ReasonImagePullDenied, "without credentials")
	request.DockerConfigs = []string{dockerConfig(t, f.host, "robot", "stale"), dockerConfig(t, f.host, "robot", secret)}
	list, err := Tags(t.Context(), request)
	wantTags(t, list, err, []string{"1.0", "1.1"}, "")

	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != secret || r.URL.Query().Get("scope") != "repository:team/app:pull" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"token":"let-me-in"}`))
	}))
	defer tokens.Close()
	f.guard = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "Bearer let-me-in" {
			return true
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+tokens.URL+`/token",service="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
		return false
	}
	_, err = Tags(t.Context(), request)
	wantFailure(t, err, model.ReasonImagePullDenied, "refused to send the credentials")
	request.TokenHosts = []string{strings.TrimPrefix(tokens.URL, "http://")}
	list, err = Tags(t.Context(), request)
	wantTags(t, list, err, []string{"1.0", "1.1"}, "")
}

// TestTagsOfMirrors: a mirror is asked first, and the list says so.
func TestTagsOfMirrors(t *testing.T) {
	mirror, _ := tagged(t, "1.0", "1.1")
	request := Request{Image: unreachable + "/team/app:1.0", Registries: mirrors(newRegistry(t).host, mirror.host), sleep: noSleep}
	list, err := Tags(t.Context(), request)
	wantTags(t, list, err, []string{"1.0", "1.1"}, "")
	if list.Repository != mirror.host+"/team/app" {
		t.Errorf("listed at %s", list.Repository)
	}
	request.Registries = registries.Config{}
	_, err = Tags(t.Context(), request)
	wantFailure(t, err, model.ReasonRegistryUnavailable, unreachable)
	request.Image = "sha256:" + strings.Repeat("0", 64)
	_, err = Tags(t.Context(), request)
	wantFailure(t, err, model.ReasonNotPullable, "")
}
