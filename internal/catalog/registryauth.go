package catalog

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

const (
	// maxTokenBytes bounds the answer of a token service.
	maxTokenBytes = 256 << 10
	// maxChallengeBytes bounds a WWW-Authenticate header that is looked at.
	maxChallengeBytes = 8 << 10
)

// authorize answers the challenges of a registry and keeps the header for the requests that follow.
func (c *registryClient) authorize(ctx context.Context, challenges []string, refusal *statusError) error {
	c.authorization = ""
	for _, header := range challenges {
		scheme, parameters := parseChallenge(header)
		switch scheme {
		case "basic":
			if c.credential.password == "" {
				continue
			}
			c.authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(c.credential.username+":"+c.credential.password))
			return nil
		case "bearer":
			if c.credential.registryToken != "" {
				c.authorization = "Bearer " + c.credential.registryToken
				return nil
			}
			token, err := c.fetchToken(ctx, parameters)
			if err != nil {
				return err
			}
			c.authorization = "Bearer " + token
			return nil
		}
	}
	return refusal
}

// fetchToken asks the token service that a challenge names, with the credential if there is one.
func (c *registryClient) fetchToken(ctx context.Context, challenge map[string]string) (string, error) {
	realm, err := url.Parse(challenge["realm"])
	if err != nil || realm.Host == "" || realm.User != nil {
		return "", failf(model.ReasonRegistryUnavailable, "the registry %s requires a token, but its challenge contains no valid token service", c.rules.registry)
	}
	scope := challenge["scope"]
	if scope == "" {
		scope = "repository:" + c.repository.RepositoryStr() + ":pull"
	}
	if c.credential.identityToken != "" {
		form := url.Values{
			"grant_type": {"refresh_token"}, "refresh_token": {c.credential.identityToken},
			"service": {challenge["service"]}, "scope": {scope}, "client_id": {userAgent},
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, realm.String(), strings.NewReader(form.Encode()))
		if err != nil {
			return "", err
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return c.requestToken(request)
	}
	query := realm.Query()
	query.Set("scope", scope)
	if service := challenge["service"]; service != "" {
		query.Set("service", service)
	}
	realm.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, realm.String(), nil)
	if err != nil {
		return "", err
	}
	if c.credential.password != "" {
		request.SetBasicAuth(c.credential.username, c.credential.password)
	}
	return c.requestToken(request)
}

func (c *registryClient) requestToken(request *http.Request) (string, error) {
	request.Header.Set("User-Agent", userAgent)
	response, err := c.http.Do(request)
	if err != nil {
		return "", withoutURL(err)
	}
	if response.StatusCode != http.StatusOK {
		return "", c.refusal(response)
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxTokenBytes))
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", errors.New("the response of the token service is not a JSON document")
	}
	token := answer.Token
	if token == "" {
		token = answer.AccessToken
	}
	if token == "" || strings.ContainsAny(token, "\r\n") {
		return "", errors.New("the response of the token service contains no valid token")
	}
	return token, nil
}

// parseChallenge reads one WWW-Authenticate header with one challenge: `Bearer realm="…",service="…"`. The scheme is
// in lower case.
func parseChallenge(header string) (scheme string, parameters map[string]string) {
	if len(header) > maxChallengeBytes {
		return "", nil
	}
	scheme, rest, _ := strings.Cut(strings.TrimSpace(header), " ")
	parameters = map[string]string{}
	for {
		rest = strings.TrimLeft(rest, " \t,")
		key, after, found := strings.Cut(rest, "=")
		if !found {
			return strings.ToLower(scheme), parameters
		}
		var value string
		value, rest = challengeValue(after)
		parameters[strings.ToLower(strings.TrimSpace(key))] = value
	}
}

// challengeValue takes a token or a quoted string from the front of s.
func challengeValue(s string) (value, rest string) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, ", \t")
		if end < 0 {
			return s, ""
		}
		return s[:end], s[end:]
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if i++; i < len(s) {
				b.WriteByte(s[i])
			}
		case '"':
			return b.String(), s[i+1:]
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), ""
}
