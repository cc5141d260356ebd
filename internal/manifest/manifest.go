// Package manifest finds the images that Kubernetes manifests run. It takes the text as hostile, and does no I/O apart from reading it.
package manifest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"sigs.k8s.io/yaml"
)

// Bounds of what Read reads.
const (
	// MaxBytes bounds the text, and MaxDocumentBytes one of its documents.
	MaxBytes         = 64 << 20
	MaxDocumentBytes = 16 << 20
	// MaxDocuments bounds the documents, MaxContainers the containers of all of them together.
	MaxDocuments  = 10_000
	MaxContainers = 10_000
	// maxLists bounds how deep lists of objects are in each other.
	maxLists = 4
	// maxName bounds names and namespaces, maxImage image references, in bytes.
	maxName  = 253
	maxImage = 512
)

// Workload is an object with a pod template, or a pod.
type Workload struct {
	// Kind is that of the controller of the pods: "StatefulSet" for a BellerophonSimple.
	Kind, Namespace, Name string
	// Containers are the init containers and the containers, in the order of the manifest.
	Containers []Container
}

// Container is a container of a pod template.
type Container struct {
	Name string
	// Image is the image reference.
	Image string
}

// Read reads YAML or JSON documents, such as the output of "helm template" and "kubectl get -o yaml", and returns the workloads in them, in their order.
// Any object counts that has a pod template where the kinds of Kubernetes have it, so custom resources do as well. namespace is that of objects which name
// none.
func Read(r io.Reader, namespace string) ([]Workload, error) {
	documents := documentReader{r: bufio.NewReader(r)}
	f := finder{namespace: namespace}
	for n := 1; ; n++ {
		text, err := documents.next()
		switch {
		case errors.Is(err, io.EOF):
			return f.workloads, nil
		case err != nil:
			return nil, fmt.Errorf("read document %d of the manifests: %w", n, err)
		case n > MaxDocuments:
			return nil, fmt.Errorf("read the manifests: there are more than %d documents", MaxDocuments)
		}
		if err := f.document(text); err != nil {
			return nil, fmt.Errorf("document %d of the manifests: %w", n, err)
		}
	}
}

// kindBellerophonSimple is a custom resource without a pod template.
const kindBellerophonSimple = "BellerophonSimple"

// finder collects workloads.
type finder struct {
	namespace  string
	workloads  []Workload
	containers int
}

func (f *finder) document(text []byte) error {
	var content any
	if err := yaml.Unmarshal(text, &content); err != nil {
		return err
	}
	if content == nil {
		return nil // comments alone
	}
	return f.object(content, 0)
}

func (f *finder) object(content any, depth int) error {
	object, ok := content.(map[string]any)
	if !ok {
		return errors.New("it is not an object")
	}
	kind, _ := object["kind"].(string)
	if kind == "" {
		return errors.New("the object has no kind")
	}
	if items, ok := object["items"].([]any); ok && strings.HasSuffix(kind, "List") {
		if depth == maxLists {
			return fmt.Errorf("lists are nested deeper than %d", maxLists)
		}
		for i, item := range items {
			if err := f.object(item, depth+1); err != nil {
				return fmt.Errorf("item %d: %w", i+1, err)
			}
		}
		return nil
	}
	containers, err := containersOf(object)
	if err != nil || len(containers) == 0 {
		return err
	}
	if f.containers += len(containers); f.containers > MaxContainers {
		return fmt.Errorf("there are more than %d containers", MaxContainers)
	}
	metadata := child(object, "metadata")
	w := Workload{Kind: kind, Namespace: text(metadata, "namespace"), Name: text(metadata, "name"), Containers: containers}
	if w.Name == "" {
		w.Name = text(metadata, "generateName")
	}
	if kind == kindBellerophonSimple {
		w.Kind = "StatefulSet" // with the same name
	}
	if w.Namespace == "" {
		w.Namespace = f.namespace
	}
	for what, name := range map[string]string{"kind": w.Kind, "name": w.Name, "namespace": w.Namespace} {
		if len(name) > maxName {
			return fmt.Errorf("the %s has more than %d bytes", what, maxName)
		}
	}
	f.workloads = append(f.workloads, w)
	return nil
}

// containersOf lists the containers of an object, none if it runs no pods.
func containersOf(object map[string]any) ([]Container, error) {
	spec := child(object, "spec")
	if text(object, "kind") == kindBellerophonSimple {
		return container(nil, map[string]any{"name": "app", "image": spec["image"]})
	}
	var all []Container
	for _, pod := range []map[string]any{
		podSpec(object), child(child(spec, "template"), "spec"), child(child(child(child(spec, "jobTemplate"), "spec"), "template"), "spec"),
		child(child(object, "template"), "spec"),
	} {
		for _, list := range []string{"initContainers", "containers"} {
			elements, _ := pod[list].([]any)
			for i, element := range elements {
				entry, ok := element.(map[string]any)
				if !ok {
					return nil, fmt.Errorf("element %d of %s is not an object", i+1, list)
				}
				var err error
				if all, err = container(all, entry); err != nil {
					return nil, fmt.Errorf("element %d of %s: %w", i+1, list, err)
				}
			}
		}
	}
	return all, nil
}

// podSpec is the spec of a pod. Other kinds may have something else under the name "containers".
func podSpec(object map[string]any) map[string]any {
	if text(object, "kind") != "Pod" {
		return nil
	}
	return child(object, "spec")
}

// container appends a container. One without an image gets it in another way, such as from an admission webhook.
func container(all []Container, entry map[string]any) ([]Container, error) {
	c := Container{Name: text(entry, "name"), Image: text(entry, "image")}
	switch _, isText := entry["image"].(string); {
	case !isText && entry["image"] != nil:
		return nil, errors.New("the image is not a string; quote it")
	case c.Image == "":
		return all, nil
	case len(c.Image) > maxImage:
		return nil, fmt.Errorf("the image reference has more than %d bytes", maxImage)
	case len(c.Name) > maxName:
		return nil, fmt.Errorf("the name has more than %d bytes", maxName)
	}
	return append(all, c), nil
}

// child is the object under a name, nil if there is none.
func child(object map[string]any, name string) map[string]any {
	found, _ := object[name].(map[string]any)
	return found
}

// text is the string under a name, "" if there is none.
func text(object map[string]any, name string) string {
	found, _ := object[name].(string)
	return found
}
