// Package docker has the options with which Stereoscope has containerd pull an image from a registry. They do nothing.
package docker

import "github.com/containerd/containerd/v2/core/remotes"

// RegistryHosts are the hosts of a registry.
type RegistryHosts any

// StatusTracker tracks downloads.
type StatusTracker any

// ResolverOptions are those of NewResolver.
type ResolverOptions struct {
	Hosts   RegistryHosts
	Tracker StatusTracker
}

// NewInMemoryTracker returns nil.
func NewInMemoryTracker() StatusTracker { return nil }

// NewResolver returns nil.
func NewResolver(ResolverOptions) remotes.Resolver { return nil }
