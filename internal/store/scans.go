package store

import (
	"context"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// MaxForget bounds the images that one call of ForgetImages removes.
const MaxForget = 100

// Scans is the part of the store with what the Scanner controller must still know after a restart, beside the images themselves.
type Scans interface {
	// ImageStates returns what decisions about images are made from, without those that are not known; it only reads. More than
	// MaxKeys are an error.
	ImageStates(ctx context.Context, keys []model.ImageKey) (map[model.ImageKey]ImageState, error)
	// RaiseSizeClass makes a class that of all images of a repository. A greater one stays.
	RaiseSizeClass(ctx context.Context, repository string, class model.SizeClass) error
	// RegistryPauses returns the registries that are paused now, by host and namespace.
	RegistryPauses(ctx context.Context) ([]RegistryPause, error)
	// PauseRegistry pauses pulls from a registry with the credentials of one namespace until a time. It never shortens a pause.
	PauseRegistry(ctx context.Context, pause RegistryPause) error
	// Scopes returns the scopes of which RecordUses or RecordCoverage keeps anything, in order.
	Scopes(ctx context.Context) ([]string, error)
	// ForgetScope removes what RecordUses and RecordCoverage keep of a scope. Of the images that ran there, it is kept until when they did,
	// for the scope "".
	ForgetScope(ctx context.Context, scope string) error
	// ExpireUses removes of a scope which images ran there until before, but not since. The scope "" is that of scopes that were forgotten.
	ExpireUses(ctx context.Context, scope string, before time.Time) error
	// ForgetImages removes, with all that is known of them, up to limit images that nothing runs, of whose uses none is kept that
	// ExpireUses could remove, and that became known before; and returns them. Images with a report from outside stay: whoever sent it
	// decides. When there are none it only reads. A limit of more than MaxForget is cut to it.
	ForgetImages(ctx context.Context, before time.Time, limit int) ([]model.ImageKey, error)
}

// RegistryPause says until when nothing is pulled from a registry with the credentials of one namespace.
type RegistryPause struct {
	// Host is that of model.ImageKey.Registry.
	Host string
	// Namespace is where the scan ran that the registry refused, whose credentials it used. It is empty for scans without the credentials of
	// a tenant.
	Namespace string
	Until     time.Time
	// Reason is a message for people.
	Reason string
}
