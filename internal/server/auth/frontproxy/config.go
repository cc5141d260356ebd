// Package frontproxy reads who a trusted proxy in front of the API says has sent a request. As with the flags --requestheader-* of
// kube-apiserver, the proxy proves itself with a TLS client certificate, and names the user and the groups in headers.
package frontproxy

import (
	"errors"
	"fmt"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// Bounds of what an administrator configures.
const (
	maxHeaders      = 8
	maxAllowedNames = 32
	maxAllowedName  = 256
)

// headerPattern are names that all proxies pass on: some drop those with underscores.
var headerPattern = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

// otherHeaders have a meaning of their own.
var otherHeaders = []string{"Authorization", "Connection", "Cookie", "Host", "Origin", "Upgrade", "X-Scanner-Authorization"}

// Config configures which proxies are trusted. Its fields mean the same as the flags of kube-apiserver.
type Config struct {
	// ClientCAFile holds the certificate authorities of the client certificates of proxies, in PEM: at most 32, in at most 64 KiB.
	ClientCAFile string
	// AllowedNames are the common names of client certificates that are accepted, at most 32; none accepts all that the authorities signed.
	AllowedNames []string
	// UsernameHeaders may have the name of the user; the first that a request has counts. GroupHeaders have one group per value. At most 8 each.
	UsernameHeaders, GroupHeaders []string
	// Clock is a real one by default.
	Clock clock.Clock
	Log   logr.Logger
}

// Validate brings the names of headers into their usual form, and says what is missing or malformed.
func (c *Config) Validate() error {
	if c.ClientCAFile == "" {
		return errors.New("the file with the certificate authorities of proxies is missing")
	}
	if len(c.UsernameHeaders) == 0 {
		return errors.New("the header with the user name is missing")
	}
	if len(c.UsernameHeaders) > maxHeaders || len(c.GroupHeaders) > maxHeaders {
		return fmt.Errorf("there are %d headers for user names and %d for groups: use at most %d each", len(c.UsernameHeaders), len(c.GroupHeaders), maxHeaders)
	}
	if len(c.AllowedNames) > maxAllowedNames {
		return fmt.Errorf("there are %d allowed names: use at most %d", len(c.AllowedNames), maxAllowedNames)
	}
	for _, name := range c.AllowedNames {
		if name == "" || len(name) > maxAllowedName || strings.ContainsFunc(name, unicode.IsControl) {
			return fmt.Errorf("%.40q is not a common name: use 1 to %d bytes without control characters", name, maxAllowedName)
		}
	}
	var err error
	if c.UsernameHeaders, err = canonical(c.UsernameHeaders); err != nil {
		return err
	}
	if c.GroupHeaders, err = canonical(c.GroupHeaders); err != nil {
		return err
	}
	for _, name := range c.GroupHeaders {
		if slices.Contains(c.UsernameHeaders, name) {
			return fmt.Errorf("the header %s is for user names and for groups: use another one for groups", name)
		}
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return nil
}

// canonical returns the names of headers as requests have them.
func canonical(names []string) ([]string, error) {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = textproto.CanonicalMIMEHeaderKey(name)
		switch {
		case !headerPattern.MatchString(name):
			return nil, fmt.Errorf("%.80q is not a header that proxies pass on: use letters, digits and hyphens, at most 64", name)
		case slices.Contains(otherHeaders, out[i]):
			return nil, fmt.Errorf("the header %s has another meaning: use one such as X-Remote-User", out[i])
		}
	}
	return out, nil
}
