//go:build !faults

package sqldb

// inject does nothing: faults are injected into programs that are built with the tag faults only, which "make faults" tests.
func inject(_, _ string) error { return nil }
