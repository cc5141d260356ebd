package oidc

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// Bounds of what tokens say. A name is at most maxName bytes with its prefix, and has no control characters.
const (
	maxGroups = 500
	maxName   = 512
	// maxDisplayName bounds the name that only people read, in bytes. A longer one is not used.
	maxDisplayName = 128
	// systemPrefix is that of names that Kubernetes itself gives.
	systemPrefix = "system:"
	// authenticatedGroup is the group that kube-apiserver adds to those whom it has authenticated.
	authenticatedGroup = "system:authenticated"
)

// claims are those of an ID token, by name.
type claims map[string]json.RawMessage

// user is who the claims are about: as kube-apiserver names it for a token with the same claims, except that names that begin with
// "system:" are refused.
func (c *Config) user(claims claims) (authenticationv1.UserInfo, error) {
	name, err := c.username(claims)
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	groups, err := c.groups(claims)
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	return authenticationv1.UserInfo{Username: name, Groups: append(groups, authenticatedGroup)}, nil
}

func (c *Config) username(claims claims) (string, error) {
	var name string
	if err := claims.read(c.UsernameClaim, &name); err != nil {
		return "", fmt.Errorf("the claim %q with the user name: %w", c.UsernameClaim, err)
	}
	if name == "" {
		return "", fmt.Errorf("the claim %q with the user name is empty", c.UsernameClaim)
	}
	if _, said := claims["email_verified"]; said && c.UsernameClaim == emailClaim {
		var verified bool
		if err := claims.read("email_verified", &verified); err != nil {
			return "", fmt.Errorf("the claim \"email_verified\": %w", err)
		}
		if !verified {
			return "", errors.New("the provider has not verified the e-mail address")
		}
	}
	name = c.usernamePrefix() + name
	return name, checkName("user name", name)
}

func (c *Config) groups(claims claims) ([]string, error) {
	if c.GroupsClaim == "" {
		return nil, nil
	}
	content, found := claims[c.GroupsClaim]
	if !found {
		var elsewhere map[string]json.RawMessage
		if claims.read("_claim_names", &elsewhere) == nil && elsewhere[c.GroupsClaim] != nil {
			return nil, fmt.Errorf("the claim %q with the groups is not in the token, because the user has too many: "+
				"configure the provider to send only the groups that are assigned to the application", c.GroupsClaim)
		}
		return nil, nil
	}
	var groups []string
	if json.Unmarshal(content, &groups) != nil {
		groups = make([]string, 1)
		if err := json.Unmarshal(content, &groups[0]); err != nil {
			return nil, fmt.Errorf("the claim %q with the groups is neither a string nor a list of strings", c.GroupsClaim)
		}
	}
	if len(groups) > maxGroups {
		return nil, fmt.Errorf("the claim %q has %d groups, which exceeds the maximum of %d: "+
			"configure the provider to send only the groups that are used in role bindings", c.GroupsClaim, len(groups), maxGroups)
	}
	for i := range groups {
		groups[i] = c.GroupsPrefix + groups[i]
		if err := checkName("group", groups[i]); err != nil {
			return nil, err
		}
	}
	return groups, nil
}

// checkName refuses a name that is not one, or one that only Kubernetes itself may give: whoever may name groups at the provider must not
// become an administrator.
func checkName(what, name string) error {
	switch {
	case len(name) > maxName:
		return fmt.Errorf("a %s has %d bytes, which exceeds the maximum of %d", what, len(name), maxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("the %s %q is not text", what, name)
	case strings.HasPrefix(name, systemPrefix):
		return fmt.Errorf("the %s %q begins with %q, which is reserved for Kubernetes: configure a prefix", what, name, systemPrefix)
	}
	return nil
}

// displayName is what people call the user, "" if the claims do not say.
func (c claims) displayName() string {
	for _, name := range []string{"name", "preferred_username", emailClaim} {
		var text string
		if c.read(name, &text) == nil && text != "" && len(text) <= maxDisplayName && !strings.ContainsFunc(text, unicode.IsControl) {
			return text
		}
	}
	return ""
}

func (c claims) read(name string, into any) error {
	content, found := c[name]
	if !found {
		return errors.New("it is missing")
	}
	if err := json.Unmarshal(content, into); err != nil {
		return errors.New("it has another type")
	}
	return nil
}
