//go:build e2e

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
)

// TestImagesOfNodes scans images that the operator cannot pull: it is configured for none of their registries, and has no credentials. The kubelet
// and the container runtime have pulled them for pods, and nothing is pulled again.
func TestImagesOfNodes(t *testing.T) {
	t.Parallel()
	g, ns, a := gomega.NewWithT(t), restrictedNamespace(t), newAPI(t)
	ids, sent := runImagesOfNodes(t, ns), map[*registry]int64{}
	for _, r := range e2e.node.registries() {
		sent[r] = r.sent()
		if sent[r] == 0 {
			t.Errorf("the node pulled nothing from %s", r.host)
		}
	}
	if e2e.node.proxy.tunnels.Load() == 0 {
		t.Error("the node did not use its proxy")
	}

	scanner := applyScanner(t, ns, func(s *scannerv1.Scanner) { s.Spec.Concurrency = new(int32(len(ids))) })
	g.Eventually(func(g gomega.Gomega) {
		containers, err := a.coverage(t.Context(), ns)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		for name, id := range ids {
			g.Expect(containers).To(gomega.HaveKey(id), name)
			g.Expect(containers[id].State).To(gomega.Equal("Scanned"), "%s: %+v", name, containers[id])
		}
	}, patience, tick).Should(gomega.Succeed())
	results, err := a.results(t.Context())
	g.Expect(err).NotTo(gomega.HaveOccurred())
	for name, id := range ids {
		var packages []string
		for _, component := range results[id].Report.Components {
			var c struct {
				Name    string `json:"name"`
				Version string `json:"version"`
			}
			g.Expect(json.Unmarshal(component, &c)).To(gomega.Succeed())
			packages = append(packages, c.Name+"@"+c.Version)
		}
		g.Expect(packages).To(gomega.ContainElements("package-of-"+name+"@1.2.3", "musl@1.1.24-r0"), name)
	}
	for r, before := range sent {
		if pulled := r.sent() - before; pulled != 0 {
			t.Errorf("%d bytes of blobs were pulled from %s for images that the node has", pulled, r.host)
		}
	}
	g.Eventually(func() string { return ready(t, scanner) }, patience, tick).Should(gomega.Equal("True/Reconciled"))
}

// runImagesOfNodes runs a pod from an image of each registry that the node can pull from, and from an image that no registry has. It returns the
// image IDs by name when all run.
func runImagesOfNodes(t *testing.T, ns string) map[string]string {
	t.Helper()
	auth := base64.StdEncoding.EncodeToString([]byte(secretCredentials))
	create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "registry"}, Type: corev1.SecretTypeDockerConfigJson,
		StringData: map[string]string{corev1.DockerConfigJsonKey: fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, e2e.node.secret.host, auth)},
	})
	references := map[string]string{"imported": importImage(t, imageOfNode(t, "imported"), "imported")}
	for name, r := range map[string]struct {
		registry *registry
		host     string
	}{
		"provider":  {e2e.node.provider, e2e.node.provider.host},
		"authority": {e2e.node.authority, e2e.node.authorityHost},
		"mirrored":  {e2e.node.mirrored, mirroredHost},
		"proxied":   {e2e.node.proxied, proxiedHost},
		"secret":    {e2e.node.secret, e2e.node.secret.host},
	} {
		pushed, _ := r.registry.pushImage(t, imageOfNode(t, name), "node/"+name, "1")
		references[name] = strings.Replace(pushed, r.registry.host, r.host, 1)
	}
	for name, reference := range references {
		runPod(t, ns, name, reference, func(p *corev1.Pod) {
			if name == "secret" {
				p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
			}
		})
	}
	ids := map[string]string{}
	gomega.NewWithT(t).Eventually(func(g gomega.Gomega) {
		for name := range references {
			var pod corev1.Pod
			g.Expect(e2e.client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, &pod)).To(gomega.Succeed())
			g.Expect(pod.Status.Phase).To(gomega.Equal(corev1.PodRunning), "%s: %+v", name, pod.Status.ContainerStatuses)
			ids[name] = pod.Status.ContainerStatuses[0].ImageID
		}
	}, patience, tick).Should(gomega.Succeed())
	if id := ids["imported"]; !strings.HasPrefix(id, "sha256:") {
		t.Errorf("the imported image has the ID %s, want one without a repository", id)
	}
	return ids
}

// imageOfNode is an image with a package and a layer of its own: nodes do not pull a layer that they have.
func imageOfNode(t *testing.T, name string) v1.Image {
	t.Helper()
	content := fmt.Sprintf(`{"name":"package-of-%s","version":"1.2.3"}`, name)
	return withFile(t, sampleImage(t, "alpine"), "app/node_modules/package-of-"+name+"/package.json", 0o644, []byte(content))
}

// importImage brings an image into the node that no registry has.
func importImage(t *testing.T, image v1.Image, repository string) string {
	t.Helper()
	tag, err := name.NewTag("nowhere.invalid/" + repository + ":1")
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err := tarball.WriteToFile(archive, tag, image); err != nil {
		t.Fatal(err)
	}
	if err := e2e.Load(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
	return tag.Name()
}
