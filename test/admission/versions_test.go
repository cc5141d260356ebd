package admission_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/scanner-operator/scanner-operator/internal/controller/controllertest"
)

// imageVolumes reports whether the API server stores the image volumes of pods. Since Kubernetes 1.31 it knows the field, and until 1.34 it drops the
// volumes and their mounts, unless a feature gate is set.
func imageVolumes(t *testing.T) bool {
	t.Helper()
	return controllertest.Version(t).AtLeast(version.MajorMinor(1, 35))
}
