//go:build !linux

package main

import (
	"context"
	"errors"
)

// memory is for real clusters alone.
type memory struct{}

var errNotLinux = errors.New("a real cluster needs Linux; --mode=simulated works here")

func (c *cluster) requireReal(context.Context) error  { return errNotLinux }
func (c *cluster) startReal(context.Context) error    { return errNotLinux }
func (c *cluster) stopReal() error                    { return nil }
func (c *cluster) cleanReal() error                   { return nil }
func (c *cluster) load(context.Context, string) error { return errNotLinux }
