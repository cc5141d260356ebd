package vuln

import "slices"

// Reason says why an image could not be catalogued or matched. The values are stable: they are shown in the API,
// in conditions, events and metrics.
type Reason string

// The failure reasons.
const (
	ReasonImagePullDenied     Reason = "ImagePullDenied"
	ReasonImageNotFound       Reason = "ImageNotFound"
	ReasonRegistryRateLimited Reason = "RegistryRateLimited"
	ReasonRegistryUnavailable Reason = "RegistryUnavailable"
	ReasonNotPullable         Reason = "NotPullable"
	ReasonPlatformMismatch    Reason = "PlatformMismatch"
	ReasonImageTooLarge       Reason = "ImageTooLarge"
	ReasonOutOfMemory         Reason = "OutOfMemory"
	ReasonOutOfDisk           Reason = "OutOfDisk"
	ReasonDeadlineExceeded    Reason = "DeadlineExceeded"
	ReasonUnschedulable       Reason = "Unschedulable"
	ReasonCatalogFailed       Reason = "CatalogFailed"
	ReasonUploadFailed        Reason = "UploadFailed"
	ReasonMatchFailed         Reason = "MatchFailed"
)

// Reasons lists every failure reason.
func Reasons() []Reason {
	return []Reason{
		ReasonImagePullDenied, ReasonImageNotFound, ReasonRegistryRateLimited, ReasonRegistryUnavailable,
		ReasonNotPullable, ReasonPlatformMismatch, ReasonImageTooLarge, ReasonOutOfMemory, ReasonOutOfDisk,
		ReasonDeadlineExceeded, ReasonUnschedulable, ReasonCatalogFailed, ReasonUploadFailed, ReasonMatchFailed,
	}
}

// Valid reports whether r is one of Reasons.
func (r Reason) Valid() bool {
	return slices.Contains(Reasons(), r)
}

// Outcome is how an attempt to catalogue an image ended. A Job tells it as JSON in its termination message.
type Outcome struct {
	// Reason is empty when the SBOM was accepted.
	Reason  Reason `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Succeeded reports whether the attempt delivered an SBOM.
func (o Outcome) Succeeded() bool { return o.Reason == "" }
