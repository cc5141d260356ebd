// Package hclsimple has the function of github.com/hashicorp/hcl that Syft compiles against, and decodes nothing. Syft reads the lock files of
// Terraform with it, in directories and not in images, which are all that the operator scans. docs/decisions/0078-size-of-the-program.md has the figures.
package hclsimple

import "errors"

// ErrUnavailable is what Decode ends with.
var ErrUnavailable = errors.New("this build of Syft reads no lock files of Terraform")

// Decode returns ErrUnavailable.
func Decode(string, []byte, any, any) error { return ErrUnavailable }
