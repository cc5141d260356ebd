package gobuild

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLine(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(p *progress)
		want string
	}{
		{"nothing", func(*progress) {}, ""},
		{"downloads", func(p *progress) { p.download(); p.download() }, "building it: 2 modules downloaded"},
		{"no total yet", func(p *progress) { p.download(); p.compile("a") }, "building it: 1 packages compiled"},
		{"the cache holds some", func(p *progress) {
			p.compile("b")
			p.plan(2748, []string{"a", "b", "c"})
		}, "building it: 2,746 of 2,748 packages"},
		{"compiled before the list", func(p *progress) {
			p.compile("a")
			p.plan(4, []string{"b"})
		}, "building it: 3 of 4 packages"},
		{"all compiled", func(p *progress) {
			p.plan(3, []string{"a"})
			p.compile("a")
		}, "building it: linking"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newProgress("it", nil)
			test.do(p)
			if got := p.line(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestIsPackage(t *testing.T) {
	for line, want := range map[string]bool{
		"net/http": true, "vendor/golang.org/x/net/idna": true, "k8s.io/api/core/v1": true,
		"": false, "# k8s.io/api/core/v1": false, "go: downloading k8s.io/api v0.37.1": false,
		"./main.go:3:1: syntax error": false, "\thave (int)": false,
	} {
		if got := isPackage(line); got != want {
			t.Errorf("%q: got %v, want %v", line, got, want)
		}
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.com/hello\n\ngo 1.21\n")
	write("main.go", "package main\n\nvar text string\n\nfunc main() { println(text) }\n")
	var out bytes.Buffer
	build := Build{Title: "hello", Dir: dir, Output: filepath.Join(dir, "hello"), Packages: []string{"."}, LDFlags: "-X main.text=hi", Progress: &out}
	if err := build.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(build.Output); err != nil || !bytes.Contains(content, []byte("hi")) {
		t.Errorf("the program lacks what the linker was told to set: %v", err)
	}
	if out.Len() > 0 {
		t.Errorf("a build of seconds reported %q", out.String())
	}

	write("main.go", "package main\n\nfunc main() { missing() }\n")
	err := build.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "undefined: missing") || !strings.Contains(err.Error(), "build hello") {
		t.Errorf("got %v, want the compiler's error", err)
	}
}
