//go:build scale

package scale

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	townNamespaces    = 20
	podsPerNode       = 100
	podsPerDeployment = 10
	// churners is how many pods are created or replaced at a time.
	churners = 32
	// firstImage is the number of the first image. Nothing is particular about it and those after it.
	firstImage = 1000
	// stepsOfPod is how many events make the life of a pod.
	stepsOfPod = 3
)

var townLabels = map[string]string{"churn": "yes"}

// town is a cluster of many pods. What their nodes would do is done here, on nodes that nobody looks after: kwok would take most of the CPU.
type town struct {
	namespaces  []string
	deployments []*appsv1.Deployment
	scans       *scanPods

	mu sync.Mutex
	// pods are those that run, replaced in turns.
	pods []*corev1.Pod
	next int
	// serial is the number of pods that there ever were.
	serial int
	// started has when the first pod of each new image ran, by image ID.
	started map[string]time.Time
}

// newTown makes namespaces, nodes and Deployments, and no pods.
func newTown(t *testing.T) *town {
	t.Helper()
	w := &town{started: map[string]time.Time{}}
	for i := range townNamespaces {
		w.namespaces = append(w.namespaces, fmt.Sprint("churn-", i))
	}
	createNamespaces(t, townLabels, w.namespaces...)
	// Those of scan pods.
	createNodes(t)
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(creators)
	for i := range load.pods/podsPerNode + 1 {
		group.Go(func() error {
			labels := map[string]string{corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelHostname: townNode(i)}
			return c.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: townNode(i), Labels: labels}, Spec: corev1.NodeSpec{Unschedulable: true}})
		})
	}
	w.deployments = make([]*appsv1.Deployment, load.deployments())
	for i := range w.deployments {
		w.deployments[i] = w.deployment(i)
		group.Go(func() error { return c.Create(ctx, w.deployments[i]) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return w
}

func townNode(i int) string { return fmt.Sprint("churn-", i) }

// deployment owns pods itself: it is paused and wants none, so that no controller does anything about them.
func (w *town) deployment(i int) *appsv1.Deployment {
	labels := map[string]string{"app": fmt.Sprint("web-", i)}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespaces[i%len(w.namespaces)], Name: labels["app"], Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)), Paused: true, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{townContainer(firstImage + i%load.images)}},
			},
		},
	}
}

func townContainer(image int) corev1.Container {
	container := corev1.Container{
		Name: "web", Image: imageID(image), Args: []string{"--listen=:8080", "--log-level=info"},
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
		},
	}
	for i := range 8 {
		container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprint("SETTING_", i), Value: fmt.Sprintf("value-%d.of.some.length", i)})
	}
	return container
}

// pod describes the next pod of a Deployment, on the node of a slot.
func (w *town) pod(slot, image int) *corev1.Pod {
	deployment := w.deployments[slot%len(w.deployments)]
	w.mu.Lock()
	serial := w.serial
	w.serial++
	w.mu.Unlock()
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: deployment.Namespace, Name: fmt.Sprintf("%s-%d", deployment.Name, serial), Labels: deployment.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Spec: corev1.PodSpec{
			NodeName: townNode(slot / podsPerNode), Containers: []corev1.Container{townContainer(image)},
			// Their nodes are never ready.
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}
}

// run says of a pod that its container runs, as a kubelet does. It does not say that the pod is ready: the node controller would take that back.
func run(ctx context.Context, pod *corev1.Pod) error {
	now := metav1.Now()
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &now, HostIP: "10.0.0.1", PodIP: "10.1.0.1", QOSClass: corev1.PodQOSBurstable,
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now},
			{Type: corev1.PodInitialized, Status: corev1.ConditionTrue, LastTransitionTime: now},
		},
	}
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, ImageID: container.Image, Ready: true, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return c.Status().Update(ctx, pod)
}

// createPods makes all pods run, as fast as it goes.
func (w *town) createPods(t *testing.T) {
	t.Helper()
	w.pods = make([]*corev1.Pod, load.pods)
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(churners)
	for slot := range w.pods {
		pod := w.pod(slot, firstImage+slot%len(w.deployments)%load.images)
		w.pods[slot] = pod
		group.Go(func() error {
			if err := c.Create(ctx, pod); err != nil {
				return err
			}
			return run(ctx, pod)
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// replacement returns the steps in which the next pod is replaced by one of the same image, or of a new one with a number.
func (w *town) replacement(number int, newImage bool) [stepsOfPod]func(context.Context) error {
	w.mu.Lock()
	slot := w.next % len(w.pods)
	w.next++
	old := w.pods[slot]
	w.mu.Unlock()
	image := firstImage + slot%len(w.deployments)%load.images
	if newImage {
		image = firstImage + load.images + number
	}
	pod := w.pod(slot, image)
	return [stepsOfPod]func(context.Context) error{
		func(ctx context.Context) error { return c.Delete(ctx, old, client.GracePeriodSeconds(0)) },
		func(ctx context.Context) error { return c.Create(ctx, pod) },
		func(ctx context.Context) error {
			err := run(ctx, pod)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.pods[slot] = pod
			if newImage {
				w.started[imageID(image)] = time.Now()
			}
			return err
		},
	}
}
