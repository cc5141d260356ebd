// Package oidc signs users in with an OpenID Connect provider: authorization code flow with PKCE, refresh, logout. Names of users and
// groups follow from claims as with the flags --oidc-* of kube-apiserver. Everything that a provider sends has bounds.
package oidc
