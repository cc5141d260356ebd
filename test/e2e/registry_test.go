//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// registry is a real registry in this process, at an address that pods reach.
type registry struct {
	host        string
	credentials string
	server      *http.Server

	mu   sync.Mutex
	gone map[string]bool
	held map[string]*hold
	// blobBytes is how much of blobs was sent.
	blobBytes int64
}

func newRegistry(address string, port int, credentials string) (*registry, error) {
	listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", address, port))
	if err != nil {
		return nil, fmt.Errorf("start a registry: %w", err)
	}
	r := &registry{host: listener.Addr().String(), credentials: credentials, gone: map[string]bool{}, held: map[string]*hold{}}
	images := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	r.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		user, password, _ := req.BasicAuth()
		if credentials != "" && user+":"+password != credentials {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`, http.StatusUnauthorized)
			return
		}
		if r.isGone(req.URL.Path) {
			http.Error(w, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`, http.StatusNotFound)
			return
		}
		images.ServeHTTP(r.hindered(r.counted(w, req), req), req)
	})}
	go func() { _ = r.server.Serve(listener) }()
	return r, nil
}

// listen serves the registry at a free port of another address too, with TLS if there is a certificate.
func (r *registry) listen(address string, certificate *tls.Certificate) (host string, err error) {
	listener, err := net.Listen("tcp", address+":0")
	if err != nil {
		return "", fmt.Errorf("serve a registry at another address: %w", err)
	}
	host = listener.Addr().String()
	if certificate != nil {
		listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS12})
	}
	go func() { _ = r.server.Serve(listener) }()
	return host, nil
}

// counted is w, or an answer with a blob that is counted.
func (r *registry) counted(w http.ResponseWriter, req *http.Request) http.ResponseWriter {
	if req.Method == http.MethodGet && strings.Contains(req.URL.Path, "/blobs/") {
		return &countedAnswer{w, r}
	}
	return w
}

type countedAnswer struct {
	http.ResponseWriter
	registry *registry
}

func (a *countedAnswer) Write(p []byte) (int, error) {
	a.registry.mu.Lock()
	a.registry.blobBytes += int64(len(p))
	a.registry.mu.Unlock()
	return a.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (a *countedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// sent returns how many bytes of blobs the registry has sent.
func (r *registry) sent() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.blobBytes
}

func (r *registry) close() { _ = r.server.Close() }

// remove makes a repository disappear.
func (r *registry) remove(repository string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone[repository] = true
}

func (r *registry) isGone(path string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for repository := range r.gone {
		if strings.HasPrefix(path, "/v2/"+repository+"/") {
			return true
		}
	}
	return false
}

// push puts a sample into a repository and returns its reference by tag and its image ID as the kubelet reports it.
func (r *registry) push(t *testing.T, sample, repository string) (reference, imageID string) {
	t.Helper()
	return r.pushImage(t, sampleImage(t, sample), repository, "1")
}

func sampleImage(t *testing.T, sample string) v1.Image {
	t.Helper()
	image, ok := e2e.samples[sample]
	if !ok {
		t.Fatalf("there is no sample %s", sample)
	}
	return image.Image
}

func (r *registry) pushImage(t *testing.T, image v1.Image, repository, version string) (reference, imageID string) {
	t.Helper()
	// The runtime knows an image by its content and reports one of the repositories that it has the content from: every
	// repository gets content of its own.
	labelled := labelled(t, image, repository+":"+version)
	tag, err := name.NewTag(r.host+"/"+repository+":"+version, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	auth := authn.Anonymous
	if user, password, ok := strings.Cut(r.credentials, ":"); ok {
		auth = &authn.Basic{Username: user, Password: password}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := remote.Write(tag, labelled, remote.WithContext(ctx), remote.WithAuth(auth)); err != nil {
		t.Fatalf("push %s: %v", tag, err)
	}
	digest, err := labelled.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return tag.Name(), tag.Context().Name() + "@" + digest.String()
}

func labelled(t *testing.T, image v1.Image, value string) v1.Image {
	t.Helper()
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config := *file.Config.DeepCopy()
	if config.Labels == nil {
		config.Labels = map[string]string{}
	}
	config.Labels["e2e"] = value
	changed, err := mutate.Config(image, config)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}
