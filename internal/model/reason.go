package model

import (
	"encoding/json"
	"slices"
	"time"
)

// Reason is the reason for which the scan or the matching of an image failed. The values are stable: the API, conditions,
// events and metrics contain them.
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

// MaxRetryAfter is the maximum time for which a registry can delay scans.
const MaxRetryAfter = time.Hour

// Outcome is the result of one scan attempt. A scan Job reports it as JSON in its termination message.
type Outcome struct {
	// Reason is empty if the attempt succeeded.
	Reason  Reason
	Message string
	// RetryAfter is the delay that the registry requested (HTTP header Retry-After), 0 if none. JSON has whole seconds of it;
	// decoding limits it to the range from 0 to MaxRetryAfter.
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
