package places

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1alpha1 "github.com/scanner-operator/scanner-operator/api/scanner/v1alpha1"
)

// cached is a reader that has the pods of 100 namespaces as a cache does.
type cached struct {
	client.Reader
	pods map[string][]corev1.Pod
}

func (c cached) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var options client.ListOptions
	options.ApplyOptions(opts)
	switch into := list.(type) {
	case *corev1.PodList:
		into.Items = append([]corev1.Pod(nil), c.pods[options.Namespace]...)
	case *metav1.PartialObjectMetadataList:
		for name := range c.pods {
			into.Items = append(into.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
	}
	return nil
}

// BenchmarkResolve resolves 100 selectors of workloads for 30,000 pods of 10,000 Deployments in 100 namespaces.
func BenchmarkResolve(b *testing.B) {
	c := cached{pods: map[string][]corev1.Pod{}}
	for n := range 30_000 {
		namespace, deployment := fmt.Sprintf("ns-%02d", n%100), fmt.Sprintf("app-%d", n/300)
		c.pods[namespace] = append(c.pods[namespace], corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("%s-5d4f-%d", deployment, n),
			Labels:          map[string]string{"app": deployment, "team": namespace, "version": "1", "tier": "web", appsv1.DefaultDeploymentUniqueLabelKey: "5d4f"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: deployment + "-5d4f", Controller: new(true)}},
		}})
	}
	var selections []*Selection
	for n := range 100 {
		s, err := Of("", &scannerv1alpha1.ExceptionMatch{WorkloadSelector: selector(fmt.Sprintf("app=app-%d", n), "tier=web|db")})
		if err != nil {
			b.Fatal(err)
		}
		selections = append(selections, s)
	}
	b.ReportAllocs()
	for b.Loop() {
		r := &Resolver{Reader: c}
		for _, s := range selections {
			if found, err := r.Resolve(b.Context(), s); err != nil || len(found.Workloads) != 100 {
				b.Fatal(found, err)
			}
		}
	}
}
