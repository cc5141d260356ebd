package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/server/auth/oidc"
)

// sessionSecretSize is the size of the secret in the cookie of a session, in bytes.
const sessionSecretSize = 32

// sessionKeys are what the secret in a cookie stands for: the ID of the session in the store, and the key of its content. Whoever has the
// store has neither the secret nor the key, and can neither use a session nor read the tokens in it.
type sessionKeys struct {
	id     string
	sealer cipher.AEAD
}

// sessionContent is what the store keeps of a session for its owner alone.
type sessionContent struct {
	oidc.Grant
	// Confirmed is when the provider last said so.
	Confirmed time.Time
}

// newSecret returns a random text that nobody can guess.
func newSecret() string {
	secret := make([]byte, sessionSecretSize)
	// crypto/rand.Read never fails: it ends the program instead.
	_, _ = rand.Read(secret)
	return base64.RawURLEncoding.EncodeToString(secret)
}

// keysOf derives the keys of a session from its secret.
func keysOf(text string) (sessionKeys, error) {
	secret, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(secret) != sessionSecretSize {
		return sessionKeys{}, errors.New("malformed session secret")
	}
	id, err := hkdf.Key(sha256.New, secret, nil, "scanner-operator session ID", sha256.Size)
	if err != nil {
		return sessionKeys{}, fmt.Errorf("derive the ID of a session: %w", err)
	}
	key, err := hkdf.Key(sha256.New, secret, nil, "scanner-operator session content", sha256.Size)
	if err != nil {
		return sessionKeys{}, fmt.Errorf("derive the key of a session: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return sessionKeys{}, fmt.Errorf("set up the key of a session: %w", err)
	}
	sealer, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return sessionKeys{}, fmt.Errorf("set up the key of a session: %w", err)
	}
	return sessionKeys{hex.EncodeToString(id), sealer}, nil
}

// seal encrypts the content of a session.
func (k sessionKeys) seal(content sessionContent) ([]byte, error) {
	text, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("encode a session: %w", err)
	}
	return k.sealer.Seal(nil, nil, text, []byte(k.id)), nil //nolint:gosec // the sealer makes a random nonce for each text
}

// open decrypts what seal encrypted.
func (k sessionKeys) open(sealed []byte) (content sessionContent, err error) {
	text, err := k.sealer.Open(nil, nil, sealed, []byte(k.id))
	if err == nil {
		err = json.Unmarshal(text, &content)
	}
	if err != nil {
		return sessionContent{}, fmt.Errorf("decrypt a session: %w", err)
	}
	return content, nil
}

// sessionHash stands in the store for something that sessions are deleted by.
func sessionHash(kind string, parts ...string) string {
	hash := sha256.New()
	for _, part := range append([]string{kind}, parts...) {
		hash.Write([]byte(part))
		hash.Write([]byte{0})
	}
	return hex.EncodeToString(hash.Sum(nil))
}
