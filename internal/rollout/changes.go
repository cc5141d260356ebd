package rollout

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// maxImageText bounds the reference of an image in a message, in bytes. Registries take less; a pod template takes anything.
	maxImageText = 1024
	// maxImageMessages bounds what is told of one change of a Deployment.
	maxImageMessages = 128
)

// update is the message about a change, with its fields in the order that clients know.
type update struct {
	Timestamp string `json:"timestamp"`
	Message   string `json:"message"`
}

func processedText(name string) string { return "Successfully processed deployment: " + name }

func deletedText(name string) string { return fmt.Sprintf("Deployment %s deleted", name) }

func goneText(key types.NamespacedName) string {
	return fmt.Sprintf("Deployment %s has been deleted", key)
}

// updateTexts are the messages about what changed between two versions of a Deployment: its replicas, then each image that a container
// did not have before, those of init containers last.
func updateTexts(before, after *appsv1.Deployment, at time.Time) ([]string, error) {
	var news []string
	if replicas := replicasOf(after); replicas != replicasOf(before) {
		news = append(news, fmt.Sprintf("Replicas changed: %d", replicas))
	}
	for _, image := range changedImages(before, after) {
		news = append(news, "Image changed: "+shortened(image, maxImageText))
	}
	var texts []string
	for _, what := range news {
		text, err := json.Marshal(update{at.UTC().Format(time.RFC3339), fmt.Sprintf("Deployment %s updated - %s", after.Name, what)})
		if err != nil {
			return nil, fmt.Errorf("encode a message about Deployment %s: %w", after.Name, err)
		}
		texts = append(texts, string(text))
	}
	return texts, nil
}

// replicasOf is the number of replicas; Kubernetes takes none for one.
func replicasOf(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

// changedImages lists the images that containers of the same name did not have before, each once, in the order of the pod template. A
// container under a new name with the image of one that is gone was renamed: its image is no other.
func changedImages(before, after *appsv1.Deployment) []string {
	had, has := imagesByName(before), imagesByName(after)
	gone := map[string]bool{}
	for name, image := range had {
		if _, stays := has[name]; !stays {
			gone[image] = true
		}
	}
	var images []string
	for _, c := range containersOf(after) {
		image, known := had[c.Name]
		if same := known && image == c.Image || !known && gone[c.Image]; same || slices.Contains(images, c.Image) {
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

// shortened cuts a text that has more bytes than a message has room for.
func shortened(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	cut := limit - len("…")
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
