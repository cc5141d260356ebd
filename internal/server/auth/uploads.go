package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/sync/semaphore"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// What the API server says about a token that is bound to a pod.
const (
	extraPodName = "authentication.kubernetes.io/pod-name"
	extraPodUID  = "authentication.kubernetes.io/pod-uid"
)

// UploadAuthorizer decides whether the bearer of a token may deliver the SBOM of an image.
type UploadAuthorizer interface {
	// AuthorizeUpload returns the Job whose pod the bearer is, and how that Job reads the image. What its errors say is shown to the bearer when they are
	// *problem.Error. Whoever may not upload gets the same answer, whatever the reason is; the cause of the error has it.
	AuthorizeUpload(ctx context.Context, token string, key model.ImageKey) (store.Delivery, error)
}

// ScanJobs reads the Jobs that the operator created; store.Store does.
type ScanJobs interface {
	ScanJob(ctx context.Context, uid string) (store.ScanJob, error)
	ReservedScanJob(ctx context.Context, namespace, name string) (bool, error)
}

// jobAuthorizer follows a token to its pod, the pod to its Job, and the Job to its record.
type jobAuthorizer struct {
	tokens TokenReviewer
	reader client.Reader
	jobs   ScanJobs
	slots  *semaphore.Weighted
}

// NewUploadAuthorizer returns an authorizer that accepts tokens which were made for Audience and are bound to a pod that exists, runs what
// the operator built and is controlled by the Job that the operator created for the current attempt to scan the image. reader should read
// from the API server, not from a cache: a pod that just started may not be in a cache yet, and a change of its spec neither.
func NewUploadAuthorizer(tokens TokenReviewer, reader client.Reader, jobs ScanJobs) UploadAuthorizer {
	return &jobAuthorizer{tokens: tokens, reader: reader, jobs: jobs, slots: semaphore.NewWeighted(reviewsAtATime)}
}

// AuthorizeUpload implements UploadAuthorizer.
func (a *jobAuthorizer) AuthorizeUpload(ctx context.Context, token string, key model.ImageKey) (store.Delivery, error) {
	if !a.slots.TryAcquire(1) {
		return store.Delivery{}, problem.Unavailable(nil, "too many concurrent uploads; try again")
	}
	defer a.slots.Release(1)
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()

	status, err := reviewToken(ctx, a.tokens, token, []string{Audience})
	if err != nil {
		return store.Delivery{}, err
	}
	if status == nil {
		return store.Delivery{}, problem.New(http.StatusUnauthorized, "the token is expired or not valid for the audience %q", Audience)
	}
	if request := store.ChangeRequestOf(ctx); request != nil {
		request.User = status.User.Username
	}
	pod, err := a.pod(ctx, status.User)
	if err != nil {
		return store.Delivery{}, err
	}
	return a.job(ctx, pod, key)
}

// pod reads the pod that the token is bound to.
func (a *jobAuthorizer) pod(ctx context.Context, user authenticationv1.UserInfo) (*corev1.Pod, error) {
	account, found := strings.CutPrefix(user.Username, "system:serviceaccount:")
	namespace, _, named := strings.Cut(account, ":")
	name, uid := single(user.Extra[extraPodName]), single(user.Extra[extraPodUID])
	if !found || !named || namespace == "" || name == "" || uid == "" {
		return nil, forbidden("the token of user %q is not bound to a pod", user.Username)
	}
	pod, key := &corev1.Pod{}, types.NamespacedName{Namespace: namespace, Name: name}
	switch err := a.reader.Get(ctx, key, pod); {
	case apierrors.IsNotFound(err):
		return nil, forbidden("pod %s does not exist", key)
	case err != nil:
		return nil, problem.Unavailable(err, "the Kubernetes API server is unavailable: cannot read the pod; try again")
	case string(pod.UID) != uid:
		return nil, forbidden("the token is bound to another pod with the name %s: the UIDs differ", key)
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return nil, forbidden("pod %s has ended", key)
	}
	return pod, nil
}

// job returns the recorded Job that controls a pod, and how it reads the image, if the pod may deliver the SBOM of the image. An attempt that has ended with
// an SBOM passes: the same SBOM may come again, and the store refuses any other.
func (a *jobAuthorizer) job(ctx context.Context, pod *corev1.Pod, key model.ImageKey) (store.Delivery, error) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "Job" || owner.APIVersion != batchv1.SchemeGroupVersion.String() {
		return store.Delivery{}, forbidden("pod %s/%s is not controlled by a Job", pod.Namespace, pod.Name)
	}
	job, err := a.jobs.ScanJob(ctx, string(owner.UID))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return store.Delivery{}, a.unrecorded(ctx, pod.Namespace, owner)
	case err != nil:
		return store.Delivery{}, fmt.Errorf("read the scan Job of an upload: %w", err)
	case job.Namespace != pod.Namespace || job.Name != owner.Name:
		return store.Delivery{}, forbidden("pod %s/%s names Job %s with the UID of Job %s/%s", pod.Namespace, pod.Name, owner.Name, job.Namespace, job.Name)
	case job.Key != key:
		return store.Delivery{}, forbidden("Job %s/%s catalogs %s, not %s", job.Namespace, job.Name, job.Key, key)
	case !job.Open && job.SBOMSHA256 == "":
		return store.Delivery{}, forbidden("the attempt of Job %s/%s has ended", job.Namespace, job.Name)
	}
	field, err := scanjob.Difference(job.Spec, &pod.Spec)
	if err != nil {
		return store.Delivery{}, fmt.Errorf("compare the pod of an upload with its Job: %w", err)
	}
	if field != "" {
		return store.Delivery{}, forbidden("pod %s/%s is not as the operator built it: spec.%s differs", pod.Namespace, pod.Name, field)
	}
	source, err := scanjob.Source(job.Spec)
	if err != nil {
		return store.Delivery{}, fmt.Errorf("read the Job of an upload: %w", err)
	}
	return store.Delivery{Job: job.UID, Lookup: job.Lookup, Source: source}, nil
}

// unrecorded refuses the upload of a pod whose Job is not recorded. The Job can be one that the operator has just created, or created before it was killed: it
// is recorded soon, and the pod tries again. Names of Jobs cannot be guessed before they are created.
func (a *jobAuthorizer) unrecorded(ctx context.Context, namespace string, owner *metav1.OwnerReference) error {
	reserved, err := a.jobs.ReservedScanJob(ctx, namespace, owner.Name)
	switch {
	case err != nil:
		return fmt.Errorf("read the scan Job of an upload: %w", err)
	case reserved:
		return problem.Unavailable(nil, "the operator has not recorded the Job of this pod yet; try again")
	default:
		return forbidden("the operator did not create Job %s/%s with UID %s", namespace, owner.Name, owner.UID)
	}
}

// forbidden refuses an upload. The reason is for the log.
func forbidden(format string, args ...any) error {
	return problem.UploadForbidden(fmt.Errorf(format, args...))
}

// single returns the only value, "" when there is none or more than one.
func single(values authenticationv1.ExtraValue) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}
