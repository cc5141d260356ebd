package server_test

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

	"github.com/scanner-operator/scanner-operator/internal/server"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/vuln"
)

// world is what the API server knows of one pod and its Job.
type world struct {
	status authenticationv1.TokenReviewStatus
	err    error
	pod    *corev1.Pod
	job    *batchv1.Job
	check  error
}

func newWorld() *world {
	yes := true
	return &world{
		status: authenticationv1.TokenReviewStatus{
			Authenticated: true, Audiences: []string{server.Audience},
			User: authenticationv1.UserInfo{Username: "system:serviceaccount:team:scan", Extra: map[string]authenticationv1.ExtraValue{
				"authentication.kubernetes.io/pod-name": {"scan-x"}, "authentication.kubernetes.io/pod-uid": {"pod-uid"},
			}},
		},
		pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "scan-x", UID: "pod-uid", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "batch/v1", Kind: "Job", Name: "scan", UID: "job-uid", Controller: &yes},
		}}},
		job: &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "scan", UID: "job-uid"}},
	}
}

// Create implements server.TokenReviewer.
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
		{"right", func(*world) {}, 204, ""},
		{"not authenticated", func(w *world) { w.status.Authenticated = false }, 401, "audience"},
		{"of the API server", func(w *world) { w.status.Audiences = []string{apiServer} }, 401, "audience"},
		{"no audience", func(w *world) { w.status.Audiences = nil }, 401, "audience"},
		{"no API server", func(w *world) { w.err = errors.New("refused") }, 503, "tokens"},
		{"a person", func(w *world) { w.status.User.Username = "jane" }, 403, "not bound to a pod"},
		{"not bound", func(w *world) { w.status.User.Extra = nil }, 403, "not bound to a pod"},
		{"bound twice", func(w *world) {
			w.status.User.Extra["authentication.kubernetes.io/pod-uid"] = authenticationv1.ExtraValue{"a", "b"}
		}, 403, "not bound to a pod"},
		{"pod gone", func(w *world) { w.pod = nil }, 403, "pod team/scan-x does not exist"},
		{"another pod", func(w *world) { w.pod.UID = "other" }, 403, "UID differs"},
		{"pod elsewhere", func(w *world) { w.pod.Namespace = "other" }, 403, "does not exist"},
		{"no owner", func(w *world) { w.pod.OwnerReferences = nil }, 403, "not controlled by a Job"},
		{"owner does not control", func(w *world) { w.pod.OwnerReferences[0].Controller = nil }, 403, "not controlled by a Job"},
		{"another kind", func(w *world) { w.pod.OwnerReferences[0].Kind = "ReplicaSet" }, 403, "not controlled by a Job"},
		{"another group", func(w *world) { w.pod.OwnerReferences[0].APIVersion = "batch.example.com/v1" }, 403, "not controlled by a Job"},
		{"Job gone", func(w *world) { w.job.Name = "other" }, 403, "Job team/scan does not exist"},
		{"another Job", func(w *world) { w.job.UID = "other" }, 403, "UID differs"},
		{"Job cannot be read", func(w *world) { w.job = nil }, 503, "Job"},
		{"wrong image", func(w *world) { w.check = errors.New("it is the Job of another image") }, 403, "it is the Job of another image"},
		{"store gone", func(w *world) { w.check = store.ErrUnavailable }, 503, "database"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld()
			test.change(w)
			key := vuln.ImageKey{ImageID: scannedID, Platform: linux}
			authorizer := server.NewUploadAuthorizer(w, w, func(_ context.Context, job *batchv1.Job, got vuln.ImageKey) error {
				if job.Name != "scan" || got != key {
					t.Errorf("checked %s for %s", job.Name, got)
				}
				return w.check
			})
			f := newGuardedFixture(t, newCluster(), func(c *server.Config) { c.Uploads = authorizer })
			a := f.do(http.MethodPut, "/api/v1/images/"+escape(scannedID)+"/sbom?platform=linux/amd64", sbomText, bearer("token"))
			if test.status == http.StatusNoContent {
				if a.status != test.status || len(f.ingest.keys) != 1 {
					t.Errorf("%d %s", a.status, a.body)
				}
				return
			}
			a.problem(t, test.status, test.detail)
			if strings.Contains(a.body, "refused") || len(f.ingest.keys) != 0 {
				t.Errorf("%s, ingested %v", a.body, f.ingest.keys)
			}
		})
	}
}
