package oidc

import (
	"context"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
)

// signatures are the algorithms that tokens may be signed with: those with a public key.
var signatures = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
}

// keys are those of a provider. It says in the context of a verification why they could not be read, which the verifier only writes into
// the text of its error.
type keys struct{ remote *oidc.RemoteKeySet }

// keyFailureKey finds in a context where to say why the keys could not be read.
type keyFailureKey struct{}

func withKeyFailure(ctx context.Context, failure *error) context.Context {
	return context.WithValue(ctx, keyFailureKey{}, failure)
}

// VerifySignature implements oidc.KeySet.
func (k keys) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	payload, err := k.remote.VerifySignature(ctx, token)
	if failure, _ := ctx.Value(keyFailureKey{}).(*error); failure != nil && err != nil && strings.HasPrefix(err.Error(), "fetching keys") {
		*failure = err
	}
	return payload, err
}
