package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
)

// newer runs newer-tags for the namespace "shop", or what the arguments say.
func (o *operatorOf) newer(args ...string) (stdout, stderr string, err error) {
	o.t.Helper()
	return runOffline(o.t, newNewerTagsCommand(), "", append(args, "--kubeconfig", o.kubeconfig(), "--url", o.server.URL)...)
}

// running is a container of a Deployment in JSON.
func running(workload, reference, imageID string) string {
	text, err := json.Marshal(api.ContainerCoverage{
		Workload: api.Workload{Namespace: "shop", Kind: "Deployment", Name: workload}, Container: "app", Reference: reference, ImageId: imageID,
		Platform: "linux/amd64", Pods: 1, State: api.CoverageStateScanned,
	})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// imageID is the image ID of a tag of the repository team/app.
func (s *tagsServer) imageID(t *testing.T, tag string) string {
	t.Helper()
	reference, err := name.NewTag(s.host + "/team/app:" + tag)
	if err != nil {
		t.Fatal(err)
	}
	found, err := remote.Head(reference)
	if err != nil {
		t.Fatal(err)
	}
	return s.host + "/team/app@" + found.Digest.String()
}

// clusterOf is what is read of the output in JSON.
type clusterOf struct {
	Images []struct {
		Workloads                          []struct{ Namespace, Kind, Name string }
		Reference, ImageID, State, Message string
		NewerTags                          *newerOf
	}
	Database struct{ ID string }
}

func TestNewerTagsOfANamespace(t *testing.T) {
	s, o := newTagsServer(t, upgrades()), newOperatorOf(t)
	app := s.host + "/team/app:"
	// The Deployment f runs the digest of 1.0.1 under the tag 1.0.0, which was pushed again.
	o.coverage = strings.Join([]string{
		running("b", app+"1.0.1", s.imageID(t, "1.0.1")), running("z", app+"1.0.0", s.imageID(t, "1.0.0")), running("a", app+"1.0.0", s.imageID(t, "1.0.0")),
		running("a", app+"1.0.0", s.imageID(t, "1.0.0")), running("c", app+"2.0.0", s.imageID(t, "2.0.0")), running("d", s.host+"/team/app", s.imageID(t, "latest")),
		running("e", "app:1.1.0", s.imageID(t, "1.1.0")), running("f", app+"1.0.0", s.imageID(t, "1.0.1")), running("g", app+"1.0.0", ""),
	}, ",")
	s.asked = nil
	out, stderr, err := o.newer("-n", "shop")
	lines := strings.Split(out, "\n")
	want := []string{
		"WORKLOADS                   IMAGE:TAG                        NEWER TAG  KIND   CLOSES                            OPENS",
		"2 (shop/Deployment a, …)  " + app + "1.0.0  1.1.0  minor  4 (1 Critical, 2 High, 1 Medium)  1 (1 Low)",
		"1 (shop/Deployment f)  " + app + "1.0.0  1.1.0  minor  2 (1 High, 1 Medium)  1 (1 Low)",
		"1 (shop/Deployment b)  " + app + "1.0.1  1.1.0  minor  2 (1 High, 1 Medium)  1 (1 Low)",
		"", "WORKLOADS  IMAGE:TAG  STATE  REASON",
		"1 (shop/Deployment c)  " + app + "2.0.0  Newest  no tag of the same variant as 2.0.0 has a higher version",
		"1 (shop/Deployment d)  " + s.host + "/team/app  NoVersion  the reference has no tag",
		"1 (shop/Deployment e)  app:1.1.0  NotRecommended  No tag is recommended: none removes risk without opening vulnerabilities that are High, Critical or known to be exploited.",
		"1 (shop/Deployment g)  " + app + "1.0.0  NotScanned  the digest that runs is not known", "",
	}
	fields := func(lines []string) (all [][]string) {
		for _, line := range lines {
			all = append(all, strings.Fields(line))
		}
		return all
	}
	if diff := cmp.Diff(fields(want), fields(lines)); diff != "" || err == nil || err.Error() != "1 of 7 images could not be compared completely" {
		t.Fatalf("%v, %s (-want +got):\n%s", err, stderr, diff)
	}
	if strings.Count(stderr, "exceptions of the cluster do not apply") != 1 {
		t.Errorf("%s", stderr)
	}
	// Each image is scanned once, and the tags are listed once.
	if n := s.requests("/tags/list"); n != 1 {
		t.Errorf("%d lists", n)
	}
	for _, tag := range []string{"1.0.1", "1.1.0", "2.0.0"} {
		if n := s.requests("/manifests/" + tag); n != 1 {
			t.Errorf("the tag %s was pulled %d times", tag, n)
		}
	}
	for _, tag := range []string{"1.0.0", "1.0.1", "1.1.0"} {
		if n := s.requests("/manifests/" + strings.Split(s.imageID(t, tag), "@")[1]); n != 1 {
			t.Errorf("the digest of %s was pulled %d times", tag, n)
		}
	}
}

func TestNewerTagsOfANamespaceInJSON(t *testing.T) {
	s, o := newTagsServer(t, upgrades()), newOperatorOf(t)
	// The image with the most risk, and the most workloads, is not the first by name.
	before, later := s.host+"/team/app:1.0.0", s.host+"/team/app:1.0.1"
	o.coverage = strings.Join([]string{running("b", before, s.imageID(t, "1.0.1")), running("a", later, s.imageID(t, "1.0.0")), running("c", later, s.imageID(t, "1.0.0"))}, ",")
	out, _, err := o.newer("-n", "shop", "-o", "json")
	var got clusterOf
	if err := errors.Join(err, json.Unmarshal([]byte(out), &got)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if i := got.Images; len(i) != 2 || i[0].State != "Recommended" || i[0].NewerTags.Recommended != "1.1.0" || i[0].NewerTags.Candidates[0].Closed.Critical != 1 ||
		i[0].Workloads[0].Name != "a" || i[0].ImageID != s.imageID(t, "1.0.0") || i[1].Workloads[0].Name != "b" || got.Database.ID == "" {
		t.Errorf("%s", out)
	}
	// The bound leaves out the last images, and says which.
	out, _, err = o.newer("-n", "shop", "-o", "json", "--max-images", "1")
	got = clusterOf{}
	if err := errors.Join(err, json.Unmarshal([]byte(out), &got)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if i := got.Images; len(i) != 2 || i[0].Workloads[0].Name != "a" || i[1].State != "LeftOut" || !strings.Contains(i[1].Message, "--max-images") || i[1].NewerTags != nil {
		t.Errorf("%s", out)
	}
}

func TestNewerTagsOfANamespaceListOnly(t *testing.T) {
	s, o := newTagsServer(t, upgrades()), newOperatorOf(t)
	o.coverage = running("a", s.host+"/team/app:1.0.0", "")
	out, stderr, err := o.newer("-n", "shop", "--list-only")
	if err != nil || stderr != "" || strings.Count(out, "\n") != 4 || !strings.Contains(out, "/team/app:1.0.0  1.0.1      patch\n") || s.requests("/manifests/") > 0 {
		t.Errorf("%v, %s\n%s", err, stderr, out)
	}
	// All namespaces are asked for without the name of one.
	o.asked = nil
	if out, _, err = o.newer("-A"); err != nil || out != "No containers run there, or you may not see them.\n" || len(o.asked) != 1 || strings.Contains(o.asked[0], "namespace=") {
		t.Errorf("%v, %q\n%s", err, o.asked, out)
	}
}

// A registry that refuses a list, or limits requests, does not end the command.
func TestNewerTagsOfANamespaceRefused(t *testing.T) {
	limiting, other, o := newTagsServer(t, upgrades()), newTagsServer(t, upgrades()), newOperatorOf(t)
	o.coverage = strings.Join([]string{
		running("a", limiting.host+"/team/app:1.0.0", limiting.imageID(t, "1.0.0")), running("b", limiting.host+"/team/zoo:1.0.0", limiting.imageID(t, "1.0.0")),
		running("c", other.host+"/team/app:1.0.0", other.imageID(t, "1.0.0")),
	}, ",")
	refuse := func(part string, status int) {
		limiting.asked = nil
		limiting.guard = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, part) {
				return true
			}
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(status)
			return false
		}
	}
	for part, status := range map[string]int{"/tags/list": http.StatusTooManyRequests, "/manifests/1.0.1": http.StatusTooManyRequests} {
		refuse(part, status)
		out, _, err := o.newer("-n", "shop", "-o", "json")
		var got clusterOf
		if unread := json.Unmarshal([]byte(out), &got); unread != nil || err == nil || err.Error() != "2 of 3 images could not be compared completely" || len(got.Images) != 3 {
			t.Fatalf("%s: %v, %v\n%s", part, unread, err, out)
		}
		if i := got.Images; i[0].Workloads[0].Name != "c" || i[0].State != "Recommended" || i[1].State != "RateLimited" || i[2].State != "RateLimited" ||
			!strings.HasPrefix(i[2].Message, "not asked, because the registry limits requests: ") {
			t.Errorf("%s: %s", part, out)
		}
		if n := limiting.requests("/team/zoo/") + limiting.requests("/manifests/1.1.0"); n > 0 {
			t.Errorf("%s: a registry that limits requests was asked %d times", part, n)
		}
	}
	// A registry that refuses a list is asked about its other repositories.
	refuse("/app/tags/list", http.StatusForbidden)
	out, _, err := o.newer("-n", "shop")
	if err == nil || !strings.Contains(out, "NotListed  ") || !strings.Contains(out, "provide credentials that may list the tags") || limiting.requests("/team/zoo/tags/list") == 0 {
		t.Errorf("%v\n%s", err, out)
	}
	refuse("/manifests/"+strings.Split(limiting.imageID(t, "1.0.0"), "@")[1], http.StatusNotFound)
	out, _, err = o.newer("-n", "shop")
	if err == nil || !strings.Contains(out, "NotScanned  ") || !strings.Contains(out, "ImageNotFound") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Tenants choose references and names.
func TestNewerTagsOfHostileNames(t *testing.T) {
	o := newOperatorOf(t)
	o.coverage = strings.Join([]string{
		running("x\x1b[31m\nfake\u202e\ttext", "r.example/\x1b]0;title\x07app:1\n.0", ""), running("y", "./secret:1.0", ""), running("z", "r.example/a:1\t2", "\x1b[2J@x"),
		running("v", "r.example/"+strings.Repeat("a", 5000)+":latest", ""),
	}, ",")
	out, stderr, err := o.newer("-n", "shop")
	if err == nil || strings.ContainsAny(out+stderr+err.Error(), "\x1b\x07\u202e\t") || strings.Count(out, "\n") != 5 || len(out) > 5000 || !strings.Contains(out, "names no registry") {
		t.Errorf("%v, %q\n%q", err, stderr, out)
	}
	var many []string
	for i := range maxReasons + 3 {
		many = append(many, running(fmt.Sprint(i), fmt.Sprintf("r.example/a%d:latest", i), ""))
	}
	o.coverage = strings.Join(many, ",")
	out, _, err = o.newer("-n", "shop")
	if err != nil || strings.Count(out, "\n") != maxReasons+2 || !strings.HasSuffix(out, "\n3 more images have no recommendation: use -o json to see them.\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// The node says which registry a reference without one means, and the digest that runs.
func TestClusterImage(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for in, want := range map[[2]string][2]string{
		{"app:1.0", "r.example/app@" + digest}:                {"r.example/app:1.0", "r.example/app@" + digest},
		{"team/app:1.0", "r.example/team/app@" + digest}:      {"r.example/team/app:1.0", "r.example/team/app@" + digest},
		{"mirror.example/app:1.0", "r.example/app@" + digest}: {"mirror.example/app:1.0", "mirror.example/app@" + digest},
		{"localhost/app:1.0", "r.example/app@" + digest}:      {"localhost/app:1.0", "localhost/app@" + digest},
		{"app:1.0", ""}:                                            {"index.docker.io/library/app:1.0", ""},
		{"app:1.0@" + digest, ""}:                                  {"index.docker.io/library/app:1.0", "index.docker.io/library/app@" + digest},
		{"r.example/app:1.0", digest}:                              {"r.example/app:1.0", ""},
		{"r.example/app:1.0", "r.example/app@sha256:../../x"}:      {"r.example/app:1.0", ""},
		{"app:1.0", "R.example/\x1b@" + digest}:                    {"index.docker.io/library/app:1.0", "index.docker.io/library/app@" + digest},
		{"r.example:5000/app:1.0-alpine", "r.example/b@" + digest}: {"r.example:5000/app:1.0-alpine", "r.example:5000/app@" + digest},
	} {
		image := &clusterImage{Reference: in[0], ImageID: in[1]}
		image.read()
		current := ""
		if image.current != nil {
			current = image.current.Name()
		}
		if got := [2]string{image.tag.Name(), current}; got != want || image.State != "" {
			t.Errorf("%q: got %q, want %q; %s %s", in, got, want, image.State, image.Message)
		}
	}
}

func TestNewerTagsOfANamespaceErrors(t *testing.T) {
	o := newOperatorOf(t)
	for want, args := range map[string][]string{
		"IMAGE cannot be used with -n or -A":        {"r.example/a:1", "-n", "shop"},
		"-n cannot be used with -A":                 {"-A", "-n", "shop"},
		"the argument IMAGE is missing":             nil,
		"--max-images 0 is not between 1 and 100":   {"-A", "--max-images", "0"},
		"--max-images 101 is not between 1 and 100": {"-A", "--max-images", "101"},
	} {
		if out, _, err := o.newer(args...); err == nil || !strings.Contains(err.Error(), want) || out != "" || len(o.asked) > 0 {
			t.Errorf("%q: %v, %q", args, err, out)
		}
	}
	o.server.Close()
	if out, _, err := o.newer("-A"); err == nil || !strings.Contains(err.Error(), "read what runs: ") || out != "" {
		t.Errorf("%v, %q", err, out)
	}
}
