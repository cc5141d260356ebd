package store

import (
	"context"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// MaxForget bounds the images that one call of ForgetImages removes.
const MaxForget = 100

// Scans is the part of the store with what the Scanner controller must still know after a restart, beside the images themselves.
type Scans interface {
	// ImageStates returns what decisions about images are made from, without those that are not known; it only reads. More than
	// MaxKeys are an error.
	ImageStates(ctx context.Context, keys []vuln.ImageKey) (map[vuln.ImageKey]ImageState, error)
	// RaiseSizeClass makes a class that of all images of a repository. A greater one stays.
	RaiseSizeClass(ctx context.Context, repository string, class vuln.SizeClass) error
	// RegistryHolds returns the registries that asked to be left alone and whose time has not come yet, by host.
	RegistryHolds(ctx context.Context) ([]RegistryHold, error)
	// HoldRegistry keeps that a registry is to be left alone. A later time that is known already stays.
	HoldRegistry(ctx context.Context, hold RegistryHold) error
	// Scopes returns the scopes of which RecordUses or RecordCoverage keeps anything, in order.
	Scopes(ctx context.Context) ([]string, error)
	// ForgetImages removes, with all that is known of them, up to limit images that nothing runs now and that nothing ran since
	// before, and returns them. Images with a report from outside stay: whoever sent it decides. When there are none it only reads.
	// A limit of more than MaxForget is cut to it.
	ForgetImages(ctx context.Context, before time.Time, limit int) ([]vuln.ImageKey, error)
}

// RegistryHold says until when a registry is left alone.
type RegistryHold struct {
	// Host is that of vuln.ImageKey.Registry.
	Host  string
	Until time.Time
	// Reason is why, for people.
	Reason string
}
