package vuln

import (
	"encoding/json"
	"slices"
	"time"
)

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

// MaxRetryAfter is the longest time that a registry can put scans off.
const MaxRetryAfter = time.Hour

// Outcome is how an attempt to catalogue an image ended. A Job tells it as JSON in its termination message.
type Outcome struct {
	// Reason is empty when the SBOM was accepted.
	Reason  Reason
	Message string
	// RetryAfter is how long the registry asked to be left alone, 0 when it did not ask. JSON has whole seconds of it, and what is
	// read is between 0 and MaxRetryAfter.
	RetryAfter time.Duration
}

type outcomeJSON struct {
	Reason     Reason `json:"reason,omitempty"`
	Message    string `json:"message,omitempty"`
	RetryAfter int64  `json:"retryAfter,omitempty"`
}

// Succeeded reports whether the attempt delivered an SBOM.
func (o Outcome) Succeeded() bool { return o.Reason == "" }

// MarshalJSON implements json.Marshaler.
func (o Outcome) MarshalJSON() ([]byte, error) {
	seconds := int64(min(o.RetryAfter, MaxRetryAfter)+time.Second-1) / int64(time.Second)
	return json.Marshal(outcomeJSON{o.Reason, o.Message, seconds})
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *Outcome) UnmarshalJSON(content []byte) error {
	var read outcomeJSON
	if err := json.Unmarshal(content, &read); err != nil {
		return err
	}
	seconds := max(0, min(read.RetryAfter, int64(MaxRetryAfter/time.Second)))
	*o = Outcome{Reason: read.Reason, Message: read.Message, RetryAfter: time.Duration(seconds) * time.Second}
	return nil
}
