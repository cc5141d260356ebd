package scanner

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/model"
	"github.com/scanner-operator/scanner-operator/internal/store"
	"github.com/scanner-operator/scanner-operator/internal/store/sqlstore"
)

// The size of the cluster of the benchmark: each Deployment has ten pods.
const (
	benchPods        = 30_000
	benchDeployments = 3_000
	benchImages      = 2_000
)

// podCache is a client that lists pods as the cache of a manager does.
type podCache struct {
	client.Client
	pods []*corev1.Pod
}

func (c *podCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, pods := list.(*corev1.PodList); !pods {
		return c.Client.List(ctx, list, opts...)
	}
	var options client.ListOptions
	objects := make([]runtime.Object, 0, len(c.pods))
	shared := options.ApplyOptions(opts).UnsafeDisableDeepCopy
	for _, pod := range c.pods {
		if options.Namespace != "" && options.Namespace != pod.Namespace {
			continue
		}
		if shared == nil || !*shared {
			pod = pod.DeepCopy()
		}
		objects = append(objects, pod)
	}
	return meta.SetList(list, objects)
}

// scannedImages is a store whose images all have been scanned.
type scannedImages struct {
	Store
	build model.DatabaseBuild
}

func (s scannedImages) WantImages(ctx context.Context, keys []model.ImageKey) (map[model.ImageKey]store.Image, error) {
	images, err := s.Store.WantImages(ctx, keys)
	for key, image := range images {
		image.State, image.Database = store.StateScanned, &s.build
		images[key] = image
	}
	return images, err
}

func (s scannedImages) Build() (model.DatabaseBuild, bool) { return s.build, true }

func (scannedImages) Missing() (reason, message string) { return "", "" }

// podOfFleet returns a pod of a Deployment.
func podOfFleet(i int) *corev1.Pod {
	deployment, controller := i%benchDeployments, true
	hash := fmt.Sprintf("%08x", deployment)
	image := fmt.Sprintf("r.example/team/app-%d@sha256:%064x", deployment%benchImages, deployment%benchImages)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: fmt.Sprintf("web-%d-%s-%d", deployment, hash, i), UID: types.UID(fmt.Sprintf("pod-%d", i)), ResourceVersion: "1",
			CreationTimestamp: metav1.NewTime(now.Add(-time.Duration(i) * time.Second)),
			Labels:            map[string]string{"app": "web", appsv1.DefaultDeploymentUniqueLabelKey: hash},
			OwnerReferences:   []metav1.OwnerReference{{Kind: "ReplicaSet", Name: fmt.Sprintf("web-%d-%s", deployment, hash), Controller: &controller}},
		},
		Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "c", Image: "r.example/team/app:1"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "c", ImageID: image}},
		},
	}
}

// BenchmarkReconcile reconciles a Scanner of 30,000 pods, in a cluster in which nothing is left to be done.
func BenchmarkReconcile(b *testing.B) {
	sql, err := sqlstore.Open(b.Context(), sqlstore.Config{DSN: filepath.Join(b.TempDir(), "s.db")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = sql.Close() })
	scanned := scannedImages{sql, model.DatabaseBuild{ID: "build", Built: now}}
	r, _ := newReconciler(b, scanned, &starter{attempts: map[string]Attempt{}}, scannerWith(func(*scannerv1.Scanner) {}))
	pods := &podCache{Client: r.Client}
	for i := range benchPods {
		pods.pods = append(pods.pods, podOfFleet(i))
	}
	r.Client, r.Databases = pods, scanned
	request := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "s"}}
	for b.Loop() {
		if _, err := r.Reconcile(b.Context(), request); err != nil {
			b.Fatal(err)
		}
	}
}
