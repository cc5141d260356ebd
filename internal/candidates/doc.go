// Package candidates chooses newer tags of an image from the list of tags of its repository: those of the same variant, by version order. It does no I/O,
// and the tags can be hostile.
package candidates
