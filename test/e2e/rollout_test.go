//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestARolloutIsReportedWithItsFindings gives a Deployment an image with other vulnerabilities.
func TestARolloutIsReportedWithItsFindings(t *testing.T) {
	t.Parallel()
	g, ns, a := gomega.NewWithT(t), restrictedNamespace(t), newAPI(t)
	before, beforeID := e2e.registry.push(t, "java-app", "rollout/before")
	after, afterID := e2e.registry.push(t, "node-app", "rollout/after")
	applyScanner(t, ns)
	labels := map[string]string{"app": "shop"}
	create(t, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "shop"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: restrictedPod(before)},
		},
	})
	scanned(t, a, beforeID)
	kubectl(t, ns, "set", "image", "deployment", "shop", "app="+after)

	type side struct {
		ImageID string `json:"imageId"`
	}
	type counts struct {
		Critical int `json:"critical"`
	}
	var page struct {
		Items []struct {
			From, To   side
			Evaluation struct {
				State          string
				Opened, Closed *counts
			}
		}
	}
	g.Eventually(func(g gomega.Gomega) {
		status, body, err := a.do(t.Context(), http.MethodGet, "/api/v1/rollouts?namespace="+ns)
		g.Expect(status, err).To(gomega.Equal(http.StatusOK))
		g.Expect(json.Unmarshal(body, &page)).To(gomega.Succeed())
		g.Expect(page.Items).To(gomega.HaveLen(1))
		g.Expect(page.Items[0].Evaluation.State).To(gomega.Equal("evaluated"), "%s", body)
	}, patience, tick).Should(gomega.Succeed())
	rollout := page.Items[0]
	g.Expect([]string{rollout.From.ImageID, rollout.To.ImageID}).To(gomega.Equal([]string{beforeID, afterID}))
	// The sample database knows one critical vulnerability of the Java program at least: Log4Shell.
	g.Expect(rollout.Evaluation.Closed.Critical).To(gomega.BeNumerically(">", 0))
	g.Eventually(prints(t, ns, "describe", "deployment", "shop"), patience, commandTick).Should(gomega.MatchRegexp(
		fmt.Sprintf(`(Warning|Normal)\s+RolloutEvaluated\s+.*rollout closed \d+ findings.*\(container %s\)`, "app")))
}
