package catalog

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// MediaTypeNewerTags is the media type of a candidates.Report.
const MediaTypeNewerTags = "application/vnd.scanner-operator.newer-tags+json"

const (
	// uploadAttempts bounds how often an SBOM is offered; together with the waits, about a minute of trouble is sat out.
	uploadAttempts = 8
	// maxUploadWait bounds the wait between two attempts, whatever the operator asks for.
	maxUploadWait = 30 * time.Second
	// uploadTimeout bounds one attempt.
	uploadTimeout = 2 * time.Minute
	// maxTokenFileBytes bounds the token file; a projected token has about 1 KiB.
	maxTokenFileBytes = 64 << 10
	// maxProblemBytes bounds what is read of an answer.
	maxProblemBytes = 64 << 10
)

// UploadRequest hands an SBOM, or newer tags, to the operator.
type UploadRequest struct {
	// URL is the operator's address, http or https, such as https://scanner-operator.system.svc:8000.
	URL string
	// TokenFile holds the bearer token; read again for each attempt, since the kubelet renews it. "" sends none.
	TokenFile string
	// CAFile is a PEM file of CAs that are trusted besides the system's; CAs are further ones in PEM. Both may be "".
	CAFile   string
	CAs      string
	ImageID  string
	Platform model.Platform
	// Unreadable is Stats.Unreadable of the scan.
	Unreadable int64
	// LayersUnknown is that of the Result.
	LayersUnknown string
	// SBOM is syft-json.
	SBOM []byte
	// NewerTags is a candidates.Report in JSON, which is uploaded instead of an SBOM if it is there.
	NewerTags []byte

	// sleep replaces the wait in tests.
	sleep func(context.Context, time.Duration) error
}

// Upload offers what the request has until it is accepted, refused for good, or the context ends. The error is always an *Error;
// it holds what the operator said, and never the token.
func Upload(ctx context.Context, request UploadRequest) error {
	if err := upload(ctx, request); err != nil {
		return typed(ctx, err, model.ReasonUploadFailed)
	}
	return nil
}

func upload(ctx context.Context, request UploadRequest) error {
	target, err := uploadURL(request)
	if err != nil {
		return err
	}
	body, err := request.body()
	if err != nil {
		return err
	}
	client, err := uploadClient(request)
	if err != nil {
		return err
	}
	sleep := request.sleep
	if sleep == nil {
		sleep = sleepContext
	}
	for attempt := range uploadAttempts {
		var wait time.Duration
		var again bool
		wait, again, err = uploadOnce(ctx, client, target, request.TokenFile, body)
		if err == nil {
			return nil
		}
		if !again || attempt == uploadAttempts-1 {
			break
		}
		backoff := 500 * time.Millisecond << attempt
		wait = min(maxUploadWait, max(wait, backoff+rand.N(backoff/2)))
		if sleepErr := sleep(ctx, wait); sleepErr != nil {
			break
		}
	}
	return fmt.Errorf("upload the %s of %s to %s: %w", body.what, request.ImageID, hostOf(target), err)
}

// uploadBody is what is uploaded.
type uploadBody struct {
	what, mediaType, encoding string
	content                   []byte
}

func (r *UploadRequest) body() (uploadBody, error) {
	if r.NewerTags != nil {
		return uploadBody{what: "newer tags", mediaType: MediaTypeNewerTags, content: r.NewerTags}, nil
	}
	content, err := CompressSBOM(r.SBOM)
	return uploadBody{what: "SBOM", mediaType: "application/vnd.syft+json", encoding: "zstd", content: content}, err
}

func uploadURL(request UploadRequest) (string, error) {
	base, err := url.Parse(request.URL)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") || base.User != nil {
		return "", failf(model.ReasonUploadFailed, "the upload URL must be an absolute http or https URL without credentials")
	}
	if request.Platform == (model.Platform{}) {
		return "", failf(model.ReasonUploadFailed, "the platform of %s is unknown; specify it", request.ImageID)
	}
	kind := "sbom"
	if request.NewerTags != nil {
		kind = "newer-tags"
	}
	target := strings.TrimRight(request.URL, "/") + "/api/v1/images/" + url.PathEscape(request.ImageID) + "/" + kind + "?platform=" + request.Platform.String()
	if request.Unreadable > 0 {
		target += "&unreadable=" + strconv.FormatInt(request.Unreadable, 10)
	}
	if request.LayersUnknown != "" {
		target += "&layersUnknown=" + url.QueryEscape(request.LayersUnknown)
	}
	return target, nil
}

func hostOf(target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return "the operator"
	}
	return u.Host
}

// CompressSBOM compresses an SBOM with zstd, as the operator keeps it.
func CompressSBOM(sbom []byte) ([]byte, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("compress the SBOM: %w", err)
	}
	defer func() { _ = encoder.Close() }()
	return encoder.EncodeAll(sbom, nil), nil
}

func uploadClient(upload UploadRequest) (*http.Client, error) {
	roots, err := certPool(upload.CAFile)
	if err != nil {
		return nil, failf(model.ReasonUploadFailed, "create an HTTP client for the upload: %w", err)
	}
	if upload.CAs != "" {
		if roots == nil {
			roots = systemPool()
		}
		if !roots.AppendCertsFromPEM([]byte(upload.CAs)) {
			return nil, failf(model.ReasonUploadFailed, "create an HTTP client for the upload: the given CAs contain no PEM certificate")
		}
	}
	return &http.Client{
		Timeout: uploadTimeout,
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13},
			TLSHandshakeTimeout:    dialTimeout,
			ResponseHeaderTimeout:  responseHeaderTimeout,
			MaxResponseHeaderBytes: 64 << 10,
			// Whoever answered need not be the operator: the next attempt connects anew.
			DisableKeepAlives: true,
		},
		// The operator does not redirect, and the token is for it alone.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// uploadOnce makes one attempt. It says whether another is worth it, and the wait that the operator asks for.
func uploadOnce(ctx context.Context, client *http.Client, target, tokenFile string, body uploadBody) (wait time.Duration, again bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, target, bytes.NewReader(body.content))
	if err != nil {
		return 0, false, errors.New("the upload URL is invalid")
	}
	request.Header.Set("Content-Type", body.mediaType)
	if body.encoding != "" {
		request.Header.Set("Content-Encoding", body.encoding)
	}
	request.Header.Set("User-Agent", userAgent)
	if tokenFile != "" {
		token, err := readToken(tokenFile)
		if err != nil {
			return 0, false, err
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, !isCertificateError(err) && ctx.Err() == nil, withoutURL(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusNoContent {
		return 0, false, nil
	}
	wait = parseRetryAfter(response.Header.Get("Retry-After"))
	answer := fmt.Sprintf("responded with %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	if mediaType, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err != nil || mediaType != "application/problem+json" {
		// While the operator starts again, its address may lead to a gateway or to the proxy of a mesh, which know nothing of it.
		return wait, true, fmt.Errorf("the response is not from the operator, but from a proxy or gateway: it %s", answer)
	}
	again = response.StatusCode == http.StatusTooManyRequests ||
		(response.StatusCode >= 500 && response.StatusCode != http.StatusInsufficientStorage && response.StatusCode != http.StatusNotImplemented)
	detail := problemDetail(response, bearerToken(request.Header.Get("Authorization")))
	return wait, again, fmt.Errorf("the operator %s%s", answer, detail)
}

// problemDetail reads the detail, or else the title, of a problem document (RFC 9457).
func problemDetail(response *http.Response, token string) string {
	body, err := io.ReadAll(io.LimitReader(response.Body, maxProblemBytes))
	if err != nil {
		return ""
	}
	var problem struct {
		Title  string `json:"title"`
		Detail string `json:"detail"`
	}
	if json.Unmarshal(body, &problem) != nil {
		return ""
	}
	text := problem.Detail
	if text == "" {
		text = problem.Title
	}
	if text == "" {
		return ""
	}
	if token != "" {
		text = strings.ReplaceAll(text, token, "[redacted]")
	}
	return ": " + quoteText(text, 1000)
}

func readToken(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", failf(model.ReasonUploadFailed, "read the token: %w", err)
	}
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(io.LimitReader(f, maxTokenFileBytes))
	if err != nil {
		return "", failf(model.ReasonUploadFailed, "read the token file %s: %w", file, err)
	}
	token := strings.TrimSpace(string(content))
	if token == "" || strings.ContainsAny(token, " \r\n\t") {
		return "", failf(model.ReasonUploadFailed, "the token file %s must contain one token", file)
	}
	return token, nil
}
