package scanner

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// Cataloger turns wanted images into SBOMs in the store. One attempt has one name, from scanjob.Name.
type Cataloger interface {
	// Attempts returns the attempts that are under way or have ended not long ago, by name.
	Attempts(ctx context.Context) (map[string]Attempt, error)
	// Start begins an attempt. To start one that was started before is no error and has no effect. The error is a
	// *RefusedError when this attempt cannot be started, while others may be, a *NamespaceError when it may be started later, while others may be now, and a
	// *specError when the Scanner specifies something that is invalid. Requests to the API server are made with callAPI.
	Start(ctx context.Context, owner types.NamespacedName, req scanjob.Request) error
	// DeleteEnded deletes what Attempts found to be over, and returns when it is to be called again, 0 if nothing is left. That may take long. It is called by
	// one goroutine, while others call all else.
	DeleteEnded(ctx context.Context) time.Duration
	// Made reports whether a pod is a scan of this Cataloger and runs nothing else. It is safe for concurrent use.
	Made(pod *corev1.Pod) bool
	// Grow returns the size class above, false when an attempt that wants these resources gets no more memory there.
	Grow(wanted corev1.ResourceRequirements, class model.SizeClass) (model.SizeClass, bool)
	// Mounts reports whether an attempt can read an image of an architecture from an image volume.
	Mounts(architecture string) bool
}

// Attempt is one attempt to catalog an image, or to look up newer tags of one.
type Attempt struct {
	// Key is the image as the attempt names it, the zero value when that cannot be read. That of a lookup has the repository whose tags are listed.
	Key model.ImageKey
	// Lookup is store.TagLookup.ID, "" if it catalogs an image.
	Lookup string
	// ScannerUID is the UID of the Scanner that asked for it.
	ScannerUID string
	SizeClass  model.SizeClass
	// Namespace is where the attempt runs, whose pull secrets it may use; empty for one in the process of the operator.
	Namespace string
	// For is the namespace of the workload that it was started for.
	For string
	// JobSpec is the hash of what the Scanner specified for the Job; empty if it is not known.
	JobSpec string
	// Outdated: the attempt was blocked, and the Scanner specifies something else for its Jobs now.
	Outdated bool
	// Created is when it was started, zero if that is not known.
	Created time.Time
	// Volume: it reads the image from an image volume.
	Volume bool
	// Hosts are the nodes that its Job names for an image volume: values of the label kubernetes.io/hostname. RunsOn is the name of the node of
	// its pod, empty while it has none.
	Hosts  []string
	RunsOn string
	// Node is the node that does not start its container, because of itself rather than of an image; empty if there is none.
	Node string
	// Started: its container runs or has run, so that it may pull.
	Started bool
	// Blocked: its container does not start, because of a known problem or because its Job gets no pod.
	Blocked bool
	Done    bool
	// Retry: something about it failed at the API server, and is to be tried again soon.
	Retry bool
	// Outcome is how it ended, when Done; the SBOM of a successful attempt is in the store by then. Otherwise it is what keeps the
	// attempt from going on, without a reason when nothing is known to.
	Outcome model.Outcome
}

// RefusedError says why one attempt cannot be started: its namespace, for example, takes no more Jobs.
type RefusedError struct{ Outcome model.Outcome }

// Error tells the outcome.
func (e *RefusedError) Error() string { return string(e.Outcome.Reason) + ": " + e.Outcome.Message }

// NamespaceError says that the API server could not start an attempt in a namespace, which may have to do with this namespace alone: an admission
// webhook that fails, for example.
type NamespaceError struct {
	Namespace string
	Err       error
}

// Error tells what failed.
func (e *NamespaceError) Error() string { return "namespace " + e.Namespace + ": " + e.Err.Error() }

// Unwrap returns what failed.
func (e *NamespaceError) Unwrap() error { return e.Err }
