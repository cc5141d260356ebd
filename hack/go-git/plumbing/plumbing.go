// Package plumbing has the names of what a Git repository holds.
package plumbing

import "encoding/hex"

// ReferenceName is the name of a branch or a tag.
type ReferenceName string

// NewTagReferenceName returns the reference of a tag.
func NewTagReferenceName(name string) ReferenceName { return ReferenceName("refs/tags/" + name) }

// Revision names a commit.
type Revision string

// Hash is the SHA-1 of an object.
type Hash [20]byte

// NewHash reads a hash in hexadecimal digits.
func NewHash(text string) Hash {
	var hash Hash
	digits, _ := hex.DecodeString(text)
	copy(hash[:], digits)
	return hash
}

func (h Hash) String() string { return hex.EncodeToString(h[:]) }
