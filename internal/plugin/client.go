package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

const (
	// maxBody bounds a response in bytes, once decompressed; maxList those of all pages of a list.
	maxBody = 64 << 20
	maxList = 256 << 20
	// maxPage is the number of rows on a page.
	maxPage = 1000
	// maxMessage bounds a message of a server in bytes.
	maxMessage = 2000
	// maxAttempts bounds how often a request is sent that the server asks to send again, maxRetryAfter how long it may ask to wait.
	maxAttempts   = 4
	maxRetryAfter = 30 * time.Second
)

// client sends requests to the operator.
type client struct {
	http *http.Client
	// base is the URL of the operator, without a slash at the end; proxied says that the service proxy of the API server is there.
	base    string
	proxied bool
	// tokens go into the header; nil if the HTTP client authenticates by itself, or nobody does.
	tokens *accountTokens
	header string
	// hint is what a caller can do whom the operator does not know.
	hint string
	now  func() time.Time
}

// responseError is a response with another status than 200 and 204.
type responseError struct {
	status int
	// server says who responded.
	server, message string
	// body is the problem document, for those who read more of it.
	body []byte
}

func (e *responseError) Error() string {
	return fmt.Sprintf("%s: %s (status %d)", e.server, e.message, e.status)
}

// get reads the JSON at a path, given by its segments, into a value.
func (c *client) get(ctx context.Context, into any, query url.Values, segments ...string) error {
	body, err := c.body(ctx, query, segments...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("the response to %s is not what was expected: %w", strings.Join(segments, "/"), err)
	}
	return nil
}

// body returns the response to a request that reads.
func (c *client) body(ctx context.Context, query url.Values, segments ...string) ([]byte, error) {
	return c.do(ctx, call{method: http.MethodGet, query: query, segments: segments})
}

// call is a request, which may be sent more than once.
type call struct {
	method   string
	query    url.Values
	segments []string
	// content is the body in JSON, nil for none.
	content []byte
}

// do returns the response to a request, which is repeated if the server asks for it.
func (c *client) do(ctx context.Context, what call) ([]byte, error) {
	for attempt := 1; ; attempt++ {
		body, after, err := c.send(ctx, what)
		if err == nil || after == 0 || attempt == maxAttempts {
			return body, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(after):
		}
	}
}

// send sends a request once. If the server asks to send it again, it returns after which time.
func (c *client) send(ctx context.Context, what call) (body []byte, after time.Duration, err error) {
	address, err := c.address(what.query, what.segments...)
	if err != nil {
		return nil, 0, err
	}
	request, err := http.NewRequestWithContext(ctx, what.method, address, bytes.NewReader(what.content))
	if err != nil {
		return nil, 0, err
	}
	request.Header.Set("Accept", "application/json")
	if what.content != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.tokens != nil {
		token, err := c.tokens.get(ctx)
		if err != nil {
			return nil, 0, err
		}
		request.Header.Set(c.header, "Bearer "+token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, 0, fmt.Errorf("send a request to the operator: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	if err != nil {
		return nil, 0, fmt.Errorf("read the response of the operator: %w", err)
	}
	if len(body) > maxBody {
		return nil, 0, fmt.Errorf("the response of the operator exceeds the limit of %d bytes: use filters or a smaller --limit", maxBody)
	}
	if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusNoContent {
		return body, 0, nil
	}
	if response.StatusCode == http.StatusTooManyRequests || response.StatusCode == http.StatusServiceUnavailable {
		after = retryAfter(response)
	}
	return nil, after, c.failure(response, body)
}

// address returns the URL of a path.
func (c *client) address(query url.Values, segments ...string) (string, error) {
	var address strings.Builder
	address.WriteString(c.base)
	for _, segment := range segments {
		if segment == "" || segment == "." || segment == ".." {
			return "", fmt.Errorf("%q is not an ID", segment)
		}
		escaped := url.PathEscape(segment)
		if c.proxied {
			// The API server decodes the path; the operator undoes the second encoding.
			escaped = strings.ReplaceAll(escaped, "%2F", "%252F")
		}
		address.WriteString("/" + escaped)
	}
	if len(query) > 0 {
		address.WriteString("?" + query.Encode())
	}
	return address.String(), nil
}

// proxyVerbs are the verbs that requests through the service proxy need on services/proxy.
var proxyVerbs = map[string]string{http.MethodGet: "get", http.MethodPut: "update", http.MethodDelete: "delete"}

// failure says what a response with another status than 200 and 204 means.
func (c *client) failure(response *http.Response, body []byte) error {
	failure := &responseError{status: response.StatusCode, body: body}
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	var problem api.Problem
	var status metav1.Status
	switch {
	case media == "application/problem+json" && json.Unmarshal(body, &problem) == nil:
		failure.server, failure.message = "operator", problem.Title
		if problem.Detail != nil {
			failure.message = *problem.Detail
		}
	case json.Unmarshal(body, &status) == nil && status.Kind == "Status":
		failure.server, failure.message = "API server", status.Message
	default:
		failure.server, failure.message = "response", http.StatusText(response.StatusCode)
	}
	failure.message = printable(truncate.Ellipsis(failure.message, maxMessage))
	switch {
	case failure.status == http.StatusUnauthorized && failure.server == "operator":
		return fmt.Errorf("%w\n%s", failure, c.hint)
	case failure.status == http.StatusForbidden && failure.server == "API server":
		return fmt.Errorf("%w\nYou need the verb %q on services/proxy for the Service of the operator, "+
			"or --service-namespace and --service-name if it has another name", failure, proxyVerbs[response.Request.Method])
	}
	return failure
}

// retryAfter returns after how many seconds a server wants to be asked again, 0 if it does not say so or wants too many.
func retryAfter(response *http.Response) time.Duration {
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	after := time.Duration(seconds) * time.Second
	if err != nil || seconds < 1 || after > maxRetryAfter {
		return 0
	}
	return after
}

// rows are those of a list.
type rows[T any] struct {
	items []T
	// raw are the items as the operator sent them.
	raw []json.RawMessage
	// total is the number of rows that match, first the response that begins the list.
	total int
	first []byte
}

// list reads the pages of a list, up to limit rows.
func list[T any](ctx context.Context, c *client, limit int, query url.Values, segments ...string) (rows[T], error) {
	var all rows[T]
	read := 0
	for limit > 0 {
		query.Set("pageSize", strconv.Itoa(min(limit-len(all.items), maxPage)))
		body, err := c.body(ctx, query, segments...)
		if err != nil {
			return rows[T]{}, err
		}
		var page struct {
			Items         []json.RawMessage `json:"items"`
			Total         int               `json:"total"`
			NextPageToken string            `json:"nextPageToken"`
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return rows[T]{}, fmt.Errorf("the response to %s is not a list: %w", strings.Join(segments, "/"), err)
		}
		if read += len(body); read > maxList {
			return rows[T]{}, fmt.Errorf("the list exceeds the limit of %d bytes: use filters or a smaller --limit", maxList)
		}
		if all.first == nil {
			all.first = body
		}
		all.total = page.Total
		for _, raw := range page.Items {
			var item T
			if err := json.Unmarshal(raw, &item); err != nil {
				return rows[T]{}, fmt.Errorf("an item of %s is not what was expected: %w", strings.Join(segments, "/"), err)
			}
			all.items, all.raw = append(all.items, item), append(all.raw, raw)
		}
		if page.NextPageToken == "" || len(page.Items) == 0 || len(all.items) >= limit {
			break
		}
		query.Set("pageToken", page.NextPageToken)
	}
	return all, nil
}

// statusOf returns the status of a response that is an error, 0 for other errors.
func statusOf(err error) int {
	if failure, ok := errors.AsType[*responseError](err); ok {
		return failure.status
	}
	return 0
}
