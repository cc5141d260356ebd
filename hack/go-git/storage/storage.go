// Package storage names where a Git repository is kept.
package storage

// Storer keeps a repository.
type Storer any
