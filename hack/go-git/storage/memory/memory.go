// Package memory names a storage in memory.
package memory

// Storage keeps nothing.
type Storage struct{}

// NewStorage returns a storage.
func NewStorage() *Storage { return &Storage{} }
