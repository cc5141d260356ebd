//go:build faults

package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/candidates"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

const nodeName = "node"

// play does what the scheduler, the kubelet, the garbage collector and the workload controllers of Kubernetes do next. What somebody else has
// changed in the meantime is seen the next time.
func (w *world) play(ctx context.Context, s snapshot) error {
	owners := map[types.UID]bool{}
	for _, object := range s {
		owners[object.GetUID()] = true
	}
	for _, object := range s {
		err := w.playObject(ctx, s, owners, object)
		if client.IgnoreNotFound(err) != nil && !isConflict(err) {
			return fmt.Errorf("play %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

func (w *world) playObject(ctx context.Context, s snapshot, owners map[types.UID]bool, object *unstructured.Unstructured) error {
	// The ReplicaSets of Deployments are not played, their pods are those of the Deployment.
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil && owner.Kind != "ReplicaSet" && !owners[owner.UID] {
		return client.IgnoreNotFound(w.c.Delete(ctx, object, at(object), client.GracePeriodSeconds(0), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
	switch object.GetKind() {
	case "Pod":
		return playAs(object, func(pod *corev1.Pod) error { return w.playPod(ctx, pod) })
	case "Job":
		return playAs(object, func(job *batchv1.Job) error { return w.playJob(ctx, s, job) })
	case "StatefulSet":
		return playAs(object, func(set *appsv1.StatefulSet) error { return w.playStatefulSet(ctx, set) })
	case "Deployment":
		return playAs(object, func(d *appsv1.Deployment) error { return w.playDeployment(ctx, s, d) })
	}
	return nil
}

// at is the condition that an object is the one that was seen, and not another one of this name.
func at(object client.Object) client.Preconditions {
	return client.Preconditions{UID: new(object.GetUID())}
}

func playAs[T any](object *unstructured.Unstructured, play func(*T) error) error {
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		return err
	}
	return play(typed)
}

// playPod schedules and starts a pod, or removes one that is to be deleted. The pods of scans do what playJob says.
func (w *world) playPod(ctx context.Context, pod *corev1.Pod) error {
	switch {
	case !pod.DeletionTimestamp.IsZero():
		return w.c.Delete(ctx, pod, at(pod), client.GracePeriodSeconds(0))
	case pod.Spec.NodeName == "":
		return w.c.SubResource("binding").Create(ctx, pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: nodeName}})
	case pod.Status.Phase != corev1.PodPending:
		return nil
	}
	now := metav1.Now()
	pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &now
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now}}
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, ImageID: imageID(container.Image), Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return w.c.Status().Update(ctx, pod)
}

// playJob makes the pod of a scan Job, delivers its SBOM or has it fail, and ends the Job.
func (w *world) playJob(ctx context.Context, s snapshot, job *batchv1.Job) error {
	if scanjob.Finished(job) {
		return nil
	}
	for _, object := range s.of("Pod") {
		if metav1.IsControlledBy(object, job) {
			return playAs(object, func(pod *corev1.Pod) error { return w.playScan(ctx, job, pod) })
		}
	}
	now := metav1.Now()
	if job.Status.StartTime == nil {
		job.Status.StartTime = &now
		if err := w.c.Status().Update(ctx, job); err != nil {
			return err
		}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: job.Name + "-pod", Namespace: job.Namespace, Labels: job.Spec.Template.Labels, Annotations: job.Spec.Template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Spec: job.Spec.Template.Spec,
	}
	pod.Spec.ServiceAccountName = "default"
	return client.IgnoreAlreadyExists(w.c.Create(ctx, pod))
}

// playScan plays a running scan pod and the end of its Job.
func (w *world) playScan(ctx context.Context, job *batchv1.Job, pod *corev1.Pod) error {
	if pod.Status.Phase == corev1.PodRunning {
		image := job.Annotations[scanjob.AnnotationImageID]
		terminated := corev1.ContainerStateTerminated{StartedAt: *pod.Status.StartTime, FinishedAt: metav1.Now(), Reason: "Completed"}
		phase := corev1.PodSucceeded
		if outcome, fails := w.scenario.fails[image]; fails {
			message, err := json.Marshal(outcome)
			if err != nil {
				return err
			}
			phase, terminated.Reason, terminated.ExitCode, terminated.Message = corev1.PodFailed, "Error", 1, string(message)
		} else if delivered, err := w.deliver(ctx, image, pod); err != nil || !delivered {
			return err
		}
		pod.Status.Phase = phase
		pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &terminated}
		return w.c.Status().Update(ctx, pod)
	}
	if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
		return nil
	}
	now := metav1.Now()
	conditions := []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete}
	job.Status.Succeeded, job.Status.CompletionTime = 1, &now
	if pod.Status.Phase == corev1.PodFailed {
		conditions = []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed}
		job.Status.Succeeded, job.Status.Failed, job.Status.CompletionTime = 0, 1, nil
	}
	for _, condition := range conditions {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: now, Reason: "Played",
		})
	}
	return w.c.Status().Update(ctx, job)
}

// deliver uploads the SBOM of an image, or its newer tags, with the token that a kubelet mounts into the pod. It returns false when it has to be tried again, as a
// scan does while it cannot reach the operator.
func (w *world) deliver(ctx context.Context, image string, pod *corev1.Pod) (bool, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{scanjob.Audience}, ExpirationSeconds: new(int64(600)),
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: "default"}}
	if err := w.c.SubResource("token").Create(ctx, account, request); err != nil {
		return false, err
	}
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		return false, err
	}
	name, _, _ := strings.Cut(image, "@")
	body := encoder.EncodeAll(fmt.Appendf(nil, sbom, name), nil)
	what, header := "sbom", http.Header{"Content-Type": {"application/vnd.syft+json"}, "Content-Encoding": {"zstd"}}
	if slices.Contains(pod.Spec.Containers[0].Args, "catalog-newer-tags") {
		what, header = "newer-tags", http.Header{"Content-Type": {"application/vnd.scanner-operator.newer-tags+json"}}
		if body, err = json.Marshal(candidates.Report{Listed: 2, Tags: []candidates.ReportedTag{{
			Candidate: candidates.Candidate{Tag: "1.0.1", Kind: candidates.KindMinor}, Digest: "sha256:" + strings.Repeat("1", 64), SBOM: body,
		}}}); err != nil {
			return false, err
		}
	}
	target := "http://" + w.managers[0].api + "/api/v1/images/" + url.PathEscape(image) + "/" + what + "?platform=" + url.QueryEscape("linux/amd64")
	put, err := http.NewRequestWithContext(ctx, http.MethodPut, target, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	header.Set("Authorization", "Bearer "+request.Status.Token)
	put.Header = header
	response, err := apiClient.Do(put)
	if err != nil {
		return false, nil //nolint:nilerr // The operator is being started.
	}
	_ = response.Body.Close()
	switch {
	case response.StatusCode == http.StatusNoContent:
		return true, nil
	case response.StatusCode >= http.StatusInternalServerError:
		return false, nil
	default:
		return false, fmt.Errorf("the upload was answered with %s", response.Status)
	}
}

// sbom is a Syft document with one old package of a Go module.
const sbom = `{"artifacts":[{"id":"1","name":"golang.org/x/net","version":"v0.1.0","type":"go-module","foundBy":"test",
"locations":[],"licenses":[],"language":"go","cpes":[],"purl":"pkg:golang/golang.org/x/net@v0.1.0"}],"artifactRelationships":[],
"source":{"id":"s","name":%q,"version":"","type":"image","metadata":{"userInput":"s","imageID":"sha256:2","manifestDigest":"sha256:3","layers":[]}},
"distro":{},"descriptor":{"name":"syft","version":"1.49.0"},
"schema":{"version":"16.1.10","url":"https://raw.githubusercontent.com/anchore/syft/main/schema/json/schema-16.1.10.json"}}`

// playStatefulSet says that all is as the spec wants it.
func (w *world) playStatefulSet(ctx context.Context, set *appsv1.StatefulSet) error {
	if set.Status.ObservedGeneration == set.Generation {
		return nil
	}
	n, revision := *set.Spec.Replicas, fmt.Sprintf("%s-%x", set.Name, set.Spec.Template.Spec.Containers[0].Image)
	set.Status = appsv1.StatefulSetStatus{
		ObservedGeneration: set.Generation, Replicas: n, ReadyReplicas: n, AvailableReplicas: n, CurrentReplicas: n, UpdatedReplicas: n,
		CurrentRevision: revision, UpdateRevision: revision,
	}
	return w.c.Status().Update(ctx, set)
}

// playDeployment keeps one pod of the current template.
func (w *world) playDeployment(ctx context.Context, s snapshot, d *appsv1.Deployment) error {
	hash := fmt.Sprintf("%x", d.Spec.Template.Spec.Containers[0].Image)
	current := d.Name + "-" + hash + "-0"
	exists := false
	for _, pod := range s.of("Pod") {
		owner := metav1.GetControllerOfNoCopy(pod)
		switch {
		case owner == nil || owner.Kind != "ReplicaSet":
		case pod.GetName() == current:
			exists = true
		default:
			if err := w.c.Delete(ctx, pod, at(pod), client.GracePeriodSeconds(0)); err != nil {
				return err
			}
		}
	}
	if exists {
		return nil
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: current, Namespace: d.Namespace, Labels: map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: hash},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: d.Name + "-" + hash, UID: types.UID(hash), Controller: new(true),
			}},
		},
		Spec: d.Spec.Template.Spec,
	}
	return client.IgnoreAlreadyExists(w.c.Create(ctx, pod))
}

func isConflict(err error) bool {
	var status interface{ Status() metav1.Status }
	return errors.As(err, &status) && status.Status().Reason == metav1.StatusReasonConflict
}
