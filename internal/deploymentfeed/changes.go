package deploymentfeed

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/scanner-operator/scanner-operator/internal/truncate"
)

const (
	// maxImageText is the maximum length of an image reference in a message, in bytes. A pod template may hold any text.
	maxImageText = 1024
	// maxImageMessages is the maximum number of messages about images for one change of a Deployment.
	maxImageMessages = 128
)

// update is the message about a change, with its fields in the order that clients expect.
type update struct {
	Timestamp string `json:"timestamp"`
	Message   string `json:"message"`
}

func processedText(name string) string { return "Successfully processed deployment: " + name }

func deletedText(name string) string { return fmt.Sprintf("Deployment %s deleted", name) }

func goneText(key types.NamespacedName) string {
	return fmt.Sprintf("Deployment %s has been deleted", key)
}

// updateTexts returns the messages about the changes between two versions of a Deployment: its replicas, then each image that a container
// did not have before, init containers last.
func updateTexts(before, after *appsv1.Deployment, at time.Time) ([]string, error) {
	var changes []string
	if replicas := replicasOf(after); replicas != replicasOf(before) {
		changes = append(changes, fmt.Sprintf("Replicas changed: %d", replicas))
	}
	for _, image := range changedImages(before, after) {
		changes = append(changes, "Image changed: "+truncate.Ellipsis(image, maxImageText))
	}
	var texts []string
	for _, change := range changes {
		text, err := json.Marshal(update{at.UTC().Format(time.RFC3339), fmt.Sprintf("Deployment %s updated - %s", after.Name, change)})
		if err != nil {
			return nil, fmt.Errorf("encode a message about Deployment %s: %w", after.Name, err)
		}
		texts = append(texts, string(text))
	}
	return texts, nil
}

// replicasOf returns the number of replicas, 1 by default as in Kubernetes.
func replicasOf(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

// changedImages lists the images that containers of the same name did not have before, each once, in the order of the pod template. A
// new container with the image of a removed container counts as renamed, not as changed.
func changedImages(before, after *appsv1.Deployment) []string {
	previous, current := imagesByName(before), imagesByName(after)
	removed := map[string]bool{}
	for name, image := range previous {
		if _, found := current[name]; !found {
			removed[image] = true
		}
	}
	var images []string
	for _, c := range containersOf(after) {
		image, known := previous[c.Name]
		if same := known && image == c.Image || !known && removed[c.Image]; same || slices.Contains(images, c.Image) {
			continue
		}
		if images = append(images, c.Image); len(images) == maxImageMessages {
			break
		}
	}
	return images
}

func imagesByName(d *appsv1.Deployment) map[string]string {
	images := map[string]string{}
	for _, c := range containersOf(d) {
		images[c.Name] = c.Image
	}
	return images
}

// containersOf lists the containers of the pod template, init containers last.
func containersOf(d *appsv1.Deployment) []corev1.Container {
	return slices.Concat(d.Spec.Template.Spec.Containers, d.Spec.Template.Spec.InitContainers)
}
