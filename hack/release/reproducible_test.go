//go:build release

package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReproducible builds the release of the last commit twice and compares every byte. The clones differ in their path, time zone,
// locale, file modes and build flags; the builds share the UI of this checkout, the Go toolchain and Go's build cache. So the test
// covers linking, packing, cataloging and signing, and not compiling: the release workflow compiles on two machines.
func TestReproducible(t *testing.T) {
	helm := os.Getenv("HELM")
	if helm == "" {
		t.Fatal("HELM does not name the helm command; run make release-test")
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	key, publicKey := pkcs8(t, private, public)
	root, err := output(t.Context(), "git", "rev-parse", "--show-toplevel")
	must(t, err)
	commit, err := output(t.Context(), "git", "rev-parse", "HEAD")
	must(t, err)
	tool := filepath.Join(t.TempDir(), "release")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", tool, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var releases [2]string
	for i, c := range []struct {
		dir         string
		environment []string
		umask       string
	}{
		{"a", []string{"TZ=UTC", "LC_ALL=C"}, "022"},
		{"another/and/longer/path", []string{"TZ=Asia/Tokyo", "LC_ALL=C.UTF-8", "GOFLAGS=", "CGO_ENABLED=1", "GOAMD64=v3"}, "077"},
	} {
		clone := filepath.Join(t.TempDir(), c.dir)
		// The modes of the files in a checkout depend on the umask.
		script := `umask "$1"; git clone --quiet --shared "$2" "$3"; cp -R "$2/web/dist/." "$3/web/dist/"
			cd "$3"; git checkout --quiet --detach "$7"
			exec "$4" -version v0.0.1 -image registry.example.com/scanner-operator -platforms "$5" -helm "$6" -require-signature`
		cmd := exec.CommandContext(t.Context(), "bash", "-euc", script, "-", c.umask, root, clone, tool, "linux/"+runtime.GOARCH, helm, commit)
		cmd.Env = append(os.Environ(), append(c.environment, "SIGNING_KEY="+key)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		t.Logf("%s", out)
		releases[i] = filepath.Join(clone, "dist/release/v0.0.1")
	}
	compare(t, releases[0], releases[1])
	complete(t, releases[0], publicKey)
}

// compare expects the same files with the same bytes in both folders.
func compare(t *testing.T, first, second string) {
	t.Helper()
	want, err := digests(first)
	must(t, err)
	got, err := digests(second)
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("two builds of one commit differ: %s", diff)
	}
}

// complete expects every kind of file in the folder, and a signature and checksums that can be verified.
func complete(t *testing.T, dir, publicKey string) {
	t.Helper()
	files, err := filepath.Glob(dir + "/*")
	must(t, err)
	var names []string
	for _, file := range files {
		names = append(names, filepath.Base(file))
	}
	arch := runtime.GOARCH
	want := []string{
		"SHA256SUMS", "SHA256SUMS.sig", "scanner-operator-0.0.1.tgz", "scanner-operator_v0.0.1_image.tar", "scanner-operator_v0.0.1_krew.yaml", "scanner-operator_v0.0.1_linux_" + arch + ".cdx.json",
		"scanner-operator_v0.0.1_linux_" + arch + ".tar.gz", "scanner-operator_v0.0.1_provenance.intoto.json",
	}
	slices.Sort(names)
	slices.Sort(want)
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	if out, err := exec.CommandContext(t.Context(), "./verify.sh", dir, publicKey).CombinedOutput(); err != nil || bytes.Count(out, []byte(": OK")) != len(want)-2 {
		t.Errorf("%v: %s", err, out)
	}
	unpacked := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "tar", "-xzf", filepath.Join(dir, want[6]), "-C", unpacked).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"LICENSE", "README.md"} {
		if _, err := os.Stat(filepath.Join(unpacked, name)); err != nil {
			t.Error(err)
		}
	}
	if out, err := output(t.Context(), filepath.Join(unpacked, "scanner-operator"), "version"); err != nil || !strings.HasPrefix(out, "scanner-operator v0.0.1 ") {
		t.Errorf("got %q, %v", out, err)
	}
}
