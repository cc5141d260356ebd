package catalog

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/publicsuffix"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/registries"
)

const (
	dialTimeout           = 15 * time.Second
	responseHeaderTimeout = time.Minute
	maxRedirects          = 5
	maxCAFileBytes        = 4 << 20
)

// metadataAddresses are services of cloud machines outside of the link-local ranges that hand out credentials.
var metadataAddresses = []netip.Addr{netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200")}

// hostRules say which hosts a pull may talk to, and how.
type hostRules struct {
	// registry is host[:port] as in the reference. what it is in messages, "the registry" by default.
	registry   string
	what       string
	plainHTTP  []string
	tokenHosts []string
}

// newHTTPClient makes a client with a bound on every wait but that for the body, which the context bounds.
func newHTTPClient(rules hostRules, config registries.Config, caFile string) (*http.Client, error) {
	roots, err := certPool(caFile, config.Bundles(rules.registry)...)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}
	guarded := *dialer
	guarded.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		return rules.checkAddress(address)
	}
	transport := &http.Transport{
		Proxy: config.ProxyFunc(),
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if isProxy(address, config.Proxy.URL) {
				return dialer.DialContext(ctx, network, address)
			}
			return guarded.DialContext(ctx, network, address)
		},
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    dialTimeout,
		ResponseHeaderTimeout:  responseHeaderTimeout,
		MaxResponseHeaderBytes: 64 << 10,
		IdleConnTimeout:        30 * time.Second,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
	}
	return &http.Client{
		Transport: roundTripper{rules: rules, next: transport},
		CheckRedirect: func(request *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return failf(model.ReasonRegistryUnavailable, "%s redirected more than %d times", rules.name(), maxRedirects)
			}
			// Go's client would pass the header on to other ports and to subdomains.
			if request.URL.Host != via[0].URL.Host || request.URL.Scheme != via[0].URL.Scheme {
				request.Header.Del("Authorization")
			}
			return nil
		},
	}, nil
}

// roundTripper enforces the rules on every request, redirected ones included.
type roundTripper struct {
	rules hostRules
	next  http.RoundTripper
}

func (t roundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	host := request.URL.Host
	if request.URL.Scheme != "https" && !t.rules.plainHTTPAllowed(host) {
		return nil, failf(model.ReasonRegistryUnavailable,
			"%s requires plain HTTP on behalf of %s, which is not allowed; add it to the plain HTTP registries to allow it", host, t.rules.name())
	}
	if (request.Header.Get("Authorization") != "" || request.Body != nil) && !t.rules.credentialsAllowed(host) {
		return nil, failf(model.ReasonImagePullDenied,
			"refused to send the credentials of the registry %s to %s; add it to the token hosts if it is the token service of the registry", t.rules.registry, host)
	}
	// A proxy would connect to any address, and the dialer sees only that of the proxy.
	if ip, err := netip.ParseAddr(hostname(host)); err == nil {
		if err := t.rules.checkIP(ip); err != nil {
			return nil, err
		}
	}
	return t.next.RoundTrip(request)
}

// name is the registry in messages.
func (r hostRules) name() string { return cmp.Or(r.what, "the registry") + " " + r.registry }

// plainHTTPAllowed reports whether host[:port] may be asked without TLS.
func (r hostRules) plainHTTPAllowed(host string) bool {
	name := hostname(host)
	if isLoopbackName(name) {
		return true
	}
	for _, allowed := range r.plainHTTP {
		if strings.EqualFold(allowed, host) || strings.EqualFold(allowed, name) {
			return true
		}
	}
	return false
}

// credentialsAllowed reports whether the registry's credentials may go to host[:port]: the registry itself, a named
// token host, or another machine of the same registrable domain. Addresses are of no domain.
func (r hostRules) credentialsAllowed(host string) bool {
	if strings.EqualFold(host, r.registry) {
		return true
	}
	for _, allowed := range r.tokenHosts {
		if strings.EqualFold(allowed, host) || strings.EqualFold(allowed, hostname(host)) {
			return true
		}
	}
	own, other := site(r.registry), site(host)
	return own != "" && own == other
}

// site is the registrable domain of a host, the host itself for a single label, "" for addresses and loopback.
func site(host string) string {
	name := strings.ToLower(strings.TrimSuffix(hostname(host), "."))
	if _, err := netip.ParseAddr(name); err == nil || isLoopbackName(name) {
		return ""
	}
	if domain, err := publicsuffix.EffectiveTLDPlusOne(name); err == nil {
		return domain
	}
	return name
}

// checkAddress refuses addresses that no image comes from, after name resolution, so that neither a redirect nor a
// DNS answer leads a pull to the machine's own services.
func (r hostRules) checkAddress(address string) error {
	parsed, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("parse the address %s: %w", address, err)
	}
	return r.checkIP(parsed.Addr())
}

func (r hostRules) checkIP(ip netip.Addr) error {
	ip = ip.Unmap().WithZone("")
	refused := ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() ||
		(ip.IsLoopback() && !isLoopbackName(hostname(r.registry)))
	for _, known := range metadataAddresses {
		refused = refused || ip == known
	}
	if refused {
		return failf(model.ReasonRegistryUnavailable, "refused to connect to %s on behalf of %s", ip, r.name())
	}
	return nil
}

// isProxy reports whether address is that of the configured proxy, or without one of a proxy that the environment names; those may be anywhere.
func isProxy(address, configured string) bool {
	proxies := []string{configured}
	if configured == "" {
		proxies = []string{os.Getenv("HTTPS_PROXY"), os.Getenv("https_proxy"), os.Getenv("HTTP_PROXY"), os.Getenv("http_proxy")}
	}
	for _, value := range proxies {
		if value == "" {
			continue
		}
		if !strings.Contains(value, "://") {
			value = "http://" + value
		}
		u, err := url.Parse(value)
		if err != nil {
			continue
		}
		port := u.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443", "socks5": "1080"}[u.Scheme]
		}
		if net.JoinHostPort(u.Hostname(), port) == address {
			return true
		}
	}
	return false
}

func hostname(hostport string) string {
	return (&url.URL{Host: hostport}).Hostname()
}

func isLoopbackName(name string) bool {
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Unmap().IsLoopback()
}

// certPool returns the CAs of the system with those of a PEM file and of bundles in PEM, nil without any of these.
func certPool(caFile string, bundles ...string) (*x509.CertPool, error) {
	if caFile == "" && len(bundles) == 0 {
		return nil, nil
	}
	pool := systemPool()
	for _, bundle := range bundles {
		pool.AppendCertsFromPEM([]byte(bundle))
	}
	if caFile == "" {
		return pool, nil
	}
	f, err := os.Open(caFile)
	if err != nil {
		return nil, fmt.Errorf("read the CA file: %w", err)
	}
	defer func() { _ = f.Close() }()
	pem, err := io.ReadAll(io.LimitReader(f, maxCAFileBytes))
	if err != nil {
		return nil, fmt.Errorf("read the CA file %s: %w", caFile, err)
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("the CA file %s contains no PEM certificate", caFile)
	}
	return pool, nil
}

func systemPool() *x509.CertPool {
	pool, err := x509.SystemCertPool()
	if err != nil {
		return x509.NewCertPool()
	}
	return pool
}

// withoutURL drops the URL that the HTTP client's errors repeat: a redirected one may carry a signature.
func withoutURL(err error) error {
	if urlErr, ok := errors.AsType[*url.Error](err); ok {
		return urlErr.Err
	}
	return err
}
