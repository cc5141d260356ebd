package hack

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// checkout is a git repository with unchanged.sh.
type checkout struct {
	*testing.T
	dir, cache string
}

func newCheckout(t *testing.T) checkout {
	t.Helper()
	c := checkout{T: t, dir: t.TempDir(), cache: t.TempDir()}
	script, err := os.ReadFile("unchanged.sh")
	if err != nil {
		t.Fatal(err)
	}
	c.write("hack/unchanged.sh", string(script))
	c.write(".gitignore", "*.ignored\n")
	c.write("ui/page.ts", "one")
	c.write("ui/other.ts", "two")
	c.write("docs/page.md", "three")
	for _, arguments := range [][]string{{"init", "--quiet"}, {"add", "--all"}} {
		if output, err := c.run("git", arguments...); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
	}
	return c
}

func (c checkout) write(name, content string) {
	c.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		c.Fatal(err)
	}
}

func (c checkout) run(command string, arguments ...string) (string, error) {
	c.Helper()
	run := exec.CommandContext(c.Context(), command, arguments...)
	run.Dir = c.dir
	run.Env = append(os.Environ(), "SCANNER_OPERATOR_CACHE="+c.cache)
	output, err := run.CombinedOutput()
	return string(output), err
}

// checks runs a command that says so, and reports whether it did.
func (c checkout) checks(path, command string) bool {
	c.Helper()
	output, err := c.run("bash", "hack/unchanged.sh", path, "--", "sh", "-c", "echo it was run; "+command)
	if (err != nil) != (command == "false") {
		c.Errorf("%v: %s", err, output)
	}
	return strings.HasPrefix(output, "it was run\n")
}

// TestUnchanged expects that a check is left out only when it has passed with the same input.
func TestUnchanged(t *testing.T) {
	for name, change := range map[string]func(c checkout){
		"a file":           func(c checkout) { c.write("ui/page.ts", "changed") },
		"files exchanged":  func(c checkout) { c.write("ui/page.ts", "two"); c.write("ui/other.ts", "one") },
		"an untracked one": func(c checkout) { c.write("ui/new.ts", "") },
		"a program":        func(c checkout) { c.must(os.Chmod(filepath.Join(c.dir, "ui/page.ts"), 0o700)) },
		"a missing file":   func(c checkout) { c.must(os.Remove(filepath.Join(c.dir, "ui/page.ts"))) },
		"a renamed file": func(c checkout) {
			c.must(os.Rename(filepath.Join(c.dir, "ui/page.ts"), filepath.Join(c.dir, "ui/q.ts")))
		},
		"no repository": func(c checkout) { c.must(os.RemoveAll(filepath.Join(c.dir, ".git"))) },
		"a month":       checkout.age,
	} {
		t.Run(name, func(t *testing.T) {
			c := newCheckout(t)
			if !c.checks("ui", "true") {
				t.Error("the check was not run at all")
			}
			c.write("docs/page.md", "changed")
			c.write("ui/page.ignored", "")
			if c.checks("ui", "true") {
				t.Error("the check was run again without a change")
			}
			change(c)
			if !c.checks("ui", "true") {
				t.Error("the check was not run after the change")
			}
		})
	}
	t.Run("failure", func(t *testing.T) {
		c := newCheckout(t)
		for range 2 {
			if !c.checks("ui", "false") {
				t.Error("a check that failed was not run again")
			}
		}
		if !c.checks("ui", "true") || !c.checks("ui", "true;") || !c.checks("docs", "true") {
			t.Error("another check was not run")
		}
	})
	t.Run("changed meanwhile", func(t *testing.T) {
		c := newCheckout(t)
		c.checks("ui", "echo fixed > ui/page.ts")
		c.write("ui/page.ts", "one")
		if !c.checks("ui", "echo fixed > ui/page.ts") {
			t.Error("what was there before the check passed was not checked again")
		}
	})
	t.Run("unknown path", func(t *testing.T) {
		c := newCheckout(t)
		for range 2 {
			if !c.checks("nothing", "true") {
				t.Error("a check of no file was left out")
			}
		}
	})
}

func (c checkout) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// age makes what is kept older than it may be.
func (c checkout) age() {
	c.Helper()
	files, err := filepath.Glob(filepath.Join(c.cache, "scanner-operator/unchanged/*"))
	if err != nil || len(files) != 1 {
		c.Fatalf("%d files, %v", len(files), err)
	}
	old := time.Now().Add(-32 * 24 * time.Hour)
	c.must(os.Chtimes(files[0], old, old))
}
