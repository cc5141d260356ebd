//go:build !linux

package dbserver

// availableMemory is 0: there is no file system in memory.
func availableMemory() uint64 { return 0 }
