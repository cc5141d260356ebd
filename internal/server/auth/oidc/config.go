package oidc

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// Bounds of what an administrator configures.
const (
	maxScopes       = 32
	maxConfigText   = 1 << 10
	maxSecret       = 4 << 10
	maxCABundle     = 1 << 20
	openIDScope     = "openid"
	noPrefix        = "-"
	emailClaim      = "email"
	prefixSeparator = "#"
)

// Config configures a provider. The fields that have a flag of kube-apiserver mean the same.
type Config struct {
	// Issuer is the URL of the provider, with https: as in its tokens.
	Issuer string
	// ClientID is the client that tokens must be for. ClientSecretFile holds its secret; "" is a public client. It is read for each
	// request, so that it may change.
	ClientID         string
	ClientSecretFile string
	// CAFile holds the certificate authorities that the certificate of the provider is verified with, in PEM; "" those of the system.
	CAFile string
	// RedirectURL is where the provider sends the browser after signing in, PostLogoutURL where after signing out.
	RedirectURL, PostLogoutURL string
	// Scopes are what the provider is asked for; "openid" is added.
	Scopes []string
	// UsernameClaim is the claim with the user name, "sub" by default. UsernamePrefix is put before it; "" is the issuer and "#" unless
	// the claim is "email", "-" is none.
	UsernameClaim, UsernamePrefix string
	// GroupsClaim is the claim with the groups, a text or a list; "" for none. GroupsPrefix is put before each.
	GroupsClaim, GroupsPrefix string
	// Name is what users know the provider as; the host of Issuer by default.
	Name string
	// Clock tells the time; time.Now by default.
	Clock func() time.Time
}

// Validate fills in defaults, and says what is missing or malformed.
func (c *Config) Validate() error {
	issuer, err := url.Parse(c.Issuer)
	if err != nil || issuer.Scheme != "https" || issuer.Host == "" || issuer.User != nil || issuer.RawQuery != "" || issuer.Fragment != "" {
		return fmt.Errorf("the issuer %q is not a URL with https, a host, and without user, query and fragment", c.Issuer)
	}
	if c.ClientID == "" {
		return errors.New("the client ID is empty")
	}
	if c.UsernameClaim == "" {
		c.UsernameClaim = "sub"
	}
	if c.Name == "" {
		c.Name = issuer.Host
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if !slices.Contains(c.Scopes, openIDScope) {
		c.Scopes = append([]string{openIDScope}, c.Scopes...)
	}
	if len(c.Scopes) > maxScopes {
		return fmt.Errorf("%d scopes: use at most %d", len(c.Scopes), maxScopes)
	}
	texts := append([]string{c.Issuer, c.ClientID, c.UsernameClaim, c.UsernamePrefix, c.GroupsClaim, c.GroupsPrefix, c.Name}, c.Scopes...)
	for _, text := range texts {
		if len(text) > maxConfigText || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("%.40q is longer than %d bytes or has control characters", text, maxConfigText)
		}
	}
	for _, scope := range c.Scopes {
		if scope == "" || strings.ContainsAny(scope, " \"\\") {
			return fmt.Errorf("%q is not a scope", scope)
		}
	}
	return nil
}

// usernamePrefix is the prefix as kube-apiserver's flags have it.
func (c *Config) usernamePrefix() string {
	switch {
	case c.UsernamePrefix == noPrefix:
		return ""
	case c.UsernamePrefix == "" && c.UsernameClaim != emailClaim:
		return c.Issuer + prefixSeparator
	default:
		return c.UsernamePrefix
	}
}

// clientSecret reads the secret, "" for a public client.
func (c *Config) clientSecret() (string, error) {
	if c.ClientSecretFile == "" {
		return "", nil
	}
	content, err := readFile(c.ClientSecretFile, maxSecret)
	if err != nil {
		return "", fmt.Errorf("read the client secret: %w", err)
	}
	secret := strings.TrimSpace(string(content))
	if secret == "" {
		return "", fmt.Errorf("the file of the client secret, %s, is empty", c.ClientSecretFile)
	}
	return secret, nil
}

// roots are the certificate authorities of CAFile, nil for those of the system.
func (c *Config) roots() (*x509.CertPool, error) {
	if c.CAFile == "" {
		return nil, nil //nolint:nilnil // as tls.Config wants it
	}
	content, err := readFile(c.CAFile, maxCABundle)
	if err != nil {
		return nil, fmt.Errorf("read certificate authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("the file %s has no certificate in PEM", c.CAFile)
	}
	return pool, nil
}

func readFile(name string, most int64) (content []byte, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if content, err = io.ReadAll(io.LimitReader(file, most+1)); err != nil {
		return nil, err
	}
	if int64(len(content)) > most {
		return nil, fmt.Errorf("the file %s is larger than %d bytes", name, most)
	}
	return content, nil
}
