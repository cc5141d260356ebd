package auth_test

import (
	"context"
	"errors"
	"net/http"
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

// world is what the API server knows of one pod, and the store of its Job.
type world struct {
	status authenticationv1.TokenReviewStatus
	err    error
	pod    *corev1.Pod
	podErr error
	// job is the recorded Job, or the error of asking for it.
	job    store.ScanJob
	jobErr error
}

// uploaded is the image of the uploads.
var uploaded = model.ImageKey{ImageID: "r.example/app@sha256:1e42bbe2508154c9126d48c2b8a75420c3544343bf86fd041fb7527e017a4b4a", Platform: model.Platform{OS: "linux", Architecture: "amd64"}}

func newWorld(t *testing.T) *world {
	t.Helper()
	yes := true
	options := scanjob.DefaultOptions()
	options.Image, options.UploadURL = "operator:1", "http://operator:8000"
	job := scanjob.Build(scanjob.Request{Name: "scan-x", Namespace: "team", Key: uploaded, PullSecrets: []string{"registry"}}, options)
	spec, err := scanjob.Recorded(job)
	if err != nil {
		t.Fatal(err)
	}
	return &world{
		job: store.ScanJob{Name: "scan-x", Namespace: "team", UID: "job-uid", Key: uploaded, Spec: spec, Open: true},
		status: authenticationv1.TokenReviewStatus{
			Authenticated: true, Audiences: []string{auth.Audience},
			User: authenticationv1.UserInfo{Username: "system:serviceaccount:team:default", Extra: map[string]authenticationv1.ExtraValue{
				"authentication.kubernetes.io/pod-name": {"scan-x-1"}, "authentication.kubernetes.io/pod-uid": {"pod-uid"},
			}},
		},
		pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "scan-x-1", UID: "pod-uid", OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "batch/v1", Kind: "Job", Name: "scan-x", UID: "job-uid", Controller: &yes},
			}},
			Spec: job.Spec.Template.Spec,
		},
	}
}

// mountImage has the Job and its pod read the image from a volume.
func (w *world) mountImage() {
	w.pod.Spec.Volumes = append(w.pod.Spec.Volumes, corev1.Volume{Name: "image", VolumeSource: corev1.VolumeSource{
		Image: &corev1.ImageVolumeSource{Reference: uploaded.ImageID, PullPolicy: corev1.PullIfNotPresent},
	}})
	spec, err := scanjob.Recorded(&batchv1.Job{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: w.pod.Spec}}})
	if err != nil {
		panic(err)
	}
	w.job.Spec = spec
}

// ScanJob implements auth.ScanJobs.
func (w *world) ScanJob(_ context.Context, uid string) (store.ScanJob, error) {
	if w.jobErr == nil && uid != w.job.UID {
		return store.ScanJob{}, store.ErrNotFound
	}
	return w.job, w.jobErr
}

// ReservedScanJob implements auth.ScanJobs.
func (w *world) ReservedScanJob(_ context.Context, namespace, name string) (bool, error) {
	return w.job.UID == "" && w.job.Open && namespace == w.job.Namespace && name == w.job.Name, w.jobErr
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
	if w.podErr != nil {
		return w.podErr
	}
	if pod, ok := into.(*corev1.Pod); ok && w.pod != nil && client.ObjectKeyFromObject(w.pod) == key {
		w.pod.DeepCopyInto(pod)
		return nil
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
		// why is in the answer, or, when that is 403, in the log. Without a status, it is how the image is read.
		why string
	}{
		{"right", func(*world) {}, 0, "Registry"},
		{"right, with a volume", (*world).mountImage, 0, "ImageVolume"},
		{"a volume that the Job has not", func(w *world) {
			spec := w.job.Spec
			w.mountImage()
			w.job.Spec = spec
		}, 403, "spec.volumes[3] differs"},
		{"the same SBOM again", func(w *world) { w.job.Open, w.job.SBOMSHA256 = false, "1" }, 0, "Registry"},
		{"not authenticated", func(w *world) { w.status.Authenticated = false }, 401, "audience"},
		{"of the API server", func(w *world) { w.status.Audiences = []string{"https://kubernetes.default.svc"} }, 401, "audience"},
		{"no audience", func(w *world) { w.status.Audiences = nil }, 401, "audience"},
		{"no API server", func(w *world) { w.err = errors.New("refused") }, 503, "tokens"},
		{"a person", func(w *world) { w.status.User.Username = "jane" }, 403, "not bound to a pod"},
		{"not bound", func(w *world) { w.status.User.Extra = nil }, 403, "not bound to a pod"},
		{"bound twice", func(w *world) {
			w.status.User.Extra["authentication.kubernetes.io/pod-uid"] = authenticationv1.ExtraValue{"a", "b"}
		}, 403, "not bound to a pod"},
		{"pod gone", func(w *world) { w.pod = nil }, 403, "pod team/scan-x-1 does not exist"},
		{"another pod", func(w *world) { w.pod.UID = "other" }, 403, "UIDs differ"},
		{"pod elsewhere", func(w *world) { w.pod.Namespace = "other" }, 403, "does not exist"},
		{"pod cannot be read", func(w *world) { w.podErr = errors.New("refused") }, 503, "pod"},
		{"pod has ended", func(w *world) { w.pod.Status.Phase = corev1.PodFailed }, 403, "has ended"},
		{"no owner", func(w *world) { w.pod.OwnerReferences = nil }, 403, "not controlled by a Job"},
		{"owner does not control", func(w *world) { w.pod.OwnerReferences[0].Controller = nil }, 403, "not controlled by a Job"},
		{"another kind", func(w *world) { w.pod.OwnerReferences[0].Kind = "ReplicaSet" }, 403, "not controlled by a Job"},
		{"another group", func(w *world) { w.pod.OwnerReferences[0].APIVersion = "batch.example.com/v1" }, 403, "not controlled by a Job"},
		{"a Job of the same name", func(w *world) { w.pod.OwnerReferences[0].UID = "other" }, 403, "did not create Job team/scan-x with UID other"},
		{"a Job that is not recorded yet", func(w *world) { w.job.UID = "" }, 503, "has not recorded the Job of this pod yet"},
		{"a Job of another namespace that is not recorded yet", func(w *world) { w.job.UID, w.job.Namespace = "", "other" }, 403, "did not create Job team/scan-x"},
		{"a Job of the same name elsewhere", func(w *world) { w.job.Namespace = "other" }, 403, "with the UID of Job other/scan-x"},
		{"a Job of another name", func(w *world) { w.job.Name = "other" }, 403, "with the UID of Job team/other"},
		{"Job of another image", func(w *world) { w.job.Key.ImageID = "other" }, 403, "catalogs other"},
		{"Job of another platform", func(w *world) { w.job.Key.Platform.Architecture = "arm64" }, 403, "catalogs " + uploaded.ImageID},
		{"Job of an earlier attempt", func(w *world) { w.job.Open = false }, 403, "has ended"},
		{"store gone", func(w *world) { w.jobErr = store.ErrUnavailable }, 503, "database"},
		{"store broken", func(w *world) { w.jobErr = errors.New("secret") }, 500, "internal error"},
		{"another image in the pod", func(w *world) { w.pod.Spec.Containers[0].Image = "evil:1" }, 403, "spec.containers[0].image differs"},
		{"an ephemeral container", func(w *world) {
			w.pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
		}, 403, "spec.ephemeralContainers differs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			test.change(w)
			got, err := auth.NewUploadAuthorizer(w, w, w).AuthorizeUpload(t.Context(), "token", uploaded)
			if test.status == 0 {
				want := store.Delivery{Job: "job-uid", Source: model.ImageSource(test.why)}
				if err != nil || got != want {
					t.Errorf("got %+v, %v, want %+v", got, err, want)
				}
				return
			}
			if err == nil || got != (store.Delivery{}) {
				t.Fatal("the upload was authorized")
			}
			answer := problem.From(err)
			why := answer.Detail
			if answer.Status == http.StatusForbidden {
				// Nobody learns from the answer which pods, Jobs and images exist.
				if want := problem.UploadForbidden(nil).Detail; answer.Detail != want {
					t.Errorf("the answer is %q, want %q as for all others", answer.Detail, want)
				}
				why = answer.Cause.Error()
			}
			if answer.Status != test.status || !strings.Contains(why, test.why) || strings.Contains(answer.Detail, "refused") || strings.Contains(answer.Detail, "secret") {
				t.Errorf("got %d %q, want %d with %q", answer.Status, why, test.status, test.why)
			}
		})
	}
}
