//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	scannerv1 "github.com/scanner-operator/scanner-operator/api/scanner/v1"
	"github.com/scanner-operator/scanner-operator/internal/scanjob"
	"github.com/scanner-operator/scanner-operator/internal/setup"
)

// forgedSBOM would show an image without packages, and so without vulnerabilities.
const forgedSBOM = `{"artifacts":[],"artifactRelationships":[],"source":{"id":"s","name":"s","version":"","type":"image","metadata":{}},"distro":{},` +
	`"descriptor":{"name":"syft","version":"1.49.0"},"schema":{"version":"16.1.10","url":""}}`

// messenger fails with its argument as the termination message.
const messenger = `package main

import "os"

func main() {
	if err := os.WriteFile("/dev/termination-log", []byte(os.Args[1]), 0); err != nil {
		panic(err)
	}
	os.Exit(1)
}
`

// tenant is a user with the role edit in one namespace, and nothing else.
type tenant struct {
	client.Client
	account *corev1.ServiceAccount
}

func newTenant(t *testing.T) tenant {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: restrictedNamespace(t), Name: "tenant"}}
	create(t, account)
	create(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: account.Namespace, Name: "tenant"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: account.Namespace, Name: account.Name}},
	})
	config, err := e2e.Config()
	if err != nil {
		t.Fatal(err)
	}
	config.Impersonate = rest.ImpersonationConfig{
		UserName: fmt.Sprintf("system:serviceaccount:%s:%s", account.Namespace, account.Name),
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + account.Namespace, "system:authenticated"},
	}
	c, err := client.New(config, client.Options{Scheme: setup.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	tenant := tenant{Client: c, account: account}
	// The API server learns of a binding some time after it was created.
	gomega.NewWithT(t).Eventually(func() error {
		return c.List(t.Context(), &corev1.PodList{}, client.InNamespace(account.Namespace))
	}, patience, tick).Should(gomega.Succeed())
	return tenant
}

func (m tenant) create(t *testing.T, obj client.Object) {
	t.Helper()
	if err := m.Create(t.Context(), obj); err != nil {
		t.Fatalf("the tenant creates %T %s: %v", obj, obj.GetName(), err)
	}
}

// run creates a pod in the namespace of the tenant. Its images are scanned there.
func (m tenant) run(t *testing.T, name, image string, change ...func(*corev1.Pod)) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: m.account.Namespace, Name: name}, Spec: restrictedPod(image)}
	privately(pod)
	for _, f := range change {
		f(pod)
	}
	m.create(t, pod)
}

// token returns a token for the operator's API that is bound to a pod, or to none.
func (m tenant) token(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{scanjob.Audience}}}
	account := m.account
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
		account = &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Spec.ServiceAccountName}}
	}
	if err := m.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// like is a Job of the tenant with the name, labels, annotations and spec of another Job. Its pods stay pending.
func (m tenant) like(t *testing.T, job *batchv1.Job) *batchv1.Job {
	t.Helper()
	forged := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.account.Namespace, Name: job.Name, Labels: job.Labels, Annotations: job.Annotations},
		Spec:       *job.Spec.DeepCopy(),
	}
	forged.Spec.Selector = nil
	forged.Spec.Template.Labels = map[string]string{scanjob.LabelScan: job.Name}
	forged.Spec.Template.Spec.NodeSelector = map[string]string{"e2e": "nowhere"}
	m.create(t, forged)
	return forged
}

func (m tenant) podOf(t *testing.T, job *batchv1.Job) *corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	gomega.NewWithT(t).Eventually(func() ([]corev1.Pod, error) {
		err := m.List(t.Context(), &pods, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name})
		return pods.Items, err
	}, patience, tick).ShouldNot(gomega.BeEmpty())
	return &pods.Items[0]
}

func upload(t *testing.T, a api, imageID string) int {
	t.Helper()
	target := a.base + "/api/v1/images/" + url.PathEscape(imageID) + "/sbom?platform=linux%2Famd64"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, target, strings.NewReader(forgedSBOM))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	req.Header.Set("Content-Type", "application/vnd.syft+json")
	res, err := httpClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// messengerPath is where an image has the program that reports what it is told.
const messengerPath = "/messenger"

func withMessenger(t *testing.T, sample string) (reference, imageID string) {
	t.Helper()
	source, program := filepath.Join(t.TempDir(), "main.go"), filepath.Join(t.TempDir(), "messenger")
	if err := os.WriteFile(source, []byte(messenger), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, output)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	image := withFile(t, sampleImage(t, sample), strings.TrimPrefix(messengerPath, "/"), 0o755, content)
	return e2e.registry.pushImage(t, image, "tenants/messenger", "1")
}

// TestTenant lets a user with the role edit in one namespace try to forge the result of another tenant, to hide containers, and to stop the
// scans of a third. All use one registry.
func TestTenant(t *testing.T) {
	t.Parallel()
	g, a := gomega.NewWithT(t), newAPI(t)
	bank, shop, mallory := restrictedNamespace(t), restrictedNamespace(t), newTenant(t)
	applyScanner(t, bank, fromRegistry)
	applyScanner(t, shop, fromRegistry)

	mallory.occupy(t, a)
	held, victim := scanInTheMiddle(t, bank, "tenants/victim")
	mallory.forges(t, a, bank, victim)
	held.release()
	scanned(t, a, victim)
	mallory.forges(t, a, bank, victim)
	results, err := a.results(t.Context())
	g.Expect(err).NotTo(gomega.HaveOccurred())
	if got := len(results[victim].Report.Components); got == 0 {
		t.Error("the result of the victim has no components")
	}
	if i, err := a.image(t.Context(), victim); err != nil || i.ScannedIn != bank {
		t.Errorf("scanned in %q, %v, want %q", i.ScannedIn, err, bank)
	}

	mallory.hides(t, a)
	mallory.pauses(t, a)
	reference, customer := e2e.registry.push(t, "alpine", "tenants/customer")
	runPod(t, shop, "customer", reference, privately)
	scanned(t, a, customer)
}

// occupy asks for more scans than can run, none of which starts, through ten Scanners, and returns when the first of them are blocked.
func (m tenant) occupy(t *testing.T, a api) {
	t.Helper()
	for i := range 10 {
		s := &scannerv1.Scanner{ObjectMeta: metav1.ObjectMeta{Namespace: m.account.Namespace, Name: fmt.Sprintf("scanner-%d", i)}}
		s.Spec.Concurrency, s.Spec.Job.NodeSelector = new(int32(20)), map[string]string{"e2e": "nowhere"}
		m.create(t, s)
	}
	var ids []string
	for pod := range 2 {
		m.run(t, fmt.Sprintf("hopeless-%d", pod), "", func(p *corev1.Pod) {
			template := p.Spec.Containers[0]
			p.Spec.Containers = nil
			for i := range 12 {
				name := fmt.Sprintf("hopeless-%d-%d", pod, i)
				reference, id := e2e.registry.push(t, "alpine", "tenants/"+name)
				c := *template.DeepCopy()
				c.Name, c.Image = name, reference
				p.Spec.Containers, ids = append(p.Spec.Containers, c), append(ids, id)
			}
		})
	}
	gomega.NewWithT(t).Eventually(func() (blocked int, err error) {
		containers, err := a.coverage(t.Context(), m.account.Namespace)
		for _, id := range ids {
			if c := containers[id]; c.State == "Pending" && strings.Contains(c.Message, "cannot be scheduled") {
				blocked++
			}
		}
		return blocked, err
	}, patience, tick).Should(gomega.BeNumerically(">=", 2))
}

// scan returns the newest scan Job in the namespace of the tenant, and its pod. It never starts, and ends early.
func (m tenant) scan(t *testing.T) (job *batchv1.Job, pod *corev1.Pod) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func(g gomega.Gomega) {
		var jobs batchv1.JobList
		g.Expect(m.List(t.Context(), &jobs, client.InNamespace(m.account.Namespace), client.HasLabels{scanjob.LabelScanner})).To(gomega.Succeed())
		job = nil
		for i := range jobs.Items {
			if j := &jobs.Items[i]; metav1.GetControllerOf(j) != nil && (job == nil || job.CreationTimestamp.Before(&j.CreationTimestamp)) {
				job = j
			}
		}
		g.Expect(job).NotTo(gomega.BeNil())
		var pods corev1.PodList
		g.Expect(m.List(t.Context(), &pods, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name})).To(gomega.Succeed())
		g.Expect(pods.Items).To(gomega.HaveLen(1))
		pod = &pods.Items[0]
	}, patience, tick).Should(gomega.Succeed())
	return job, pod
}

// noPod is what the token of a tenant itself is bound to.
const noPod = "no pod"

// forges tries all that a tenant can present as the pod of a scan Job.
func (m tenant) forges(t *testing.T, a api, namespace, imageID string) {
	t.Helper()
	jobs := scanJobs(t, namespace, imageID)
	if len(jobs) != 1 {
		t.Fatalf("%d Jobs for %s, want 1", len(jobs), imageID)
	}
	forged := m.like(t, &jobs[0])
	_, own := m.scan(t)
	tokens := map[string]string{
		noPod:                              m.token(t, nil),
		"a pod of a Job of the same name":  m.token(t, m.podOf(t, forged)),
		"a real scan pod of another image": m.token(t, own),
	}
	for what, token := range tokens {
		tenant, removal := api{base: a.base, token: token}, http.StatusForbidden
		if what == noPod {
			// The role edit permits removal in the tenant's namespace, which is all that it sees.
			removal = http.StatusNotFound
		}
		if status := upload(t, tenant, imageID); status != http.StatusForbidden {
			t.Errorf("an SBOM with the token of %s was answered with %d, want 403", what, status)
		}
		if status, _, err := tenant.do(t.Context(), http.MethodDelete, "/scan-results/"+url.PathEscape(imageID)); err != nil || status != removal {
			t.Errorf("removal with the token of %s was answered with %d, %v, want %d", what, status, err, removal)
		}
	}
	if err := m.Delete(t.Context(), forged, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	// The next forgery has the same name.
	gomega.NewWithT(t).Eventually(func() bool {
		return apierrors.IsNotFound(m.Get(t.Context(), client.ObjectKeyFromObject(forged), &batchv1.Job{}))
	}, patience, tick).Should(gomega.BeTrue())
}

// hides runs pods that look like the scan pod of a real Job of the namespace.
func (m tenant) hides(t *testing.T, a api) {
	t.Helper()
	job, _ := m.scan(t)
	label := func(p *corev1.Pod) { p.Labels = map[string]string{scanjob.LabelScan: job.Name} }
	owned := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID, Controller: new(true)}}
	}
	named := func(p *corev1.Pod) { p.Spec.Containers[0].Name = scanjob.ContainerName }
	var hidden []string
	for i, disguise := range [][]func(*corev1.Pod){{label}, {label, owned}, {label, owned, named}} {
		name := fmt.Sprintf("hidden-%d", i)
		reference, id := e2e.registry.push(t, "alpine", "tenants/"+name)
		m.run(t, name, reference, disguise...)
		hidden = append(hidden, id)
	}
	gomega.NewWithT(t).Eventually(func(g gomega.Gomega) {
		containers, err := a.coverage(t.Context(), m.account.Namespace)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		for _, id := range hidden {
			g.Expect(containers).To(gomega.HaveKey(id))
		}
	}, patience, tick).Should(gomega.Succeed())
}

// pauses lets a pod of a real scan Job report that the registry asks for an hour without requests.
func (m tenant) pauses(t *testing.T, a api) {
	t.Helper()
	reference, _ := withMessenger(t, "alpine")
	job, waiting := m.scan(t)
	m.run(t, "messenger", reference, func(p *corev1.Pod) {
		// Without these, the Job controller removes the reference to the Job.
		p.Labels = waiting.Labels
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID, Controller: new(true)}}
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		p.Spec.Containers[0].Name = scanjob.ContainerName
		p.Spec.Containers[0].Command = []string{messengerPath, `{"reason":"RegistryRateLimited","message":"429","retryAfter":3600}`}
	})
	g := gomega.NewWithT(t)
	g.Eventually(func() (corev1.PodPhase, error) {
		var pod corev1.Pod
		err := m.Get(t.Context(), client.ObjectKey{Namespace: m.account.Namespace, Name: "messenger"}, &pod)
		return pod.Status.Phase, err
	}, patience, tick).Should(gomega.Equal(corev1.PodFailed))
	// The Job controller may have deleted it already, as one pod too many.
	if err := m.Delete(t.Context(), waiting); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	// The tenant may stop its own scans.
	g.Eventually(func() (string, error) {
		i, err := a.image(t.Context(), scanjob.Key(job).ImageID)
		return i.State + "/" + i.Reason, err
	}, patience, tick).Should(gomega.Equal("Failed/RegistryRateLimited"))
}
