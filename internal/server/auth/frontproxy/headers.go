package frontproxy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// Bounds of what proxies say, as of what identity providers say.
const (
	maxGroups = 500
	// maxName bounds the name of a user or a group in bytes.
	maxName = 512
)

// Names that Kubernetes gives.
const (
	anonymousUser        = "system:anonymous"
	authenticatedGroup   = "system:authenticated"
	unauthenticatedGroup = "system:unauthenticated"
)

// Names says whether headers name a user. That of those who have not signed in is nobody's.
func (p *Proxy) Names(headers http.Header) bool {
	_, names := p.usernames(headers)
	return len(names) > 0 && !slices.Equal(names, []string{anonymousUser})
}

// User returns the user that headers name, with the group system:authenticated in addition, as kube-apiserver does. Other names that begin with
// "system:" are accepted: who could forge them could name any user.
func (p *Proxy) User(headers http.Header) (authenticationv1.UserInfo, error) {
	header, names := p.usernames(headers)
	if len(names) != 1 {
		return authenticationv1.UserInfo{}, fmt.Errorf("the header %s has %d values: the proxy must replace those that clients send", header, len(names))
	}
	if err := checkName(header, names[0]); err != nil {
		return authenticationv1.UserInfo{}, err
	}
	user := authenticationv1.UserInfo{Username: names[0]}
	for _, header := range p.config.GroupHeaders {
		groups := values(headers, header)
		if len(user.Groups)+len(groups) > maxGroups {
			return authenticationv1.UserInfo{}, fmt.Errorf("the header %s names group %d and more, which exceeds the maximum of %d: "+
				"configure the proxy to send only the groups that are used in role bindings", header, len(user.Groups)+len(groups), maxGroups)
		}
		for _, group := range groups {
			if err := checkName(header, group); err != nil {
				return authenticationv1.UserInfo{}, err
			}
		}
		user.Groups = append(user.Groups, groups...)
	}
	if !slices.Contains(user.Groups, authenticatedGroup) && !slices.Contains(user.Groups, unauthenticatedGroup) {
		user.Groups = append(user.Groups, authenticatedGroup)
	}
	return user, nil
}

// usernames returns the values of the first header with a user name.
func (p *Proxy) usernames(headers http.Header) (header string, names []string) {
	for _, header := range p.config.UsernameHeaders {
		if names := values(headers, header); len(names) > 0 {
			return header, names
		}
	}
	return "", nil
}

// values returns the values of a header that are not empty.
func values(headers http.Header, header string) (out []string) {
	for _, value := range headers[header] {
		if value = strings.TrimSpace(value); value != "" {
			out = append(out, value)
		}
	}
	return out
}

func checkName(header, name string) error {
	switch {
	case len(name) > maxName:
		return fmt.Errorf("a value of the header %s has %d bytes, which exceeds the maximum of %d", header, len(name), maxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("a value of the header %s is not text in UTF-8 without control characters", header)
	}
	return nil
}
