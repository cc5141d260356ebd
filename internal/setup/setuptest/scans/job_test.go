package scans

import (
	"net/http"
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

func TestJobsFromPodToFinding(t *testing.T) {
	t.Parallel()
	c, g := setuptest.Cluster(t), gomega.NewWithT(t)
	setuptest.Node(t, c)
	ns := setuptest.Namespace(t, c)
	api := setuptest.Operator(t, ns, nil)

	// Somebody else's Job, unfinished, that even carries our labels.
	foreign := scanjob.Build(scanjob.Request{Name: "foreign", Namespace: ns}, scanjob.DefaultOptions())
	foreign.Spec.Template.Spec.Containers[0].Image = "x"
	setuptest.Create(t, c, foreign)

	app, other := setuptest.ImageID("app", "a"), setuptest.ImageID("other", "b")
	setuptest.RunningPod(t, c, ns, "app", app)
	setuptest.RunningPod(t, c, ns, "other", "docker-pullable://"+other)
	setuptest.RunningPod(t, c, ns, "ignored", setuptest.ImageID("ignored", "c"), func(p *corev1.Pod) { p.Labels = map[string]string{"ignore": "true"} })
	scanner := setuptest.SampleScanner(t, ns)
	scanner.Spec.Concurrency = new(int32(1))
	setuptest.Create(t, c, scanner)

	g.Eventually(func() map[string]*batchv1.Job { return setuptest.Jobs(t.Context(), c, ns) }, patience, tick).Should(gomega.HaveKey(app))
	job := setuptest.Jobs(t.Context(), c, ns)[app]
	if owner := metav1.GetControllerOf(job); owner == nil || owner.UID != scanner.UID {
		t.Errorf("the Job's owner is %+v, not the Scanner", owner)
	}
	g.Eventually(func() string { return setuptest.Ready(t.Context(), c, scanner) }, patience, tick).Should(gomega.Equal("False/Scanning"))
	g.Consistently(func() map[string]*batchv1.Job { return setuptest.Jobs(t.Context(), c, ns) }, time.Second, tick).
		ShouldNot(gomega.HaveKey(other), "more Jobs than spec.concurrency")

	token := setuptest.PodOfJob(t, c, job, scanjob.Audience)
	if status := setuptest.Deliver(t, api, other, token, []byte(setuptest.SBOM)); status != http.StatusForbidden {
		t.Errorf("an SBOM for another image was answered with %d, want 403", status)
	}
	if status := setuptest.Deliver(t, api, app, setuptest.PodOfJob(t, c, job, "https://kubernetes.default.svc"), []byte(setuptest.SBOM)); status != http.StatusUnauthorized {
		t.Errorf("a token for another audience was answered with %d, want 401", status)
	}
	if status := setuptest.Deliver(t, api, app, token, []byte(`{"nonsense":1}`)); status != http.StatusUnprocessableEntity {
		t.Errorf("nonsense was answered with %d, want 422", status)
	}
	if status := setuptest.Deliver(t, api, app, token, []byte(setuptest.SBOM)); status != http.StatusNoContent {
		t.Fatalf("the SBOM was answered with %d, want 204", status)
	}
	setuptest.Finish(t, c, job, batchv1.JobComplete)

	// The slot is free for the other image, which fails.
	g.Eventually(func() map[string]*batchv1.Job { return setuptest.Jobs(t.Context(), c, ns) }, patience, tick).Should(gomega.HaveKey(other))
	setuptest.Finish(t, c, setuptest.Jobs(t.Context(), c, ns)[other], batchv1.JobFailed)
	g.Eventually(func() string { return setuptest.Ready(t.Context(), c, scanner) }, patience, tick).Should(gomega.Equal("False/Failed"))

	var now scannerv1.Scanner
	g.Eventually(func(g gomega.Gomega) {
		g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(scanner), &now)).To(gomega.Succeed())
		g.Expect(now.Status.Containers).To(gomega.HaveValue(gomega.Equal(scannerv1.ContainerCounts{Total: 3, Scanned: 1, Failed: 1, Skipped: 1})))
		g.Expect(now.Status.Coverage).To(gomega.Equal("50%"))
	}, patience, tick).Should(gomega.Succeed())
	if f := now.Status.Findings; f == nil || f.High+f.Medium+f.Critical == 0 {
		t.Errorf("findings = %+v, want some of golang.org/x/net v0.1.0", f)
	}
	if _, exists := setuptest.Jobs(t.Context(), c, ns)[setuptest.ImageID("ignored", "c")]; exists {
		t.Error("the image of an ignored pod was scanned")
	}
}

func TestNotPulledIsWaiting(t *testing.T) {
	t.Parallel()
	c, g := setuptest.Cluster(t), gomega.NewWithT(t)
	ns := setuptest.Namespace(t, c)
	setuptest.Operator(t, ns, nil)
	scanner := setuptest.SampleScanner(t, ns)
	setuptest.Create(t, c, scanner)
	g.Eventually(func() string { return setuptest.Ready(t.Context(), c, scanner) }, patience, tick).Should(gomega.Equal("True/Reconciled"))
	setuptest.RunningPod(t, c, ns, "starting", "")
	g.Eventually(func() string { return setuptest.Ready(t.Context(), c, scanner) }, patience, tick).Should(gomega.Equal("False/Waiting"))
}

func TestSettledMeansNoWrites(t *testing.T) {
	t.Parallel()
	c, g := setuptest.Cluster(t), gomega.NewWithT(t)
	setuptest.Node(t, c)
	ns := setuptest.Namespace(t, c)
	api := setuptest.Operator(t, ns, nil)
	scanner := setuptest.SampleScanner(t, ns)
	setuptest.Create(t, c, scanner)
	app := setuptest.ImageID("app", "d")
	pod := setuptest.RunningPod(t, c, ns, "app", app)
	g.Eventually(func() map[string]*batchv1.Job { return setuptest.Jobs(t.Context(), c, ns) }, patience, tick).Should(gomega.HaveKey(app))
	job := setuptest.Jobs(t.Context(), c, ns)[app]
	if status := setuptest.Deliver(t, api, app, setuptest.PodOfJob(t, c, job, scanjob.Audience), []byte(setuptest.SBOM)); status != http.StatusNoContent {
		t.Fatalf("the SBOM was answered with %d", status)
	}
	setuptest.Finish(t, c, job, batchv1.JobComplete)
	g.Eventually(func() string { return setuptest.Ready(t.Context(), c, scanner) }, patience, tick).Should(gomega.Equal("True/Reconciled"))

	version := func() string {
		var now scannerv1.Scanner
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(scanner), &now); err != nil {
			return err.Error()
		}
		return now.ResourceVersion
	}
	settled := version()
	// An event that changes nothing for us makes a reconciliation, and that must not write.
	pod.Annotations = map[string]string{"unrelated": "x"}
	if err := c.Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	setuptest.PodOfJob(t, c, job, scanjob.Audience)
	g.Consistently(version, 2*time.Second, tick).Should(gomega.Equal(settled))
}

func TestWithoutDatabaseSBOMsAreKeptAndMatchedLater(t *testing.T) {
	t.Parallel()
	c, g := setuptest.Cluster(t), gomega.NewWithT(t)
	setuptest.Node(t, c)
	ns, data := setuptest.Namespace(t, c), t.TempDir()
	api, stop := setuptest.StartOperator(t, ns, data, func(o *setup.Options) { o.VulnerabilityDatabase.Sample = false })
	scanner := setuptest.SampleScanner(t, ns)
	setuptest.Create(t, c, scanner)
	app := setuptest.ImageID("app", "e")
	setuptest.RunningPod(t, c, ns, "app", app)
	g.Eventually(func() map[string]*batchv1.Job { return setuptest.Jobs(t.Context(), c, ns) }, patience, tick).Should(gomega.HaveKey(app))
	job := setuptest.Jobs(t.Context(), c, ns)[app]
	if status := setuptest.Deliver(t, api, app, setuptest.PodOfJob(t, c, job, scanjob.Audience), []byte(setuptest.SBOM)); status != http.StatusNoContent {
		t.Fatalf("the SBOM was answered with %d", status)
	}
	setuptest.Finish(t, c, job, batchv1.JobComplete)
	g.Eventually(func() string { return setuptest.Ready(t.Context(), c, scanner) }, patience, tick).Should(gomega.Equal("False/Waiting"))
	stop()

	setuptest.StartOperator(t, ns, data, nil)
	g.Eventually(func() string { return setuptest.Ready(t.Context(), c, scanner) }, patience, tick).Should(gomega.Equal("True/Reconciled"))
	if n := len(setuptest.Jobs(t.Context(), c, ns)); n != 1 {
		t.Errorf("%d Jobs, want the one from before: the SBOM was there", n)
	}
}

func TestNamespacesAreSelectedByLabel(t *testing.T) {
	t.Parallel()
	c, g := setuptest.Cluster(t), gomega.NewWithT(t)
	setuptest.Node(t, c)
	own, other := setuptest.Namespace(t, c), setuptest.Namespace(t, c)
	setuptest.Operator(t, own, func(o *setup.Options) { o.WatchNamespaces = []string{own, other} })
	setuptest.RunningPod(t, c, other, "app", setuptest.ImageID("selected", "f"))
	scanner := setuptest.SampleScanner(t, own)
	scanner.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"scan": "yes"}}
	setuptest.Create(t, c, scanner)
	g.Eventually(func() string { return setuptest.Ready(t.Context(), c, scanner) }, patience, tick).Should(gomega.Equal("True/Reconciled"))

	// The audit comes after minutes only: what happens now happens because of the label.
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"scan":"yes"}}}`))
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other}}
	if err := c.Patch(t.Context(), ns, patch); err != nil {
		t.Fatal(err)
	}
	g.Eventually(func() map[string]*batchv1.Job { return setuptest.Jobs(t.Context(), c, own) }, patience, tick).
		Should(gomega.HaveKey(setuptest.ImageID("selected", "f")))
	if owner := metav1.GetControllerOf(setuptest.Jobs(t.Context(), c, own)[setuptest.ImageID("selected", "f")]); owner == nil || owner.UID != scanner.UID {
		t.Errorf("the owner of a Job in the namespace of its Scanner is %+v", owner)
	}
	// Its pull secret is in the other namespace alone.
	private := setuptest.ImageID("private", "a")
	setuptest.RunningPod(t, c, other, "private", private, func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}} })
	g.Eventually(func() map[string]*batchv1.Job { return setuptest.Jobs(t.Context(), c, other) }, patience, tick).Should(gomega.HaveKey(private))
	if owner := metav1.GetControllerOf(setuptest.Jobs(t.Context(), c, other)[private]); owner != nil {
		t.Errorf("a Job in another namespace has the owner %+v: it would be collected at once", owner)
	}

	foreign := setuptest.SampleScanner(t, other)
	foreign.Spec.NamespaceSelector = &metav1.LabelSelector{}
	setuptest.Create(t, c, foreign)
	g.Eventually(func() string { return setuptest.Ready(t.Context(), c, foreign) }, patience, tick).Should(gomega.Equal("False/Failed"))
}
