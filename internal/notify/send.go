package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"k8s.io/utils/clock"
)

// maxAnswer is how much of an answer is read, in bytes: so much that the connection ends in order. What it says is not used.
const maxAnswer = 64 << 10

// Receivers sends messages to the receivers of sinks. It implements Sender.
type Receivers struct {
	Config *Config
	// Dir has a directory with the files of each credential.
	Dir string
	// Source names the operator in messages, such as the name of the cluster.
	Source string
	Clock  clock.PassiveClock
}

// Send implements Sender.
func (r *Receivers) Send(ctx context.Context, sink *Sink, key string, message *Message) error {
	switch sink.Type {
	case Webhook:
		return r.sendWebhook(ctx, sink, key, message)
	case Alertmanager:
		return r.sendAlert(ctx, sink, key, message)
	case Slack:
		return r.sendSlack(ctx, sink, message)
	case Teams:
		return r.sendTeams(ctx, sink, message)
	case Email:
		return r.sendMail(ctx, sink, key, message)
	default:
		return fmt.Errorf("%w: unknown type %q", ErrRefused, sink.Type)
	}
}

// request is what is posted to a receiver.
type request struct {
	url, contentType string
	body             []byte
	header           http.Header
	// trusted says that the URL is that of a credential. caBundle has further certificate authorities, "" for none.
	trusted  bool
	caBundle string
}

// endpoint returns a request to where the sink is, with the token of its credential, if it has one.
func (r *Receivers) endpoint(sink *Sink) (*request, secrets, error) {
	s := secrets{r.Dir, sink.Credential}
	if sink.Credential == "" {
		return &request{url: sink.URL, header: http.Header{}}, s, nil
	}
	q := &request{header: http.Header{}, trusted: true}
	var err error
	if q.url, err = s.need(fileURL); err != nil {
		return nil, s, err
	}
	if q.caBundle, err = s.read(fileCA); err != nil {
		return nil, s, err
	}
	token, err := s.read(fileToken)
	if token != "" {
		q.header.Set("Authorization", "Bearer "+token)
	}
	return q, s, err
}

// post sends a request. Errors contain neither the URL, which can be a secret, nor what the receiver answered, which can be one of another service.
func (r *Receivers) post(ctx context.Context, q *request) error {
	target, err := url.Parse(q.url)
	if err != nil || target.Scheme != "http" && target.Scheme != "https" || target.Hostname() == "" {
		return errors.New("the URL of the receiver is not http:// or https://HOST/PATH")
	}
	roots, err := rootsWith(q.caBundle)
	if err != nil {
		return err
	}
	transport := &http.Transport{
		DialContext:       guard{r.Config, q.trusted, target.Scheme == "http"}.dial,
		TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true, MaxResponseHeaderBytes: maxAnswer, ForceAttemptHTTP2: true,
	}
	// A redirect could lead to another address with the token. It counts as a failure.
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, q.url, bytes.NewReader(q.body))
	if err != nil {
		return errors.New("the URL of the receiver cannot be used")
	}
	call.Header = q.header
	call.Header.Set("Content-Type", q.contentType)
	call.Header.Set("User-Agent", "scanner-operator")
	answer, err := client.Do(call)
	if err != nil {
		return unreachable(err)
	}
	defer answer.Body.Close() //nolint:errcheck // The status was read.
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer))
	switch code := answer.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code >= 300 && code < 400:
		return fmt.Errorf("the receiver answers with status %d: redirects are not followed", code)
	case code == http.StatusBadRequest || code == http.StatusRequestEntityTooLarge || code == http.StatusUnprocessableEntity:
		return fmt.Errorf("%w with status %d", ErrRefused, code)
	default:
		return fmt.Errorf("the receiver answers with status %d", code)
	}
}

// ownError is an error whose text is one of this package and tells nothing of a receiver.
type ownError string

func (e ownError) Error() string { return string(e) }

// unreachable says why a receiver cannot be reached, in one of a few texts. The texts of other packages repeat what a receiver sent and which names its
// certificate has, and a tenant who reads the status of a rule must not learn that of other services.
func unreachable(err error) error {
	return fmt.Errorf("the receiver cannot be reached: %s", reasonOf(err))
}

func reasonOf(err error) string {
	if own, is := errors.AsType[ownError](err); is {
		return own.Error()
	}
	if _, is := errors.AsType[*net.DNSError](err); is {
		return "the name of the receiver cannot be resolved"
	}
	if timed, is := errors.AsType[net.Error](err); is && timed.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return "timeout"
	}
	if _, is := errors.AsType[*tls.CertificateVerificationError](err); is {
		return "TLS failed: the certificate of the receiver is not accepted"
	}
	dialed, is := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, context.Canceled):
		return "the attempt was canceled"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case is && dialed.Op == "dial":
		return "no connection can be made"
	case errors.Is(err, http.ErrSchemeMismatch) || strings.Contains(err.Error(), "tls: "):
		return "TLS failed"
	default:
		return "it gives no valid answer"
	}
}

// rootsWith returns the certificate authorities of the system and those of a bundle, nil for the former.
func rootsWith(bundle string) (*x509.CertPool, error) {
	if bundle == "" {
		return nil, nil //nolint:nilnil // nil stands for those of the system.
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM([]byte(bundle)) {
		return nil, ownError("the key " + fileCA + " of the credential has no certificate in PEM")
	}
	return roots, nil
}
