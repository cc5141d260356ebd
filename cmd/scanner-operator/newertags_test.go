package main

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/scanner-operator/scanner-operator/internal/advice"
	"github.com/scanner-operator/scanner-operator/internal/model"
)

// tagsServer is a registry whose requests are noted, and answered by guard if it returns false.
type tagsServer struct {
	host  string
	mu    sync.Mutex
	asked []string
	guard func(http.ResponseWriter, *http.Request) bool
}

// newTagsServer serves the repository team/app with npm packages, as "name version", for each tag.
func newTagsServer(t *testing.T, tags map[string][]string) *tagsServer {
	t.Helper()
	s := &tagsServer{}
	backend := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r.URL.Path)
		guard := s.guard
		s.mu.Unlock()
		if guard == nil || guard(w, r) {
			backend.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	s.host = strings.TrimPrefix(server.URL, "http://")
	for tag, packages := range tags {
		files := map[string]string{"app/name": tag}
		for _, p := range packages {
			title, version, _ := strings.Cut(p, " ")
			files["app/node_modules/"+title+"/package.json"] = `{"name":"` + title + `","version":"` + version + `"}`
		}
		reference, err := name.NewTag(s.host + "/team/app:" + tag)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(reference, imageWith(t, files)); err != nil {
			t.Fatal(err)
		}
	}
	s.asked = nil
	return s
}

// requests is the number of requests whose path has a part.
func (s *tagsServer) requests(part string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, path := range s.asked {
		if strings.Contains(path, part) {
			n++
		}
	}
	return n
}

// upgrades has tags that close and open vulnerabilities of the sample database.
func upgrades() map[string][]string {
	return map[string][]string{
		"latest": nil, "1.0.0-alpine": nil, "1.2.0-rc1": nil,
		"1.0.0": {"lodash 4.17.11"}, "1.0.1": {"lodash 4.17.20"}, "1.1.0": {"lodash 4.17.21", "express 4.19.2"}, "2.0.0": {"lodash 4.17.21", "minimist 1.2.5"},
	}
}

// newerOf is what is read of the output in JSON.
type newerOf struct {
	Repository, Tag, Incomplete, Reason, Message, Recommended, Mirror string
	ListedTags                                                        int
	From                                                              struct{ Image string }
	Candidates                                                        []struct {
		Tag, Kind, Image, Error   string
		Opened, Closed, Remaining struct{ Critical, High, Medium, Low, KEV int }
		Opening                   []struct{ VulnerabilityID string } `json:"openedVulnerabilities"`
	}
}

func TestNewerTags(t *testing.T) {
	s := newTagsServer(t, upgrades())
	image := s.host + "/team/app:1.0.0"
	out, stderr, err := runOffline(t, newNewerTagsCommand(), "", image, "--platform", "linux/amd64")
	want := `TAG    KIND   OPENS           CLOSES                            REMAINS
1.0.1  patch  0               2 (1 Critical, 1 High)            2 (1 High, 1 Medium)
1.1.0  minor  1 (1 Low)       4 (1 Critical, 2 High, 1 Medium)  0
2.0.0  major  1 (1 Critical)  4 (1 Critical, 2 High, 1 Medium)  0

Recommended: 1.1.0, which closes 4 vulnerabilities and opens 1, none of which is High, Critical or known to be exploited.
`
	if diff := cmp.Diff(want, out); err != nil || diff != "" {
		t.Fatalf("%v, %s (-want +got):\n%s", err, stderr, diff)
	}
	if lists, manifests := s.requests("/tags/list"), s.requests("/manifests/1.0.0"); lists != 1 || manifests != 1 {
		t.Errorf("%d lists, and the image was asked for %d times", lists, manifests)
	}
	out, _, err = runOffline(t, newNewerTagsCommand(), "", image, "--platform", "linux/amd64", "-o", "json", "--limit", "2")
	var got newerOf
	if err := errors.Join(err, json.Unmarshal([]byte(out), &got)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c := got.Candidates
	if len(c) != 2 || c[0].Tag != "1.0.1" || c[0].Kind != "patch" || c[0].Closed.Critical != 1 || c[0].Remaining.High != 1 || c[1].Opened.Low != 1 || len(c[1].Opening) != 1 ||
		!strings.HasPrefix(c[1].Image, s.host+"/team/app@sha256:") || !strings.HasPrefix(got.From.Image, s.host+"/team/app@sha256:") || got.Recommended != "1.1.0" ||
		got.ListedTags != 7 || got.Tag != "1.0.0" || got.Repository != s.host+"/team/app" || got.Reason != "" {
		t.Errorf("%s", out)
	}
	// The digest is what is compared, the tag says what is newer.
	pinned := s.host + "/team/app:1.0.1@" + strings.Split(got.From.Image, "@")[1]
	out, _, err = runOffline(t, newNewerTagsCommand(), "", pinned, "--platform", "linux/amd64", "-o", "json", "--limit", "1")
	var other newerOf
	if err := errors.Join(err, json.Unmarshal([]byte(out), &other)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if c := other.Candidates; other.From.Image != got.From.Image || len(c) != 1 || c[0].Tag != "1.1.0" || c[0].Closed.Critical != 1 {
		t.Errorf("%s", out)
	}
}

func TestNewerTagsListOnly(t *testing.T) {
	s := newTagsServer(t, upgrades())
	image := s.host + "/team/app:1.0.0"
	out, stderr, err := runOffline(t, newNewerTagsCommand(), "", image, "--list-only")
	if want := "TAG    KIND\n1.0.1  patch\n1.1.0  minor\n2.0.0  major\n"; err != nil || out != want || stderr != "" || s.requests("/manifests/") > 0 {
		t.Errorf("%v, %s\n%s", err, stderr, out)
	}
	out, _, err = runOffline(t, newNewerTagsCommand(), "", s.host+"/team/app:2.0.0")
	if want := "No newer tags: no tag of the same variant as 2.0.0 has a higher version.\n"; err != nil || out != want || s.requests("/manifests/") > 0 {
		t.Errorf("%v, %s", err, out)
	}
	lists := s.requests("/tags/list")
	out, _, err = runOffline(t, newNewerTagsCommand(), "", s.host+"/team/app", "-o", "json")
	var got newerOf
	if err := errors.Join(err, json.Unmarshal([]byte(out), &got)); err != nil || got.Reason != "NoVersion" || !strings.Contains(got.Message, `"latest" is no version`) || got.Candidates == nil {
		t.Errorf("%v, %s", err, out)
	}
	if s.requests("/tags/list") != lists {
		t.Error("tags were listed for a tag that is no version")
	}
}

// What cannot be scanned does not end the command.
func TestNewerTagsFailing(t *testing.T) {
	s := newTagsServer(t, upgrades())
	image := s.host + "/team/app:1.0.0"
	refuse := func(tag string, status int) {
		s.guard = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/manifests/"+tag) {
				return true
			}
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(status)
			return false
		}
	}
	refuse("1.1.0", http.StatusNotFound)
	out, _, err := runOffline(t, newNewerTagsCommand(), "", image, "--platform", "linux/amd64")
	var exit exitError
	if err == nil || errors.As(err, &exit) || err.Error() != "1 of 3 newer tags could not be compared" || !strings.Contains(out, "1.1.0  minor  -               -     ") ||
		!strings.Contains(out, "\n1.1.0 could not be compared: ImageNotFound: ") || !strings.Contains(out, "\nRecommended: 1.0.1, which closes 2 vulnerabilities and opens none.\n") {
		t.Errorf("%v\n%s", err, out)
	}
	// A registry that limits requests gets no more of them.
	refuse("1.0.1", http.StatusTooManyRequests)
	asked := s.requests("/manifests/1.1.0")
	out, _, err = runOffline(t, newNewerTagsCommand(), "", image, "--platform", "linux/amd64")
	if err == nil || err.Error() != "3 of 3 newer tags could not be compared" || !strings.Contains(out, "2.0.0 could not be compared: not pulled, because the registry limits requests: RegistryRateLimited") ||
		!strings.Contains(out, "\nNo tag is recommended, because none could be compared.\n") || s.requests("/manifests/1.1.0") != asked {
		t.Errorf("%v\n%s", err, out)
	}
	refuse("1.0.0", http.StatusNotFound)
	if out, _, err = runOffline(t, newNewerTagsCommand(), "", image); err == nil || !strings.Contains(err.Error(), image+": ImageNotFound") || out != "" {
		t.Errorf("without the image: %v, %s", err, out)
	}
	s.guard = nil
	out, _, err = runOffline(t, newNewerTagsCommand(), "", s.host+"/team/app:1.1.0", "--platform", "linux/amd64")
	if err != nil || !strings.HasSuffix(out, "\nNo tag is recommended: none removes risk without opening vulnerabilities that are High, Critical or known to be exploited.\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A list that was cut never counts as complete.
func TestNewerTagsOfACutList(t *testing.T) {
	s := newTagsServer(t, upgrades())
	s.guard = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/tags/list") {
			w.Header().Set("Link", `<https://elsewhere.example/v2/team/app/tags/list?last=b>; rel="next"`)
		}
		return true
	}
	const warning = "Warning: the list of tags is incomplete, so that newer tags can be missing: the registry names another host for the next page of tags.\n"
	out, stderr, err := runOffline(t, newNewerTagsCommand(), "", s.host+"/team/app:1.0.0", "--list-only", "-o", "json")
	var got newerOf
	if err := errors.Join(err, json.Unmarshal([]byte(out), &got)); err != nil || stderr != warning || !strings.Contains(got.Incomplete, "another host") || len(got.Candidates) != 3 {
		t.Errorf("%v, %s\n%s", err, stderr, out)
	}
	_, stderr, err = runOffline(t, newNewerTagsCommand(), "", s.host+"/team/app:2.0.0")
	if err == nil || !strings.Contains(err.Error(), "and none of the 7 listed tags is newer") || stderr != warning {
		t.Errorf("%v, %s", err, stderr)
	}
}

func TestNewerTagsErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("r.example", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("r.example/app:1.0", []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	digest := "@sha256:" + strings.Repeat("0", 64)
	for want, args := range map[string][]string{
		`--output "csv" is not one of table, json`:    {"r.example/a:1", "-o", "csv"},
		"--limit 0 is not between 1 and 10":           {"r.example/a:1", "--limit", "0"},
		"--limit 11 is not between 1 and 10":          {"r.example/a:1", "--limit", "11"},
		"--platform":                                  {"r.example/a:1", "--platform", "x"},
		"--vex":                                       {"r.example/a:1", "--vex", "nowhere.json"},
		"has a digest and no tag":                     {"r.example:5000/a" + digest},
		"use REPOSITORY:TAG@DIGEST":                   {"a" + digest},
		"the image reference: ":                       {"r.example/A:1"},
		"the image reference: a digest must":          {"r.example/a:1@sha256:0" + digest},
		"r.example/app:1.0 is a file of this machine": {"r.example/app:1.0"},
		"listing the tags of 127.0.0.1:1/a exceeded":  {"127.0.0.1:1/a:1.0", "--timeout", "1s"},
		"arg": {},
		"the image reference ./a:1 names no registry":         {"./a:1"},
		"the environment variable SCANNER_REGISTRIES: decode": {"r.example/a:1"},
	} {
		t.Run(want, func(t *testing.T) {
			if strings.Contains(want, "SCANNER_REGISTRIES") {
				t.Setenv("SCANNER_REGISTRIES", "{")
			}
			if out, _, err := runOffline(t, newNewerTagsCommand(), "", args...); err == nil || !strings.Contains(err.Error(), want) || out != "" {
				t.Errorf("%v, %q", err, out)
			}
		})
	}
}

func TestTagCounts(t *testing.T) {
	low := advice.Change{Severity: model.SeverityLow}
	exploited := advice.Change{Severity: model.SeverityCritical, KEV: true}
	for want, changes := range map[string][]advice.Change{
		"0": nil, "1 (1 Low)": {low}, "3 (2 Critical, 1 Low; 2 KEV)": {exploited, low, exploited},
	} {
		if got := countTag(changes).String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
