package setup

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/scanner-operator/scanner-operator/internal/feed"
	"github.com/scanner-operator/scanner-operator/internal/matching"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/live"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
)

const (
	// processEnv names the data directory of a server in a process of its own.
	processEnv = "SCANNER_OPERATOR_TEST_SERVER"
	// processPatience bounds every wait for it.
	processPatience = 5 * time.Minute
	// processImages is how many images it waits for SBOMs of.
	processImages = 8
	// goodToken is the token that it accepts.
	goodToken = "good"
)

func processImage(i int) string { return fmt.Sprintf("r.example/app@sha256:%064x", i) }

// anyone reviews tokens and permissions: goodToken may do everything.
type anyone struct{}

func (anyone) AuthorizeUpload(_ context.Context, token string, _ model.ImageKey) (store.Delivery, error) {
	if token != goodToken {
		return store.Delivery{}, errors.New("another token")
	}
	return store.Delivery{}, nil
}

type (
	tokens struct{}
	access struct{}
)

func (tokens) Create(_ context.Context, review *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	review.Status.Authenticated, review.Status.Audiences = review.Spec.Token == goodToken, review.Spec.Audiences
	review.Status.User.Username = "tester"
	return review, nil
}

func (access) Create(_ context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	review.Status.Allowed = true
	return review, nil
}

// TestHelperServer is no test: it is the server of serverProcess. It serves until its standard input ends.
func TestHelperServer(t *testing.T) {
	dir := os.Getenv(processEnv)
	if dir == "" {
		t.Skip("runs in a process of its own")
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := LimitMemory(CatalogJob)
	must(err)
	store, err := sqlstore.Open(ctx, sqlstore.Config{Type: "sqlite", DSN: filepath.Join(dir, "test.db"), Log: logr.Discard(), Clock: clock.RealClock{}})
	must(err)
	var keys []model.ImageKey
	for i := range processImages {
		keys = append(keys, model.ImageKey{ImageID: processImage(i), Platform: model.Platform{OS: "linux", Architecture: "amd64"}})
	}
	_, err = store.WantImages(ctx, keys)
	must(err)
	matcher := matching.New(store, nil, nil, clock.RealClock{}, logr.Discard())
	matcher.LimitDecoding(memory() / decodeShare)
	hub := feed.New(store, feed.Config{Log: logr.Discard()})
	s, err := server.New(server.Config{
		BindAddress: "127.0.0.1:0", Auth: auth.Kubernetes, Reviews: auth.Reviews{Tokens: tokens{}, Access: access{}}, Uploads: anyone{},
		Store: store, Ingest: ingester{matcher}, Registerer: prometheus.NewRegistry(), Log: logr.Discard(), Limits: limits(Options{}),
		Feed: func(ctx context.Context) live.Subscription { return hub.Subscribe(ctx, feed.Filter{}) },
	})
	must(err)
	go func() {
		<-s.Ready()
		fmt.Println("http://" + s.Addr())
	}()
	must(s.Start(ctx))
	must(store.Close())
}

// serverProcess is a server in a process of its own, with the limits of the operator.
type serverProcess struct {
	t    *testing.T
	base string
	pid  int
}

// startServer starts one that is told a memory limit of its container, in bytes.
func startServer(t *testing.T, memory int64) *serverProcess {
	t.Helper()
	command := exec.Command(os.Args[0], "-test.run=^TestHelperServer$", "-test.timeout=10m")
	command.Env = append(os.Environ(), processEnv+"="+t.TempDir(), "KUBEBUILDER_ASSETS=", fmt.Sprintf("%s=%d", memoryLimitEnv, memory))
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	t.Cleanup(func() {
		_ = input.Close()
		var rest []string
		for lines.Scan() {
			rest = append(rest, lines.Text())
		}
		if err := command.Wait(); err != nil {
			t.Errorf("the server ended with %v: %s", err, strings.Join(rest, "\n"))
		}
	})
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "http://") {
		t.Fatalf("the server did not start: %q", lines.Text())
	}
	return &serverProcess{t: t, base: lines.Text(), pid: command.Process.Pid}
}

// peak is the most memory that the process had at a time, in bytes.
func (p *serverProcess) peak() int64 {
	p.t.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid), "status"))
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	value, _, _ := strings.Cut(strings.TrimSpace(rest), " kB")
	kilobytes, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return kilobytes << 10
}

// put sends a body, as a scan Job does: again when it is asked to. It returns the last answer, and how often it was asked.
func (p *serverProcess) put(ctx context.Context, target, contentType, encoding string, body []byte) (status int, answer string, asked int, err error) {
	for ; ; asked++ {
		request, err := http.NewRequestWithContext(ctx, http.MethodPut, p.base+target, bytes.NewReader(body))
		if err != nil {
			return 0, "", asked, err
		}
		request.Header.Set("Authorization", "Bearer "+goodToken)
		request.Header.Set("Content-Type", contentType)
		if encoding != "" {
			request.Header.Set("Content-Encoding", encoding)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0, "", asked, err
		}
		content, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusServiceUnavailable {
			return response.StatusCode, string(content), asked, err
		}
		seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
		if err != nil {
			return response.StatusCode, string(content), asked, fmt.Errorf("the header Retry-After: %w", err)
		}
		select {
		case <-time.After(time.Duration(seconds) * time.Second):
		case <-ctx.Done():
			return response.StatusCode, string(content), asked, ctx.Err()
		}
	}
}

// putSBOM delivers a Syft document about an image of the server.
func (p *serverProcess) putSBOM(ctx context.Context, image int, document []byte) (status int, answer string, asked int, err error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return 0, "", 0, err
	}
	compressed := encoder.EncodeAll(document, nil)
	_ = encoder.Close()
	target := "/api/v1/images/" + url.PathEscape(processImage(image)) + "/sbom?platform=linux/amd64"
	return p.put(ctx, target, "application/vnd.syft+json", "zstd", compressed)
}
