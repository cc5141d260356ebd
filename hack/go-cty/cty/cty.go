// Package cty has the type of github.com/zclconf/go-cty that go-sarif compiles against, for a method that the operator does not call.
// docs/decisions/0113-size-of-the-program-again.md has the figures.
package cty

// Value has no value.
type Value struct{}
