package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	authenticationv1 "k8s.io/api/authentication/v1"
)

// Bounds of tokens, in bytes, and of the difference between the clocks of provider and operator.
const (
	maxIDToken      = 64 << 10
	maxRefreshToken = 32 << 10
	maxLogoutToken  = 32 << 10
	clockSkew       = time.Minute
	// maxConfirmation bounds how long an answer without an ID token confirms the identity.
	maxConfirmation = time.Hour
)

// MaxLogoutAge bounds how long ago a logout token may have been issued, by the clock of the operator.
const MaxLogoutAge = 10*time.Minute + clockSkew

// Grant is what a provider grants to somebody who has signed in there.
type Grant struct {
	// User is who signed in, with the groups, as in a SubjectAccessReview.
	User authenticationv1.UserInfo
	// DisplayName is what people call the user; it may be empty.
	DisplayName string
	// Subject is the user at the provider, SessionID the session there, if the provider says.
	Subject, SessionID string
	// Expires is when the ID token expires, and Issued when it was issued, by the clock of the provider.
	Expires, Issued time.Time
	// Nonce is that of the ID token.
	Nonce string
	// IDToken is for signing out at the provider, RefreshToken for asking again; it may be empty.
	IDToken, RefreshToken string
}

// AuthURL is where a browser signs in. verifier is the one of PKCE, which Exchange needs too.
func (p *Provider) AuthURL(ctx context.Context, state, nonce, verifier string) (string, error) {
	known, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	return p.oauth(known, "").AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier)), nil
}

// Exchange redeems the code with which a browser came back. The errors are ErrUnavailable, ErrRefused and ErrRejected.
func (p *Provider) Exchange(ctx context.Context, code, nonce, verifier string) (Grant, error) {
	return p.request(ctx, func(ctx context.Context, known *discovered, config *oauth2.Config) (Grant, error) {
		token, err := config.Exchange(ctx, code, oauth2.VerifierOption(verifier))
		if err != nil {
			return Grant{}, requestError(err)
		}
		raw, _ := token.Extra("id_token").(string)
		if raw == "" {
			return Grant{}, fmt.Errorf("%w: the provider sent no ID token", ErrRejected)
		}
		grant, err := p.verify(ctx, known, raw)
		if err != nil {
			return Grant{}, err
		}
		if grant.Nonce != nonce {
			return Grant{}, fmt.Errorf("%w: its nonce is not that of this sign-in", ErrRejected)
		}
		grant.RefreshToken = token.RefreshToken
		return grant, grant.check()
	})
}

// Refresh asks what the provider says now of somebody it has granted something. A provider that sends no ID token anew confirms the one
// before, for as long as the access token lasts. The errors are those of Exchange.
func (p *Provider) Refresh(ctx context.Context, before Grant) (Grant, error) {
	return p.request(ctx, func(ctx context.Context, known *discovered, config *oauth2.Config) (Grant, error) {
		token, err := config.TokenSource(ctx, &oauth2.Token{RefreshToken: before.RefreshToken}).Token()
		if err != nil {
			return Grant{}, requestError(err)
		}
		after := before
		if raw, _ := token.Extra("id_token").(string); raw != "" {
			if after, err = p.verify(ctx, known, raw); err != nil {
				return Grant{}, err
			}
			if after.Subject != before.Subject {
				return Grant{}, fmt.Errorf("%w: its subject is not that of the sign-in", ErrRejected)
			}
			if after.Nonce != "" && after.Nonce != before.Nonce {
				return Grant{}, fmt.Errorf("%w: its nonce is not that of the sign-in", ErrRejected)
			}
			after.Nonce = before.Nonce
			if after.SessionID == "" {
				after.SessionID = before.SessionID
			}
		} else {
			after.Expires = p.config.Clock().Add(confirmation(token.ExpiresIn))
		}
		after.RefreshToken = token.RefreshToken
		return after, after.check()
	})
}

// confirmation is how long an access token confirms an identity that lasts for so many seconds, 0 if the provider does not say.
func confirmation(seconds int64) time.Duration {
	if seconds <= 0 || seconds > int64(maxConfirmation/time.Second) {
		return maxConfirmation
	}
	return time.Duration(seconds) * time.Second
}

// EndSessionURL is where a browser signs out at the provider, "" if the provider has no such page or cannot be asked.
func (p *Provider) EndSessionURL(ctx context.Context, grant Grant) string {
	known, err := p.discover(ctx)
	if err != nil || known.endSession == "" {
		return ""
	}
	end, err := url.Parse(known.endSession)
	if err != nil {
		return ""
	}
	query := end.Query()
	query.Set("id_token_hint", grant.IDToken)
	query.Set("client_id", p.config.ClientID)
	query.Set("post_logout_redirect_uri", p.config.PostLogoutURL)
	end.RawQuery = query.Encode()
	return end.String()
}

// Logout says which sessions have ended at a provider: the one with the SessionID or, without one, all of the Subject.
type Logout struct {
	Subject, SessionID string
	// Before is when they have begun at the latest, by the clock of the provider: a token that is sent again is not about later ones.
	Before time.Time
}

// VerifyLogout reads a logout token, with which the provider says that sessions there have ended. The errors are those of Exchange.
func (p *Provider) VerifyLogout(ctx context.Context, raw string) (ended Logout, err error) {
	if len(raw) > maxLogoutToken {
		return Logout{}, fmt.Errorf("%w: it has %d bytes, which exceeds the maximum of %d", ErrRejected, len(raw), maxLogoutToken)
	}
	_, err = p.request(ctx, func(ctx context.Context, known *discovered, _ *oauth2.Config) (Grant, error) {
		var keysFailed error
		token, err := p.verifier(known).VerifyLogout(withKeyFailure(ctx, &keysFailed), raw)
		if err != nil {
			return Grant{}, verifyError(err, keysFailed)
		}
		now := p.config.Clock()
		if token.IssuedAt.After(now.Add(clockSkew)) {
			return Grant{}, fmt.Errorf("%w: it was issued in the future, at %s", ErrRejected, token.IssuedAt)
		}
		if token.IssuedAt.Before(now.Add(-MaxLogoutAge)) {
			return Grant{}, fmt.Errorf("%w: it was issued at %s, which is more than %s ago", ErrRejected, token.IssuedAt, MaxLogoutAge)
		}
		ended = Logout{token.Subject, token.SessionID, token.IssuedAt.Add(clockSkew)}
		return Grant{}, nil
	})
	return ended, err
}

// request runs work with the provider, within the bounds.
func (p *Provider) request(ctx context.Context, work func(context.Context, *discovered, *oauth2.Config) (Grant, error)) (Grant, error) {
	known, err := p.discover(ctx)
	if err != nil {
		return Grant{}, err
	}
	secret, err := p.config.clientSecret()
	if err != nil {
		return Grant{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if !p.slots.TryAcquire(1) {
		return Grant{}, fmt.Errorf("%w: there are %d concurrent requests to it", ErrUnavailable, requestsAtATime)
	}
	defer p.slots.Release(1)
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.client), requestTimeout)
	defer cancel()
	return work(ctx, known, p.oauth(known, secret))
}

func (p *Provider) oauth(known *discovered, secret string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.config.ClientID, ClientSecret: secret, Endpoint: known.endpoint, RedirectURL: p.config.RedirectURL, Scopes: p.config.Scopes,
	}
}

// verifier accepts tokens until clockSkew after they have expired.
func (p *Provider) verifier(known *discovered) *oidc.IDTokenVerifier {
	return oidc.NewVerifier(p.config.Issuer, known.keys, &oidc.Config{
		ClientID: p.config.ClientID, SupportedSigningAlgs: signatures, Now: func() time.Time { return p.config.Clock().Add(-clockSkew) },
	})
}

// verify reads an ID token.
func (p *Provider) verify(ctx context.Context, known *discovered, raw string) (Grant, error) {
	if len(raw) > maxIDToken {
		return Grant{}, fmt.Errorf("%w: it has %d bytes, which exceeds the maximum of %d", ErrRejected, len(raw), maxIDToken)
	}
	var keysFailed error
	token, err := p.verifier(known).Verify(withKeyFailure(ctx, &keysFailed), raw)
	if err != nil {
		return Grant{}, verifyError(err, keysFailed)
	}
	claims := claims{}
	if err := token.Claims(&claims); err != nil {
		return Grant{}, fmt.Errorf("%w: %w", ErrRejected, short(err))
	}
	if token.IssuedAt.After(p.config.Clock().Add(clockSkew)) {
		return Grant{}, fmt.Errorf("%w: it was issued in the future, at %s", ErrRejected, token.IssuedAt)
	}
	var party string
	if claims.read("azp", &party) == nil && party != p.config.ClientID {
		return Grant{}, fmt.Errorf("%w: it was issued to the client %.100q", ErrRejected, party)
	}
	if token.Subject == "" {
		return Grant{}, fmt.Errorf("%w: it has no subject", ErrRejected)
	}
	user, err := p.config.user(claims)
	if err != nil {
		return Grant{}, fmt.Errorf("%w: %w", ErrRejected, short(err))
	}
	grant := Grant{User: user, DisplayName: claims.displayName(), Subject: token.Subject, Expires: token.Expiry, Issued: token.IssuedAt, Nonce: token.Nonce, IDToken: raw}
	_ = claims.read("sid", &grant.SessionID) // It is optional.
	return grant, nil
}

// check refuses a grant that is too large to be kept.
func (g *Grant) check() error {
	if len(g.RefreshToken) > maxRefreshToken {
		return fmt.Errorf("%w: the refresh token has %d bytes, which exceeds the maximum of %d", ErrRejected, len(g.RefreshToken), maxRefreshToken)
	}
	return nil
}

// verifyError tells a token that is not accepted from keys that could not be read.
func verifyError(err, keysFailed error) error {
	if keysFailed != nil {
		return fmt.Errorf("%w: read its keys: %w", ErrUnavailable, short(keysFailed))
	}
	return fmt.Errorf("%w: %w", ErrRejected, short(err))
}

// misconfigured are the errors of RFC 6749 that say nothing about a code or a refresh token, but about the client.
var misconfigured = []string{"invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_scope"}

// requestError tells a refusal from a provider that does not work. Not all say "invalid_grant" when they refuse: dex says "invalid_request" of
// refresh tokens.
func requestError(err error) error {
	answer, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		return fmt.Errorf("%w: %w", ErrUnavailable, short(err))
	}
	status := answer.Response.StatusCode
	text := fmt.Errorf("status %d, error %.100q, %.200q", status, answer.ErrorCode, answer.ErrorDescription)
	refused := status == http.StatusBadRequest || status == http.StatusUnauthorized || status == http.StatusForbidden
	if refused && answer.ErrorCode != "" && !slices.Contains(misconfigured, answer.ErrorCode) {
		return fmt.Errorf("%w: %w", ErrRefused, text)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, text)
}
