package scans

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/catalog"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/setup"
	"github.com/scanner-operator/scanner-operator/internal/setup/setuptest"
)

// shownImage is an image as the API shows it.
type shownImage struct {
	State, Cataloger string
	Attempts         int
	Counts           struct{ High, Medium, Critical int }
}

func (i shownImage) findings() int { return i.Counts.High + i.Counts.Medium + i.Counts.Critical }

// imageAt asks the API for an image.
func imageAt(t *testing.T, api, token, id string) shownImage {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api+"/api/v1/images/"+url.PathEscape(id), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var image shownImage
	if err := json.NewDecoder(res.Body).Decode(&image); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("image %s was answered with %s: %v", id, res.Status, err)
	}
	return image
}

// unfinished lists the scan Jobs of a namespace that run. Images may have several Jobs.
func unfinished(t *testing.T, c client.Client, namespace string) []batchv1.Job {
	t.Helper()
	var list batchv1.JobList
	if err := c.List(t.Context(), &list, client.InNamespace(namespace), client.HasLabels{scanjob.LabelScan}); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(job batchv1.Job) bool { return scanjob.Finished(&job) })
}

// reader returns a token of an account that may read everything.
func reader(t *testing.T, c client.Client, ns string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "reader"}}
	setuptest.Create(t, c, account)
	setuptest.Create(t, c, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "reader-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: account.Name}},
	})
	return setuptest.Token(t, c, ns, account.Name)
}

// TestImagesAreCatalogedAgain upgrades an operator whose images another version of Syft cataloged, with one slot and two images per hour.
func TestImagesAreCatalogedAgain(t *testing.T) {
	c, g := setuptest.Cluster(t), gomega.NewWithT(t)
	setuptest.Node(t, c)
	ns, data := setuptest.Namespace(t, c), t.TempDir()
	token := reader(t, c, ns)
	scanner := setuptest.SampleScanner(t, ns)
	scanner.Spec.Concurrency = new(int32(1))
	setuptest.Create(t, c, scanner)
	start := func(perHour int) (api string, stop func()) {
		return setuptest.StartOperator(t, ns, data, func(o *setup.Options) { o.Scans.RecatalogPerHour = perHour })
	}
	// next waits for the only scan that runs and returns its image.
	next := func() (string, *batchv1.Job) {
		t.Helper()
		var running []batchv1.Job
		g.Eventually(func() []batchv1.Job { running = unfinished(t, c, ns); return running }, patience, tick).Should(gomega.HaveLen(1))
		return running[0].Annotations[scanjob.AnnotationImageID], &running[0]
	}
	scan := func(api string, job *batchv1.Job, sbom string) {
		t.Helper()
		if status := setuptest.Deliver(t, api, job.Annotations[scanjob.AnnotationImageID], setuptest.PodOfJob(t, c, job, scanjob.Audience), []byte(sbom)); status != http.StatusNoContent {
			t.Fatalf("the SBOM was answered with %d", status)
		}
		setuptest.Finish(t, c, job, batchv1.JobComplete)
	}
	// complete waits until all containers have a result and the Scanner is idle, but for images that are cataloged again.
	complete := func(containers int32) {
		t.Helper()
		g.Eventually(func(g gomega.Gomega) {
			var now scannerv1.Scanner
			g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(scanner), &now)).To(gomega.Succeed())
			g.Expect(now.Status.Containers).To(gomega.HaveValue(gomega.Equal(scannerv1.ContainerCounts{Total: containers, Scanned: containers})))
			g.Expect(setuptest.Ready(t.Context(), c, scanner)).To(gomega.Equal("True/Reconciled"))
		}, patience, tick).Should(gomega.Succeed())
	}

	api, stop := start(0)
	for digit, name := range map[string]string{"1": "one", "2": "two", "3": "three"} {
		setuptest.RunningPod(t, c, ns, name, setuptest.ImageID(name, digit))
	}
	for range 3 {
		_, job := next()
		scan(api, job, setuptest.SBOM)
	}
	complete(3)
	if running := unfinished(t, c, ns); len(running) > 0 {
		t.Errorf("%d images are cataloged again though that is off", len(running))
	}
	stop()

	fresh := strings.Replace(setuptest.SBOM, `"descriptor":{"name":"syft","version":"1.49.0"}`,
		`"descriptor":{"name":"syft","version":"`+strings.TrimPrefix(strings.TrimPrefix(catalog.Cataloger(), "syft"), " ")+`"}`, 1)
	renewed := strings.ReplaceAll(fresh, "v0.1.0", "v99.0.0")
	setuptest.RunningPod(t, c, ns, "new", setuptest.ImageID("new", "4"))
	api, _ = start(2)
	show := func(id string) shownImage { t.Helper(); return imageAt(t, api, token, id) }
	id, job := next()
	if id != setuptest.ImageID("new", "4") {
		t.Fatalf("%s is scanned before the new image", id)
	}
	scan(api, job, fresh)

	again, job := next()
	complete(4)
	scan(api, job, renewed)
	g.Eventually(func() int { return show(again).findings() }, patience, tick).Should(gomega.BeZero())
	if image := show(again); image.State != "Scanned" || image.Cataloger != catalog.Cataloger() {
		t.Errorf("the image that was cataloged again: %+v", image)
	}

	failed, job := next()
	complete(4)
	// It arrives while the scan runs, so that it is the next one, whatever the backoff of the other.
	setuptest.RunningPod(t, c, ns, "newer", setuptest.ImageID("newer", "5"))
	g.Eventually(func() string { return setuptest.Ready(t.Context(), c, scanner) }, patience, tick).Should(gomega.Equal("False/Waiting"))
	setuptest.Finish(t, c, job, batchv1.JobFailed)
	g.Eventually(func() shownImage { return show(failed) }, patience, tick).Should(gomega.HaveField("Attempts", 1))
	if image := show(failed); image.State != "Scanned" || image.Cataloger != "syft 1.49.0" || image.findings() == 0 {
		t.Errorf("the image that could not be cataloged again: %+v", image)
	}
	if id, job = next(); id != setuptest.ImageID("newer", "5") {
		t.Fatalf("%s is cataloged again before a new image", id)
	}
	scan(api, job, fresh)
	complete(5)
	for _, job := range unfinished(t, c, ns) {
		if id := job.Annotations[scanjob.AnnotationImageID]; id != failed {
			t.Errorf("%s is cataloged again, the third one within an hour", id)
		}
	}
}
