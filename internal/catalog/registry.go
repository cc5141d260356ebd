package catalog

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

const (
	// maxAttempts bounds how often one request to a registry is made when it fails in passing.
	maxAttempts = 4
	// maxRetryAfter is the longest wait that a registry may ask for; a longer one ends the attempt.
	maxRetryAfter = 30 * time.Second
	// maxErrorBytes bounds what is read of a refusal, maxQuotedBytes what is shown of it.
	maxErrorBytes  = 64 << 10
	maxQuotedBytes = 300
)

// registryClient talks to one repository with one credential.
type registryClient struct {
	http       *http.Client
	rules      hostRules
	repository name.Repository
	credential credential
	// scheme is "https", or "http" once a registry that may turned out to speak nothing else.
	scheme string
	// authorization is the header that the last challenge led to.
	authorization string
	// sleep waits, or returns the context's error.
	sleep func(context.Context, time.Duration) error
}

// statusError is an answer other than what was asked for.
type statusError struct {
	status     int
	message    string
	retryAfter time.Duration
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("the registry responded with %d %s", e.status, http.StatusText(e.status))
	if e.message != "" {
		text += ": " + e.message
	}
	return text
}

func sleepContext(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// get asks for /v2/<repository>/<path> and returns the answer when it is 200 OK. The caller closes the body.
func (c *registryClient) get(ctx context.Context, path string) (response *http.Response, err error) {
	err = c.try(ctx, path, func() error {
		response, err = c.getOnce(ctx, path, "") //nolint:bodyclose // the caller of get closes it
		return err
	})
	return response, err
}

// read gets a document of at most limit bytes.
func (c *registryClient) read(ctx context.Context, path, accept string, limit int64) (content []byte, header http.Header, err error) {
	err = c.try(ctx, path, func() error {
		response, err := c.getOnce(ctx, path, accept)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		header = response.Header
		if content, err = io.ReadAll(io.LimitReader(response.Body, limit+1)); err != nil {
			return err
		}
		if int64(len(content)) > limit {
			return failf(model.ReasonImageTooLarge, "the response is larger than the limit of %d bytes", limit)
		}
		return nil
	})
	return content, header, err
}

// try repeats what may succeed the next time, and explains what did not.
func (c *registryClient) try(ctx context.Context, path string, do func() error) error {
	var err error
	for attempt := range maxAttempts {
		if err = do(); err == nil {
			return nil
		}
		wait, again := retryDelay(err, attempt)
		if !again || ctx.Err() != nil || attempt == maxAttempts-1 {
			break
		}
		if sleepErr := c.sleep(ctx, wait); sleepErr != nil {
			break
		}
	}
	return c.explain(ctx, path, err)
}

func (c *registryClient) getOnce(ctx context.Context, path, accept string) (*http.Response, error) {
	response, err := c.send(ctx, path, accept)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusUnauthorized {
		challenges := response.Header.Values("WWW-Authenticate")
		refusal := c.refusal(response)
		if err := c.authorize(ctx, challenges, refusal); err != nil {
			return nil, err
		}
		if response, err = c.send(ctx, path, accept); err != nil {
			return nil, err
		}
	}
	if response.StatusCode != http.StatusOK {
		return nil, c.refusal(response)
	}
	return response, nil
}

func (c *registryClient) send(ctx context.Context, path, accept string) (*http.Response, error) {
	response, err := c.sendWith(ctx, c.scheme, path, accept)
	if err == nil || c.scheme == "http" || ctx.Err() != nil || !c.rules.plainHTTPAllowed(c.rules.registry) || isCertificateError(err) {
		return response, err
	}
	plain, plainErr := c.sendWith(ctx, "http", path, accept)
	if plainErr != nil {
		return nil, plainErr
	}
	c.scheme = "http"
	return plain, nil
}

func (c *registryClient) sendWith(ctx context.Context, scheme, path, accept string) (*http.Response, error) {
	url := scheme + "://" + c.rules.registry + "/v2/" + c.repository.RepositoryStr() + "/" + path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", userAgent)
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	if c.authorization != "" {
		request.Header.Set("Authorization", c.authorization)
	}
	response, err := c.http.Do(request)
	return response, withoutURL(err)
}

const userAgent = "scanner-operator"

// refusal reads what the registry says about a status, and closes the body.
func (c *registryClient) refusal(response *http.Response) *statusError {
	defer func() { _ = response.Body.Close() }()
	result := &statusError{status: response.StatusCode, retryAfter: parseRetryAfter(response.Header.Get("Retry-After"))}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxErrorBytes))
	if err != nil {
		return result
	}
	var document struct {
		Errors []struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"errors"`
	}
	if json.Unmarshal(body, &document) == nil && len(document.Errors) > 0 {
		result.message = c.quote(document.Errors[0].Code + ": " + document.Errors[0].Message)
	}
	return result
}

// quote makes untrusted text safe to show: short, one line, and without the secrets that were sent to its author.
func (c *registryClient) quote(text string) string {
	for _, secret := range append(c.credential.secrets(), bearerToken(c.authorization)) {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "[redacted]")
		}
	}
	return quoteText(text, maxQuotedBytes)
}

func bearerToken(authorization string) string {
	_, token, _ := strings.Cut(authorization, " ")
	return token
}

func quoteText(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	return strings.TrimSpace(truncate.Ellipsis(text, limit))
}

// retryDelay says whether a failure may pass, and how long to wait: 0.5 s, 1 s, 2 s … with up to half as much again,
// or what the registry asks for.
func retryDelay(err error, attempt int) (time.Duration, bool) {
	wait := 500 * time.Millisecond << attempt
	wait += rand.N(wait / 2)
	if status, ok := errors.AsType[*statusError](err); ok {
		switch {
		case status.status == http.StatusTooManyRequests, status.status == http.StatusServiceUnavailable:
			if status.retryAfter > maxRetryAfter {
				return 0, false
			}
			return max(wait, status.retryAfter), true
		case status.status >= 500 && status.status != http.StatusNotImplemented, status.status == http.StatusRequestTimeout:
			return wait, true
		}
		return 0, false
	}
	if _, ok := errors.AsType[*Error](err); ok || isCertificateError(err) {
		return 0, false
	}
	return wait, true
}

// parseRetryAfter reads the header's seconds or date; 0 when there is none.
func parseRetryAfter(value string) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// explain turns a failure into one with a reason and the name of what was asked for.
func (c *registryClient) explain(ctx context.Context, path string, err error) error {
	// A registry chooses the query of the next page of tags.
	path, _, _ = strings.Cut(path, "?")
	what := fmt.Sprintf("get %s of %s", path, c.repository.Name())
	if known, ok := errors.AsType[*Error](err); ok && ctx.Err() == nil {
		return &Error{Reason: known.Reason, Err: fmt.Errorf("%s: %w", what, known.Err)}
	}
	status, ok := errors.AsType[*statusError](err)
	switch {
	case ctx.Err() != nil:
		return interrupted(ctx, fmt.Errorf("%s: %w", what, err))
	case isCertificateError(err):
		return failf(model.ReasonRegistryUnavailable, "%s: the certificate of the registry is not trusted; configure its certificate authority: %w", what, err)
	case !ok:
		return failf(model.ReasonRegistryUnavailable, "%s: %w", what, err)
	case status.status == http.StatusUnauthorized, status.status == http.StatusForbidden:
		if c.credential.anonymous() {
			return failf(model.ReasonImagePullDenied, "%s without credentials: %w", what, err)
		}
		return failf(model.ReasonImagePullDenied, "%s as %q: %w", what, c.credential.username, err)
	case status.status == http.StatusNotFound:
		return failf(model.ReasonImageNotFound, "%s: %w", what, err)
	case status.status == http.StatusTooManyRequests:
		return failf(model.ReasonRegistryRateLimited, "%s: %w", what, err)
	}
	return failf(model.ReasonRegistryUnavailable, "%s: %w", what, err)
}

func isCertificateError(err error) bool {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return true
	}
	_, ok := errors.AsType[x509.CertificateInvalidError](err)
	return ok
}
