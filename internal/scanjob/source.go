package scanjob

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/scanner-operator/scanner-operator/internal/model"
)

// sourceVolume is the name of the volume with the image that a scan reads.
const sourceVolume = "image"

// Source returns how the pods of a Recorded Job read the image: from an image volume that the kubelet mounts, or from its registry.
func Source(recorded json.RawMessage) (model.ImageSource, error) {
	var spec corev1.PodSpec
	if err := json.Unmarshal(recorded, &spec); err != nil {
		return "", fmt.Errorf("decode a pod spec: %w", err)
	}
	for i := range spec.Volumes {
		if volume := &spec.Volumes[i]; volume.Name == sourceVolume && volume.Image != nil {
			return model.SourceImageVolume, nil
		}
	}
	return model.SourceRegistry, nil
}
