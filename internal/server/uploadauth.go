package server

import (
	"context"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// What the API server says about a token that is bound to a pod.
const (
	extraPodName = "authentication.kubernetes.io/pod-name"
	extraPodUID  = "authentication.kubernetes.io/pod-uid"
)

// UploadAuthorizer decides whether the bearer of a token may deliver the SBOM of an image.
type UploadAuthorizer interface {
	// AuthorizeUpload returns nil if it may. What its errors say is shown to the bearer when they come from this package.
	AuthorizeUpload(ctx context.Context, token string, key vuln.ImageKey) error
}

// JobCheck returns nil if a Job is the one that catalogues an image. Its error is shown to the bearer.
type JobCheck func(ctx context.Context, job *batchv1.Job, key vuln.ImageKey) error

// jobAuthorizer follows a token to its pod, and the pod to its Job.
type jobAuthorizer struct {
	tokens TokenReviewer
	reader client.Reader
	check  JobCheck
	slots  slots
}

// NewUploadAuthorizer returns an authorizer that accepts tokens which were made for us and are bound to a pod that exists, is
// controlled by a Job that exists, and that passes check. reader should read from the API server, not from a cache: a pod
// that just started may not be in a cache yet.
func NewUploadAuthorizer(tokens TokenReviewer, reader client.Reader, check JobCheck) UploadAuthorizer {
	return &jobAuthorizer{tokens: tokens, reader: reader, check: check, slots: make(slots, reviewsAtATime)}
}

// AuthorizeUpload names in its error the step that failed.
func (a *jobAuthorizer) AuthorizeUpload(ctx context.Context, token string, key vuln.ImageKey) error {
	if !a.slots.tryAcquire() {
		return unavailable(nil, "too many uploads are being checked at the moment")
	}
	defer a.slots.release()
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()

	status, err := reviewToken(ctx, a.tokens, token, []string{Audience})
	if err != nil {
		return err
	}
	if status == nil {
		return problemf(http.StatusUnauthorized, "the token is not valid for the audience %q, or has expired", Audience)
	}
	pod, err := a.pod(ctx, status.User)
	if err != nil {
		return err
	}
	job, err := a.job(ctx, pod)
	if err != nil {
		return err
	}
	if err := a.check(ctx, job, key); err != nil {
		if p, ok := asProblem(err); ok {
			return p
		}
		return problemf(http.StatusForbidden, "Job %s/%s may not deliver the SBOM of %s: %v", job.Namespace, job.Name, key, err)
	}
	return nil
}

// pod reads the pod that the token is bound to.
func (a *jobAuthorizer) pod(ctx context.Context, user authenticationv1.UserInfo) (*corev1.Pod, error) {
	account, found := strings.CutPrefix(user.Username, "system:serviceaccount:")
	namespace, _, named := strings.Cut(account, ":")
	name, uid := single(user.Extra[extraPodName]), single(user.Extra[extraPodUID])
	if !found || !named || namespace == "" || name == "" || uid == "" {
		return nil, problemf(http.StatusForbidden, "the token of %s is not bound to a pod", user.Username)
	}
	pod := &corev1.Pod{}
	if err := a.read(ctx, types.NamespacedName{Namespace: namespace, Name: name}, pod, "pod"); err != nil {
		return nil, err
	}
	if string(pod.UID) != uid {
		return nil, problemf(http.StatusForbidden, "pod %s/%s is not the one that the token is bound to: its UID differs", namespace, name)
	}
	return pod, nil
}

// job reads the Job that controls a pod.
func (a *jobAuthorizer) job(ctx context.Context, pod *corev1.Pod) (*batchv1.Job, error) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "Job" || owner.APIVersion != batchv1.SchemeGroupVersion.String() {
		return nil, problemf(http.StatusForbidden, "pod %s/%s is not controlled by a Job", pod.Namespace, pod.Name)
	}
	job := &batchv1.Job{}
	if err := a.read(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: owner.Name}, job, "Job"); err != nil {
		return nil, err
	}
	if job.UID != owner.UID {
		return nil, problemf(http.StatusForbidden, "Job %s/%s is not the one that controls pod %s: its UID differs", job.Namespace, job.Name, pod.Name)
	}
	return job, nil
}

func (a *jobAuthorizer) read(ctx context.Context, name types.NamespacedName, into client.Object, kind string) error {
	err := a.reader.Get(ctx, name, into)
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return problemf(http.StatusForbidden, "%s %s does not exist", kind, name)
	default:
		return unavailable(err, "the Kubernetes API server cannot be asked about the "+kind+" at the moment")
	}
}

// single returns the only value, "" when there is none or more than one.
func single(values authenticationv1.ExtraValue) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}
