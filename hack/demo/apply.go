package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const fieldOwner = client.FieldOwner("scanner-operator-demo")

func newClient(kubeconfig string) (client.Client, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{Precedence: filepath.SplitList(kubeconfig)}, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return c, nil
}

// applyFiles applies every manifest in a file or below a folder, after the changes, if any.
func applyFiles(ctx context.Context, c client.Client, root string, changes ...func(*unstructured.Unstructured)) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
		for {
			obj := &unstructured.Unstructured{}
			if err := decoder.Decode(&obj.Object); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			if len(obj.Object) == 0 {
				continue
			}
			for _, change := range changes {
				change(obj)
			}
			if err := apply(ctx, c, obj); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
	})
}

func apply(ctx context.Context, c client.Client, obj *unstructured.Unstructured) error {
	if obj.GetNamespace() == "" && obj.GetKind() != "CustomResourceDefinition" {
		obj.SetNamespace("default")
	}
	return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), fieldOwner, client.ForceOwnership)
}

// waitForCRDs waits until the API server serves every kind of the samples.
func waitForCRDs(ctx context.Context, c client.Client) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("apiextensions.k8s.io/v1")
		list.SetKind("CustomResourceDefinitionList")
		if err := c.List(ctx, list); err != nil {
			return false, err
		}
		ours := 0
		for _, crd := range list.Items {
			if !established(crd) {
				return false, nil
			}
			ours++
		}
		return ours > 0, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the CRDs: %w", err)
	}
	// The client learned the kinds that exist before these.
	if resettable, ok := c.RESTMapper().(meta.ResettableRESTMapper); ok {
		resettable.Reset()
	}
	return nil
}

func established(crd unstructured.Unstructured) bool {
	if group, _, _ := unstructured.NestedString(crd.Object, "spec", "group"); strings.HasSuffix(group, ".k8s.io") {
		return true
	}
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == "Established" {
			return m["status"] == "True"
		}
	}
	return false
}
