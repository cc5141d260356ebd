package scans

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/server/api"
	"github.com/scanner-operator/scanner-operator/internal/setup/setuptest"
)

// npmImage is an image with an npm package.
func npmImage(t *testing.T, title, version string) v1.Image {
	t.Helper()
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	content := `{"name":"` + title + `","version":"` + version + `"}`
	if err := writer.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "app/node_modules/" + title + "/package.json", Mode: 0o644, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(writer, content); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: "amd64", RootFS: v1.RootFS{Type: "layers"}})
	if err != nil {
		t.Fatal(err)
	}
	if image, err = mutate.AppendLayers(image, layer); err != nil {
		t.Fatal(err)
	}
	return image
}

// serveTags serves images of team/app, and returns the repository and the digest of each tag.
func serveTags(t *testing.T, images map[string]v1.Image) (repository string, digests map[string]string) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	repository, digests = strings.TrimPrefix(server.URL, "http://")+"/team/app", map[string]string{}
	for tag, image := range images {
		reference, err := name.NewTag(repository + ":" + tag)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(reference, image); err != nil {
			t.Fatal(err)
		}
		digest, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests[tag] = digest.String()
	}
	return repository, digests
}

// runJob plays the kubelet: it runs the program as the pod of a Job does, with a token of a pod, and ends the Job.
func runJob(t *testing.T, c client.Client, program, url string, job *batchv1.Job) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(setuptest.PodOfJob(t, c, job, scanjob.Audience)), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append(append([]string{}, job.Spec.Template.Spec.Containers[0].Args...), "--upload-url="+url, "--token-file="+file, "--scratch-dir="+t.TempDir())
	command := exec.CommandContext(t.Context(), program, args...)
	command.Env = []string{"HOME=" + t.TempDir()}
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	setuptest.Finish(t, c, job, batchv1.JobComplete)
}

// TestNewerTags follows an image from its pod to a newer tag that closes its findings, with a real registry and the commands that pods run.
func TestNewerTags(t *testing.T) {
	t.Parallel()
	c, g := setuptest.Cluster(t), gomega.NewWithT(t)
	setuptest.Node(t, c)
	ns, executable := setuptest.Namespace(t, c), program(t)
	base, viewer := setuptest.Operator(t, ns, nil), reader(t, c, ns)
	repository, digests := serveTags(t, map[string]v1.Image{
		"1.1.0": npmImage(t, "lodash", "4.17.20"), "1.1.4": npmImage(t, "lodash", "4.17.21"), "2.0.0": npmImage(t, "minimist", "1.2.5"), "latest": npmImage(t, "lodash", "4.17.21"),
	})
	image := repository + "@" + digests["1.1.0"]
	setuptest.RunningPod(t, c, ns, "app", image, func(p *corev1.Pod) { p.Spec.Containers[0].Image = repository + ":1.1.0" })
	scanner := setuptest.SampleScanner(t, ns)
	scanner.Spec.NewerTags = &scannerv1.NewerTagsSpec{}
	setuptest.Create(t, c, scanner)

	newest := func() *batchv1.Job { return setuptest.Jobs(t.Context(), c, ns)[image] }
	g.Eventually(newest, patience, tick).ShouldNot(gomega.BeNil())
	scan := newest()
	runJob(t, c, executable, base, scan)
	setuptest.Remove(t, c, scan)
	g.Eventually(newest, patience, tick).Should(gomega.HaveField("Spec.Template.Spec.Containers", gomega.ContainElement(gomega.HaveField("Args", gomega.ContainElement("catalog-newer-tags")))))
	lookup := newest()

	// The pod of a lookup delivers no SBOM, and no result of another image.
	token := setuptest.PodOfJob(t, c, lookup, scanjob.Audience)
	if status := setuptest.Deliver(t, base, image, token, []byte(setuptest.SBOM)); status != http.StatusForbidden {
		t.Errorf("an SBOM of the pod of a lookup was answered with %d, want 403", status)
	}
	for target, want := range map[string]int{setuptest.ImageID("other", "b"): http.StatusForbidden, image: http.StatusUnprocessableEntity} {
		status, body := setuptest.Ask(t, http.MethodPut, base+"/api/v1/images/"+url.PathEscape(target)+"/newer-tags?platform=linux/amd64", "{}", token, "Content-Type", "application/json")
		if status != want {
			t.Errorf("a result that is none, for %s: %d %s, want %d", target, status, body, want)
		}
	}
	runJob(t, c, executable, base, lookup)

	condition := func() string {
		var now scannerv1.Scanner
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(scanner), &now); err != nil {
			return err.Error()
		}
		found := meta.FindStatusCondition(now.Status.Conditions, scannerv1.ConditionNewerTagsComplete)
		if found == nil {
			return ""
		}
		return string(found.Status) + " " + found.Reason
	}
	g.Eventually(condition, patience, tick).Should(gomega.Equal("True LookedUp"))
	var tags []api.NewerTag
	g.Eventually(func(g gomega.Gomega) {
		status, body := setuptest.Ask(t, http.MethodGet, base+"/api/v1/images/"+url.PathEscape(image)+"/newer-tags", "", viewer)
		var answer api.NewerTags
		g.Expect(status).To(gomega.Equal(http.StatusOK), body)
		g.Expect(json.Unmarshal([]byte(body), &answer)).To(gomega.Succeed())
		g.Expect(answer.Items).To(gomega.HaveLen(1))
		tags = answer.Items[0].Tags
		g.Expect(tags).To(gomega.HaveLen(2))
		g.Expect(tags).To(gomega.HaveEach(gomega.HaveField("State", api.NewerTagStateCompared)))
	}, patience, tick).Should(gomega.Succeed())
	if tags[0].Tag != "1.1.4" || tags[0].Kind != api.NewerTagKindPatch || *tags[0].Digest != digests["1.1.4"] || !tags[0].Recommended || len(*tags[0].ClosedFindings) == 0 || len(*tags[0].OpenedFindings) != 0 {
		t.Errorf("%+v", tags[0])
	}
	if tags[1].Tag != "2.0.0" || tags[1].Recommended || len(*tags[1].OpenedFindings) == 0 {
		t.Errorf("%+v", tags[1])
	}
	// Only the image that runs is listed.
	if status, body := setuptest.Ask(t, http.MethodGet, base+"/api/v1/images", "", viewer); status != http.StatusOK || !strings.Contains(body, `"total":1`) {
		t.Errorf("%d %s", status, body)
	}
	g.Consistently(func() int { return len(setuptest.Jobs(t.Context(), c, ns)) }, time.Second, tick).Should(gomega.BeNumerically("<=", 1), "the lookup is repeated")
}
