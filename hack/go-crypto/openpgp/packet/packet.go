// Package packet has the types of OpenPGP's packets that the reader of RPM packages compiles against. It reads, signs and verifies nothing.
package packet

import (
	"crypto"
	"errors"
	"hash"
	"io"
	"time"
)

// ErrUnavailable is what everything here ends with.
var ErrUnavailable = errors.New("this build reads, makes and verifies no OpenPGP signatures")

// SignatureType is what a signature is about.
type SignatureType uint8

// SigTypeBinary is the type of a signature over bytes.
const SigTypeBinary SignatureType = 0

// PublicKeyAlgorithm is an algorithm of signatures.
type PublicKeyAlgorithm uint8

// Packet is one of OpenPGP's.
type Packet any

// PublicKey verifies nothing.
type PublicKey struct {
	KeyId       uint64 //nolint:revive,staticcheck // the name in the replaced module
	Fingerprint []byte
	PubKeyAlgo  PublicKeyAlgorithm
}

// PrivateKey signs nothing.
type PrivateKey struct{ PublicKey }

// Signature is never made.
type Signature struct {
	SigType           SignatureType
	PubKeyAlgo        PublicKeyAlgorithm
	Hash              crypto.Hash
	CreationTime      time.Time
	IssuerKeyId       *uint64 //nolint:revive,staticcheck // the name in the replaced module
	IssuerFingerprint []byte
}

// Read returns ErrUnavailable.
func Read(io.Reader) (Packet, error) { return nil, ErrUnavailable }

// VerifySignature returns ErrUnavailable.
func (*PublicKey) VerifySignature(hash.Hash, *Signature) error { return ErrUnavailable }

// CheckKeyIdOrFingerprint returns false.
func (*Signature) CheckKeyIdOrFingerprint(*PublicKey) bool { return false } //nolint:revive,staticcheck // the name in the replaced module

// Sign returns ErrUnavailable.
func (*Signature) Sign(hash.Hash, *PrivateKey, any) error { return ErrUnavailable }

// Serialize returns ErrUnavailable.
func (*Signature) Serialize(io.Writer) error { return ErrUnavailable }
