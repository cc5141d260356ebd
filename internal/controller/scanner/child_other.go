//go:build !linux

package scanner

import (
	"errors"
	"os/exec"
)

// hideMemory does nothing: /proc is of Linux.
func hideMemory() error { return nil }

// canConfine says why runBound cannot limit which files a child opens.
func canConfine() error { return errors.New("only Linux has Landlock") }

// runBound runs a child. Only Linux can end it together with a killed manager, and confine it; elsewhere it ends at its own deadline.
func runBound(cmd *exec.Cmd, _ reachable, _ int64) error { return cmd.Run() }
