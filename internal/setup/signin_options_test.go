package setup

import (
	"strings"
	"testing"

	"github.com/scanner-operator/scanner-operator/internal/server/auth/oidc"
)

func TestSignInOptions(t *testing.T) {
	provider := oidc.Config{Issuer: "https://id.example", ClientID: "scanner"}
	for name, test := range map[string]struct {
		options SignIn
		mode    AuthMode
		want    string
	}{
		"nothing":                 {SignIn{}, AuthNone, ""},
		"a base path":             {SignIn{BasePath: "scanner"}, AuthNone, ""},
		"both":                    {SignIn{BasePath: "/base/", ExternalURL: "https://scanner.example/base"}, AuthNone, ""},
		"another base path":       {SignIn{BasePath: "/a", ExternalURL: "https://scanner.example/base"}, AuthNone, "leave out --base-path"},
		"no base path":            {SignIn{BasePath: "/", ExternalURL: "https://scanner.example/base"}, AuthNone, "leave out --base-path"},
		"not at the root":         {SignIn{BasePath: "/a", ExternalURL: "https://scanner.example"}, AuthNone, "leave out --base-path"},
		"a path of the API":       {SignIn{BasePath: "/api/scanner"}, AuthNone, "--base-path or the path of --external-url: the base path"},
		"an encoded path":         {SignIn{ExternalURL: "https://scanner.example/a%2Fb"}, AuthNone, "is not a base path"},
		"a provider":              {SignIn{OIDC: provider, ExternalURL: "https://scanner.example/base/"}, AuthKubernetes, ""},
		"on this machine":         {SignIn{OIDC: provider, ExternalURL: "http://localhost:8000"}, AuthKubernetes, ""},
		"reading without a token": {SignIn{AnonymousRead: true}, AuthKubernetes, ""},
		"everybody may do all":    {SignIn{AnonymousRead: true}, AuthNone, "--anonymous-read requires --auth=kubernetes"},
		"no permissions":          {SignIn{OIDC: provider, ExternalURL: "https://scanner.example"}, AuthNone, "requires --auth=kubernetes"},
		"no external URL":         {SignIn{OIDC: provider}, AuthKubernetes, "requires --external-url"},
		"no client":               {SignIn{OIDC: oidc.Config{Issuer: "https://id.example"}}, AuthKubernetes, "must be set together"},
		"no issuer":               {SignIn{OIDC: oidc.Config{ClientID: "a"}}, AuthKubernetes, "must be set together"},
		"an issuer without TLS":   {SignIn{OIDC: oidc.Config{Issuer: "http://id.example", ClientID: "a"}, ExternalURL: "https://a"}, AuthKubernetes, "https"},
		"plain HTTP":              {SignIn{ExternalURL: "http://scanner.example"}, AuthKubernetes, "use https"},
		"another scheme":          {SignIn{ExternalURL: "ftp://localhost"}, AuthKubernetes, "use https"},
		"no host":                 {SignIn{ExternalURL: "https:///a"}, AuthKubernetes, "use a URL with a host"},
		"a query":                 {SignIn{ExternalURL: "https://a/?b"}, AuthKubernetes, "without user, query and fragment"},
	} {
		err := test.options.validate(test.mode)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
		if name == "a provider" && (test.options.OIDC.RedirectURL != "https://scanner.example/base/api/v1/session/callback" ||
			test.options.OIDC.PostLogoutURL != "https://scanner.example/base/") {
			t.Errorf("%+v", test.options.OIDC)
		}
	}
}

func TestBasePathAndOrigin(t *testing.T) {
	for _, test := range []struct{ basePath, externalURL, wantPath, wantOrigin string }{
		{"", "", "/", ""},
		{"/scanner", "", "/scanner/", ""},
		{"scanner/", "", "/scanner/", ""},
		{"", "https://Scanner.Example", "/", "https://scanner.example"},
		{"", "https://scanner.example:443/a/B//", "/a/B/", "https://scanner.example"},
		{"/a/B", "https://scanner.example:8443/a/B/", "/a/B/", "https://scanner.example:8443"},
		{"", "http://localhost:8000", "/", "http://localhost:8000"},
		{"", "http://[::1]:80/x", "/x/", "http://[::1]"},
	} {
		s := SignIn{BasePath: test.basePath, ExternalURL: test.externalURL}
		if err := s.validate(AuthKubernetes); err != nil || s.BasePath != test.wantPath || s.origin() != test.wantOrigin {
			t.Errorf("%q and %q: %q and %q, %v", test.basePath, test.externalURL, s.BasePath, s.origin(), err)
		}
	}
}
