package main

import (
	"context"
	"fmt"
	"runtime"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sample is a sample image in the local registry.
type sample struct {
	name string
	// reference is by tag, as people write it.
	reference string
	// platforms says that the image is an index for several platforms.
	platforms bool
}

// oneMore is the sample that no workload runs at first: the terminal says how to deploy it.
const oneMore = "python-app"

// applyWorkloads runs the sample images in Deployments, an image for several platforms in one Deployment per platform. One Deployment
// has an init container, and one has the ignore label.
func applyWorkloads(ctx context.Context, c client.Client, images []sample) error {
	var deployments []*unstructured.Unstructured
	var alpine string
	for _, image := range images {
		if image.name == oneMore {
			continue
		}
		if image.platforms {
			for _, arch := range []string{"amd64", "arm64"} {
				deployments = append(deployments, deployment(image.name+"-"+arch, image.reference, arch))
			}
			continue
		}
		deployments = append(deployments, deployment(image.name, image.reference, runtime.GOARCH))
		if image.name == "alpine" {
			alpine = image.reference
		}
	}
	if alpine != "" {
		withInit := deployment("with-init-container", images[0].reference, runtime.GOARCH)
		setPodTemplate(withInit, []any{map[string]any{"name": "prepare", "image": alpine}}, "spec", "initContainers")
		ignored := deployment("ignored", alpine, runtime.GOARCH)
		setPodTemplate(ignored, "true", "metadata", "labels", "ignore")
		deployments = append(deployments, withInit, ignored)
	}
	for _, d := range deployments {
		if err := apply(ctx, c, d); err != nil {
			return fmt.Errorf("apply the Deployment %s: %w", d.GetName(), err)
		}
	}
	return nil
}

// withImages replaces the images of the sample workloads by one of the local registry, for nodes of every platform: the samples work
// without access to the internet.
func withImages(images []sample) func(*unstructured.Unstructured) {
	reference := ""
	for _, image := range images {
		if image.platforms {
			reference = image.reference
		}
	}
	return func(obj *unstructured.Unstructured) {
		spec, ok := obj.Object["spec"].(map[string]any)
		if !ok || reference == "" {
			return
		}
		switch obj.GetKind() {
		case "PodSet":
			spec["template"] = map[string]any{"spec": map[string]any{
				"containers": []any{map[string]any{"name": "app", "image": reference}},
			}}
		case "BellerophonSimple":
			spec["image"] = reference
		}
	}
}

func setPodTemplate(d *unstructured.Unstructured, value any, path ...string) {
	// The parents exist: deployment made them.
	_ = unstructured.SetNestedField(d.Object, value, append([]string{"spec", "template"}, path...)...)
}

func deployment(name, image, arch string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1",
		"kind":       "Deployment",
		"metadata":   map[string]any{"name": name, "namespace": "default"},
		"spec": map[string]any{
			"replicas": int64(1),
			"selector": map[string]any{"matchLabels": map[string]any{"app": name}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": name}},
				"spec": map[string]any{
					"nodeSelector": map[string]any{"kubernetes.io/arch": arch},
					"containers":   []any{map[string]any{"name": "app", "image": image}},
				},
			},
		},
	}}
}
