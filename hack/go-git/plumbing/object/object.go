// Package object has the objects of a Git repository, of which there are none.
package object

import "errors"

var errUnavailable = errors.New("this build of Syft reads no Git repositories")

// Commit, Tree and File are never read.
type (
	Commit struct{}
	Tree   struct{}
	File   struct{}
)

// Tree returns an error.
func (*Commit) Tree() (*Tree, error) { return nil, errUnavailable }

// File returns an error.
func (*Tree) File(string) (*File, error) { return nil, errUnavailable }

// Contents returns an error.
func (*File) Contents() (string, error) { return "", errUnavailable }
