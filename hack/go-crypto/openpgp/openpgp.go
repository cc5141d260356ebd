// Package openpgp has the part of the interface of github.com/ProtonMail/go-crypto that the reader of RPM packages compiles against, and verifies
// nothing. Syft reads the headers of RPM packages, and neither signs nor verifies them. docs/decisions/0113-size-of-the-program-again.md has the figures.
package openpgp

import "github.com/ProtonMail/go-crypto/openpgp/packet"

// Entity is the owner of keys. There is none.
type Entity struct {
	PrimaryKey *packet.PublicKey
	Subkeys    []Subkey
}

// EntityList are entities.
type EntityList []*Entity

// Subkey is a further key of an entity.
type Subkey struct{ PublicKey *packet.PublicKey }

// Identity is a name of an entity.
type Identity struct{ Name string }

// PrimaryIdentity returns nil.
func (*Entity) PrimaryIdentity() *Identity { return nil }
