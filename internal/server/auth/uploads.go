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
	// AuthorizeUpload returns nil if it may. What its errors say is shown to the bearer when they are *problem.Error.
	AuthorizeUpload(ctx context.Context, token string, key model.ImageKey) error
}

// Images reads what is known about an image; store.Store does.
type Images interface {
	Image(ctx context.Context, key model.ImageKey) (store.Image, error)
}

// jobAuthorizer follows a token to its pod, the pod to its Job, and the Job to its image.
type jobAuthorizer struct {
	tokens TokenReviewer
	reader client.Reader
	images Images
	slots  *semaphore.Weighted
}

// NewUploadAuthorizer returns an authorizer that accepts tokens which were made for Audience and are bound to a pod that exists and is
// controlled by a Job that exists and is the current attempt to scan the image. reader should read from the API server, not from a
// cache: a pod that just started may not be in a cache yet.
func NewUploadAuthorizer(tokens TokenReviewer, reader client.Reader, images Images) UploadAuthorizer {
	return &jobAuthorizer{tokens: tokens, reader: reader, images: images, slots: semaphore.NewWeighted(reviewsAtATime)}
}

// AuthorizeUpload names in its error the step that failed.
func (a *jobAuthorizer) AuthorizeUpload(ctx context.Context, token string, key model.ImageKey) error {
	if !a.slots.TryAcquire(1) {
		return problem.Unavailable(nil, "too many concurrent uploads; try again")
	}
	defer a.slots.Release(1)
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()

	status, err := reviewToken(ctx, a.tokens, token, []string{Audience})
	if err != nil {
		return err
	}
	if status == nil {
		return problem.New(http.StatusUnauthorized, "the token is expired or not valid for the audience %q", Audience)
	}
	if request := store.ChangeRequestOf(ctx); request != nil {
		request.User = status.User.Username
	}
	pod, err := a.pod(ctx, status.User)
	if err != nil {
		return err
	}
	job, err := a.job(ctx, pod)
	if err != nil {
		return err
	}
	return a.check(ctx, job, key)
}

// check accepts a Job only when its name is the one of the image's current attempt. The name cannot be known before the operator
// has created the Job, and a name is taken as long as its Job exists.
func (a *jobAuthorizer) check(ctx context.Context, job *batchv1.Job, key model.ImageKey) error {
	image, err := a.images.Image(ctx, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return problem.New(http.StatusForbidden, "Job %s/%s is not allowed to upload the SBOM of %s: no Scanner selects this image", job.Namespace, job.Name, key)
	case err != nil:
		return fmt.Errorf("read the image of an upload: %w", err)
	case image.Key != key || job.Name != scanjob.Name(key, image.Nonce, image.Attempts):
		return problem.New(http.StatusForbidden, "Job %s/%s is not allowed to upload the SBOM of %s: it is not the current scan Job of this image", job.Namespace, job.Name, key)
	}
	return nil
}

// pod reads the pod that the token is bound to.
func (a *jobAuthorizer) pod(ctx context.Context, user authenticationv1.UserInfo) (*corev1.Pod, error) {
	account, found := strings.CutPrefix(user.Username, "system:serviceaccount:")
	namespace, _, named := strings.Cut(account, ":")
	name, uid := single(user.Extra[extraPodName]), single(user.Extra[extraPodUID])
	if !found || !named || namespace == "" || name == "" || uid == "" {
		return nil, problem.New(http.StatusForbidden, "the token of user %q is not bound to a pod", user.Username)
	}
	pod := &corev1.Pod{}
	if err := a.read(ctx, types.NamespacedName{Namespace: namespace, Name: name}, pod, "pod"); err != nil {
		return nil, err
	}
	if string(pod.UID) != uid {
		return nil, problem.New(http.StatusForbidden, "the token is bound to another pod with the name %s/%s: the UIDs differ", namespace, name)
	}
	return pod, nil
}

// job reads the Job that controls a pod.
func (a *jobAuthorizer) job(ctx context.Context, pod *corev1.Pod) (*batchv1.Job, error) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "Job" || owner.APIVersion != batchv1.SchemeGroupVersion.String() {
		return nil, problem.New(http.StatusForbidden, "pod %s/%s is not controlled by a Job", pod.Namespace, pod.Name)
	}
	job := &batchv1.Job{}
	if err := a.read(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: owner.Name}, job, "Job"); err != nil {
		return nil, err
	}
	if job.UID != owner.UID {
		return nil, problem.New(http.StatusForbidden, "another Job with the name %s/%s controls pod %s: the UIDs differ", job.Namespace, job.Name, pod.Name)
	}
	return job, nil
}

func (a *jobAuthorizer) read(ctx context.Context, name types.NamespacedName, into client.Object, kind string) error {
	err := a.reader.Get(ctx, name, into)
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return problem.New(http.StatusForbidden, "%s %s does not exist", kind, name)
	default:
		return problem.Unavailable(err, "the Kubernetes API server is unavailable: cannot read the "+kind+"; try again")
	}
}

// single returns the only value, "" when there is none or more than one.
func single(values authenticationv1.ExtraValue) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}
