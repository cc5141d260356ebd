package sampleimages

import (
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func digests(t *testing.T, images []Image) map[string]string {
	t.Helper()
	result := map[string]string{}
	for _, image := range images {
		digest, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		result[image.Reference()] = digest.String()
	}
	return result
}

// TestBuild builds twice from nothing and once from the cache: always the same, sound and runnable images.
func TestBuild(t *testing.T) {
	if testing.Short() {
		t.Skip("builds images, which takes up to a minute")
	}
	first, err := Build(t.Context(), t.TempDir(), t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	second, err := Build(t.Context(), cache, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(digests(t, first), digests(t, second)); diff != "" {
		t.Errorf("two builds differ:\n%s", diff)
	}
	var built bytes.Buffer
	logger := log.New(&built, "", 0)
	third, err := Build(t.Context(), cache, logger.Printf)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(digests(t, second), digests(t, third)); diff != "" {
		t.Errorf("the cache holds something else:\n%s", diff)
	}
	for _, image := range second {
		if image.Note == "" && strings.Contains(built.String(), "building "+image.Reference()) {
			t.Errorf("%s was built again", image.Reference())
		}
	}
	server, err := Serve(t.Context(), "127.0.0.1:0", third)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	for i, image := range third {
		pulled(t, server.References[i], image.Index != nil)
	}
}

// pulled checks what a kubelet needs of an image that it pulls.
func pulled(t *testing.T, reference string, isIndex bool) {
	t.Helper()
	parsed, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	if isIndex {
		index, err := remote.Index(parsed)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Index(index); err != nil {
			t.Errorf("%s: %v", reference, err)
		}
		return
	}
	image, err := remote.Image(parsed)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(image); err != nil {
		t.Errorf("%s: %v", reference, err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" || len(config.Config.Entrypoint) != 1 {
		t.Errorf("%s runs %v as %q", reference, config.Config.Entrypoint, config.Config.User)
	}
}

func TestWithoutTools(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the sleeper")
	}
	shop := func() *workshop {
		return &workshop{log: t.Logf, arch: "amd64", sleepers: map[string][]byte{"amd64": []byte("sleeper")}, temp: t.TempDir()}
	}
	t.Setenv("PATH", t.TempDir())
	for name, build := range map[string]func(context.Context, *workshop) (built, error){
		"debian": buildDebian, "node": buildNodeApp, "python": buildPythonApp, "go": buildGoApp,
	} {
		made, err := build(t.Context(), shop())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if made.note == "" || made.image == nil {
			t.Errorf("%s does not say that it fell back", name)
		}
	}
}

func TestServeRefusesOtherAddresses(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "nonsense", "192.0.2.1:80"} {
		if server, err := Serve(t.Context(), addr, nil); err == nil {
			_ = server.Close()
			t.Errorf("serves on %s", addr)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	server, err := Serve(ctx, "localhost:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for {
		connection, err := net.Dial("tcp", server.Addr)
		if err != nil {
			break
		}
		_ = connection.Close()
	}
}

func TestLayersDoNotDependOnOrder(t *testing.T) {
	digestOf := func(names ...string) v1.Hash {
		files := rootfs{}
		for _, n := range names {
			files.add(n, []byte("content"))
		}
		layer, err := files.layer()
		if err != nil {
			t.Fatal(err)
		}
		digest, err := layer.Digest()
		if err != nil {
			t.Fatal(err)
		}
		if body, err := layer.Uncompressed(); err != nil {
			t.Fatal(err)
		} else if _, err := io.Copy(io.Discard, body); err != nil {
			t.Fatal(err)
		}
		return digest
	}
	if a, b := digestOf("a/b", "c", "/a/d"), digestOf("/c", "a/d", "a//b"); a != b {
		t.Errorf("%s and %s", a, b)
	}
}
