package auth

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Cookies of users who sign in with the provider or a token. With TLS their names begin with hostPrefix: browsers then accept them from this host
// only, so that no other host of the same domain can plant a session or a sign-in of its own. Such cookies have the path "/": below a base
// path, where other programs have the same host and must not be sent our cookies, the names begin with securePrefix.
const (
	hostPrefix       = "__Host-"
	securePrefix     = "__Secure-"
	providerCookie   = "scanner-operator-user"
	signInCookieName = "scanner-operator-sign-in"
)

const (
	// signInAge is how long a user may take to sign in at the provider.
	signInAge = 10 * time.Minute
	// maxReturn bounds the address that a user returns to, in bytes.
	maxReturn = 1 << 10
	// maxSignInCookie bounds the cookie of a sign-in in bytes: three secrets and the address.
	maxSignInCookie = 2 << 10
	// homePage is where users go who came from nowhere.
	homePage = "/"
	// rootPath is the base path without another one.
	rootPath = "/"
)

// signIn is a sign-in that has begun. The browser keeps it, so that the operator keeps nothing for those who have not signed in.
type signIn struct {
	// state binds the return from the provider to the browser, nonce the ID token, verifier the code.
	state, nonce, verifier string
	// returnTo is where the user wanted to go, below the base path.
	returnTo string
}

func (s signIn) String() string {
	return strings.Join([]string{s.state, s.nonce, s.verifier, base64.RawURLEncoding.EncodeToString([]byte(s.returnTo))}, ".")
}

// parseSignIn reads the value of a cookie.
func parseSignIn(text string) (s signIn, ok bool) {
	if len(text) > maxSignInCookie {
		return signIn{}, false
	}
	parts := strings.Split(text, ".")
	if len(parts) != 4 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return signIn{}, false
	}
	returnTo, err := base64.RawURLEncoding.DecodeString(parts[3])
	if err != nil {
		return signIn{}, false
	}
	return signIn{parts[0], parts[1], parts[2], ReturnPath(string(returnTo))}, true
}

// ReturnPath is the address below the base path that a text names, and the home page for any other text: a link that signs somebody in must
// not lead to another host, nor out of the base path, nor to a request of the API.
func ReturnPath(text string) string {
	if len(text) > maxReturn || !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") ||
		strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\\' }) {
		return homePage
	}
	u, err := url.Parse(text)
	if err != nil || strings.HasPrefix(u.Path, "/api/") || slices.ContainsFunc(strings.Split(u.Path, "/"), isDots) {
		return homePage
	}
	return text
}

// isDots reports whether a segment of a path leads to the same or the parent directory.
func isDots(segment string) bool { return segment == "." || segment == ".." }

// below is the address of a path below the base path.
func (g *Guard) below(path string) string { return strings.TrimSuffix(g.basePath, "/") + path }

// withError adds to an address why signing in failed.
func withError(returnTo string, reason SignInFailure) string {
	u, err := url.Parse(returnTo)
	if err != nil {
		return homePage
	}
	query := u.Query()
	query.Set(signInErrorParameter, string(reason))
	u.RawQuery = query.Encode()
	return u.String()
}

func (m *sessionManager) cookieName(name string) string {
	return cookieName(name, m.basePath, m.Provider.Secure())
}

// cookieName is the name of a cookie with the prefix that browsers know. Over TLS, only cookies with the prefix count.
func cookieName(name, basePath string, secure bool) string {
	switch {
	case !secure:
		return name
	case basePath != rootPath:
		return securePrefix + name
	default:
		return hostPrefix + name
	}
}

// sessionCookie is the cookie of a session, or, without a secret, deletes it. Browsers send it only with requests of our own pages: those
// need it for requests of the API, and not for being loaded themselves.
func (m *sessionManager) sessionCookie(secret string) *http.Cookie {
	return m.cookie(providerCookie, secret, 0, http.SameSiteStrictMode)
}

// signInCookie is the cookie of a sign-in, or, without a value, deletes it. Browsers send it when the provider sends them back.
func (m *sessionManager) signInCookie(value string) *http.Cookie {
	return m.cookie(signInCookieName, value, signInAge, http.SameSiteLaxMode)
}

// cookie makes a cookie that goes after an age, or for 0 when the browser is closed. Without a value, it goes at once.
func (m *sessionManager) cookie(name, value string, age time.Duration, site http.SameSite) *http.Cookie {
	seconds := int(age / time.Second)
	if value == "" {
		seconds = -1
	}
	return &http.Cookie{ //nolint:gosec // Secure follows the address of the API: without TLS there would be no session at all
		Name: m.cookieName(name), Value: value, Path: m.basePath, MaxAge: seconds, HttpOnly: true, Secure: m.Provider.Secure(), SameSite: site,
	}
}
