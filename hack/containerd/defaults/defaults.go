// Package defaults has the address at which Stereoscope looks for containerd.
package defaults

// DefaultAddress is empty: containerd is nowhere.
const DefaultAddress = ""
