package auth

import (
	"crypto/x509"
	"errors"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

const (
	// frontUserAge is for how long a WebSocket relies on what a front proxy said of its user, as long as on what an identity provider says. Then
	// its client has to connect again, through the proxy.
	frontUserAge = refreshEvery
	// maxReason bounds in the log why a certificate is refused, in bytes: it has names from the certificate.
	maxReason = 1 << 10
)

// frontProxyError is why a request with headers of a front proxy is refused, when it is not for a lack of credentials.
type frontProxyError struct {
	error
	// untrusted says that it is for the certificate, not for the headers.
	untrusted bool
}

// frontUser is who a trusted front proxy said has sent a request.
type frontUser struct {
	user authenticationv1.UserInfo
	// chain is the certificate with which the proxy proved itself, and those that came with it.
	chain []*x509.Certificate
	at    time.Time
}

// trustedProxy returns the certificates of the front proxy that names the user of a request. It returns none for a request of anybody else:
// headers that no trusted proxy sent are ignored. refused is the answer to such a request that has no other credential.
func (g *Guard) trustedProxy(r *http.Request) (chain []*x509.Certificate, refused *problem.Error) {
	if g.proxy == nil || !g.proxy.Names(r.Header) {
		return nil, nil
	}
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, problem.New(http.StatusUnauthorized, "authentication required: send a bearer token or sign in. "+
			"The user name in the header was ignored, because the client has no TLS certificate")
	}
	chain = r.TLS.PeerCertificates
	// As with tokens: one that was good once neither waits nor counts.
	certificate, address := "certificate "+string(chain[0].Raw), callerAddress(r)
	if !g.reviews.wasProven(certificate) {
		if wait := g.failures.exhausted(address, g.clock()); wait > 0 && !g.reviewAnyway(address) {
			return nil, problem.TooManyRequests(wait, "too many invalid attempts from this address; try again later")
		}
	}
	if err := g.proxy.Verify(chain); err != nil {
		return nil, errUntrusted(err)
	}
	g.reviews.prove(certificate)
	return chain, nil
}

func errUntrusted(cause error) *problem.Error {
	return &problem.Error{
		Status: http.StatusUnauthorized, Detail: "the TLS certificate of the client is not that of a trusted front proxy; the operator's log has the reason",
		Cause: frontProxyError{cause, true},
	}
}

// frontCredential is what a trusted front proxy says of the user of a request.
func (g *Guard) frontCredential(r *http.Request, chain []*x509.Certificate) (credential, error) {
	user, err := g.proxy.User(r.Header)
	if err != nil {
		return credential{}, &problem.Error{Status: http.StatusUnauthorized, Detail: err.Error(), Cause: frontProxyError{err, false}}
	}
	return credential{front: &frontUser{user, chain, g.clock()}}, nil
}

// frontPrincipal is a user whom a front proxy has named.
func (g *Guard) frontPrincipal(front *frontUser) *principal {
	p := g.reviews.principalOf(front.user)
	// The proxy sends the request to this program on purpose.
	p.audience, p.front = true, true
	return p
}

// countUntrusted counts and logs a request that was refused for the certificate of its front proxy.
func (g *Guard) countUntrusted(r *http.Request, err error) {
	if cause, ok := errors.AsType[frontProxyError](err); ok && cause.untrusted {
		g.failures.spend(callerAddress(r), 1, g.clock())
		g.log.Info("Refused the certificate of a front proxy", "address", r.RemoteAddr, "error", truncate.Text(cause.Error(), maxReason))
	}
}

// MustReconnect says that a WebSocket is too old to rely on what a front proxy said of its user.
func (g *Guard) MustReconnect(a Admission) bool {
	front := a.credential.front
	return front != nil && g.clock().Sub(front.at) >= frontUserAge
}
