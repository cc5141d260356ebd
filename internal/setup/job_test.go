package setup_test

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/setup"
)

func imageID(name, digit string) string {
	return "r.example/" + name + "@sha256:" + strings.Repeat(digit, 64)
}

// jobs lists the scan Jobs of a namespace by image ID.
func jobs(ctx context.Context, c client.Client, namespace string) map[string]*batchv1.Job {
	var list batchv1.JobList
	if err := c.List(ctx, &list, client.InNamespace(namespace), client.HasLabels{scanjob.LabelScan}); err != nil {
		return nil
	}
	byImage := map[string]*batchv1.Job{}
	for i := range list.Items {
		byImage[list.Items[i].Annotations[scanjob.AnnotationImageID]] = &list.Items[i]
	}
	return byImage
}

// ready returns "status/reason" of the Scanner's Ready condition.
func ready(ctx context.Context, c client.Client, s *scannerv1.Scanner) string {
	var now scannerv1.Scanner
	if err := c.Get(ctx, client.ObjectKeyFromObject(s), &now); err != nil {
		return err.Error()
	}
	if r := meta.FindStatusCondition(now.Status.Conditions, scannerv1.ConditionReady); r != nil {
		return string(r.Status) + "/" + r.Reason
	}
	return ""
}

// podOfJob plays the Job controller and the kubelet: a pod of the Job, and the token that is mounted into it.
func podOfJob(t *testing.T, c client.Client, job *batchv1.Job, audience string) string {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: job.Name + "-", Namespace: job.Namespace, Labels: job.Spec.Template.Labels},
		Spec:       job.Spec.Template.Spec,
	}
	// As the admission plugin does, which this API server runs without.
	pod.Spec.ServiceAccountName = "default"
	if err := controllerutil.SetControllerReference(job, pod, c.Scheme()); err != nil {
		t.Fatal(err)
	}
	create(t, c, pod)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{audience}, ExpirationSeconds: new(int64(600)),
		BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: "default"}}
	if err := c.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// deliver uploads an SBOM as a scan pod does.
func deliver(t *testing.T, api, imageID, token string, sbom []byte) int {
	t.Helper()
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	target := api + "/api/v1/images/" + url.PathEscape(imageID) + "/sbom?platform=linux%2Famd64"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, target, bytes.NewReader(encoder.EncodeAll(sbom, nil)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/vnd.syft+json")
	req.Header.Set("Content-Encoding", "zstd")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

func finish(t *testing.T, c client.Client, job *batchv1.Job, kind batchv1.JobConditionType) {
	t.Helper()
	now := metav1.Now()
	job.Status.StartTime = &now
	conditions := []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete}
	if kind == batchv1.JobFailed {
		conditions = []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed}
		job.Status.Failed = 1
	} else {
		job.Status.Succeeded, job.Status.CompletionTime = 1, &now
	}
	for _, condition := range conditions {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: now, Reason: "BackoffLimitExceeded",
		})
	}
	if err := c.Status().Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
}

func amd64Node(t *testing.T, c client.Client) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{
		corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
	}}}
	if err := c.Create(t.Context(), node); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
}

// smallSBOM is a Syft document with one old package of a Go module.
const smallSBOM = `{"artifacts":[{"id":"1","name":"golang.org/x/net","version":"v0.1.0","type":"go-module","foundBy":"test",
"locations":[{"path":"/app","layerID":"sha256:1111111111111111111111111111111111111111111111111111111111111111","accessPath":"/app"}],
"licenses":[],"language":"go","cpes":[],"purl":"pkg:golang/golang.org/x/net@v0.1.0"}],"artifactRelationships":[],
"source":{"id":"s","name":"s","version":"","type":"image","metadata":{"userInput":"s","imageID":"sha256:2","manifestDigest":"sha256:3","layers":[]}},
"distro":{},"descriptor":{"name":"syft","version":"1.49.0"},
"schema":{"version":"16.1.10","url":"https://raw.githubusercontent.com/anchore/syft/main/schema/json/schema-16.1.10.json"}}`

func TestJobsFromPodToFinding(t *testing.T) {
	t.Parallel()
	c, g := needCluster(t), gomega.NewWithT(t)
	amd64Node(t, c)
	ns := namespace(t, c)
	api := operator(t, ns, nil)

	// Somebody else's Job, unfinished, that even carries our labels.
	foreign := scanjob.Build(scanjob.Request{Name: "foreign", Namespace: ns}, scanjob.DefaultOptions())
	foreign.Spec.Template.Spec.Containers[0].Image = "x"
	create(t, c, foreign)

	app, other := imageID("app", "a"), imageID("other", "b")
	runningPod(t, c, ns, "app", app)
	runningPod(t, c, ns, "other", "docker-pullable://"+other)
	runningPod(t, c, ns, "ignored", imageID("ignored", "c"), func(p *corev1.Pod) { p.Labels = map[string]string{"ignore": "true"} })
	scanner := sampleScanner(t, ns)
	scanner.Spec.Concurrency = new(int32(1))
	create(t, c, scanner)

	g.Eventually(func() map[string]*batchv1.Job { return jobs(t.Context(), c, ns) }, patience, tick).Should(gomega.HaveKey(app))
	job := jobs(t.Context(), c, ns)[app]
	if owner := metav1.GetControllerOf(job); owner == nil || owner.UID != scanner.UID {
		t.Errorf("the Job's owner is %+v, not the Scanner", owner)
	}
	g.Eventually(func() string { return ready(t.Context(), c, scanner) }, patience, tick).Should(gomega.Equal("False/Scanning"))
	g.Consistently(func() map[string]*batchv1.Job { return jobs(t.Context(), c, ns) }, time.Second, tick).
		ShouldNot(gomega.HaveKey(other), "more Jobs than spec.concurrency")

	token := podOfJob(t, c, job, scanjob.Audience)
	if status := deliver(t, api, other, token, []byte(smallSBOM)); status != http.StatusForbidden {
		t.Errorf("an SBOM for another image was answered with %d, want 403", status)
	}
	if status := deliver(t, api, app, podOfJob(t, c, job, "https://kubernetes.default.svc"), []byte(smallSBOM)); status != http.StatusUnauthorized {
		t.Errorf("a token for another audience was answered with %d, want 401", status)
	}
	if status := deliver(t, api, app, token, []byte(`{"nonsense":1}`)); status != http.StatusUnprocessableEntity {
		t.Errorf("nonsense was answered with %d, want 422", status)
	}
	if status := deliver(t, api, app, token, []byte(smallSBOM)); status != http.StatusNoContent {
		t.Fatalf("the SBOM was answered with %d, want 204", status)
	}
	finish(t, c, job, batchv1.JobComplete)

	// The slot is free for the other image, which fails.
	g.Eventually(func() map[string]*batchv1.Job { return jobs(t.Context(), c, ns) }, patience, tick).Should(gomega.HaveKey(other))
	finish(t, c, jobs(t.Context(), c, ns)[other], batchv1.JobFailed)
	g.Eventually(func() string { return ready(t.Context(), c, scanner) }, patience, tick).Should(gomega.Equal("False/Failed"))

	var now scannerv1.Scanner
	g.Eventually(func(g gomega.Gomega) {
		g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(scanner), &now)).To(gomega.Succeed())
		g.Expect(now.Status.Containers).To(gomega.HaveValue(gomega.Equal(scannerv1.ContainerCounts{Total: 3, Scanned: 1, Failed: 1, Skipped: 1})))
		g.Expect(now.Status.Coverage).To(gomega.Equal("50%"))
	}, patience, tick).Should(gomega.Succeed())
	if f := now.Status.Findings; f == nil || f.High+f.Medium+f.Critical == 0 {
		t.Errorf("findings = %+v, want some of golang.org/x/net v0.1.0", f)
	}
	if _, exists := jobs(t.Context(), c, ns)[imageID("ignored", "c")]; exists {
		t.Error("the image of an ignored pod was scanned")
	}
}

func TestNotPulledIsWaiting(t *testing.T) {
	t.Parallel()
	c, g := needCluster(t), gomega.NewWithT(t)
	ns := namespace(t, c)
	operator(t, ns, nil)
	scanner := sampleScanner(t, ns)
	create(t, c, scanner)
	g.Eventually(func() string { return ready(t.Context(), c, scanner) }, patience, tick).Should(gomega.Equal("True/Reconciled"))
	runningPod(t, c, ns, "starting", "")
	g.Eventually(func() string { return ready(t.Context(), c, scanner) }, patience, tick).Should(gomega.Equal("False/Waiting"))
}

func TestSettledMeansNoWrites(t *testing.T) {
	t.Parallel()
	c, g := needCluster(t), gomega.NewWithT(t)
	amd64Node(t, c)
	ns := namespace(t, c)
	api := operator(t, ns, nil)
	scanner := sampleScanner(t, ns)
	create(t, c, scanner)
	app := imageID("app", "d")
	pod := runningPod(t, c, ns, "app", app)
	g.Eventually(func() map[string]*batchv1.Job { return jobs(t.Context(), c, ns) }, patience, tick).Should(gomega.HaveKey(app))
	job := jobs(t.Context(), c, ns)[app]
	if status := deliver(t, api, app, podOfJob(t, c, job, scanjob.Audience), []byte(smallSBOM)); status != http.StatusNoContent {
		t.Fatalf("the SBOM was answered with %d", status)
	}
	finish(t, c, job, batchv1.JobComplete)
	g.Eventually(func() string { return ready(t.Context(), c, scanner) }, patience, tick).Should(gomega.Equal("True/Reconciled"))

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
	podOfJob(t, c, job, scanjob.Audience)
	g.Consistently(version, 2*time.Second, tick).Should(gomega.Equal(settled))
}

func TestWithoutDatabaseSBOMsAreKeptAndMatchedLater(t *testing.T) {
	t.Parallel()
	c, g := needCluster(t), gomega.NewWithT(t)
	amd64Node(t, c)
	ns, data := namespace(t, c), t.TempDir()
	api, stop := startOperator(t, ns, data, func(o *setup.Options) { o.VulnerabilityDatabase.Sample = false })
	scanner := sampleScanner(t, ns)
	create(t, c, scanner)
	app := imageID("app", "e")
	runningPod(t, c, ns, "app", app)
	g.Eventually(func() map[string]*batchv1.Job { return jobs(t.Context(), c, ns) }, patience, tick).Should(gomega.HaveKey(app))
	job := jobs(t.Context(), c, ns)[app]
	if status := deliver(t, api, app, podOfJob(t, c, job, scanjob.Audience), []byte(smallSBOM)); status != http.StatusNoContent {
		t.Fatalf("the SBOM was answered with %d", status)
	}
	finish(t, c, job, batchv1.JobComplete)
	g.Eventually(func() string { return ready(t.Context(), c, scanner) }, patience, tick).Should(gomega.Equal("False/Waiting"))
	stop()

	startOperator(t, ns, data, nil)
	g.Eventually(func() string { return ready(t.Context(), c, scanner) }, patience, tick).Should(gomega.Equal("True/Reconciled"))
	if n := len(jobs(t.Context(), c, ns)); n != 1 {
		t.Errorf("%d Jobs, want the one from before: the SBOM was there", n)
	}
}

func TestNamespacesAreSelectedByLabel(t *testing.T) {
	t.Parallel()
	c, g := needCluster(t), gomega.NewWithT(t)
	amd64Node(t, c)
	own, other := namespace(t, c), namespace(t, c)
	operator(t, own, func(o *setup.Options) { o.WatchNamespaces = []string{own, other} })
	runningPod(t, c, other, "app", imageID("selected", "f"))
	scanner := sampleScanner(t, own)
	scanner.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"scan": "yes"}}
	create(t, c, scanner)
	g.Eventually(func() string { return ready(t.Context(), c, scanner) }, patience, tick).Should(gomega.Equal("True/Reconciled"))

	// The audit comes after minutes only: what happens now happens because of the label.
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"scan":"yes"}}}`))
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other}}
	if err := c.Patch(t.Context(), ns, patch); err != nil {
		t.Fatal(err)
	}
	g.Eventually(func() map[string]*batchv1.Job { return jobs(t.Context(), c, own) }, patience, tick).
		Should(gomega.HaveKey(imageID("selected", "f")))
	if owner := metav1.GetControllerOf(jobs(t.Context(), c, own)[imageID("selected", "f")]); owner == nil || owner.UID != scanner.UID {
		t.Errorf("the owner of a Job in the namespace of its Scanner is %+v", owner)
	}
	// Its pull secret is in the other namespace alone.
	private := imageID("private", "a")
	runningPod(t, c, other, "private", private, func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}} })
	g.Eventually(func() map[string]*batchv1.Job { return jobs(t.Context(), c, other) }, patience, tick).Should(gomega.HaveKey(private))
	if owner := metav1.GetControllerOf(jobs(t.Context(), c, other)[private]); owner != nil {
		t.Errorf("a Job in another namespace has the owner %+v: it would be collected at once", owner)
	}

	foreign := sampleScanner(t, other)
	foreign.Spec.NamespaceSelector = &metav1.LabelSelector{}
	create(t, c, foreign)
	g.Eventually(func() string { return ready(t.Context(), c, foreign) }, patience, tick).Should(gomega.Equal("False/Failed"))
}
