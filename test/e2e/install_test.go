//go:build e2e && install

package e2e

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/onsi/gomega"
)

// TestColdInstall measures how long the images of a node take that runs them before there is a Scanner, with the default limits, and what follows for
// 1,000 images. It has a build tag of its own, because it measures only on a machine that does nothing else:
//
//	HELM=helm go test -tags e2e,install ./test/e2e -run ColdInstall -v
func TestColdInstall(t *testing.T) {
	const images = 42
	err := e2e.Run(t.Context(), os.Getenv("HELM"), "upgrade", "scanner", "charts/scanner-operator", "--kubeconfig="+e2e.Kubeconfig,
		"--namespace="+operatorNamespace, "--reuse-values", "--wait", "--timeout=4m", "--set=scans.deadline=15m",
		"--set=scans.concurrency=10", "--set=scans.registryConcurrency=4", "--set=scans.nodeConcurrency=2")
	if err != nil {
		t.Fatal(err)
	}
	ns, a := restrictedNamespace(t), newAPI(t)
	samples := []string{"debian", "go-app", "node-app", "python-app", "alpine", "java-app"}
	ids := make([]string, 0, images)
	for i := range images {
		sample := samples[i%len(samples)]
		reference, id := e2e.registry.pushImage(t, labelled(t, sampleImage(t, sample), fmt.Sprint(i)), fmt.Sprintf("install/%s-%d", sample, i), "1")
		runPod(t, ns, fmt.Sprintf("%s-%d", sample, i), reference)
		ids = append(ids, id)
	}
	kubectl(t, ns, "wait", "--for=condition=Ready", "pod", "--all", "--timeout=5m")
	pulled, start := e2e.registry.sent(), time.Now()
	applyScanner(t, ns)
	for _, id := range ids {
		gomega.NewWithT(t).Eventually(func() (string, error) {
			i, err := a.image(t.Context(), id)
			return i.State, err
		}, patience, tick).Should(gomega.Equal("Scanned"))
	}
	each := time.Since(start) / images
	t.Logf("%d images on one node: %s, %s per image, %d bytes pulled by scans", images, time.Since(start).Round(time.Second), each.Round(time.Millisecond), e2e.registry.sent()-pulled)
	t.Logf("1,000 images: %s on one node, %s on five", (1000 * each).Round(time.Second), (200 * each).Round(time.Second))
}
