package sinks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/outbound"
)

// maxAnswer is how much of an answer is read, in bytes, where it is used.
const maxAnswer = 1 << 20

// refusal is an error that is ErrRefused.
func refusal(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrRefused, fmt.Errorf(format, args...))
}

// request is one to the server of a credential.
type request struct {
	// path is below the URL of the credential, with its segments as they are, and without a slash at the beginning.
	method, path string
	query        url.Values
	header       http.Header
	contentType  string
	body         []byte
	// sign signs the request, nil for nothing.
	sign func(call *http.Request, body []byte)
	// into takes the JSON of an answer with status 200, nil for nothing.
	into any
	// accepted are the status codes besides 2xx that are no error.
	accepted []int
}

// call sends a request, and returns the status code of the answer. Errors contain neither the URL nor what the server answered.
func (f *Factory) call(ctx context.Context, credential string, q *request) (int, error) {
	files := outbound.Credential{Dir: f.Dir, Name: credential}
	base, err := files.Need(outbound.FileURL)
	if err != nil {
		return 0, unavailable(err)
	}
	target, err := url.Parse(strings.TrimSuffix(base, "/"))
	if err != nil || target.Scheme != "http" && target.Scheme != "https" || target.Hostname() == "" || target.User != nil || target.RawQuery != "" || target.Fragment != "" {
		return 0, unavailable(fmt.Errorf("the key %s of the credential %s is not http:// or https://HOST/PATH", outbound.FileURL, credential))
	}
	caBundle, err := files.Read(outbound.FileCA)
	if err != nil {
		return 0, unavailable(err)
	}
	client, err := outbound.Client(outbound.Guard{Trusted: true, Plain: target.Scheme == "http"}, caBundle)
	if err != nil {
		return 0, unavailable(err)
	}
	// JoinPath would remove segments.
	target.Path, target.RawPath = target.Path+"/"+q.path, target.EscapedPath()+"/"+escapePath(q.path)
	target.RawQuery = q.query.Encode()
	call, err := http.NewRequestWithContext(ctx, q.method, target.String(), bytes.NewReader(q.body))
	if err != nil {
		return 0, unavailable(errors.New("the URL of the credential cannot be used"))
	}
	if q.header != nil {
		call.Header = q.header.Clone()
	}
	if q.contentType != "" {
		call.Header.Set("Content-Type", q.contentType)
	}
	call.Header.Set("User-Agent", "scanner-operator")
	if q.sign != nil {
		q.sign(call, q.body)
	}
	answer, err := client.Do(call)
	if err != nil {
		return 0, unavailable(outbound.Unreachable(err))
	}
	defer answer.Body.Close() //nolint:errcheck // What is needed was read.
	return answer.StatusCode, q.read(answer)
}

// read reads an answer.
func (q *request) read(answer *http.Response) error {
	defer outbound.Drain(answer)
	if slices.Contains(q.accepted, answer.StatusCode) {
		return nil
	}
	switch code := answer.StatusCode; {
	case code >= 200 && code < 300:
		if q.into == nil {
			return nil
		}
		content, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
		if err != nil {
			return unavailable(outbound.Unreachable(err))
		}
		if len(content) > maxAnswer {
			return unavailable(fmt.Errorf("the answer has more than %d bytes", maxAnswer))
		}
		if json.Unmarshal(content, q.into) != nil {
			return unavailable(errors.New("the answer is not the JSON that is expected"))
		}
		return nil
	case code >= 300 && code < 400:
		return unavailable(fmt.Errorf("it answers with status %d: redirects are not followed", code))
	case code == http.StatusBadRequest || code == http.StatusRequestEntityTooLarge || code == http.StatusUnprocessableEntity || code == http.StatusConflict:
		return refusal("it answers with status %d", code)
	default:
		return unavailable(fmt.Errorf("it answers with status %d", code))
	}
}

// unavailable is an error that is ErrUnavailable.
func unavailable(err error) error { return fmt.Errorf("%w: %w", ErrUnavailable, err) }

// escapePath escapes each segment of a path as Amazon S3 does it for signatures: all but letters, digits, "-", ".", "_" and "~".
func escapePath(path string) string {
	var text strings.Builder
	for _, c := range []byte(path) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~/", c) >= 0:
			text.WriteByte(c)
		default:
			fmt.Fprintf(&text, "%%%02X", c)
		}
	}
	return text.String()
}

// form makes a multipart form with a file.
func form(fields [][2]string, file, name, contentType string, content []byte) (body []byte, formType string, err error) {
	var buffer bytes.Buffer
	w := multipart.NewWriter(&buffer)
	for _, field := range fields {
		if err := w.WriteField(field[0], field[1]); err != nil {
			return nil, "", err
		}
	}
	part, err := w.CreatePart(map[string][]string{
		"Content-Disposition": {fmt.Sprintf(`form-data; name=%q; filename=%q`, file, name)}, "Content-Type": {contentType},
	})
	if err != nil {
		return nil, "", err
	}
	if _, err := part.Write(content); err != nil {
		return nil, "", err
	}
	if err := w.Close(); err != nil {
		return nil, "", err
	}
	return buffer.Bytes(), w.FormDataContentType(), nil
}
