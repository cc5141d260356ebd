package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// signer makes detached signatures. They are deterministic: the same key and the same file give the same bytes.
type signer struct{ key crypto.Signer }

// newSigner reads a private key in PEM: Ed25519, or ECDSA on P-256. It returns nil when there is no key and none is required.
func newSigner(o options) (*signer, error) {
	if o.SigningKey == "" {
		if o.RequireSignature {
			return nil, errors.New("the environment variable SIGNING_KEY must hold a private key in PEM")
		}
		return nil, nil //nolint:nilnil // no key is no error: the release is not signed then
	}
	for rest := []byte(o.SigningKey); ; {
		block, more := pem.Decode(rest)
		if block == nil {
			return nil, errors.New("SIGNING_KEY holds no private key in PEM (PKCS #8 or SEC 1)")
		}
		rest = more
		switch block.Type {
		case "PRIVATE KEY":
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("read SIGNING_KEY: %w", err)
			}
			return signerOf(key)
		case "EC PRIVATE KEY":
			key, err := x509.ParseECPrivateKey(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("read SIGNING_KEY: %w", err)
			}
			return signerOf(key)
		}
	}
}

func signerOf(key any) (*signer, error) {
	switch key := key.(type) {
	case ed25519.PrivateKey:
		return &signer{key}, nil
	case *ecdsa.PrivateKey:
		if key.Curve == elliptic.P256() {
			return &signer{key}, nil
		}
	}
	return nil, fmt.Errorf("SIGNING_KEY is a %T; use Ed25519 or ECDSA on P-256", key)
}

// sign writes the signature of a file beside it, as PATH.sig. Ed25519 signs the file, ECDSA its SHA-256, in DER. A signer
// that is nil does nothing.
func (s *signer) sign(path string) error {
	if s == nil {
		return nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var signature []byte
	if _, ok := s.key.(ed25519.PrivateKey); ok {
		signature, err = s.key.Sign(nil, content, crypto.Hash(0))
	} else {
		digest := sha256.Sum256(content)
		signature, err = s.key.Sign(nil, digest[:], crypto.SHA256) // without random numbers: RFC 6979
	}
	if err != nil {
		return fmt.Errorf("sign %s: %w", path, err)
	}
	return os.WriteFile(path+".sig", signature, 0o644)
}
