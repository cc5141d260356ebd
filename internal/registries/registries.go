// Package registries describes how scans reach image registries: through a proxy, by way of mirrors, with private certificate authorities, or
// without TLS; and whose statements about images in them count. It does no I/O.
package registries

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"golang.org/x/net/http/httpproxy"
	"sigs.k8s.io/yaml"
)

// Bounds of a Config. An environment variable has at most 128 KiB in Linux, an expression of an admission policy, which contains the text with
// escapes, 100,000 characters. Each scan Job contains the text.
const (
	MaxBytes      = 64 << 10
	MaxRegistries = 64
	MaxMirrors    = 8
	MaxNoProxy    = 64
)

// Config describes how to reach registries. The zero value describes nothing special.
type Config struct {
	Proxy Proxy `json:"proxy,omitzero"`
	// CABundle holds certificate authorities in PEM that are trusted for all registries, in addition to those of the system.
	CABundle   string     `json:"caBundle,omitempty"`
	Registries []Registry `json:"registries,omitempty"`
	// Attestations are keys. What their holders state about an image in its repository replaces the analysis of the image.
	Attestations []Attestation `json:"attestations,omitempty"`
	// AskLayers has scans of image volumes ask registries for the layers of images.
	AskLayers bool `json:"askLayers,omitempty"`
}

// Proxy is a proxy for all requests to registries and their token services.
type Proxy struct {
	// URL has the scheme http, https or socks5, and no user name or password: everybody who can read scan Jobs can read it. "" means no proxy.
	URL string `json:"url,omitempty"`
	// NoProxy lists hosts, domains, IP addresses and CIDRs that are reached directly, as the environment variable NO_PROXY does.
	NoProxy []string `json:"noProxy,omitempty"`
}

// Registry describes one registry, or one mirror.
type Registry struct {
	// Host is host[:port], as in image references; "docker.io" for Docker Hub.
	Host string `json:"host"`
	// Mirrors are tried in order before the registry, as host[:port][/prefix]. The prefix comes before the repository of the image. What a mirror
	// serves for a digest is verified. Mirrors get the credentials for their own host only.
	Mirrors []string `json:"mirrors,omitempty"`
	// PlainHTTP allows access without TLS.
	PlainHTTP bool `json:"plainHTTP,omitempty"`
	// CABundle is as that of Config, for pulls from this registry: from its host, its token service and hosts that it redirects to.
	CABundle string `json:"caBundle,omitempty"`
}

// Parse reads a Config from JSON or YAML. An empty text is the zero value. Errors name the invalid field.
func Parse(text string) (Config, error) {
	var config Config
	if len(text) > MaxBytes {
		return Config{}, fmt.Errorf("%d bytes are more than the maximum of %d; shorten the CA bundles", len(text), MaxBytes)
	}
	if err := yaml.UnmarshalStrict([]byte(text), &config); err != nil {
		return Config{}, fmt.Errorf("decode: %w", err)
	}
	if err := config.validate(); err != nil {
		return Config{}, err
	}
	return config, nil
}

func (c *Config) validate() error {
	if err := c.Proxy.validate(); err != nil {
		return fmt.Errorf("proxy.%w", err)
	}
	if err := validateBundle(c.CABundle); err != nil {
		return fmt.Errorf("caBundle: %w", err)
	}
	if len(c.Registries) > MaxRegistries {
		return fmt.Errorf("registries: %d entries are more than the maximum of %d", len(c.Registries), MaxRegistries)
	}
	seen := map[string]bool{}
	for i := range c.Registries {
		r := &c.Registries[i]
		if err := r.validate(); err != nil {
			return fmt.Errorf("registries[%d].%w", i, err)
		}
		host := Canonical(r.Host)
		if seen[host] {
			return fmt.Errorf("registries[%d].host: %q is listed twice", i, r.Host)
		}
		seen[host] = true
	}
	return c.validateAttestations()
}

func (p *Proxy) validate() error {
	if len(p.NoProxy) > MaxNoProxy {
		return fmt.Errorf("noProxy: %d entries are more than the maximum of %d", len(p.NoProxy), MaxNoProxy)
	}
	for i, host := range p.NoProxy {
		if host == "" || strings.ContainsAny(host, ", \t\r\n") {
			return fmt.Errorf("noProxy[%d]: expected one host, domain, IP address or CIDR", i)
		}
	}
	if p.URL == "" {
		if len(p.NoProxy) > 0 {
			return errors.New("noProxy: requires proxy.url")
		}
		return nil
	}
	u, err := url.Parse(p.URL)
	switch {
	case err != nil:
		// No error repeats the URL, which may contain a password.
		return errors.New("url: expected a URL such as http://proxy.example:3128")
	case u.User != nil:
		return errors.New("url: a user name or password is not allowed, because everybody who can read scan Jobs could read it; permit scan pods at the proxy by their address")
	case !slices.Contains([]string{"http", "https", "socks5"}, u.Scheme) || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "":
		return errors.New("url: expected http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT")
	}
	return nil
}

func (r *Registry) validate() error {
	if _, err := registryOf(r.Host); err != nil {
		return fmt.Errorf("host: %q is not host[:port]", r.Host)
	}
	if len(r.Mirrors) > MaxMirrors {
		return fmt.Errorf("mirrors: %d entries are more than the maximum of %d", len(r.Mirrors), MaxMirrors)
	}
	for i, mirror := range r.Mirrors {
		if _, err := repositoryAt(mirror, "image"); err != nil {
			return fmt.Errorf("mirrors[%d]: %q is not host[:port][/prefix]", i, mirror)
		}
	}
	if err := validateBundle(r.CABundle); err != nil {
		return fmt.Errorf("caBundle: %w", err)
	}
	return nil
}

func validateBundle(bundle string) error {
	if bundle != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(bundle)) {
		return errors.New("contains no PEM certificate")
	}
	return nil
}

// Mirrors returns where the repository of an image can also be pulled from, in order.
func (c *Config) Mirrors(repository name.Repository) []name.Repository {
	var mirrors []name.Repository
	if r := c.registry(repository.RegistryStr()); r != nil {
		for _, mirror := range r.Mirrors {
			// Only the length of the name can be invalid: Parse has checked the mirror.
			if at, err := repositoryAt(mirror, repository.RepositoryStr()); err == nil {
				mirrors = append(mirrors, at)
			}
		}
	}
	return mirrors
}

// PlainHTTP lists the hosts that are reached without TLS.
func (c *Config) PlainHTTP() []string {
	var hosts []string
	for i := range c.Registries {
		if c.Registries[i].PlainHTTP {
			hosts = append(hosts, Canonical(c.Registries[i].Host))
		}
	}
	return hosts
}

// Bundles returns the CA bundles in PEM that are trusted for pulls from a registry, in addition to those of the system: also by its token service
// and by hosts that it redirects to.
func (c *Config) Bundles(host string) []string {
	var bundles []string
	if c.CABundle != "" {
		bundles = append(bundles, c.CABundle)
	}
	if r := c.registry(host); r != nil && r.CABundle != "" {
		bundles = append(bundles, r.CABundle)
	}
	return bundles
}

// ProxyFunc returns the function for http.Transport.Proxy: that of the environment if no proxy is configured.
func (c *Config) ProxyFunc() func(*http.Request) (*url.URL, error) {
	if c.Proxy.URL == "" {
		return http.ProxyFromEnvironment
	}
	config := httpproxy.Config{HTTPProxy: c.Proxy.URL, HTTPSProxy: c.Proxy.URL, NoProxy: strings.Join(c.Proxy.NoProxy, ",")}
	proxy := config.ProxyFunc()
	return func(request *http.Request) (*url.URL, error) { return proxy(request.URL) }
}

func (c *Config) registry(host string) *Registry {
	for i := range c.Registries {
		if Canonical(c.Registries[i].Host) == Canonical(host) {
			return &c.Registries[i]
		}
	}
	return nil
}

// Canonical returns a host in lower case, with one name for those of Docker Hub, and without a port that is the default.
func Canonical(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ":443")
	switch host {
	case "docker.io", "registry-1.docker.io", "registry.hub.docker.com":
		return name.DefaultRegistry
	}
	return host
}

// registryOf returns the registry at host[:port].
func registryOf(host string) (name.Registry, error) {
	if strings.HasSuffix(host, ":") {
		return name.Registry{}, errors.New("the port is missing") // A URL begins like this.
	}
	return name.NewRegistry(host, name.StrictValidation)
}

// repositoryAt returns a repository below host[:port][/prefix].
func repositoryAt(mirror, repository string) (name.Repository, error) {
	host, prefix, _ := strings.Cut(mirror, "/")
	registry, err := registryOf(host)
	if err != nil {
		return name.Repository{}, err
	}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		repository = prefix + "/" + repository
	}
	// A registry with a name of one label would not be taken for one.
	if _, err := name.NewRepository(name.DefaultRegistry + "/" + repository); err != nil {
		return name.Repository{}, err
	}
	return registry.Repo(repository), nil
}
