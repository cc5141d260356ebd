package scans

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/setup"
	"github.com/scanner-operator/scanner-operator/internal/setup/setuptest"
)

// TestForgedUploads plays a tenant who may create Jobs and pods, knows the name of a scan Job and wants to decide its result.
func TestForgedUploads(t *testing.T) {
	t.Parallel()
	c, g := setuptest.Cluster(t), gomega.NewWithT(t)
	setuptest.Node(t, c)
	own, tenant := setuptest.Namespace(t, c), setuptest.Namespace(t, c)
	api := setuptest.Operator(t, own, func(o *setup.Options) { o.WatchNamespaces = []string{own, tenant} })
	app := setuptest.ImageID("app", "a")
	setuptest.RunningPod(t, c, own, "app", app)
	setuptest.Create(t, c, setuptest.SampleScanner(t, own))
	g.Eventually(func() map[string]*batchv1.Job { return setuptest.Jobs(t.Context(), c, own) }, patience, tick).Should(gomega.HaveKey(app))
	job := setuptest.Jobs(t.Context(), c, own)[app]

	like := func(namespace string, change func(*batchv1.Job)) *batchv1.Job {
		forged := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: job.Name, Labels: job.Labels, Annotations: job.Annotations},
			Spec:       *job.Spec.DeepCopy(),
		}
		forged.Spec.Selector, forged.Spec.Template.Labels = nil, map[string]string{scanjob.LabelScan: job.Name}
		change(forged)
		return forged
	}
	elsewhere := like(tenant, func(*batchv1.Job) {})
	setuptest.Create(t, c, elsewhere)
	// It claims to be of the real Job, and runs something else.
	impostor := job.DeepCopy()
	impostor.Spec.Template.Spec.Containers[0].Image = "evil:1"
	forgeries := map[string]string{
		"a Job of the same name in another namespace": setuptest.PodOfJob(t, c, elsewhere, scanjob.Audience),
		"a pod of the Job with another image":         setuptest.PodOfJob(t, c, impostor, scanjob.Audience),
	}
	refused := func(when string) {
		t.Helper()
		for name, token := range forgeries {
			if status := setuptest.Deliver(t, api, app, token, []byte(setuptest.SBOM)); status != http.StatusForbidden {
				t.Errorf("%s, %s was answered with %d, want 403", when, name, status)
			}
		}
	}
	refused("before the SBOM")
	token := setuptest.PodOfJob(t, c, job, scanjob.Audience)
	for what, want := range map[string]int{app: http.StatusNoContent, setuptest.ImageID("nobody-wants-this", "b"): http.StatusForbidden} {
		if status := setuptest.Deliver(t, api, what, token, []byte(setuptest.SBOM)); status != want {
			t.Errorf("the SBOM of %s was answered with %d, want %d", what, status, want)
		}
	}
	other := strings.Replace(setuptest.SBOM, "v0.1.0", "v0.2.0", 1)
	if status := setuptest.Deliver(t, api, app, token, []byte(other)); status != http.StatusForbidden {
		t.Errorf("another SBOM of the same pod was answered with %d, want 403", status)
	}
	// A retry of a pod that missed the answer.
	if status := setuptest.Deliver(t, api, app, token, []byte(setuptest.SBOM)); status != http.StatusNoContent {
		t.Errorf("the same SBOM again was answered with %d, want 204", status)
	}
	refused("after the SBOM")

	// A finished Job goes, and its name is free for anyone.
	setuptest.Finish(t, c, job, batchv1.JobComplete)
	setuptest.Remove(t, c, job)
	successor := like(own, func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].Image = "evil:1" })
	setuptest.Create(t, c, successor)
	forgeries["a later Job of the same name"] = setuptest.PodOfJob(t, c, successor, scanjob.Audience)
	refused("after the Job")
}

// TestNoPodHides plays a tenant whose pods look like scans.
func TestNoPodHides(t *testing.T) {
	t.Parallel()
	c, g := setuptest.Cluster(t), gomega.NewWithT(t)
	setuptest.Node(t, c)
	ns := setuptest.Namespace(t, c)
	setuptest.Operator(t, ns, nil)
	setuptest.RunningPod(t, c, ns, "app", setuptest.ImageID("app", "a"))
	scanner := setuptest.SampleScanner(t, ns)
	setuptest.Create(t, c, scanner)
	g.Eventually(func() map[string]*batchv1.Job { return setuptest.Jobs(t.Context(), c, ns) }, patience, tick).Should(gomega.HaveKey(setuptest.ImageID("app", "a")))
	job := setuptest.Jobs(t.Context(), c, ns)[setuptest.ImageID("app", "a")]
	total := func() int32 {
		var now scannerv1.Scanner
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(scanner), &now); err != nil || now.Status.Containers == nil {
			return -1
		}
		return now.Status.Containers.Total
	}
	g.Eventually(total, patience, tick).Should(gomega.Equal(int32(1)))
	setuptest.PodOfJob(t, c, job, scanjob.Audience)
	g.Consistently(total, time.Second, tick).Should(gomega.Equal(int32(1)), "the scan pod is counted")

	owner := metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID, Controller: new(true)}
	labels := map[string]string{scanjob.LabelScan: job.Name}
	for i, hide := range []func(*corev1.Pod){
		func(p *corev1.Pod) { p.Labels = labels },
		func(p *corev1.Pod) {
			p.Labels, p.OwnerReferences = labels, []metav1.OwnerReference{owner}
			p.OwnerReferences[0].UID = "another"
		},
		func(p *corev1.Pod) { p.Labels, p.OwnerReferences = labels, []metav1.OwnerReference{owner} },
		func(p *corev1.Pod) {
			p.Labels, p.OwnerReferences = labels, []metav1.OwnerReference{owner}
			p.Spec.Containers[0].Name = scanjob.ContainerName
		},
	} {
		setuptest.RunningPod(t, c, ns, "hidden-"+string(rune('a'+i)), setuptest.ImageID("hidden", "b"), hide)
		g.Eventually(total, patience, tick).Should(gomega.Equal(int32(i+2)), "pod %d hides", i)
	}
}
