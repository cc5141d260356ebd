//go:build !linux

package dbserver

import "syscall"

// endWithParent does nothing: a server outlives tests that are killed.
func endWithParent(*syscall.SysProcAttr, syscall.Signal) {}
