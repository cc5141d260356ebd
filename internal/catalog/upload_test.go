package catalog

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

func uploadRequest(t *testing.T, url string) UploadRequest {
	t.Helper()
	return UploadRequest{
		URL: url + "/", TokenFile: write(t, "token", []byte(secret+"\n")), ImageID: "registry.example:5000/team/app@sha256:abc",
		Platform: model.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"}, SBOM: []byte(`{"artifacts":[]}`), sleep: noSleep,
	}
}

func TestUpload(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		decoder, err := zstd.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		defer decoder.Close()
		body, err := io.ReadAll(decoder)
		if err != nil {
			t.Error(err)
		}
		got := []string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("Content-Type"), r.Header.Get("Content-Encoding"), r.Header.Get("Authorization"), string(body)}
		want := []string{
			"PUT", "/api/v1/images/registry.example:5000%2Fteam%2Fapp@sha256:abc/sbom", "platform=linux/arm64/v8",
			"application/vnd.syft+json", "zstd", "Bearer " + secret, `{"artifacts":[]}`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("request (-want +got):\n%s", diff)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	if err := Upload(t.Context(), uploadRequest(t, server.URL)); err != nil {
		t.Fatal(err)
	}
}

// TestUploadURL: only a partial SBOM says how many files are missing, and only one without layers why, so that earlier versions of the operator accept the others.
func TestUploadURL(t *testing.T) {
	request := uploadRequest(t, "https://operator")
	for unreadable, want := range map[int64]string{0: "", 7: "&unreadable=7"} {
		request.Unreadable = unreadable
		got, err := uploadURL(request)
		if err != nil || !strings.HasSuffix(got, "/sbom?platform=linux/arm64/v8"+want) {
			t.Errorf("%d unreadable files: %q, %v", unreadable, got, err)
		}
	}
	request.Unreadable, request.LayersUnknown = 0, "denied: a&b=c"
	if got, err := uploadURL(request); err != nil || !strings.HasSuffix(got, "/sbom?platform=linux/arm64/v8&layersUnknown=denied%3A+a%26b%3Dc") {
		t.Errorf("unknown layers: %q, %v", got, err)
	}
}

func TestUploadRetries(t *testing.T) {
	var requests int
	var waits []time.Duration
	request := uploadRequest(t, "")
	tokenFile := request.TokenFile
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch requests++; requests {
		case 1:
			w.Header().Set("Retry-After", "9")
			w.WriteHeader(http.StatusTooManyRequests)
		case 2:
			w.Header().Set("Retry-After", "86400")
			w.WriteHeader(http.StatusServiceUnavailable)
		case 3:
			// The kubelet renews the token meanwhile.
			if err := os.WriteFile(tokenFile, []byte("renewed"), 0o600); err != nil {
				t.Error(err)
			}
			panic(http.ErrAbortHandler)
		default:
			if r.Header.Get("Authorization") != "Bearer renewed" {
				t.Errorf("sent %q", r.Header.Get("Authorization"))
			}
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	defer server.Close()
	request.URL = server.URL
	request.sleep = func(_ context.Context, d time.Duration) error {
		waits = append(waits, d)
		return nil
	}
	if err := Upload(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if requests != 4 || len(waits) != 3 || waits[0] != 9*time.Second || waits[1] != maxUploadWait || waits[2] < 2*time.Second || waits[2] > 3*time.Second {
		t.Errorf("%d requests with the waits %v", requests, waits)
	}
}

// TestUploadReachesAnother meets others at the operator's address, as while it starts again. An answer of theirs is no refusal, and no
// success; and whoever answered is not asked again by the same connection.
func TestUploadReachesAnother(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusCreated, http.StatusFound, http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound, http.StatusNotImplemented} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			var first string
			requests := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if requests++; requests == 1 {
					first = r.RemoteAddr
					w.Header().Set("Content-Type", "text/html; charset=utf-8")
					w.WriteHeader(status)
					return
				}
				if r.RemoteAddr == first {
					t.Error("the connection is used again")
				}
				w.WriteHeader(http.StatusNoContent)
			}))
			defer server.Close()
			if err := Upload(t.Context(), uploadRequest(t, server.URL)); err != nil {
				t.Fatal(err)
			}
			if requests != 2 {
				t.Errorf("%d requests, want 2", requests)
			}
		})
	}
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	wantFailure(t, Upload(t.Context(), uploadRequest(t, server.URL)), model.ReasonUploadFailed, "it responded with 404 Not Found")
	if requests != uploadAttempts {
		t.Errorf("%d requests, want %d", requests, uploadAttempts)
	}
}

func TestUploadRefused(t *testing.T) {
	for _, test := range []struct{ status, requests int }{
		{http.StatusBadRequest, 1}, {http.StatusUnauthorized, 1}, {http.StatusForbidden, 1}, {http.StatusNotFound, 1}, {http.StatusConflict, 1},
		{http.StatusRequestEntityTooLarge, 1}, {http.StatusInsufficientStorage, 1}, {http.StatusTemporaryRedirect, 1}, {http.StatusInternalServerError, uploadAttempts},
	} {
		t.Run(fmt.Sprint(test.status), func(t *testing.T) {
			requests := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests++
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "application/problem+json")
				w.Header().Set("Location", "http://elsewhere.example/")
				w.WriteHeader(test.status)
				_, _ = fmt.Fprintf(w, `{"title":"Refused","detail":"more than the limit of 5 bytes, %s","padding":"`, r.Header.Get("Authorization"))
				_, _ = io.WriteString(w, `"}`+strings.Repeat(" ", 2*maxProblemBytes))
			}))
			defer server.Close()
			err := Upload(t.Context(), uploadRequest(t, server.URL))
			wantFailure(t, err, model.ReasonUploadFailed, fmt.Sprint(test.status))
			wantFailure(t, err, model.ReasonUploadFailed, "more than the limit of 5 bytes")
			if requests != test.requests {
				t.Errorf("%d requests, want %d", requests, test.requests)
			}
		})
	}
}

func TestUploadProblems(t *testing.T) {
	for name, change := range map[string]func(*UploadRequest){
		"token file missing": func(r *UploadRequest) { r.TokenFile = "/does/not/exist" },
		"token of two lines": func(r *UploadRequest) { r.TokenFile = write(t, "token", []byte("a\nb")) },
		"not a URL":          func(r *UploadRequest) { r.URL = "operator:8000" },
		"URL with password":  func(r *UploadRequest) { r.URL = "https://u:" + secret + "@operator" },
		"no platform":        func(r *UploadRequest) { r.Platform = model.Platform{} },
		"CAs":                func(r *UploadRequest) { r.CAs = "none" },
		"CA file":            func(r *UploadRequest) { r.CAFile = write(t, "ca", []byte("none")) },
		"nobody listens":     func(r *UploadRequest) { r.URL = "http://127.0.0.1:1" },
	} {
		t.Run(name, func(t *testing.T) {
			request := uploadRequest(t, "http://127.0.0.1:1")
			change(&request)
			wantFailure(t, Upload(t.Context(), request), model.ReasonUploadFailed, "")
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantFailure(t, Upload(ctx, uploadRequest(t, "http://127.0.0.1:1")), model.ReasonDeadlineExceeded, "canceled")
}

func TestUploadTrustsTheCA(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer server.Close()
	server.Config.ErrorLog = nil
	request := uploadRequest(t, server.URL)
	wantFailure(t, Upload(t.Context(), request), model.ReasonUploadFailed, "certificate")
	request.CAFile = write(t, "ca.pem", pemOf(server.Certificate()))
	if err := Upload(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	request.CAFile, request.CAs = "", string(pemOf(server.Certificate()))
	if err := Upload(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	other := request
	other.URL = strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	wantFailure(t, Upload(t.Context(), other), model.ReasonUploadFailed, "not localhost")
	old := httptest.NewUnstartedServer(server.Config.Handler)
	old.Config.ErrorLog = log.New(io.Discard, "", 0)
	old.TLS = &tls.Config{MaxVersion: tls.VersionTLS12}
	old.StartTLS()
	defer old.Close()
	request.URL = old.URL
	wantFailure(t, Upload(t.Context(), request), model.ReasonUploadFailed, "protocol version")
}
