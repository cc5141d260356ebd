package catalog

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDockerConfig(t *testing.T) {
	auth := base64.StdEncoding.EncodeToString([]byte("user:pass:word"))
	for name, test := range map[string]struct {
		content              string
		registry, repository string
		want                 []credential
	}{
		"auth":            {`{"auths":{"r.example":{"auth":"` + auth + `"}}}`, "r.example", "a", []credential{{username: "user", password: "pass:word"}}},
		"old form":        {`{"https://r.example/v1/":{"auth":"` + auth + `"},"HttpHeaders":"x"}`, "r.example", "a", []credential{{username: "user", password: "pass:word"}}},
		"docker hub":      {`{"auths":{"https://index.docker.io/v1/":{"username":"u","password":"p"}}}`, "index.docker.io", "library/a", []credential{{username: "u", password: "p"}}},
		"other port":      {`{"auths":{"r.example:5000":{"username":"u","password":"p"}}}`, "r.example", "a", nil},
		"default port":    {`{"auths":{"r.example:443":{"username":"u","password":"p"}}}`, "r.example", "a", []credential{{username: "u", password: "p"}}},
		"wildcard":        {`{"auths":{"*.example":{"username":"u","password":"p"}}}`, "r.example", "a", []credential{{username: "u", password: "p"}}},
		"wildcard, deep":  {`{"auths":{"*.example":{"username":"u","password":"p"}}}`, "a.r.example", "a", nil},
		"path":            {`{"auths":{"r.example/team":{"username":"u","password":"p"}}}`, "r.example", "team/app", []credential{{username: "u", password: "p"}}},
		"path of another": {`{"auths":{"r.example/team":{"username":"u","password":"p"}}}`, "r.example", "teammate/app", nil},
		"longest first": {`{"auths":{"r.example":{"username":"u","password":"1"},"r.example/team/app":{"username":"u","password":"3"},"r.example/team":{"username":"u","password":"2"}}}`,
			"r.example", "team/app", []credential{{username: "u", password: "3"}, {username: "u", password: "2"}, {username: "u", password: "1"}}},
		"tokens":      {`{"auths":{"r.example":{"identitytoken":"i"}}}`, "r.example", "a", []credential{{identityToken: "i"}}},
		"empty":       {`{}`, "r.example", "a", nil},
		"helper only": {`{"auths":{"r.example":{}},"credsStore":"desktop"}`, "r.example", "a", nil},
		"bad base64":  {`{"auths":{"r.example":{"auth":"%%%"}}}`, "r.example", "a", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := credentialsFor([]string{write(t, "config.json", []byte(test.content))}, test.registry, test.repository, false)
			if got.problem != nil {
				t.Fatal(got.problem)
			}
			if diff := cmp.Diff(append(test.want, credential{}), got.found, cmp.AllowUnexported(credential{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDockerConfigProblems(t *testing.T) {
	for _, content := range []string{"{" + secret, `[]`, `{"auths":[]}`, strings.Repeat(" ", maxDockerConfigBytes+1)} {
		got := credentialsFor([]string{write(t, "config.json", []byte(content))}, "r.example", "a", false)
		if got.problem == nil || len(got.found) != 1 || strings.Contains(got.problem.Error(), secret) {
			t.Errorf("got %d credentials and %v", len(got.found), got.problem)
		}
	}
	c := credential{password: secret}
	if text := fmt.Sprintf("%v %+v %#v %s", c, c, c, c); strings.Contains(text, secret) {
		t.Errorf("a credential prints as %s", text)
	}
}

// TestOldDockerConfig reads folders as Secrets are mounted: each holds the one form or the other.
func TestOldDockerConfig(t *testing.T) {
	folder := func(name, content string) string {
		file := write(t, name, []byte(content))
		return filepath.Join(filepath.Dir(file), configFile)
	}
	entry := func(password string) string { return `{"r.example":{"username":"u","password":"` + password + `"}}` }
	old, today, broken := folder(oldConfigFile, entry("old")), folder(configFile, `{"auths":`+entry("new")+`}`), folder(oldConfigFile, "{"+secret)
	both := folder(configFile, `{"auths":{}}`)
	if err := os.WriteFile(filepath.Join(filepath.Dir(both), oldConfigFile), []byte(entry("not this")), 0o600); err != nil {
		t.Fatal(err)
	}
	gone := filepath.Join(t.TempDir(), configFile)

	got := credentialsFor([]string{broken, gone, both, old, today}, "r.example", "a", false)
	want := []credential{{username: "u", password: "old"}, {username: "u", password: "new"}, {}}
	if diff := cmp.Diff(want, got.found, cmp.AllowUnexported(credential{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i, end := range []string{" (cannot be read)", " (does not exist)", " (has no credentials for r.example)", `"`, `"`} {
		if len(got.sources) != 5 || !strings.HasSuffix(got.sources[i], end) {
			t.Errorf("the sources are %q", got.sources)
		}
	}
	if got.problem == nil || strings.Contains(got.problem.Error(), secret) || !strings.Contains(got.problem.Error(), oldConfigFile) {
		t.Errorf("the problem is %v", got.problem)
	}
}

func FuzzDockerConfig(f *testing.F) {
	f.Add([]byte(`{"auths":{"https://r.example/v1/":{"auth":"dTpw"},"*.example/a":{"username":"u","password":"p"}}}`))
	f.Add([]byte(`{"r.example":{"auth":"dTpw"}}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		entries, err := parseDockerConfig(content)
		if err != nil {
			return
		}
		for _, entry := range entries {
			if entry.host == "" || entry.credential.anonymous() {
				t.Errorf("a useless entry %q", entry.host)
			}
			// A credential is for its own host, never for one that does not match.
			if !strings.ContainsAny(entry.host, `*?[\`) && entry.host != "r.example" && entry.matches("r.example", "a") {
				t.Errorf("%q fits r.example", entry.host)
			}
		}
	})
}

func FuzzParseChallenge(f *testing.F) {
	f.Add(`Bearer realm="https://auth.example/token",service="r.example",scope="repository:a/b:pull,push"`)
	f.Add(`Basic realm=x, charset="UTF-8"`)
	f.Fuzz(func(_ *testing.T, header string) { parseChallenge(header) })
}

func TestParseChallenge(t *testing.T) {
	scheme, parameters := parseChallenge(`Bearer realm="https://auth.example/token?a=b",service=r.example , scope="repository:a/\"b:pull,push"`)
	want := map[string]string{"realm": "https://auth.example/token?a=b", "service": "r.example", "scope": `repository:a/"b:pull,push`}
	if diff := cmp.Diff(want, parameters); scheme != "bearer" || diff != "" {
		t.Errorf("%s: %s", scheme, diff)
	}
}
