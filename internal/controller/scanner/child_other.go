//go:build !linux

package scanner

import "os/exec"

// runBound runs a child. Only Linux can end it together with a killed manager; elsewhere it ends at its own deadline.
func runBound(cmd *exec.Cmd) error { return cmd.Run() }
