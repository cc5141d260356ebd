// Package sampleimages builds small images that hold real packages, for trying the operator out and for its tests:
// Debian packages as apt delivers them, a Go program of old modules, an npm tree, Python, Alpine and Java packages.
//
// It needs the Go toolchain; apt and npm are used where they are, and a part that cannot be had falls back to the
// packages' real names and versions without their content, which the log says. Every image runs: its entry point waits
// for SIGTERM as user 65532. What is built is kept in a cache, so that only the first start takes time, and equal
// inputs give equal digests.
package sampleimages
