package setup_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestUpdatesWithoutAVersion shows what docs/explanation/informers.md says: the API server takes an update of a pod without the version that it is based on,
// and refuses one of a custom resource.
func TestUpdatesWithoutAVersion(t *testing.T) {
	c := needCluster(t)
	ns := namespace(t, c)
	pod := runningPod(t, c, ns, "p", "r.example/p@sha256:0000000000000000000000000000000000000000000000000000000000000000")
	pod.ResourceVersion, pod.Labels = "", map[string]string{"changed": "true"}
	if err := c.Update(t.Context(), pod); err != nil {
		t.Errorf("a pod: %v", err)
	}
	scanner := sampleScanner(t, ns)
	create(t, c, scanner)
	scanner.ResourceVersion = ""
	if err := c.Update(t.Context(), scanner); !apierrors.IsInvalid(err) {
		t.Errorf("a custom resource: %v, want that it is refused", err)
	}
}
