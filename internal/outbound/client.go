package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
)

// maxAnswer is how much of an answer Drain reads, in bytes.
const maxAnswer = 64 << 10

// Client returns a client that connects as a guard permits, trusts the certificate authorities of a bundle in PEM besides those of the system, and keeps
// no connections. A redirect could lead to another address with the token; the client returns it as the answer.
func Client(g Guard, caBundle string) (*http.Client, error) {
	roots, err := Roots(caBundle)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		DialContext:       g.Dial,
		TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true, MaxResponseHeaderBytes: maxAnswer, ForceAttemptHTTP2: true,
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// Drain reads the rest of an answer, up to a bound, so that the connection ends in order.
func Drain(answer *http.Response) { _, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer)) }

// Error is an error whose text is one of this package and tells nothing of a receiver.
type Error string

func (e Error) Error() string { return string(e) }

// Unreachable says why a receiver cannot be reached, in one of a few texts. The texts of other packages repeat what a receiver sent and which names its
// certificate has, and a tenant who reads the status of a rule must not learn that of other services.
func Unreachable(err error) error {
	return fmt.Errorf("the receiver cannot be reached: %s", reasonOf(err))
}

func reasonOf(err error) string {
	if own, is := errors.AsType[Error](err); is {
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

// Roots returns the certificate authorities of the system and those of a bundle, nil for the former.
func Roots(bundle string) (*x509.CertPool, error) {
	if bundle == "" {
		return nil, nil //nolint:nilnil // nil stands for those of the system.
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM([]byte(bundle)) {
		return nil, Error("the key " + FileCA + " of the credential has no certificate in PEM")
	}
	return roots, nil
}
