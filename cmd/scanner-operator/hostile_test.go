package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"k8s.io/apimachinery/pkg/types"

	"github.com/scanner-operator/scanner-operator/internal/controller/scanner"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// patience is far more than a scan takes that ends by itself.
const patience = 5 * time.Minute

// TestMain lets the tests start this program as the operator does.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "catalog" {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

// berkeleyDB is a database of packages in pages of that size, with one value that starts at that place of its page. It is continued on a
// page of that type, which is followed by itself.
func berkeleyDB(size int, start uint16, pageType byte) string {
	content := make([]byte, 3*size)
	put16, put32 := binary.LittleEndian.PutUint16, binary.LittleEndian.PutUint32
	put32(content[12:], 0x00061561)
	put32(content[20:], uint32(size))
	content[25] = 8
	put32(content[32:], 2)
	hash := content[size:]
	put16(hash[20:], 2)
	hash[25] = 13
	put16(hash[28:], start)
	if int(start)+12 < size {
		hash[start] = 3
		put32(hash[start+4:], 2)
	}
	overflow := content[2*size:]
	put32(overflow[16:], 2)
	overflow[25] = pageType
	return string(content)
}

func imageWith(t *testing.T, files map[string]string) v1.Image {
	t.Helper()
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	for name, content := range files {
		if err := writer.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(writer, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: "amd64", RootFS: v1.RootFS{Type: "layers"}})
	if err != nil {
		t.Fatal(err)
	}
	if image, err = mutate.AppendLayers(image, layer); err != nil {
		t.Fatal(err)
	}
	return image
}

func pushed(t *testing.T, host string, image v1.Image) model.ImageKey {
	t.Helper()
	tag, err := name.NewTag(host + "/team/app:latest")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, image); err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return model.ImageKey{ImageID: tag.Context().Name() + "@" + digest.String(), Platform: model.Platform{OS: "linux", Architecture: "amd64"}}
}

// scan catalogs an image in a child process of its own.
func scan(t *testing.T, program, directory string, timeout time.Duration, key model.ImageKey) model.Outcome {
	t.Helper()
	ended := make(chan struct{}, 1)
	p := &scanner.InProcess{
		Executable: program, Directory: directory, Journal: t.TempDir(), Timeout: timeout, MaxMemory: 1 << 30, Log: logr.Discard(),
		Ended:  func() { ended <- struct{}{} },
		Ingest: func(context.Context, model.ImageKey, string) error { return nil },
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = p.Run(ctx) })
	for p.Start(ctx, types.NamespacedName{}, scanjob.Request{Name: "attempt", Key: key}) != nil {
		runtime.Gosched() // Run has not begun
	}
	<-ended
	cancel()
	running.Wait()
	attempts, err := p.Attempts(t.Context())
	if err != nil {
		t.Error(err)
	}
	return attempts["attempt"].Outcome
}

// Images that kill the process that scans them, or never let it end. The operator is told why, and scans other images meanwhile.
func TestHostileProcesses(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sound := pushed(t, host, imageWith(t, map[string]string{"var/lib/dpkg/status": "Package: openssl\nStatus: install ok installed\nVersion: 1\n\n"}))
	for name, test := range map[string]struct {
		path, content string
		timeout       time.Duration
		reason        model.Reason
	}{
		"RPM, value beyond its page": {"var/lib/rpm/Packages", berkeleyDB(512, 0xfff0, 7), patience, model.ReasonCatalogFailed},
		"RPM, page of no kind":       {"var/lib/rpm/Packages", berkeleyDB(512, 100, 0), 2 * time.Second, model.ReasonDeadlineExceeded},
		"RPM, pages without an end":  {"var/lib/rpm/Packages", berkeleyDB(64<<10, 100, 7), patience, model.ReasonOutOfMemory},
		"PHP, nested":                {"usr/share/php/.registry/evil.reg", strings.Repeat("a:1:{i:0;", 100), 2 * time.Second, model.ReasonDeadlineExceeded},
		"YAML, the same key":         {"snap/manifest.yaml", strings.Repeat("a: b\n", 20_000), patience, model.ReasonOutOfMemory},
	} {
		t.Run(name, func(t *testing.T) {
			directory := t.TempDir()
			neighbor := make(chan model.Outcome, 1)
			go func() { neighbor <- scan(t, program, directory, patience, sound) }()
			key := pushed(t, host, imageWith(t, map[string]string{test.path: test.content}))
			outcome := scan(t, program, directory, test.timeout, key)
			t.Logf("%s: %.300s", outcome.Reason, outcome.Message)
			if outcome.Reason != test.reason || len(outcome.Message) > 20<<10 {
				t.Errorf("got %q: %.300s, want %s", outcome.Reason, outcome.Message, test.reason)
			}
			var used, limit int64
			if n, _ := fmt.Sscanf(outcome.Message, "analyzing the image took %d bytes of memory, more than the limit of %d", &used, &limit); n == 2 && used > 2*limit {
				t.Errorf("the process took %d bytes of memory", used)
			}
			if other := <-neighbor; !other.Succeeded() {
				t.Errorf("the other image: %+v", other)
			}
			if left, err := os.ReadDir(directory); err != nil || len(left) != 0 {
				t.Errorf("left behind: %v (%v)", left, err)
			}
		})
	}
}
