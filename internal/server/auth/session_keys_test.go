package auth

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/scanner-operator/scanner-operator/internal/server/auth/oidc"
)

// The store of a session tells nothing of it, and what is changed or moved in the store cannot be opened.
func TestSealedSessions(t *testing.T) {
	content := sessionContent{
		Grant: oidc.Grant{
			User: authenticationv1.UserInfo{Username: "alice", Groups: []string{"readers"}}, DisplayName: "Alice", Subject: "subject", SessionID: "session",
			Expires: time.Unix(4000000000, 0).UTC(), Nonce: "nonce", IDToken: "eyJ.id.token", RefreshToken: "refresh token",
		},
		Confirmed: time.Unix(1700000000, 1000).UTC(),
	}
	secret := newSecret()
	keys, err := keysOf(secret)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := keys.seal(content)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := keys.open(sealed)
	if diff := cmp.Diff(content, opened); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	stored := keys.id + string(sealed) + ownerOf(content.User.Username)
	for _, text := range []string{secret, "alice", "readers", "Alice", "subject", "nonce", "eyJ", "refresh"} {
		if strings.Contains(stored, text) {
			t.Errorf("the store has %q", text)
		}
	}
	if again, err := keys.seal(content); err != nil || bytes.Equal(again, sealed) {
		t.Errorf("sealing twice gives the same: %v", err)
	}

	other, err := keysOf(newSecret())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.open(sealed); err == nil {
		t.Error("another secret opens the session")
	}
	moved := sessionKeys{other.id, keys.sealer}
	if _, err := moved.open(sealed); err == nil {
		t.Error("the session was moved to another row")
	}
	sealed[len(sealed)/2] ^= 1
	if _, err := keys.open(sealed); err == nil {
		t.Error("the session was changed")
	}
	if _, err := keys.open(nil); err == nil {
		t.Error("nothing was opened")
	}
	for _, malformed := range []string{"", "x", secret + "A", secret[1:], secret[:42] + "=", strings.Repeat("é", 22)} {
		if _, err := keysOf(malformed); err == nil {
			t.Errorf("%q is a secret", malformed)
		}
	}
	if again, err := keysOf(secret); err != nil || again.id != keys.id || other.id == keys.id || len(keys.id) != 64 {
		t.Errorf("the IDs %q and %q, %v", keys.id, other.id, err)
	}
	if ownerOf("a") == ownerOf("b") || sessionHash("a", "b", "c") == sessionHash("a", "bc") || sessionHash("a", "b") == sessionHash("c", "b") {
		t.Error("different things have the same hash")
	}
}
