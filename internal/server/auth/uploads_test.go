package auth_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/server/auth"
	"github.com/scanner-operator/scanner-operator/internal/server/problem"
	"github.com/scanner-operator/scanner-operator/internal/store"
)

// world is what the API server knows of one pod and its Job.
type world struct {
	status authenticationv1.TokenReviewStatus
	err    error
	pod    *corev1.Pod
	job    *batchv1.Job
	// image is what the store knows of the image, or the error of asking it.
	image    store.Image
	imageErr error
}

// uploaded is the image of the uploads, which is being scanned for the third time.
var uploaded = model.ImageKey{ImageID: "r.example/app@sha256:1e42bbe2508154c9126d48c2b8a75420c3544343bf86fd041fb7527e017a4b4a", Platform: model.Platform{OS: "linux", Architecture: "amd64"}}

const (
	nonce   = "drawn-at-random"
	attempt = 3
)

func newWorld() *world {
	yes := true
	name := scanjob.Name(uploaded, nonce, attempt)
	return &world{
		image: store.Image{ImageState: store.ImageState{Key: uploaded, Nonce: nonce, Attempts: attempt}},
		status: authenticationv1.TokenReviewStatus{
			Authenticated: true, Audiences: []string{auth.Audience},
			User: authenticationv1.UserInfo{Username: "system:serviceaccount:team:scan", Extra: map[string]authenticationv1.ExtraValue{
				"authentication.kubernetes.io/pod-name": {"scan-x"}, "authentication.kubernetes.io/pod-uid": {"pod-uid"},
			}},
		},
		pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "scan-x", UID: "pod-uid", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "batch/v1", Kind: "Job", Name: name, UID: "job-uid", Controller: &yes},
		}}},
		job: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: "job-uid"}},
	}
}

// Image implements auth.Images.
func (w *world) Image(context.Context, model.ImageKey) (store.Image, error) {
	return w.image, w.imageErr
}

// rename gives the Job another name, and the pod that Job.
func (w *world) rename(name string) {
	w.job.Name, w.pod.OwnerReferences[0].Name = name, name
}

// Create implements auth.TokenReviewer.
func (w *world) Create(_ context.Context, review *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	if w.err != nil {
		return nil, w.err
	}
	review = review.DeepCopy()
	review.Status = w.status
	return review, nil
}

// Get implements client.Reader.
func (w *world) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch into := into.(type) {
	case *corev1.Pod:
		if w.pod != nil && client.ObjectKeyFromObject(w.pod) == key {
			w.pod.DeepCopyInto(into)
			return nil
		}
	case *batchv1.Job:
		if w.job == nil {
			return errors.New("connection refused")
		}
		if client.ObjectKeyFromObject(w.job) == key {
			w.job.DeepCopyInto(into)
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, key.Name)
}

// List implements client.Reader.
func (w *world) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("nothing is listed")
}

func TestUploadAuthorization(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*world)
		status int
		detail string
	}{
		{"right", func(*world) {}, 0, ""},
		{"not authenticated", func(w *world) { w.status.Authenticated = false }, 401, "audience"},
		{"of the API server", func(w *world) { w.status.Audiences = []string{"https://kubernetes.default.svc"} }, 401, "audience"},
		{"no audience", func(w *world) { w.status.Audiences = nil }, 401, "audience"},
		{"no API server", func(w *world) { w.err = errors.New("refused") }, 503, "tokens"},
		{"a person", func(w *world) { w.status.User.Username = "jane" }, 403, "not bound to a pod"},
		{"not bound", func(w *world) { w.status.User.Extra = nil }, 403, "not bound to a pod"},
		{"bound twice", func(w *world) {
			w.status.User.Extra["authentication.kubernetes.io/pod-uid"] = authenticationv1.ExtraValue{"a", "b"}
		}, 403, "not bound to a pod"},
		{"pod gone", func(w *world) { w.pod = nil }, 403, "pod team/scan-x does not exist"},
		{"another pod", func(w *world) { w.pod.UID = "other" }, 403, "UIDs differ"},
		{"pod elsewhere", func(w *world) { w.pod.Namespace = "other" }, 403, "does not exist"},
		{"no owner", func(w *world) { w.pod.OwnerReferences = nil }, 403, "not controlled by a Job"},
		{"owner does not control", func(w *world) { w.pod.OwnerReferences[0].Controller = nil }, 403, "not controlled by a Job"},
		{"another kind", func(w *world) { w.pod.OwnerReferences[0].Kind = "ReplicaSet" }, 403, "not controlled by a Job"},
		{"another group", func(w *world) { w.pod.OwnerReferences[0].APIVersion = "batch.example.com/v1" }, 403, "not controlled by a Job"},
		{"Job gone", func(w *world) { w.job.Name = "other" }, 403, "does not exist"},
		{"another Job", func(w *world) { w.job.UID = "other" }, 403, "UIDs differ"},
		{"Job cannot be read", func(w *world) { w.job = nil }, 503, "Job"},
		{"Job of another image", func(w *world) {
			w.rename(scanjob.Name(model.ImageKey{ImageID: "other", Platform: uploaded.Platform}, nonce, attempt))
		}, 403, "not the current scan Job"},
		{"Job of another platform", func(w *world) {
			w.rename(scanjob.Name(model.ImageKey{ImageID: uploaded.ImageID, Platform: model.Platform{OS: "linux", Architecture: "arm64"}}, nonce, attempt))
		}, 403, "not the current scan Job"},
		{"Job of an earlier attempt", func(w *world) { w.rename(scanjob.Name(uploaded, nonce, attempt-1)) }, 403, "not the current scan Job"},
		{"guessed name", func(w *world) { w.rename(scanjob.Name(uploaded, "", attempt)) }, 403, "not the current scan Job"},
		{"the store chose another platform", func(w *world) { w.image.Key.Platform.Architecture = "arm64" }, 403, "not the current scan Job"},
		{"image not known", func(w *world) { w.imageErr = store.ErrNotFound }, 403, "no Scanner selects this image"},
		{"store gone", func(w *world) { w.imageErr = store.ErrUnavailable }, 503, "database"},
		{"store broken", func(w *world) { w.imageErr = errors.New("secret") }, 500, "internal error"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld()
			test.change(w)
			err := auth.NewUploadAuthorizer(w, w, w).AuthorizeUpload(t.Context(), "token", uploaded)
			if test.status == 0 {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				t.Fatal("the upload was authorized")
			}
			got := problem.From(err)
			if got.Status != test.status || !strings.Contains(got.Detail, test.detail) || strings.Contains(got.Detail, "refused") || strings.Contains(got.Detail, "secret") {
				t.Errorf("got %d %q, want %d with %q", got.Status, got.Detail, test.status, test.detail)
			}
		})
	}
}
