// Package imageresolver gives the pods of simulated nodes the image IDs that kubelets would report. kwok pulls nothing, so the resolver asks the
// registry which digest a tag has, and writes it into the annotation of the pod that kwok's stages read. A pod whose image cannot be
// pulled waits with ErrImagePull or ImagePullBackOff until it can.
package imageresolver

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

const (
	// workers bounds the images that are resolved at the same time.
	workers = 8
	// A kubelet waits for ten seconds to five minutes between pulls; nobody wants to wait that long for a simulation.
	firstBackoff = 2 * time.Second
	maxBackoff   = 30 * time.Second
	// reportBackoff is when ErrImagePull becomes ImagePullBackOff.
	reportBackoff = time.Second

	simulatedNode = "kwok.x-k8s.io/node"
)

// Main runs the resolver with the arguments of a command line until ctx ends.
func Main(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("image-resolver", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig of the cluster")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 500, 1000
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	return newResolver(client).run(ctx)
}

type resolver struct {
	client    kubernetes.Interface
	images    *images
	informers informers.SharedInformerFactory
	pods      corelisters.PodLister
	nodes     corelisters.NodeLister
	queue     workqueue.TypedDelayingInterface[item]
	backoff   *backoffs
	synced    []cache.InformerSynced
}

type item struct{ namespace, name string }

func newResolver(client kubernetes.Interface) *resolver {
	factory := informers.NewSharedInformerFactory(client, 0)
	r := &resolver{
		client: client, images: newImages(), informers: factory, backoff: newBackoffs(),
		pods: factory.Core().V1().Pods().Lister(), nodes: factory.Core().V1().Nodes().Lister(),
		queue: workqueue.NewTypedDelayingQueue[item](),
	}
	// The handlers cannot be refused before the informers run.
	pods, _ := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    r.enqueue,
		UpdateFunc: func(_, pod any) { r.enqueue(pod) },
		DeleteFunc: func(pod any) {
			if key, err := cache.DeletionHandlingObjectToName(pod); err == nil {
				r.backoff.forget(item{key.Namespace, key.Name})
			}
		},
	})
	r.synced = []cache.InformerSynced{pods.HasSynced, factory.Core().V1().Nodes().Informer().HasSynced}
	return r
}

func (r *resolver) enqueue(obj any) {
	if pod, ok := obj.(*corev1.Pod); ok && len(pending(pod)) > 0 {
		r.queue.Add(item{pod.Namespace, pod.Name})
	}
}

func (r *resolver) run(ctx context.Context) error {
	r.informers.Start(ctx.Done())
	defer r.informers.Shutdown()
	defer r.queue.ShutDown()
	if !cache.WaitForCacheSync(ctx.Done(), r.synced...) {
		return ctx.Err()
	}
	for range workers {
		go func() {
			for r.next(ctx) {
			}
		}()
	}
	<-ctx.Done()
	return nil
}

func (r *resolver) next(ctx context.Context) bool {
	key, quit := r.queue.Get()
	if quit {
		return false
	}
	defer r.queue.Done(key)
	again, err := r.sync(ctx, key)
	if err != nil && ctx.Err() == nil {
		klog.ErrorS(err, "Failed to give a pod its image IDs", "pod", klog.KRef(key.namespace, key.name))
		again = firstBackoff
	}
	if again > 0 {
		r.queue.AddAfter(key, again)
	}
	return true
}

// sync resolves the images of one pod. It returns when to come back, 0 for never.
func (r *resolver) sync(ctx context.Context, key item) (time.Duration, error) {
	pod, err := r.pods.Pods(key.namespace).Get(key.name)
	if err != nil {
		return 0, ignoreNotFound(err)
	}
	containers := pending(pod)
	if len(containers) == 0 {
		return 0, nil
	}
	node, err := r.nodes.Get(pod.Spec.NodeName)
	if err != nil || node.Annotations[simulatedNode] == "" {
		return 0, ignoreNotFound(err)
	}
	if wait, report := r.backoff.wait(key, pod.UID); wait > 0 {
		if report {
			return wait, r.reportBackOff(ctx, pod)
		}
		return wait, nil
	}
	platform := v1.Platform{OS: "linux", Architecture: node.Status.NodeInfo.Architecture}
	found, failures := map[string]string{}, map[string]*pullError{}
	for _, c := range containers {
		id, err := r.images.resolve(ctx, node.Name, platform, c.image, c.policy)
		var failure *pullError
		switch {
		case errors.As(err, &failure):
			failures[c.name] = failure
		case err != nil:
			return 0, err
		default:
			found[imageIDPrefix+c.name] = id
		}
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if err := r.annotate(ctx, pod, found); err != nil {
		return 0, err
	}
	if len(failures) == 0 {
		r.backoff.forget(key)
		return 0, nil
	}
	r.backoff.failed(key, pod.UID)
	return reportBackoff, r.writeStatus(ctx, pod, waitingStatus(pod, failures, metav1.Now()))
}

// reportBackOff makes ErrImagePull of the status ImagePullBackOff, as a kubelet does while it waits.
func (r *resolver) reportBackOff(ctx context.Context, pod *corev1.Pod) error {
	status := *pod.Status.DeepCopy()
	for _, statuses := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for i := range statuses {
			if waiting := statuses[i].State.Waiting; waiting != nil && waiting.Reason == reasonErrImagePull {
				waiting.Reason = reasonImagePullBackOff
				waiting.Message = fmt.Sprintf("Back-off pulling image %q: %s: %s", statuses[i].Image, reasonErrImagePull, waiting.Message)
			}
		}
	}
	return r.writeStatus(ctx, pod, status)
}

func (r *resolver) annotate(ctx context.Context, pod *corev1.Pod, annotations map[string]string) error {
	if len(annotations) == 0 {
		return nil
	}
	// The UID refuses the patch for a later pod of the same name.
	return r.patch(ctx, pod, map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": annotations}})
}

func (r *resolver) writeStatus(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) error {
	if equality.Semantic.DeepEqual(pod.Status, status) {
		return nil
	}
	return r.patch(ctx, pod, map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status}, "status")
}

func (r *resolver) patch(ctx context.Context, pod *corev1.Pod, change any, subresources ...string) error {
	data, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = r.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, data, metav1.PatchOptions{}, subresources...)
	if apierrors.IsConflict(err) {
		return nil
	}
	return ignoreNotFound(err)
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
