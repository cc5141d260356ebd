package setup

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/server/auth/frontproxy"
	"github.com/scanner-operator/scanner-operator/internal/server/auth/oidc"
)

// SignIn says how users sign in, besides with tokens.
type SignIn struct {
	// OIDC is the identity provider; without an issuer there is none.
	OIDC oidc.Config
	// ExternalURL is where browsers reach the API, without a slash at the end. OIDC needs it.
	ExternalURL string
	// BasePath is the path below which browsers reach the API; that of ExternalURL by default.
	BasePath string
	// FrontProxy says which proxies in front of the API are trusted to name users; none without a file of certificate authorities.
	FrontProxy frontproxy.Config
	// AnonymousRead lets callers without a token read what the user system:anonymous may.
	AnonymousRead bool
}

// callbackPath is where the provider sends browsers back to.
const callbackPath = "/api/v1/session/callback"

// validate fills in what follows from other options.
func (s *SignIn) validate(mode AuthMode) error {
	if s.AnonymousRead && mode != AuthKubernetes {
		return errors.New("--anonymous-read requires --auth=kubernetes")
	}
	if s.ExternalURL != "" {
		if err := validateExternalURL(s.ExternalURL); err != nil {
			return err
		}
		s.ExternalURL = strings.TrimRight(s.ExternalURL, "/")
	}
	if err := s.completeBasePath(); err != nil {
		return err
	}
	if (s.OIDC.Issuer == "") != (s.OIDC.ClientID == "") {
		return errors.New("--oidc-issuer-url and --oidc-client-id must be set together")
	}
	if s.OIDC.Issuer == "" {
		return nil
	}
	if mode != AuthKubernetes {
		return errors.New("--oidc-issuer-url requires --auth=kubernetes: permissions come from Kubernetes")
	}
	if s.ExternalURL == "" {
		return errors.New("--oidc-issuer-url requires --external-url, the URL at which browsers reach the API: the identity provider sends them back there")
	}
	s.OIDC.RedirectURL, s.OIDC.PostLogoutURL = s.ExternalURL+callbackPath, s.ExternalURL+"/"
	if err := s.OIDC.Validate(); err != nil {
		return fmt.Errorf("--oidc-issuer-url and the other --oidc flags: %w", err)
	}
	return nil
}

// completeBasePath has the base path begin and end with a slash.
func (s *SignIn) completeBasePath() error {
	external, err := url.Parse(s.ExternalURL)
	if err != nil {
		return err // It has been validated.
	}
	given := s.BasePath
	if given == "" {
		given = external.EscapedPath()
	}
	s.BasePath = strings.TrimSuffix("/"+strings.TrimPrefix(given, "/"), "/") + "/"
	if err := server.ValidateBasePath(s.BasePath); err != nil {
		return fmt.Errorf("--base-path or the path of --external-url: %w", err)
	}
	if path := external.EscapedPath() + "/"; s.ExternalURL != "" && path != s.BasePath {
		return fmt.Errorf("--base-path=%s: the path of --external-url=%s is another one; leave out --base-path", given, s.ExternalURL)
	}
	return nil
}

// origin is what browsers call the host of the external URL, "" without one.
func (s *SignIn) origin() string {
	u, err := url.Parse(strings.ToLower(s.ExternalURL))
	if err != nil || u.Host == "" {
		return ""
	}
	if port := u.Port(); port == "443" && u.Scheme == "https" || port == "80" && u.Scheme == "http" {
		u.Host = strings.TrimSuffix(u.Host, ":"+port)
	}
	return u.Scheme + "://" + u.Host
}

func validateExternalURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("--external-url=%s: use a URL with a host, and without user, query and fragment, such as https://scanner.example.com", text)
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !server.IsLoopbackHost(u.Hostname())) {
		return fmt.Errorf("--external-url=%s: use https; http is possible for localhost and loopback addresses only", text)
	}
	return nil
}
