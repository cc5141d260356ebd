package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// checkout makes a repository with one commit, with what openSource looks for.
func checkout(t *testing.T, goVersion string) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	for name, content := range map[string]string{
		"go.mod": "module example.com/m\n\ngo " + goVersion + "\n", ".gitignore": "web/dist\n", "web/dist/index.html": "",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git(t, "init", "--quiet")
	git(t, "add", "--all")
	git(t, "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--message", "First")
}

func git(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

func TestOpenSource(t *testing.T) {
	version, err := output(t.Context(), "go", "env", "GOVERSION")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		version, goVersion string
		prepare            func(t *testing.T)
		want               string
	}{
		"tag":               {"", "", func(t *testing.T) { git(t, "tag", "v1.2.3") }, ""},
		"version":           {"v1.2.3", "", func(*testing.T) {}, ""},
		"no tag":            {"", "", func(*testing.T) {}, "no tag such as v1.2.3"},
		"other tag":         {"", "", func(t *testing.T) { git(t, "tag", "latest") }, "no tag such as v1.2.3"},
		"tag of no version": {"", "", func(t *testing.T) { git(t, "tag", "v1") }, "not a semantic version"},
		"changed file":      {"v1.2.3", "", func(t *testing.T) { change(t, ".gitignore") }, "the working tree has changes"},
		"new file":          {"v1.2.3", "", func(t *testing.T) { change(t, "new.go") }, "?? new.go"},
		"without v":         {"1.2.3", "", func(*testing.T) {}, "not a semantic version"},
		"branch":            {"main", "", func(*testing.T) {}, "not a semantic version"},
		"no UI":             {"v1.2.3", "", func(t *testing.T) { t.Helper(); must(t, os.Remove("web/dist/index.html")) }, "no UI"},
		"other Go":          {"v1.2.3", "1.20", func(*testing.T) {}, "go.mod names go1.20"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.goVersion == "" {
				c.goVersion = strings.TrimPrefix(version, "go")
			}
			checkout(t, c.goVersion)
			c.prepare(t)
			src, err := openSource(t.Context(), c.version)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
				return
			}
			if err != nil || src.Version != "v1.2.3" || len(src.Commit) != 40 || src.Time.IsZero() || src.Go != version {
				t.Errorf("got %+v, %v", src, err)
			}
		})
	}
}

func change(t *testing.T, name string) {
	t.Helper()
	must(t, os.WriteFile(name, []byte("changed\n"), 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
