package oidc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

// Errors that callers tell apart with errors.Is.
var (
	// ErrUnavailable says that the provider cannot be reached or does not work; trying again later can help.
	ErrUnavailable = errors.New("the identity provider is unavailable")
	// ErrRefused says that the provider does not accept a code or a refresh token: it was used, has expired or was revoked.
	ErrRefused = errors.New("the identity provider refused")
	// ErrRejected says that a token of the provider is not accepted here.
	ErrRejected = errors.New("the token is not accepted")
)

// Bounds on asking a provider.
const (
	// requestTimeout bounds one request, requestsAtATime all that are made concurrently.
	requestTimeout  = 10 * time.Second
	requestsAtATime = 16
	// maxResponse bounds a response in bytes, maxHeader its headers.
	maxResponse = 512 << 10
	maxHeader   = 64 << 10
	// discoverEvery is how old the configuration of the provider may become, retryAfter when it is asked for again after a failure.
	discoverEvery = time.Hour
	retryAfter    = 10 * time.Second
)

// Provider is an OpenID Connect provider. It is safe for concurrent use.
type Provider struct {
	config  Config
	client  *http.Client
	slots   *semaphore.Weighted
	flights singleflight.Group

	mu sync.Mutex
	// known is what discovery found, nil before. due is when it is due again, failure why the last one failed.
	known   *discovered
	due     time.Time
	failure error
}

// discovered is what a provider says of itself.
type discovered struct {
	endpoint oauth2.Endpoint
	keys     keys
	// endSession is where a browser signs out, "" if the provider has no such page.
	endSession string
}

// New makes a provider. It sends nothing: a provider that is not available yet is asked when it is needed.
func New(config Config) (*Provider, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("OpenID Connect: %w", err)
	}
	roots, err := config.roots()
	if err != nil {
		return nil, fmt.Errorf("OpenID Connect: %w", err)
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: requestTimeout, ResponseHeaderTimeout: requestTimeout, MaxResponseHeaderBytes: maxHeader,
		MaxConnsPerHost: requestsAtATime, MaxIdleConns: requestsAtATime, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
	}
	return &Provider{
		config: config, slots: semaphore.NewWeighted(requestsAtATime),
		client: &http.Client{
			Transport: bounded{transport}, Timeout: requestTimeout,
			// A redirect could send the client secret, or a request from inside the cluster, to another host.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Name is what users know the provider as.
func (p *Provider) Name() string { return p.config.Name }

// Issuer is the URL of the provider.
func (p *Provider) Issuer() string { return p.config.Issuer }

// Secure says that browsers come back from the provider over TLS.
func (p *Provider) Secure() bool { return strings.HasPrefix(p.config.RedirectURL, "https://") }

// CloseIdleConnections closes connections that are not in use.
func (p *Provider) CloseIdleConnections() { p.client.CloseIdleConnections() }

// Available returns nil when the provider has said what users can be sent to, or ErrUnavailable.
func (p *Provider) Available(ctx context.Context) error {
	_, err := p.discover(ctx)
	return err
}

// discover returns what the provider says of itself. It asks at most every retryAfter, and keeps what it knows while it cannot.
func (p *Provider) discover(ctx context.Context) (*discovered, error) {
	p.mu.Lock()
	known, failure, due := p.known, p.failure, !p.config.Clock().Before(p.due)
	p.mu.Unlock()
	if !due {
		return known, failure
	}
	result := p.flights.DoChan("", func() (any, error) {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		defer cancel()
		found, err := p.ask(bounded)
		p.mu.Lock()
		defer p.mu.Unlock()
		if err == nil {
			p.known, p.failure, p.due = found, nil, p.config.Clock().Add(discoverEvery)
			return found, nil
		}
		p.due = p.config.Clock().Add(retryAfter)
		if p.known != nil {
			return p.known, nil
		}
		p.failure = err
		return nil, err
	})
	select {
	case answer := <-result:
		found, _ := answer.Val.(*discovered)
		return found, answer.Err
	case <-ctx.Done():
		if known != nil {
			return known, nil
		}
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
}

func (p *Provider) ask(ctx context.Context) (*discovered, error) {
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.config.Issuer)
	if err != nil {
		return nil, fmt.Errorf("%w: read its configuration: %w", ErrUnavailable, short(err))
	}
	var document struct {
		JWKSURI     string   `json:"jwks_uri"`
		EndSession  string   `json:"end_session_endpoint"`
		AuthMethods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := provider.Claims(&document); err != nil {
		return nil, fmt.Errorf("%w: read its configuration: %w", ErrUnavailable, short(err))
	}
	found := &discovered{
		endpoint: provider.Endpoint(), endSession: document.EndSession,
		keys: keys{oidc.NewRemoteKeySet(oidc.ClientContext(context.Background(), p.client), document.JWKSURI)},
	}
	endpoints := []string{found.endpoint.AuthURL, found.endpoint.TokenURL, document.JWKSURI}
	if document.EndSession != "" {
		endpoints = append(endpoints, document.EndSession)
	}
	for _, endpoint := range endpoints {
		if u, err := url.Parse(endpoint); err != nil || u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("%w: its configuration has the endpoint %.100q, which is not a URL with https", ErrUnavailable, endpoint)
		}
	}
	found.endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if p.config.ClientSecretFile == "" ||
		!slices.Contains(document.AuthMethods, "client_secret_basic") && slices.Contains(document.AuthMethods, "client_secret_post") {
		found.endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return found, nil
}

// bounded is a transport that refuses responses that are too large.
type bounded struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.Transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = &boundedBody{response.Body, maxResponse}
	return response, nil
}

type boundedBody struct {
	io.ReadCloser
	left int
}

// Read reads on, and fails beyond the bound.
func (b *boundedBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("the response exceeds the maximum of %d bytes", maxResponse)
	}
	return n, err
}

// maxError bounds what is kept of an error, in bytes: those of the libraries hold whole responses.
const maxError = 300

// short is an error with a text that fits into a line of the log.
func short(err error) error {
	if text := err.Error(); len(text) > maxError {
		return fmt.Errorf("%q", truncate.Ellipsis(text, maxError))
	}
	return err
}
