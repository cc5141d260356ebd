// Package decision says which findings a decision matches and which of several decisions matters most. It only computes: what it says of a
// package follows from what the fingerprint of the package covers, so that no image has a say about the packages of others.
package decision
