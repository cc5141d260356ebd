// Package git has the part of the interface of github.com/go-git/go-git that Syft compiles against, and opens and clones nothing. Syft clones
// repositories for license texts of Go modules and for ports of vcpkg where its configuration says so, which that of the operator does not: scans
// have no network. docs/decisions/0078-size-of-the-program.md has the figures.
package git

import (
	"context"
	"errors"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage"
)

// ErrUnavailable is what everything here ends with.
var ErrUnavailable = errors.New("this build of Syft reads no Git repositories")

// CloneOptions is what Syft fills in for a clone. Its fields are those of the replaced module.
type CloneOptions struct {
	URL           string
	ReferenceName plumbing.ReferenceName
	SingleBranch  bool
	Depth         int
	Progress      io.Writer
}

// CheckoutOptions names a commit.
type CheckoutOptions struct{ Hash plumbing.Hash }

// Repository is never opened.
type Repository struct{ Storer storage.Storer }

// Worktree is never checked out.
type Worktree struct{}

// Clone returns ErrUnavailable.
func Clone(storage.Storer, any, *CloneOptions) (*Repository, error) { return nil, ErrUnavailable }

// CloneContext returns ErrUnavailable.
func CloneContext(context.Context, storage.Storer, any, *CloneOptions) (*Repository, error) {
	return nil, ErrUnavailable
}

// Open returns ErrUnavailable.
func Open(storage.Storer, any) (*Repository, error) { return nil, ErrUnavailable }

// PlainOpen returns ErrUnavailable.
func PlainOpen(string) (*Repository, error) { return nil, ErrUnavailable }

// ResolveRevision returns ErrUnavailable.
func (*Repository) ResolveRevision(plumbing.Revision) (*plumbing.Hash, error) {
	return nil, ErrUnavailable
}

// Worktree returns ErrUnavailable.
func (*Repository) Worktree() (*Worktree, error) { return nil, ErrUnavailable }

// CommitObject returns ErrUnavailable.
func (*Repository) CommitObject(plumbing.Hash) (*object.Commit, error) { return nil, ErrUnavailable }

// TreeObject returns ErrUnavailable.
func (*Repository) TreeObject(plumbing.Hash) (*object.Tree, error) { return nil, ErrUnavailable }

// Checkout returns ErrUnavailable.
func (*Worktree) Checkout(*CheckoutOptions) error { return ErrUnavailable }
