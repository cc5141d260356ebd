//go:build scale

package scale

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
)

// sbom is a Syft document with one old package of a Go module.
const sbom = `{"artifacts":[{"id":"1","name":"golang.org/x/net","version":"v0.1.0","type":"go-module","foundBy":"test",
"locations":[],"licenses":[],"language":"go","cpes":[],"purl":"pkg:golang/golang.org/x/net@v0.1.0"}],"artifactRelationships":[],
"source":{"id":"s","name":%q,"version":"","type":"image","metadata":{"userInput":"s","imageID":"sha256:2","manifestDigest":"sha256:3","layers":[]}},
"distro":{},"descriptor":{"name":"syft","version":"1.49.0"},
"schema":{"version":"16.1.10","url":"https://raw.githubusercontent.com/anchore/syft/main/schema/json/schema-16.1.10.json"}}`

// scanNode has kwok leave the pods of scan Jobs running.
var scanNode = map[string]string{"devcluster/jobs": "by-hand"}

// scanPods plays what runs in scan pods, and the kubelet that says how it ended.
type scanPods struct {
	// api is where the operator is now; "" while it is down.
	api func() string

	mu   sync.Mutex
	seen map[types.UID]bool
	// attempts and uploads count, by image, the pods that ran and the SBOMs that were accepted.
	attempts, uploads map[model.ImageKey]int
}

// playScanPods plays all scan pods until the test ends.
func playScanPods(t *testing.T, api func() string) *scanPods {
	t.Helper()
	s := &scanPods{api: api, seen: map[types.UID]bool{}, attempts: map[model.ImageKey]int{}, uploads: map[model.ImageKey]int{}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	follow(t, &corev1.PodList{}, func(event watch.Event) error {
		pod, is := event.Object.(*corev1.Pod)
		if !is {
			return fmt.Errorf("the watch of scan pods said %v", event.Object)
		}
		if attempt, starts := s.starts(pod); starts {
			running.Go(func() {
				if err := s.play(ctx, pod, attempt); err != nil && ctx.Err() == nil {
					t.Errorf("scan pod %s/%s of %s: %v", pod.Namespace, pod.Name, keyOf(pod), err)
				}
			})
		}
		return nil
	}, client.HasLabels{scanjob.LabelScan})
	return s
}

// starts reports whether a pod runs that did not before, and how many ran for the same image before.
func (s *scanPods) starts(pod *corev1.Pod) (attempt int, starts bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pod.Status.Phase != corev1.PodRunning || s.seen[pod.UID] {
		return 0, false
	}
	s.seen[pod.UID] = true
	s.attempts[keyOf(pod)]++
	return s.attempts[keyOf(pod)] - 1, true
}

func keyOf(pod *corev1.Pod) model.ImageKey {
	key := model.ImageKey{ImageID: pod.Annotations[scanjob.AnnotationImageID]}
	os, arch, _ := strings.Cut(pod.Annotations[scanjob.AnnotationPlatform], "/")
	key.Platform = model.Platform{OS: os, Architecture: arch}
	return key
}

// play delivers an SBOM, or fails, and ends the pod.
func (s *scanPods) play(ctx context.Context, pod *corev1.Pod, attempt int) error {
	key := keyOf(pod)
	ends := outcome(numberOf(key.ImageID), attempt)
	if !ends.Succeeded() {
		message, err := json.Marshal(ends)
		if err != nil {
			return err
		}
		return end(ctx, pod, corev1.PodFailed, corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: string(message)})
	}
	token, err := tokenOf(ctx, pod)
	if err != nil {
		return err
	}
	if err := s.deliver(ctx, key, token); err != nil {
		return err
	}
	return end(ctx, pod, corev1.PodSucceeded, corev1.ContainerStateTerminated{Reason: "Completed"})
}

// tokenOf asks for the token that a kubelet mounts into the pod.
func tokenOf(ctx context.Context, pod *corev1.Pod) (string, error) {
	var source *corev1.ServiceAccountTokenProjection
	for _, volume := range pod.Spec.Volumes {
		if volume.Name == "token" {
			source = volume.Projected.Sources[0].ServiceAccountToken
		}
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{source.Audience}, ExpirationSeconds: source.ExpirationSeconds,
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Spec.ServiceAccountName}}
	err := c.SubResource("token").Create(ctx, account, request)
	return request.Status.Token, err
}

// deliver uploads an SBOM. As a scan does, it tries again while the operator cannot be reached.
func (s *scanPods) deliver(ctx context.Context, key model.ImageKey, token string) error {
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		return err
	}
	body := encoder.EncodeAll(fmt.Appendf(nil, sbom, key.ImageID), nil)
	return wait.PollUntilContextTimeout(ctx, tick, patience, true, func(ctx context.Context) (bool, error) {
		api := s.api()
		if api == "" {
			return false, nil
		}
		target := api + "/api/v1/images/" + url.PathEscape(key.ImageID) + "/sbom?platform=" + url.QueryEscape(key.Platform.String())
		request, err := http.NewRequestWithContext(ctx, http.MethodPut, target, bytes.NewReader(body))
		if err != nil {
			return false, err
		}
		request.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/vnd.syft+json"}, "Content-Encoding": {"zstd"}}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // The operator is being stopped, and comes back.
		}
		_ = response.Body.Close()
		switch {
		case response.StatusCode == http.StatusNoContent:
			s.mu.Lock()
			s.uploads[key]++
			s.mu.Unlock()
			return true, nil
		case response.StatusCode >= http.StatusInternalServerError:
			return false, nil
		default:
			return false, fmt.Errorf("the SBOM was answered with %s", response.Status)
		}
	})
}

// end says of a pod that its only container has ended.
func end(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase, state corev1.ContainerStateTerminated) error {
	ended := pod.DeepCopy()
	ended.Status.Phase = phase
	state.StartedAt, state.FinishedAt = *pod.Status.StartTime, metav1.NewTime(time.Now())
	ended.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &state}
	return c.Status().Patch(ctx, ended, client.MergeFrom(pod))
}

// delivered counts the SBOMs that were accepted, by image and in total.
func (s *scanPods) delivered() (byImage map[model.ImageKey]int, total int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, count := range s.uploads {
		total += count
	}
	return maps.Clone(s.uploads), total
}
