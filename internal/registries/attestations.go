package registries

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// Bounds of Attestations.
const (
	MaxAttestations         = 16
	MaxAttestedRepositories = 64
	minRSABits, maxRSABits  = 2048, 8192
)

// Attestation names a key whose holder is trusted to state what images contain.
type Attestation struct {
	// PublicKey is an ECDSA, Ed25519 or RSA key in PEM, as "cosign public-key" writes it.
	PublicKey string `json:"publicKey"`
	// Repositories limits the key to images in these repositories and below, as host[:port][/path]; none means all.
	Repositories []string `json:"repositories,omitempty"`
}

// Key is the public key of an Attestation: an *ecdsa.PublicKey, an ed25519.PublicKey or an *rsa.PublicKey.
type Key struct {
	// ID is "sha256:" and the digest of the key in PKIX form, in hexadecimal.
	ID     string
	Public any
}

func (c *Config) validateAttestations() error {
	if len(c.Attestations) > MaxAttestations {
		return fmt.Errorf("attestations: %d entries are more than the maximum of %d", len(c.Attestations), MaxAttestations)
	}
	for i := range c.Attestations {
		a := &c.Attestations[i]
		if _, err := ParseKey(a.PublicKey); err != nil {
			return fmt.Errorf("attestations[%d].publicKey: %w", i, err)
		}
		if len(a.Repositories) > MaxAttestedRepositories {
			return fmt.Errorf("attestations[%d].repositories: %d entries are more than the maximum of %d", i, len(a.Repositories), MaxAttestedRepositories)
		}
		for j, repository := range a.Repositories {
			if _, err := repositoryAt(repository, "image"); err != nil {
				return fmt.Errorf("attestations[%d].repositories[%d]: %q is not host[:port][/path]", i, j, repository)
			}
		}
	}
	return nil
}

// Verify reports whether a signature of a message was made with the key. The type of the key alone decides the algorithm, as with cosign: SHA-256
// with ECDSA and RSA, the latter with PKCS #1 v1.5.
func (k Key) Verify(message, signature []byte) bool {
	digest := sha256.Sum256(message)
	switch key := k.Public.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(key, digest[:], signature)
	case ed25519.PublicKey:
		return ed25519.Verify(key, message, signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], signature) == nil
	}
	return false
}

// ParseKey reads one public key in PEM.
func ParseKey(text string) (Key, error) {
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "PUBLIC KEY" || strings.TrimSpace(string(rest)) != "" {
		return Key{}, errors.New(`expected one public key in PEM ("-----BEGIN PUBLIC KEY-----")`)
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return Key{}, fmt.Errorf("decode: %w", err)
	}
	switch key := public.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return Key{}, fmt.Errorf("the RSA key has %d bits, expected %d to %d", bits, minRSABits, maxRSABits)
		}
	default:
		return Key{}, fmt.Errorf("keys of type %T are not supported; use ECDSA, Ed25519 or RSA", public)
	}
	sum := sha256.Sum256(block.Bytes)
	return Key{ID: "sha256:" + hex.EncodeToString(sum[:]), Public: public}, nil
}

// Keys returns the keys that are trusted to state what the images in a repository contain.
func (c *Config) Keys(repository name.Repository) []Key {
	var keys []Key
	for i := range c.Attestations {
		if !c.Attestations[i].covers(repository) {
			continue
		}
		// Parse has checked the key.
		if key, err := ParseKey(c.Attestations[i].PublicKey); err == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

func (a *Attestation) covers(repository name.Repository) bool {
	path := repository.RepositoryStr()
	for _, prefix := range a.Repositories {
		host, below, _ := strings.Cut(prefix, "/")
		below = strings.Trim(below, "/")
		if Canonical(host) == Canonical(repository.RegistryStr()) && (below == "" || path == below || strings.HasPrefix(path, below+"/")) {
			return true
		}
	}
	return len(a.Repositories) == 0
}
