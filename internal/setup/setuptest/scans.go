package setuptest

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// ImageID returns the ID of an image in the registry r.example whose digest repeats a hexadecimal digit.
func ImageID(name, digit string) string {
	return "r.example/" + name + "@sha256:" + strings.Repeat(digit, 64)
}

// Jobs lists the scan Jobs of a namespace by image ID.
func Jobs(ctx context.Context, c client.Client, namespace string) map[string]*batchv1.Job {
	var list batchv1.JobList
	if err := c.List(ctx, &list, client.InNamespace(namespace), client.HasLabels{scanjob.LabelScan}); err != nil {
		return nil
	}
	byImage := map[string]*batchv1.Job{}
	for i := range list.Items {
		byImage[list.Items[i].Annotations[scanjob.AnnotationImageID]] = &list.Items[i]
	}
	return byImage
}

// Ready returns "status/reason" of the Scanner's Ready condition.
func Ready(ctx context.Context, c client.Client, s *scannerv1.Scanner) string {
	var now scannerv1.Scanner
	if err := c.Get(ctx, client.ObjectKeyFromObject(s), &now); err != nil {
		return err.Error()
	}
	if r := meta.FindStatusCondition(now.Status.Conditions, scannerv1.ConditionReady); r != nil {
		return string(r.Status) + "/" + r.Reason
	}
	return ""
}

// PodOfJob plays the Job controller and the kubelet: a pod of the Job, and the token that is mounted into it.
func PodOfJob(t *testing.T, c client.Client, job *batchv1.Job, audience string) string {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: job.Name + "-", Namespace: job.Namespace, Labels: job.Spec.Template.Labels},
		Spec:       job.Spec.Template.Spec,
	}
	// As the admission plugin does, which this API server runs without.
	pod.Spec.ServiceAccountName = "default"
	if err := controllerutil.SetControllerReference(job, pod, c.Scheme()); err != nil {
		t.Fatal(err)
	}
	Create(t, c, pod)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{audience}, ExpirationSeconds: new(int64(600)),
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: "default"}}
	if err := c.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// A scan pod tries for about a minute.
const (
	deliverTimeout = time.Minute
	deliverPause   = 20 * time.Millisecond
)

// Deliver uploads an SBOM as a scan pod does: again while the operator is not ready for it, as for a Job that it has just created.
func Deliver(t *testing.T, api, imageID, token string, sbom []byte) int {
	t.Helper()
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	target := api + "/api/v1/images/" + url.PathEscape(imageID) + "/sbom?platform=linux%2Famd64"
	deadline := time.Now().Add(deliverTimeout)
	for {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, target, bytes.NewReader(encoder.EncodeAll(sbom, nil)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/vnd.syft+json")
		req.Header.Set("Content-Encoding", "zstd")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusServiceUnavailable || time.Now().After(deadline) {
			return res.StatusCode
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(deliverPause):
		}
	}
}

// Finish ends a scan Job, as the Job controller does.
func Finish(t *testing.T, c client.Client, job *batchv1.Job, kind batchv1.JobConditionType) {
	t.Helper()
	now := metav1.Now()
	job.Status.StartTime = &now
	conditions := []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete}
	if kind == batchv1.JobFailed {
		conditions = []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed}
		job.Status.Failed = 1
	} else {
		job.Status.Succeeded, job.Status.CompletionTime = 1, &now
	}
	for _, condition := range conditions {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: now, Reason: "BackoffLimitExceeded",
		})
	}
	if err := c.Status().Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
}

// SBOM is a Syft document with one old package of a Go module.
const SBOM = `{"artifacts":[{"id":"1","name":"golang.org/x/net","version":"v0.1.0","type":"go-module","foundBy":"test",
"locations":[{"path":"/app","layerID":"sha256:1111111111111111111111111111111111111111111111111111111111111111","accessPath":"/app"}],
"licenses":[],"language":"go","cpes":[],"purl":"pkg:golang/golang.org/x/net@v0.1.0"}],"artifactRelationships":[],
"source":{"id":"s","name":"s","version":"","type":"image","metadata":{"userInput":"s","imageID":"sha256:2","manifestDigest":"sha256:3","layers":[]}},
"distro":{},"descriptor":{"name":"syft","version":"1.49.0"},
"schema":{"version":"16.1.10","url":"https://raw.githubusercontent.com/anchore/syft/main/schema/json/schema-16.1.10.json"}}`

// ScanPod makes the pod of a scan Job, as the Job controller does, with a status that a kubelet would write.
func ScanPod(t *testing.T, c client.Client, job *batchv1.Job, mutate func(*corev1.PodStatus)) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: job.Name + "-", Namespace: job.Namespace, Labels: job.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Spec: job.Spec.Template.Spec,
	}
	pod.Spec.ServiceAccountName = "default"
	Create(t, c, pod)
	mutate(&pod.Status)
	if err := c.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// FailJob is what the Job controller writes at the end.
func FailJob(t *testing.T, c client.Client, job *batchv1.Job, reason string, pods int32) {
	t.Helper()
	now := metav1.Now()
	job.Status.StartTime, job.Status.Failed = &now, pods
	for _, kind := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: reason, LastTransitionTime: now,
		})
	}
	if err := c.Status().Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
}

// ScanEnded is the status of a scan pod that ended two minutes ago.
func ScanEnded(code int32, reason, message string) func(*corev1.PodStatus) {
	return func(s *corev1.PodStatus) {
		s.Phase = corev1.PodFailed
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: scanjob.ContainerName, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{
				ExitCode: code, Reason: reason, Message: message, FinishedAt: metav1.NewTime(time.Now().Add(-2 * time.Minute)),
			},
		}}}
	}
}

// ScanFailures returns the notes of events that scans failed, by image.
func ScanFailures(t *testing.T, c client.Client, scanner *scannerv1.Scanner) map[string]string {
	t.Helper()
	var list eventsv1.EventList
	if err := c.List(t.Context(), &list, client.InNamespace(scanner.Namespace)); err != nil {
		t.Fatal(err)
	}
	notes := map[string]string{}
	for i := range list.Items {
		e := &list.Items[i]
		if e.Reason == "ScanFailed" && e.Type == corev1.EventTypeWarning && e.Regarding.UID == scanner.UID {
			notes[strings.Fields(e.Note)[1]] = e.Note
		}
	}
	return notes
}
