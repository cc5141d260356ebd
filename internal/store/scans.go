package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

const (
	// MaxForget bounds the images that one call of ForgetImages removes.
	MaxForget = 100
	// MaxJobSpec bounds ScanJob.Spec, in bytes.
	MaxJobSpec = 1 << 20
)

// AnyCataloger is the cataloger of a Recatalog that RequestScan asked for.
const AnyCataloger = "*"

// Scans is the part of the store with what the Scanner controller must still know after a restart, beside the images themselves.
type Scans interface {
	// RaiseSizeClass makes a class that of all images of a repository. A greater one stays.
	RaiseSizeClass(ctx context.Context, repository string, class model.SizeClass) error
	// RegistryPauses returns the registries that are paused now, by host and namespace. A pause that ends later than model.MaxRetryAfter from now is none: a
	// clock was ahead when it was recorded.
	RegistryPauses(ctx context.Context) ([]RegistryPause, error)
	// BeginRecatalog lets attempt number attempt at an image with an SBOM of its own replace it by one of another cataloger. It returns false,
	// and changes nothing, when that attempt is not the current one, when the image has no such SBOM, or when perHour other images were begun
	// within the last hour.
	BeginRecatalog(ctx context.Context, key model.ImageKey, attempt int, cataloger string, perHour int) (bool, error)
	// RetryPartial lets attempt number attempt at an image whose SBOM is partial replace it. It returns false, and changes nothing, when that
	// attempt is not the current one or the image has no such SBOM. It does not count towards the limit of BeginRecatalog.
	RetryPartial(ctx context.Context, key model.ImageKey, attempt int) (bool, error)
	// PauseRegistry pauses pulls from a registry with the credentials of one namespace until a time. It never shortens a pause.
	PauseRegistry(ctx context.Context, pause RegistryPause) error
	// Scopes returns the scopes of which RecordUses, RecordCoverage or WantTagLookups keeps anything, in order.
	Scopes(ctx context.Context) ([]string, error)
	// ForgetScope removes what RecordUses, RecordCoverage and WantTagLookups keep of a scope. Of the images that ran there, it is kept until when they did,
	// for the scope "".
	ForgetScope(ctx context.Context, scope string) error
	// ExpireUses removes of a scope which images ran there until before, but not since. The scope "" is that of scopes that were forgotten.
	ExpireUses(ctx context.Context, scope string, before time.Time) error
	// ForgetImages removes, with all that is known of them, up to limit images that nothing runs, of whose uses none is kept that
	// ExpireUses could remove, and that became known before; and returns them. Images with a report from outside stay until Prune
	// removes it. When there are none it only reads. A limit of more than MaxForget is cut to it.
	ForgetImages(ctx context.Context, before time.Time, limit int) ([]model.ImageKey, error)
}

// ScanJobs is the part of the store about the Jobs that the operator creates. A Job is reserved before it is created and recorded when the
// API server has confirmed its UID: only a recorded Job delivers an SBOM.
type ScanJobs interface {
	// ReserveScanJob keeps what is needed to recognize a Job that is about to be created. When its name is reserved already, nothing
	// changes, reserved is false, and kept is what was reserved before. ErrNotFound when the attempt is not the current one of the image or the lookup.
	ReserveScanJob(ctx context.Context, job ScanJob) (kept ScanJob, reserved bool, err error)
	// RecordScanJob keeps the UID of a reserved Job. A UID that is kept already stays, and another one is an error.
	RecordScanJob(ctx context.Context, name, uid string) error
	// ScanJob returns the recorded Job with a UID, or ErrNotFound.
	ScanJob(ctx context.Context, uid string) (ScanJob, error)
	// ReservedScanJob reports whether a Job of the current attempt is reserved and not recorded yet.
	ReservedScanJob(ctx context.Context, namespace, name string) (bool, error)
	// ListScanJobs returns the Jobs that are reserved or recorded, without their specs, those of current attempts first; at most MaxKeys.
	ListScanJobs(ctx context.Context) ([]ScanJob, error)
	// ScanJobSpec returns ScanJob.Spec of the Job with a name that is reserved or recorded, or ErrNotFound.
	ScanJobSpec(ctx context.Context, name string) (json.RawMessage, error)
	// ForgetScanJobs removes Jobs by name. Names that are not known are no error; more than MaxKeys are.
	ForgetScanJobs(ctx context.Context, names []string) error
}

// ScanJob is the Kubernetes Job of one attempt to catalog an image, or to look up newer tags of one.
type ScanJob struct {
	// Name and Namespace are those of the Job. A name belongs to one attempt, and no other attempt ever gets it.
	Name, Namespace string
	// UID is that of the Job, "" until it is recorded.
	UID string
	// Key is the image that is cataloged. That of a lookup has the repository whose tags are listed, and the digest of the image that runs.
	Key model.ImageKey
	// Lookup is TagLookup.ID, "" if the Job catalogs an image.
	Lookup string
	// Attempt is the number of the attempt, as in RecordFailure or FailTagLookup.
	Attempt int
	// ScannerUID is the UID of the Scanner that asked for the attempt, For the namespace of the workload that it was made for.
	ScannerUID, For string
	SizeClass       model.SizeClass
	// Spec is the spec of the Job's pods as the operator built it, in JSON, of at most MaxJobSpec bytes.
	Spec json.RawMessage
	// Open says that the attempt is the current one of its image, which waits for its SBOM, or of its lookup. Only the store sets it.
	Open bool
	// SBOMSHA256 is the digest of the SBOM or of the result that the Job delivered, "" when it has not. Only SaveSBOM and SaveTagLookup set it.
	SBOMSHA256 string
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
